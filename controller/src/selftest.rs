//! `argus selftest`: injects faults into a temporary environment on the user's engine, and counts recoveries.

use std::time::Duration;

use argus_backend::Backend as _;
use argus_core::action::Action;
use argus_crds::error::{Code, StructuredError};
use argus_docker::Docker;
use argus_reconciler::Running;
use argus_reconciler::shutdown::Signals;
use clap::{Args, ValueEnum as _};
use tokio_util::sync::CancellationToken;

use crate::app::controller_start;
use crate::engine;
use crate::engine::observer::EngineObserver;
use crate::process::exit::{Exit, Failure};
use crate::process::runtime;
use crate::render::output;
use crate::render::output::Format;
use crate::settings::{Options, Settings, SpecOptions};

mod environment;
mod fault;
mod fixture;
mod report;

use environment::TestEnvironment;
use fault::Fault;
use fixture::Fixture;
use report::Report;

/// Maximum time until the environment is ready. Its image is built first, and the engine may be busy.
const READY_TIMEOUT: Duration = Duration::from_secs(300);
/// Maximum time of a recovery.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(120);

#[derive(Debug, Args)]
pub(crate) struct Selftest {
    /// Number of injections per fault [default: 1]
    #[arg(long, default_value_t = 1, hide_default_value = true, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Only these faults [default: all]
    #[arg(long, value_enum, value_name = "FAULT", value_delimiter = ',')]
    only: Vec<Fault>,
    /// Output format [default: table]
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<Format>,
}

impl Selftest {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let settings = Settings::resolve(options, &SpecOptions::default())?;
        runtime::block_on(self.run(&settings))
    }

    async fn run(self, settings: &Settings) -> Result<Exit, Failure> {
        let signals =
            Signals::subscribe().map_err(|error| Failure::operation_failed("cannot take signals", &error))?;
        let stop = CancellationToken::new();
        let test_env = TestEnvironment::create(settings)?;
        tokio::select! {
            ended = self.execute_rounds(&test_env, &stop) => ended,
            () = signals.wait_for_second(stop.clone()) => {
                let name = test_env.env();
                output::print_note(&format!("not cleaned up; remove the rest with `argus orphans --project {name} --clean`"));
                Ok(Exit::Interrupted)
            }
        }
    }

    /// Runs all rounds. Removes the environment at the end, also after an error.
    async fn execute_rounds(
        &self,
        test_env: &TestEnvironment,
        stop: &CancellationToken,
    ) -> Result<Exit, Failure> {
        let docker = engine::connect_docker(test_env.settings()).await?;
        // The observer opens before anything is created, so that an unreachable engine is reported immediately.
        let observer = EngineObserver::open(&docker, Some(test_env.environments())).await?;
        let (handle, running) = controller_start::start_for_selftest(test_env.settings()).await?;
        let mut report = Report::new(self.rounds);
        let mut fixture = Fixture {
            test_env,
            docker: docker.clone(),
            handle,
            observer,
            stop,
        };
        let result = self.run_rounds(&mut fixture, &mut report).await;
        let is_stopped = stop.is_cancelled();
        drop(fixture);
        output::print_note("cleaning up");
        let remaining = Box::pin(remove_environment(test_env, &docker, running)).await;
        test_env.remove();
        if is_stopped {
            check_cleanup(&remaining)?;
            return Ok(Exit::Interrupted);
        }
        if let Err(failure) = result {
            if let Err(cleanup) = check_cleanup(&remaining) {
                output::print_failure(cleanup, self.output == Some(Format::Json));
            }
            return Err(failure);
        }
        report.print(self.output)?;
        check_cleanup(&remaining)?;
        report.exit()
    }

    /// Runs all rounds until a signal stops the selftest.
    async fn run_rounds(&self, fixture: &mut Fixture<'_>, report: &mut Report) -> Result<(), Failure> {
        output::print_note(&format!(
            "creating temporary environment `{}`; it is removed at the end, everything else stays unchanged",
            fixture.test_env.env()
        ));
        fixture
            .require("environment", READY_TIMEOUT, Fixture::is_healthy)
            .await?;
        let all = Fault::value_variants().iter().copied();
        let wanted = all.filter(|fault| self.only.is_empty() || self.only.contains(fault));
        for (fault, round) in wanted.flat_map(|fault| (1..=self.rounds).map(move |round| (fault, round))) {
            let took = fault::run_round(fault, round, fixture, RECOVERY_TIMEOUT).await?;
            if fixture.stop.is_cancelled() {
                return Ok(());
            }
            let name = fault.name();
            output::print_note(&match &took {
                Ok(took) => format!("{name}: recovered after {:.1} s", took.as_secs_f64()),
                Err(reason) => format!("{name}: {} {reason}", output::red("not recovered:")),
            });
            let missed = took.is_err();
            report.add_round(fault, took);
            // Each round begins with a healthy environment.
            if missed && !fixture.wait_until(RECOVERY_TIMEOUT, Fixture::is_healthy).await? {
                report.set_given_up(fault);
                return Ok(());
            }
        }
        Ok(())
    }
}

/// Error if some resources were not removed.
fn check_cleanup(remaining: &[String]) -> Result<(), Failure> {
    if remaining.is_empty() {
        return Ok(());
    }
    let message = format!(
        "cannot remove {}",
        output::format_count(remaining.len(), "resource")
    );
    let error = StructuredError::new(Code::CleanupFailed, message);
    Err(Failure::new(
        error.details(serde_json::json!({ "left": remaining })),
    ))
}

/// Stops the controller and removes all resources of the selftest. Returns the remaining ones, each with the error.
async fn remove_environment(test_env: &TestEnvironment, docker: &Docker, running: Running) -> Vec<String> {
    let env = test_env.env();
    let mut remaining = Vec::new();
    running.stop_token().cancel();
    if let Err(error) = running.ended().await {
        remaining.push(format!("the controller of the selftest: {error}"));
    }
    match list_remaining(test_env).await {
        Ok(actions) => {
            for action in actions {
                if let Err(error) = fault::within_limit(Box::pin(docker.execute(&action, &()))).await {
                    remaining.push(format!("{} {env}: {error}", action.verb()));
                }
            }
        }
        Err(_) => remaining.push(format!("all of `{env}`: the engine does not answer")),
    }
    if let Err(error) = remove_image(docker, test_env).await {
        remaining.push(format!("image `{}`: {error}", test_env.image()));
    }
    remaining
}

/// Actions that remove the remaining resources: containers first, then networks.
async fn list_remaining(test_env: &TestEnvironment) -> Result<Vec<Action>, Failure> {
    let docker = engine::connect_docker(test_env.settings()).await?;
    let names = test_env.environments();
    let observer = EngineObserver::open(&docker, Some(names.clone())).await?;
    let containers = observer
        .store
        .containers()
        .map(|container| Action::RemoveContainer {
            id: container.id.clone(),
            name: container.name.clone(),
        });
    let present = names.iter().filter_map(|env| observer.store.of(env));
    let networks = present
        .flat_map(|observed| observed.networks.values())
        .map(|network| Action::RemoveNetwork {
            id: network.id.clone(),
            name: network.name.clone(),
        });
    Ok(containers.chain(networks).collect())
}

async fn remove_image(
    docker: &Docker,
    test_env: &TestEnvironment,
) -> Result<(), argus_core::outcome::ActionError> {
    for image in docker.built_images().await? {
        if image.tags.contains(&test_env.image()) {
            docker.remove_image(&image.id).await?;
        }
    }
    Ok(())
}
