//! `argus up`: creates the environment of one file, and removes it at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use argus_core::ident::ServiceName;
use argus_core::quoting::PathText as _;
use argus_crds::error::StructuredError;
use argus_crds::status::{EnvironmentStatus, ServiceState, ServiceStatus};
use argus_reconciler::clock;
use argus_reconciler::shutdown::Signals;
use clap::Args;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::api::Context;
use crate::api::wait::goal::{ENGINE_PATIENCE, WaitLimits};
use crate::api::wait::removal::remove_environments;
use crate::app::telemetry;
use crate::compose::{OPTIONAL, SERVICES};
use crate::local_state::status;
use crate::process::exit::{Exit, Failure, describe_end};
use crate::process::runtime;
use crate::render::live::View;
use crate::render::live::screen::LiveBlock;
use crate::render::output;
use crate::render::output::OutputArgs;
use crate::render::status_text::format_running_warnings;
use crate::session::{KeepOptions, Session, SpecChoice, check_name, list_replaced, start_in_background};
use crate::settings::{Options, Settings, SpecOptions};
use crate::test_runner::report::Report;
use crate::test_runner::selection::Selection;
use crate::test_runner::{AttemptSettings, Confirm, OutputSettings, Progress, WorkerOptions, run_suites};

mod arguments;
mod words;

#[derive(Debug, Args)]
pub(crate) struct Up {
    /// Spec file, Compose file, or a folder with one [default: that of the project]; then services of a Compose file [default: all]
    #[arg(value_name = "PATH | SERVICE")]
    words: Vec<PathBuf>,
    #[command(flatten)]
    specs: SpecOptions,
    /// Build changed images, which Argus always does; accepted as in Compose
    #[arg(long)]
    #[allow(dead_code, reason = "the flag changes nothing")]
    build: bool,
    /// Replace all containers of the environment
    #[arg(long)]
    force_recreate: bool,
    /// Return when the environment is ready; its controller runs in the background
    #[arg(short, long, conflicts_with = "command")]
    detach: bool,
    #[command(flatten)]
    keep: KeepOptions,
    /// Maximum time until the environment is ready
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = crate::settings::parse_duration)]
    timeout: Duration,
    /// Maximum duration of COMMAND
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = crate::settings::parse_duration)]
    ttl: Duration,
    /// Name of the holder of the test lease, shown to other users
    #[arg(long, env = "ARGUS_HOLDER", value_name = "NAME")]
    holder: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
    /// Command to run as a test, with the addresses of the services as variables
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Everything that the command found out, for its output.
#[derive(Default)]
struct Findings {
    /// Status before the command.
    before: Option<EnvironmentStatus>,
    ready: Option<EnvironmentStatus>,
    report: Option<Report>,
}

/// Output for programs.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct UpOutput<'a> {
    environment: &'a str,
    exit_code: u8,
    /// True if the environment was Ready.
    ready: bool,
    /// True if the containers stay.
    kept: bool,
    revision: Option<&'a String>,
    /// Addresses of the services.
    variables: BTreeMap<String, String>,
    /// Result of COMMAND.
    #[serde(skip_serializing_if = "Option::is_none")]
    report: Option<&'a Report>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<StructuredError>,
}

impl Up {
    pub(crate) fn execute(mut self, options: &Options) -> Result<Exit, Failure> {
        let (path, services) = words::split(&self.words)?;
        self.specs.compose.services.extend(services);
        let mut settings = Settings::resolve(options, &self.specs)?;
        let spec = SpecChoice::read(&settings, path, &[SERVICES])?;
        words::check(&self.specs.compose.services, &spec.file)?;
        let (mut started, mut existing): (&[ServiceName], _) = (&[], Vec::new());
        if !self.specs.compose.services.is_empty() {
            started = &spec.services;
            existing = words::find_existing(&settings.state, &spec)?;
            let kept = existing.iter().map(|name| format!("{name}{OPTIONAL}"));
            self.specs.compose.services.extend(kept);
            settings = Settings::resolve(options, &self.specs)?;
        }
        settings.specs.clone_from(&spec.file);
        let before = status::read_environment(&settings.state, &spec.environment)?;
        check_name(&settings.state, &spec.file, &spec.environment)?;
        warn_of_replaced(&settings, &spec, self.detach)?;
        let screen = LiveBlock::for_terminal();
        // The table and the lines show progress already.
        telemetry::start(settings.log_format, "warn", screen.as_ref());
        runtime::block_on(async {
            let signals = Signals::subscribe()
                .map_err(|error| Failure::operation_failed("cannot take signals", &error))?;
            let stop = CancellationToken::new();
            if self.detach {
                let arguments = arguments::controller_arguments(options, &self.specs, &spec.file);
                start_in_background(&settings, (&spec.file, &spec.environment), arguments).await?;
            }
            // The command started only a part of an environment that existed before.
            let mut kept = self.keep.always || !existing.is_empty();
            let end = match (self.detach, kept) {
                (true, _) => "ctrl-c ends the wait",
                (false, true) => "ctrl-c stops, containers keep running",
                (false, false) => "ctrl-c removes the environment",
            };
            let mut view = View::new(screen, format!("`{}`; {end}", spec.file.shown()));
            kept |= self.detach;
            let is_kept = |ended: &Result<Exit, Failure>| {
                let has_failed = !matches!(ended, Ok(Exit::Done | Exit::Code(0) | Exit::Interrupted));
                kept = kept || self.keep.is_kept(has_failed, &spec.environment);
                kept
            };
            let mut findings = Findings {
                before,
                ..Findings::default()
            };
            let work = Session::run(&settings, &spec, is_kept, &stop, async |session: &Session| {
                Box::pin(self.work(session, started, &mut view, &stop, &mut findings)).await
            });
            let ended = tokio::select! {
                ended = work => ended,
                () = signals.wait_for_second(stop.clone()) => Ok(None),
            };
            let ended = ended.map(|exit| exit.unwrap_or(Exit::Interrupted));
            self.print(&spec.environment, kept, &findings, &ended)?;
            ended
        })
    }

    async fn work(
        &self,
        session: &Session,
        started: &[ServiceName],
        view: &mut View,
        stop: &CancellationToken,
        findings: &mut Findings,
    ) -> Result<Exit, Failure> {
        let begin = clock::now();
        if self.force_recreate {
            let context = Context::new(session.client.clone());
            let names = [session.environment.clone()];
            tokio::select! {
                removed = remove_environments(&context, &names, false, self.timeout, output::print_note) => removed?,
                () = stop.cancelled() => return Ok(Exit::Interrupted),
            }
        }
        let limits = self.limits(clock::now().since(begin));
        let converged = session.converge(started, limits, view, stop).await;
        if self.detach || !self.command.is_empty() || converged.is_err() {
            view.clear();
        }
        let Some(ready) = converged? else {
            return Ok(Exit::Interrupted);
        };
        let ready = findings.ready.insert(ready);
        for note in note_completed(findings.before.as_ref(), ready, started) {
            view.clear();
            output::print_note(&note);
        }
        for warning in format_running_warnings(ready) {
            view.clear();
            output::print_note(&format!("{} {warning}", output::yellow("warning:")));
        }
        if self.detach && self.output.is_text() {
            output::print(&format!(
                "{} {}\n",
                ready.environment,
                output::format_phase(ready.phase)
            ))?;
        }
        if self.detach {
            return Ok(Exit::Done);
        }
        if !self.command.is_empty() {
            return Box::pin(self.run_command(session, stop, &mut findings.report)).await;
        }
        tokio::select! {
            shown = session.show_until_gone(view) => shown?,
            () = stop.cancelled() => {}
        }
        Ok(Exit::Done)
    }

    /// Limits of the wait after this time. A controller in the background continues without the command when the engine answers again.
    fn limits(&self, spent: Duration) -> WaitLimits {
        let limits = WaitLimits::of_time(self.timeout.saturating_sub(spent));
        if !self.detach {
            return limits;
        }
        WaitLimits {
            engine_patience: ENGINE_PATIENCE.min(limits.timeout),
            ..limits
        }
    }

    async fn run_command(
        &self,
        session: &Session,
        stop: &CancellationToken,
        report: &mut Option<Report>,
    ) -> Result<Exit, Failure> {
        let selection = Selection {
            command: self.command.clone(),
            ..Selection::default()
        };
        let settings = AttemptSettings {
            timeout: self.timeout,
            engine_patience: self.timeout,
            ttl: self.ttl,
            holder: self.holder.clone(),
            confirm: Confirm::Off,
            workers: WorkerOptions::default(),
        };
        let output = OutputSettings {
            progress: Progress::Silent,
            is_for_programs: !self.output.is_text(),
            folder: None,
        };
        let env = &session.environment;
        let ran = Box::pin(run_suites(
            &session.client,
            env,
            &selection,
            &settings,
            &output,
            stop,
        ));
        report.insert(ran.await?).command_exit()
    }

    /// Prints the output for programs. People have seen everything.
    fn print(
        &self,
        environment: &str,
        kept: bool,
        findings: &Findings,
        ended: &Result<Exit, Failure>,
    ) -> Result<(), Failure> {
        if self.output.is_text() {
            return Ok(());
        }
        let (exit, error) = describe_end(ended);
        let ready = findings.ready.as_ref();
        let output = UpOutput {
            environment,
            exit_code: exit.number(),
            ready: ready.is_some(),
            kept,
            revision: ready.and_then(|status| status.revision.as_ref()),
            variables: ready.map(status::list_variables).unwrap_or_default(),
            report: findings.report.as_ref(),
            error,
        };
        self.output.print(&output, [environment], String::new)
    }
}

/// Warns about the environments that this one replaces. In the foreground, a new controller refuses them.
fn warn_of_replaced(settings: &Settings, spec: &SpecChoice, is_detached: bool) -> Result<(), Failure> {
    if !is_detached && !status::is_alive(&settings.state) {
        return Ok(());
    }
    for former in list_replaced(settings, spec)? {
        output::print_note(&format!(
            "{} environment `{former}` is replaced by `{}`: its containers and networks are removed, and its volumes stay unless \
`argus.deletion.volumes` is `Delete`",
            output::yellow("warning:"),
            spec.environment
        ));
    }
    Ok(())
}

/// Notes about the started services, or all, that completed before the command, and did not run again.
fn note_completed(
    before: Option<&EnvironmentStatus>,
    now: &EnvironmentStatus,
    started: &[ServiceName],
) -> Vec<String> {
    let run = |row: &ServiceStatus| {
        let is_done = row.state == ServiceState::Completed;
        is_done.then(|| (row.name.clone(), row.container_id.clone(), row.restarts))
    };
    let earlier: BTreeSet<_> = before
        .into_iter()
        .flat_map(|it| &it.services)
        .filter_map(run)
        .collect();
    let is_started = |name: &str| started.is_empty() || started.iter().any(|it| it.as_str() == name);
    let same = now.services.iter().filter_map(run);
    let same = same.filter(|run| earlier.contains(run) && is_started(&run.0));
    let targets = same.map(|(name, ..)| format!("{}/{name}", now.environment));
    targets
        .map(|target| {
            format!(
                "note: `{target}` completed earlier and does not run again; `argus restart {target}` runs it"
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detached_wait_ends_soon_without_an_engine() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            up: Up,
        }
        for (words, patience) in [
            (&["up", "--detach"][..], ENGINE_PATIENCE),
            (&["up", "--detach", "--timeout", "3s"], Duration::from_secs(2)),
            (&["up"], Duration::from_secs(599)),
        ] {
            let line = <Line as clap::Parser>::try_parse_from(words).unwrap();
            let limits = line.up.limits(Duration::from_secs(1));
            assert_eq!(limits.engine_patience, patience, "{words:?}");
        }
    }

    #[test]
    fn only_a_job_of_an_earlier_command_is_noted() {
        let row = |name: &str, state, id: &str| ServiceStatus {
            name: name.to_owned(),
            state,
            container_id: Some(id.to_owned()),
            ..ServiceStatus::default()
        };
        let status = |services| EnvironmentStatus {
            environment: "shop".to_owned(),
            services,
            ..EnvironmentStatus::default()
        };
        let done = ServiceState::Completed;
        let now = status(vec![
            row("migrate", done, "a"),
            row("seed", done, "c"),
            row("web", ServiceState::Ready, "d"),
        ]);
        let before = status(vec![
            row("migrate", done, "a"),
            row("seed", done, "b"),
            row("web", ServiceState::Ready, "d"),
        ]);
        let note = "note: `shop/migrate` completed earlier and does not run again; `argus restart shop/migrate` runs it";
        assert_eq!(note_completed(Some(&before), &now, &[]), [note]);
        let web = [ServiceName::new("web").unwrap()];
        assert_eq!(note_completed(Some(&before), &now, &web), [""; 0]);
        assert_eq!(note_completed(None, &now, &[]), [""; 0]);
    }
}
