//! Settings: a flag overrides its environment variable, which overrides `argus.toml`, which overrides the default.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use argus_core::desired::ceiling::Ceiling;
use argus_core::desired::namespace::NamespaceFrom;
use argus_crds::ByteSize;
use argus_reconciler::state_dir::StateDir;
use clap::builder::FalseyValueParser;
use clap::{Args, ValueEnum};
use serde::Deserialize;

use crate::process::exit::{Failure, state_failure};
pub(crate) use compose_options::{ComposeOptions, DEFAULT_FILE};
use files::{Found, invalid_settings, read};
pub(crate) use listen::Listen;
pub(crate) use paths::private_folders;
pub(crate) use status_group::StatusGroup;
use times::Times;

pub(crate) mod abandoned;
mod compose_options;
mod delays;
mod files;
mod listen;
mod paths;
mod shared_state;
mod status_group;
pub(crate) mod times;
pub(crate) mod trust;

/// Parses a duration such as `30s` or `1h30m`.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|_| match text.parse::<u32>() {
        Ok(seconds) => format!("add a unit, such as `{seconds}s`"),
        Err(_) => "write `500ms`, `30s`, `10m` or `1h30m`".to_owned(),
    })
}

/// Parses a source of namespaces, and reads its variable.
pub(crate) fn parse_namespace_from(text: &str) -> Result<NamespaceFrom, String> {
    match (text, text.strip_prefix("env:")) {
        ("worktree", _) => Ok(NamespaceFrom::Worktree),
        ("branch", _) => Ok(NamespaceFrom::Branch),
        (_, Some(name)) if !name.is_empty() && !name.contains(['=', '\0']) => Ok(NamespaceFrom::Variable {
            name: name.to_owned(),
            value: std::env::var(name).ok(),
        }),
        _ => Err("write `worktree`, `branch` or `env:NAME`".to_owned()),
    }
}

/// Options of every command.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Options {
    /// State directory [default: ./.argus, and a private folder of the user]
    #[arg(long, global = true, env = "ARGUS_STATE", value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
    /// Engine: `unix://PATH` or `tcp://HOST:PORT` [default: current Docker context]
    #[arg(long, global = true, env = "ARGUS_DOCKER_HOST", value_name = "ENDPOINT")]
    pub(crate) docker_host: Option<String>,
    /// Settings file [default: ./argus.toml, then that of the user]
    #[arg(long, global = true, env = "ARGUS_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Format of the logs on stderr [default: human]
    #[arg(long, global = true, env = "ARGUS_LOG_FORMAT", value_name = "FORMAT")]
    pub(crate) log_format: Option<LogFormat>,
    /// Do not run helper containers (disables connectivity and remote disk checks)
    #[arg(long, global = true, env = "ARGUS_NO_HELPERS", value_parser = FalseyValueParser::new())]
    pub(crate) no_helpers: bool,
    /// Show the engine calls behind each error
    #[arg(long, global = true, env = "ARGUS_DEBUG", value_parser = FalseyValueParser::new())]
    pub(crate) debug: bool,
    /// Use of colour [default: auto]
    #[arg(long, global = true, env = "ARGUS_COLOR", value_name = "WHEN")]
    pub(crate) color: Option<Colour>,
}

/// Options of commands that read spec files.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct SpecOptions {
    /// Folder of the spec files, or one file [default: ./environments]
    #[arg(long, env = "ARGUS_SPECS", value_name = "DIR")]
    pub(crate) specs: Option<PathBuf>,
    /// Default host address of published ports [default: 127.0.0.1]
    #[arg(long, env = "ARGUS_PUBLISH_ADDRESS", value_name = "ADDRESS")]
    pub(crate) publish_address: Option<IpAddr>,
    #[command(flatten)]
    pub(crate) compose: ComposeOptions,
    #[command(flatten)]
    pub(crate) admission: AdmissionOptions,
}

/// Options of the admission of spec files.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct AdmissionOptions {
    /// Reject unknown keys in spec files [default: false]
    #[arg(long, env = "ARGUS_STRICT", num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pub(crate) strict: Option<bool>,
    /// Variables of the controller that `{{env.NAME}}` may read [default: none]
    #[arg(long, env = "ARGUS_ENV_ALLOW", value_name = "NAME", value_delimiter = ',')]
    pub(crate) env_allow: Vec<String>,
    /// Folders outside the project that spec files may mount [default: none]
    #[arg(long, env = "ARGUS_ALLOW_MOUNT", value_name = "DIR", value_delimiter = ',')]
    pub(crate) allow_mount: Vec<PathBuf>,
    /// External volumes that files of a project without `argus allow` may mount [default: none]
    #[arg(
        long,
        env = "ARGUS_ALLOW_EXTERNAL",
        value_name = "NAME",
        value_delimiter = ','
    )]
    pub(crate) allow_external: Vec<String>,
    /// Let containers write the git directories of a mounted project [default: read-only]
    #[arg(long, env = "ARGUS_GIT_WRITABLE", value_parser = FalseyValueParser::new())]
    pub(crate) git_writable: bool,
    /// Let containers of an allowed project be privileged, which gives them the host [default: refuse]
    #[arg(long, env = "ARGUS_ALLOW_PRIVILEGED", value_parser = FalseyValueParser::new())]
    pub(crate) allow_privileged: bool,
    /// Namespace of files without one: `worktree`, `branch` or `env:NAME` [default: none]
    #[arg(long, env = "ARGUS_NAMESPACE_FROM", value_name = "SOURCE", value_parser = parse_namespace_from)]
    pub(crate) namespace_from: Option<NamespaceFrom>,
}

/// Options of processes that run suites for their clients.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct ServeOptions {
    /// Run commands of suites and in containers for HTTP and MCP [default: none]
    #[arg(long, env = "ARGUS_ALLOW_TEST_COMMANDS", value_parser = FalseyValueParser::new())]
    pub(crate) allow_test_commands: bool,
}

/// Format of the logs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    /// Text for people
    #[default]
    Human,
    /// One JSON object per line
    Json,
}

/// Use of colour in the output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Colour {
    /// Only on terminals with colour support
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

impl Colour {
    /// Sets the use of colour for the whole process.
    pub(crate) fn apply(self) {
        match self {
            Self::Auto => anstream::ColorChoice::Auto,
            Self::Always => anstream::ColorChoice::Always,
            Self::Never => anstream::ColorChoice::Never,
        }
        .write_global();
    }
}

/// Content of `argus.toml`. Each key is optional and has the name of its flag.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
struct File {
    specs: Option<PathBuf>,
    state: Option<PathBuf>,
    docker_host: Option<String>,
    publish_address: Option<IpAddr>,
    strict: Option<bool>,
    env_allow: Option<Vec<String>>,
    allow_mount: Option<Vec<PathBuf>>,
    git_writable: Option<bool>,
    namespace_from: Option<String>,
    log_format: Option<LogFormat>,
    listen: Option<Listen>,
    status_group: Option<StatusGroup>,
    allow_test_commands: bool,
    ceiling: Ceiling,
    build_cache_limit: Option<ByteSize>,
    no_helpers: bool,
    debug: bool,
    color: Option<Colour>,
    timeout_short: Option<String>,
    timeout_long: Option<String>,
    stop_grace: Option<String>,
    breaker_threshold: Option<u32>,
    breaker_cooldown: Option<String>,
    restart_rate_limit: Option<u32>,
    slow_retry_interval: Option<String>,
    action_attempts: Option<u32>,
    action_retry_interval: Option<String>,
    shed_optional: Option<bool>,
}

/// Resolved settings of a command.
#[derive(Debug, Clone)]
#[allow(clippy::struct_excessive_bools, reason = "the settings are independent")]
pub(crate) struct Settings {
    pub(crate) specs: PathBuf,
    /// True if a flag, a variable or the settings file sets `specs`.
    pub(crate) specs_given: bool,
    pub(crate) state: StateDir,
    /// State of a controller that this command starts. It differs from `state` if a controller of a parent folder or of another
    /// git worktree serves this one.
    pub(crate) own_state: StateDir,
    pub(crate) docker_host: Option<String>,
    pub(crate) publish_address: IpAddr,
    pub(crate) strict: bool,
    pub(crate) env_allow: Vec<String>,
    /// Variables that the options of Compose files set.
    pub(crate) compose: BTreeMap<String, String>,
    pub(crate) allow_mount: Vec<PathBuf>,
    pub(crate) allow_external: Vec<String>,
    pub(crate) git_writable: bool,
    pub(crate) namespace_from: NamespaceFrom,
    /// Limits of the operator for all spec files.
    pub(crate) ceiling: Ceiling,
    /// Maximum size of the unused build cache, which all users of the engine share.
    pub(crate) build_cache_limit: Option<ByteSize>,
    pub(crate) log_format: LogFormat,
    pub(crate) listen: Option<SocketAddr>,
    /// True if clients of HTTP and MCP may run suites with commands, and commands in containers.
    pub(crate) allow_test_commands: bool,
    /// Folder that a person allowed, if the spec files are in it.
    pub(crate) allowed: Option<PathBuf>,
    /// Keys of the project's `argus.toml` that do not count, because the project is not allowed.
    pub(crate) ignored_keys: Vec<&'static str>,
    pub(crate) helpers: bool,
    pub(crate) debug: bool,
    pub(crate) color: Colour,
    pub(crate) times: Times,
}

impl Settings {
    /// Returns true if a person allowed the project of a file.
    pub(crate) fn allows(&self, file: &Path) -> bool {
        self.allowed
            .as_ref()
            .is_some_and(|allowed| trust::contains(allowed, file))
    }

    /// Merges flags and variables, which clap has merged already, with the settings files and the defaults.
    pub(crate) fn resolve(options: &Options, specs: &SpecOptions) -> Result<Self, Failure> {
        Self::resolve_with(options, specs, false)
    }

    /// As [`Self::resolve`], for a project that `allowed` allows for this process.
    pub(crate) fn resolve_with(
        options: &Options,
        specs: &SpecOptions,
        allowed: bool,
    ) -> Result<Self, Failure> {
        let Found {
            file,
            allowed,
            ignored_keys,
        } = read(options.config.as_deref(), allowed)?;
        let AdmissionOptions {
            strict,
            env_allow,
            allow_mount,
            allow_external,
            git_writable,
            allow_privileged,
            namespace_from,
        } = specs.admission.clone();
        // Each file is valid already.
        let valid = |cause: String| invalid_settings(Path::new(trust::SETTINGS_FILE), &cause);
        let times = file.times().map_err(valid)?;
        let of_file = file.namespace().map_err(valid)?;
        let docker_host = options.docker_host.clone().filter(|host| !host.is_empty());
        let docker_host = docker_host.or(file.docker_host);
        let compose = specs.compose.variables()?;
        let of_options = specs
            .specs
            .clone()
            .or_else(|| specs.compose.file.first().cloned());
        let (given, state) = (of_options.or(file.specs), options.state.clone());
        let state = state.or(file.state);
        let (own_state, shared) = if let Some(state) = state {
            (StateDir::at(paths::resolve_state(state)), None)
        } else {
            let own = paths::find_default_state();
            own.check_private().map_err(|error| state_failure(&error))?;
            let shared = shared_state::find(&own, docker_host.as_deref());
            (own, shared)
        };
        let specs_given = given.is_some();
        let folder = given.unwrap_or_else(|| "./environments".into());
        let mut settings = Self {
            specs_given,
            allowed: allowed.filter(|allowed| trust::contains(allowed, &folder)),
            specs: folder,
            state: shared.unwrap_or_else(|| own_state.clone()),
            own_state,
            docker_host,
            publish_address: specs
                .publish_address
                .or(file.publish_address)
                .unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            strict: strict.or(file.strict).unwrap_or(false),
            env_allow: [
                first_given(env_allow, file.env_allow),
                compose.keys().cloned().collect(),
            ]
            .concat(),
            compose,
            allow_mount: first_given(allow_mount, file.allow_mount),
            allow_external,
            git_writable: git_writable || file.git_writable.unwrap_or(false),
            namespace_from: namespace_from.or(of_file).unwrap_or_default(),
            ceiling: Ceiling {
                allow_privileged,
                ..file.ceiling
            },
            build_cache_limit: file.build_cache_limit,
            listen: file.listen.unwrap_or_default().address(),
            allow_test_commands: file.allow_test_commands,
            ignored_keys,
            helpers: !(options.no_helpers || file.no_helpers),
            debug: options.debug || file.debug,
            color: options.color.or(file.color).unwrap_or_default(),
            times,
            log_format: options.log_format.or(file.log_format).unwrap_or_default(),
        };
        settings.set_status_group(file.status_group);
        Ok(settings)
    }
}

fn first_given<T>(flags: Vec<T>, file: Option<Vec<T>>) -> Vec<T> {
    if flags.is_empty() {
        file.unwrap_or_default()
    } else {
        flags
    }
}

impl File {
    fn namespace(&self) -> Result<Option<NamespaceFrom>, String> {
        let source = self.namespace_from.as_deref();
        source.map(parse_namespace_from).transpose()
    }

    /// Takes each key that is not set from another file.
    fn over(self, other: Self) -> Self {
        Self {
            specs: self.specs.or(other.specs),
            state: self.state.or(other.state),
            docker_host: self.docker_host.or(other.docker_host),
            publish_address: self.publish_address.or(other.publish_address),
            strict: self.strict.or(other.strict),
            env_allow: self.env_allow.or(other.env_allow),
            allow_mount: self.allow_mount.or(other.allow_mount),
            git_writable: self.git_writable.or(other.git_writable),
            namespace_from: self.namespace_from.or(other.namespace_from),
            log_format: self.log_format.or(other.log_format),
            listen: self.listen.or(other.listen),
            status_group: self.status_group.or(other.status_group),
            allow_test_commands: self.allow_test_commands || other.allow_test_commands,
            ceiling: self.ceiling.and(other.ceiling),
            build_cache_limit: self.build_cache_limit.or(other.build_cache_limit),
            no_helpers: self.no_helpers || other.no_helpers,
            debug: self.debug || other.debug,
            color: self.color.or(other.color),
            timeout_short: self.timeout_short.or(other.timeout_short),
            timeout_long: self.timeout_long.or(other.timeout_long),
            stop_grace: self.stop_grace.or(other.stop_grace),
            breaker_threshold: self.breaker_threshold.or(other.breaker_threshold),
            breaker_cooldown: self.breaker_cooldown.or(other.breaker_cooldown),
            restart_rate_limit: self.restart_rate_limit.or(other.restart_rate_limit),
            slow_retry_interval: self.slow_retry_interval.or(other.slow_retry_interval),
            action_attempts: self.action_attempts.or(other.action_attempts),
            action_retry_interval: self.action_retry_interval.or(other.action_retry_interval),
            shed_optional: self.shed_optional.or(other.shed_optional),
        }
    }
}

#[cfg(test)]
mod tests;
