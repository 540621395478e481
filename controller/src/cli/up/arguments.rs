//! Command line of a controller with the settings of this command. Variables and the settings file reach it anyway.

use std::ffi::OsString;
use std::path::Path;

use clap::ValueEnum;

use crate::settings::{LogFormat, Options, SpecOptions};

/// Arguments of `argus` for a controller of one file, which serves HTTP only on its socket.
pub(super) fn controller_arguments(options: &Options, specs: &SpecOptions, file: &Path) -> Vec<OsString> {
    let Options {
        state,
        docker_host,
        config,
        log_format,
        no_helpers,
        debug,
        // The log has no colour.
        color: _,
    } = options;
    let SpecOptions {
        // The file replaces it.
        specs: _,
        publish_address,
        compose,
        admission,
    } = specs;
    let name = |format: LogFormat| {
        format
            .to_possible_value()
            .map(|value| value.get_name().to_owned())
    };
    let mut arguments = vec![OsString::from("run"), file.into()];
    let mut add = |flag: &str, value: Option<OsString>| {
        if let Some(value) = value {
            let mut argument = OsString::from(format!("--{flag}="));
            argument.push(value);
            arguments.push(argument);
        }
    };
    add("listen", Some("off".into()));
    add("state", state.as_deref().map(Into::into));
    add("docker-host", docker_host.as_deref().map(Into::into));
    add("config", config.as_deref().map(Into::into));
    add("log-format", log_format.and_then(name).map(Into::into));
    add(
        "publish-address",
        publish_address.map(|address| address.to_string().into()),
    );
    add("strict", admission.strict.map(|strict| strict.to_string().into()));
    for name in &admission.env_allow {
        add("env-allow", Some(name.into()));
    }
    for folder in &admission.allow_mount {
        add("allow-mount", Some(folder.into()));
    }
    for name in &admission.allow_external {
        add("allow-external", Some(name.into()));
    }
    let files = compose.file.iter().map(|path| ("file", path.into()));
    let variables = compose.env_file.iter().map(|path| ("env-file", path.into()));
    let profiles = compose.profile.iter().map(|name| ("profile", name.into()));
    let services = compose.services.iter().map(|name| ("service", name.into()));
    for (flag, value) in files.chain(variables).chain(profiles).chain(services) {
        add(flag, Some(value));
    }
    add("project-name", compose.project_name.as_ref().map(Into::into));
    let from = admission.namespace_from.as_ref();
    add("namespace-from", from.map(|from| from.to_string().into()));
    for (flag, is_set) in [
        ("--git-writable", admission.git_writable),
        ("--allow-privileged", admission.allow_privileged),
        ("--no-helpers", *no_helpers),
        ("--debug", *debug),
    ] {
        if is_set {
            arguments.push(flag.into());
        }
    }
    arguments
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::run::Run;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
        #[command(subcommand)]
        command: Command,
    }

    #[derive(Debug, clap::Subcommand)]
    enum Command {
        Run(Run),
    }

    #[test]
    fn controller_gets_every_given_setting() {
        let given = [
            "argus",
            "--state=s",
            "--docker-host=unix:///x.sock",
            "--config=c.toml",
            "--log-format=json",
            "--no-helpers",
            "--debug",
            "run",
            "shop.yaml",
            "--listen=off",
            "--publish-address=0.0.0.0",
            "--strict=true",
            "--env-allow=A",
            "--env-allow=B",
            "--allow-mount=/srv",
            "--allow-external=shop_data",
            "--git-writable",
            "--allow-privileged",
            "--namespace-from=branch",
            "--file=shop.yaml",
            "--file=ci.yaml",
            "--env-file=ci.env",
            "--profile=debug",
            "--project-name=shop",
            "--service=web",
        ];
        let line = Line::try_parse_from(given).unwrap();
        let Command::Run(run) = &line.command;
        let again = controller_arguments(&line.options, &run.specs, Path::new("shop.yaml"));
        let again = Line::try_parse_from([OsString::from("argus")].into_iter().chain(again)).unwrap();
        assert_eq!(format!("{again:?}"), format!("{line:?}"));
    }
}
