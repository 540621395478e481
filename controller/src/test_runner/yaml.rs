//! Runner `yaml`: performs the work of a YAML suite. The crate `argus_suite` decides the verdicts.

mod command;
mod connect;
pub(super) mod context;
pub(super) mod redaction;
mod request;
#[cfg(test)]
mod request_tests;
pub(super) mod text;

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use argus_core::secrets::Secrets;
use argus_crds::E2eSpec;
use argus_crds::status::EnvironmentStatus;
use argus_docker::Docker;
use argus_reconciler::clock;
use argus_reconciler::specs::env_vars;
use argus_suite::{
    Action, AllowedHost, CommandOutput, Connect, ContainerCheck, Failure as CaseFailure, Host, Moment, Reach,
    Reply, Retry, Run, SuiteFile, Work, actual_address, parse_host,
};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use super::INTERRUPTED;
use super::report::Attempt;
use super::suite_output::SuiteOutput;
use crate::api::target::Target;
use crate::api::wait::goal::{WaitGoal, WaitLimits, wait_until};
use crate::client::ControllerClient;
use crate::engine;
use context::Context;

/// Maximum time of a request without its own `timeout`.
const REQUEST_LIMIT: Duration = Duration::from_secs(30);
/// Maximum time of one try to connect to a port.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);
/// Pause between two tries.
const CONNECT_PAUSE: Duration = Duration::from_millis(250);
/// Maximum time of the teardown after the time limit of an attempt.
const TEARDOWN_LIMIT: Duration = Duration::from_secs(30);

/// A suite file, read before anything runs.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct YamlSuite {
    /// Path for people.
    pub(super) file: String,
    pub(super) suite: SuiteFile,
    /// Retries of cases without their own.
    pub(super) retry: Retry,
    /// Service of the base URL and of steps without a container. `None` means the first one.
    pub(super) service: Option<String>,
    /// Names of all `{{env.NAME}}` of the file, whose values are secrets.
    pub(super) env_names: BTreeSet<String>,
    pub(super) owner: Arc<SuiteOwner>,
}

/// The spec file that names a suite.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SuiteOwner {
    pub(super) spec: E2eSpec,
    pub(super) file: PathBuf,
    /// Secrets that no output contains.
    pub(super) secrets: Secrets,
    /// True if the suites run for a client of the controller: their files are in the folder of the spec file.
    pub(super) reads_own_folder_only: bool,
    /// Hosts that the person who runs the suites allows. `None` for a client of the controller, which can allow none.
    pub(super) allowed_hosts: Option<Vec<AllowedHost>>,
    /// Containers of other environments that this person allows, by name. `None` for a client of the controller.
    pub(super) allowed_containers: Option<Vec<String>>,
}

/// Everything that the attempts of a suite need.
pub(super) struct SuiteEnvironment<'a> {
    pub(super) client: &'a ControllerClient,
    pub(super) status: EnvironmentStatus,
    pub(super) output: &'a SuiteOutput<'a>,
    pub(super) stop: &'a CancellationToken,
}

impl SuiteEnvironment<'_> {
    /// Runs a suite until it ends, exceeds `ttl`, or is stopped. Its teardown always runs.
    pub(super) async fn run(&self, suite: &YamlSuite, ttl: Duration) -> Attempt {
        let started = clock::now();
        let (context, secrets) = self.context(suite).await;
        let driver = Driver {
            environment: self,
            docker: engine::connect_docker(self.client.settings())
                .await
                .map_err(|failure| failure.message().to_owned()),
            context,
            reach: Reach {
                ports: context::running_ports(&self.status),
                engine: connect::find_engine(self.client.settings()).await,
                allowed: suite.owner.allowed_hosts.clone(),
            },
            allowed_containers: suite.owner.allowed_containers.as_deref(),
        };
        let mut run = Run::new(
            suite.suite.clone(),
            driver.context.scope.clone(),
            driver.context.base_url.clone(),
            suite.retry,
        )
        .without_secrets(secrets.clone());
        let mut printed = Progress::new(self.output, suite, &secrets);
        let limit = tokio::time::timeout(ttl, driver.drive(&mut run, &mut printed));
        let (is_over, timed_out) = tokio::select! {
            ended = limit => (ended.is_ok(), ended.is_err()),
            () = self.stop.cancelled() => (false, false),
        };
        if !is_over {
            let reason = if timed_out {
                format!("the time limit of {} ended", humantime::format_duration(ttl))
            } else {
                INTERRUPTED.to_owned()
            };
            run.interrupt(&reason, clock::now());
            // The verdict is known, so a teardown that takes too long is ended.
            drop(tokio::time::timeout(TEARDOWN_LIMIT, driver.drive(&mut run, &mut printed)).await);
        }
        printed.print(&run);
        let report = redaction::redact(run.report(), &secrets);
        let tail = text::format_failures(&report, &suite.file);
        Attempt {
            tails: (tail, String::new()),
            suite: Some(report),
            ..Attempt::ended(started, timed_out)
        }
    }

    async fn context(&self, suite: &YamlSuite) -> (Context, Secrets) {
        let spec_file = suite.owner.file.clone();
        let settings = self.client.settings().clone();
        let process = crate::spec_files::read_process_env();
        // Only the suites of an allowed project receive other variables of a shell.
        let is_allowed = settings.allows(&spec_file) && suite.owner.allowed_containers.is_some();
        let permitted = env_vars::permitted(&process, &settings.env_allow);
        let known = permitted.clone();
        let read = move || Ok(crate::spec_files::read_dotenv(&settings, &spec_file, &known));
        // Without a readable `.env`, its variables stay unresolved.
        let mut env = crate::process::blocking_io::read(read).await.unwrap_or_default();
        // The process overrides the `.env`, as for a spec file.
        env.extend(if is_allowed { process } else { permitted });
        let secrets = suite.secrets(&env);
        // The variables of Argus are no secrets.
        env.extend(crate::local_state::status::list_variables(&self.status));
        let mut random = random_bits;
        let mut moment = Moment {
            now: clock::now(),
            random: &mut random,
        };
        let service = suite.service.as_deref();
        let context = Context::new(&suite.owner.spec, service, &self.status, &env, &mut moment);
        (context, secrets)
    }
}

/// Random bits for `{{uuid}}`.
fn random_bits() -> u128 {
    use std::hash::{BuildHasher as _, RandomState};
    // Each state has its own random keys.
    let half = || u128::from(RandomState::new().hash_one(clock::now().0));
    (half() << 64) | half()
}

/// Prints the result of each case as soon as it is known.
struct Progress<'a> {
    output: &'a SuiteOutput<'a>,
    secrets: &'a Secrets,
    file: &'a str,
    cases: usize,
    notes: usize,
}

impl<'a> Progress<'a> {
    fn new(output: &'a SuiteOutput<'a>, suite: &'a YamlSuite, secrets: &'a Secrets) -> Self {
        Self {
            output,
            secrets,
            file: &suite.file,
            cases: 0,
            notes: 0,
        }
    }

    fn print(&mut self, run: &Run) {
        let report = run.report();
        let mut printed = String::new();
        for note in report.notes.iter().skip(self.notes) {
            let note = redaction::redact_note(note, self.secrets);
            printed.push_str(&text::format_note(&note));
        }
        for case in report.cases.iter().skip(self.cases) {
            let case = redaction::redact_case(case, self.secrets);
            printed.push_str(&text::format_case(&case, self.file));
        }
        (self.cases, self.notes) = (report.cases.len(), report.notes.len());
        if !printed.is_empty() {
            let text = self.secrets.redacted(&printed);
            self.output.write_cases(&text);
        }
    }
}

/// Performs the work of one run.
struct Driver<'a> {
    environment: &'a SuiteEnvironment<'a>,
    docker: Result<Docker, String>,
    context: Context,
    /// Addresses that the suite may reach at its start.
    reach: Reach,
    allowed_containers: Option<&'a [String]>,
}

impl Driver<'_> {
    async fn drive(&self, run: &mut Run, progress: &mut Progress<'_>) {
        let mut random = random_bits;
        loop {
            let mut moment = Moment {
                now: clock::now(),
                random: &mut random,
            };
            let work = run.next(&mut moment);
            progress.print(run);
            let reply = match work {
                Work::End => return,
                Work::Pause(pause) => {
                    tokio::time::sleep(pause).await;
                    continue;
                }
                Work::WaitHealthy(limit) => self.wait_healthy(limit).await,
                Work::WaitForPort(connect) => self.wait_for_port(&connect).await,
                Work::Act(action) => self.act(action).await,
            };
            run.reply(reply, clock::now());
        }
    }

    async fn act(&self, action: Action) -> Reply {
        match action {
            Action::Request(request) => {
                let limit = request.timeout.unwrap_or(REQUEST_LIMIT);
                let find = async |host: &Host, port: u16| self.find_addresses(host, port).await;
                let published = (self.context.ports.as_slice(), self.reach.engine.is_some());
                request::send(*request, published, &find, limit).await
            }
            Action::Container(check) => match self.run_check(&check).await {
                Ok(reply) => reply,
                Err(reason) => Reply::Failed(CaseFailure::new("container", reason)),
            },
        }
    }

    async fn run_check(&self, check: &ContainerCheck) -> Result<Reply, String> {
        let name = check.container.as_deref();
        let Some(name) = name.or(self.context.default_service.as_deref()) else {
            let connect = check.connect.as_ref();
            let connect = connect.ok_or("the step names no `container`, and the file has no service")?;
            let connected = self.can_connect(connect, connect.limit).await;
            return Ok(connected.map_or_else(Reply::Failed, Reply::Port));
        };
        if let Some(failure) = self.context.refuse_container(name, self.allowed_containers) {
            return Ok(Reply::Failed(failure));
        }
        let docker = self.docker.as_ref().map_err(Clone::clone)?;
        let mut outputs = Vec::new();
        for command in &check.commands {
            let find = || async {
                let status = self.read_status().await;
                self.context.container_id(name, &status)
            };
            outputs.push(match command::run(docker, find, name, command).await {
                Err(reason) if check.is_exec() => CommandOutput::failed(reason),
                ran => ran?,
            });
        }
        Ok(Reply::Outputs(outputs))
    }

    /// Waits until the environment is Ready, which includes the health of its services.
    async fn wait_healthy(&self, limit: Duration) -> Reply {
        let targets = [Target::environment(&self.context.environment)];
        let client = self.environment.client;
        let limits = WaitLimits::of_time(limit);
        match wait_until(client, Some(&targets), WaitGoal::Ready, limits, |_| {}).await {
            Ok(_) => Reply::Done,
            Err(failure) => Reply::Failed(CaseFailure::new("waitHealthy", failure.message())),
        }
    }

    async fn wait_for_port(&self, connect: &Connect) -> Reply {
        let tries = async {
            loop {
                match self.can_connect(connect, CONNECT_LIMIT).await {
                    Ok(true) => return Reply::Done,
                    Err(failure) if !self.is_declared(connect) => return Reply::Failed(failure),
                    Ok(false) | Err(_) => tokio::time::sleep(CONNECT_PAUSE).await,
                }
            }
        };
        let ended = tokio::time::timeout(connect.limit, tries).await;
        ended.unwrap_or_else(|_| {
            let Connect { host, port, limit } = connect;
            let limit = humantime::format_duration(*limit);
            let message = format!("`{host}:{port}` accepted no connection within {limit}");
            Reply::Failed(CaseFailure::new("waitForPort", message))
        })
    }

    /// Returns true if the file publishes the port, perhaps by a service that does not run yet.
    fn is_declared(&self, connect: &Connect) -> bool {
        let (_, port) = self.actual_address(connect);
        self.context
            .ports
            .iter()
            .any(|published| published.actual == port)
    }

    /// Host that replaces the one of the suite, and the port.
    fn actual_address(&self, connect: &Connect) -> (Option<IpAddr>, u16) {
        let (ports, is_remote) = (&self.context.ports, self.reach.engine.is_some());
        actual_address(&connect.host, connect.port, ports, is_remote).unwrap_or((None, connect.port))
    }

    /// Returns true if the port accepts connections.
    ///
    /// # Errors
    /// The suite may not reach the host.
    async fn can_connect(&self, connect: &Connect, limit: Duration) -> Result<bool, CaseFailure> {
        let (host, port) = self.actual_address(connect);
        let host = match host {
            Some(IpAddr::V4(address)) => Some(Host::Ipv4(address)),
            Some(IpAddr::V6(address)) => Some(Host::Ipv6(address)),
            None => parse_host(&connect.host),
        };
        let host = host.ok_or_else(|| {
            let message = format!("`{}` is not a valid host", connect.host);
            CaseFailure::new("host", message)
        })?;
        let connected = async {
            match self.find_addresses(&host, port).await {
                Err(failure) if failure.code.is_some() => Err(failure),
                Err(_) => Ok(false),
                Ok(addresses) => Ok(TcpStream::connect(addresses.as_slice()).await.is_ok()),
            }
        };
        tokio::time::timeout(limit, connected).await.unwrap_or(Ok(false))
    }

    /// Returns the addresses of a host that the suite may connect to.
    ///
    /// # Errors
    /// The host has no address, or the suite may not reach it. Only the latter has a code.
    async fn find_addresses(&self, host: &Host, port: u16) -> Result<Vec<SocketAddr>, CaseFailure> {
        let found = connect::find_addresses(host, port).await.map_err(|error| {
            CaseFailure::new("request", format!("cannot connect to `{host}:{port}`: {error}"))
        })?;
        let choose = |reach: &Reach| reach.choose(host, port, &found, engine::is_own);
        let chosen = choose(&self.reach);
        if !chosen.is_empty() {
            return Ok(chosen);
        }
        // A service can have started after the suite.
        let reach = Reach {
            ports: context::running_ports(&self.read_status().await),
            ..self.reach.clone()
        };
        let chosen = choose(&reach);
        if chosen.is_empty() {
            return Err(reach.refuse(host, port));
        }
        Ok(chosen)
    }

    /// Returns the status of the environment. Without a readable one, the last one applies.
    async fn read_status(&self) -> EnvironmentStatus {
        let status = self
            .environment
            .client
            .find_environment(&self.context.environment);
        status.await.unwrap_or_else(|_| self.environment.status.clone())
    }
}
