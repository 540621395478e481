//! `argus selftest`: injects faults into a temporary environment on the user's engine, and counts recoveries.

use std::time::Duration;

use argus_backend::Backend as _;
use argus_core::action::Action;
use argus_crds::error::{Code, StructuredError};
use argus_docker::Docker;
use argus_reconciler::shutdown::Signals;
use argus_reconciler::{Command, Handle, Running};
use clap::Args;
use tokio_util::sync::CancellationToken;

use crate::controller_start;
use crate::correlation;
use crate::engine;
use crate::engine::observer::EngineObserver;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::output::Format;
use crate::runtime;
use crate::settings::{Options, Settings, SpecOptions};

mod environment;
mod fault;
mod fixture;
mod report;

use environment::TestEnvironment;
use fault::Fault;
use fixture::{Fixture, RoundEnd};
use report::Report;

/// Maximum time until the environment is ready. Its image is built first, and the engine may be busy.
const READY_TIMEOUT: Duration = Duration::from_secs(300);
/// Maximum time of a recovery.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(120);
/// Maximum time for the controller to remove the environment. The selftest removes the rest itself.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(60);

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
        let observer = EngineObserver::open(
            &docker,
            Some([test_env.env().clone(), test_env.foreign_env()].into()),
        )
        .await?;
        let (handle, running) = controller_start::start_for_selftest(test_env.settings()).await?;
        let mut report = Report::new(self.rounds);
        let result = {
            let mut fixture = Fixture {
                test_env,
                docker: docker.clone(),
                handle: handle.clone(),
                observer,
                stop,
            };
            self.run_rounds(&mut fixture, &mut report).await
        };
        output::print_note("cleaning up");
        let remaining = Box::pin(remove_environment(test_env, docker, handle, running)).await;
        test_env.remove();
        match result {
            Ok(()) => {}
            Err(RoundEnd::Stopped) => {
                check_cleanup(&remaining)?;
                return Ok(Exit::Interrupted);
            }
            Err(RoundEnd::Failed(failure)) => {
                if let Err(cleanup) = check_cleanup(&remaining) {
                    output::print_failure(cleanup, self.output == Some(Format::Json));
                }
                return Err(failure);
            }
        }
        report.print(self.output)?;
        check_cleanup(&remaining)?;
        report.exit()
    }

    async fn run_rounds(&self, fixture: &mut Fixture<'_>, report: &mut Report) -> Result<(), RoundEnd> {
        output::print_note(&format!(
            "creating temporary environment `{}`; it is removed at the end, everything else stays unchanged",
            fixture.test_env.env()
        ));
        fixture
            .wait_until(READY_TIMEOUT, Fixture::is_healthy)
            .await?
            .ok_or_else(|| fixture.timed_out("environment", READY_TIMEOUT))?;
        for fault in Fault::all() {
            if !self.only.is_empty() && !self.only.contains(&fault) {
                continue;
            }
            for round in 1..=self.rounds {
                let took = fault::run_round(fault, round, fixture, RECOVERY_TIMEOUT).await?;
                let name = fault.name();
                match &took {
                    Ok(took) => {
                        output::print_note(&format!("{name}: recovered after {:.1} s", took.as_secs_f64()));
                    }
                    Err(reason) => {
                        output::print_note(&format!("{name}: {} {reason}", output::red("not recovered:")));
                    }
                }
                let missed = took.is_err();
                report.add_round(fault, took);
                // Each round begins with a healthy environment.
                if missed
                    && fixture
                        .wait_until(RECOVERY_TIMEOUT, Fixture::is_healthy)
                        .await?
                        .is_none()
                {
                    report.set_given_up(fault);
                    return Ok(());
                }
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

/// Removes all resources of the selftest: first through the controller, then directly. Returns the remaining resources,
/// each with the error.
async fn remove_environment(
    test_env: &TestEnvironment,
    docker: Docker,
    handle: Handle,
    running: Running,
) -> Vec<String> {
    let environment = test_env.env().clone();
    let accepted = handle
        .send(
            Command::Down {
                environment,
                volumes: false,
            },
            correlation::current().id,
        )
        .await
        .is_ok();
    let both = || [test_env.env().clone(), test_env.foreign_env()].into();
    let mut remaining = Vec::new();
    match engine::connect_docker(test_env.settings()).await {
        Ok(own) if accepted => {
            if let Ok(mut observer) = EngineObserver::open(&own, Some(both())).await {
                let gone = async {
                    while fixture::has_containers(&observer.store, test_env.env())
                        && observer.next_event().await.is_ok()
                    {}
                };
                // Resources that remain after the timeout are removed below.
                drop(tokio::time::timeout(CLEANUP_TIMEOUT, gone).await);
            }
        }
        Ok(_) | Err(_) => {}
    }
    running.stop_token().cancel();
    drop(handle);
    if let Err(error) = running.ended().await {
        remaining.push(format!("the controller of the selftest: {error}"));
    }
    match engine::connect_docker(test_env.settings()).await {
        Ok(own) => match EngineObserver::open(&own, Some(both())).await {
            Ok(observer) => {
                for action in list_remaining_actions(&observer, test_env) {
                    let done =
                        tokio::time::timeout(CLEANUP_TIMEOUT, Box::pin(docker.execute(&action, &()))).await;
                    match done {
                        Ok(Ok(_)) => {}
                        Ok(Err(error)) => {
                            remaining.push(format!("{} {}: {error}", action.verb(), test_env.env()));
                        }
                        Err(_) => remaining.push(format!("{} {}: timed out", action.verb(), test_env.env())),
                    }
                }
            }
            Err(_) => remaining.push(format!("all of `{}`: the engine does not answer", test_env.env())),
        },
        Err(_) => remaining.push(format!("all of `{}`: no engine", test_env.env())),
    }
    if let Err(error) = remove_image(&docker, test_env).await {
        remaining.push(format!("image `{}`: {error}", test_env.image()));
    }
    remaining
}

/// Actions that remove the remaining resources: containers first, then networks.
fn list_remaining_actions(observer: &EngineObserver, test_env: &TestEnvironment) -> Vec<Action> {
    let names = [test_env.env().clone(), test_env.foreign_env()];
    let ours = |owner: Option<argus_core::labels::ObjectLabels>| {
        owner.is_some_and(|owner| names.contains(&owner.environment))
    };
    let store = &observer.store;
    let containers = store.containers().filter(|found| ours(found.owner()));
    let networks = names
        .iter()
        .filter_map(|env| store.of(env))
        .flat_map(|seen| seen.networks.values());
    containers
        .map(|found| Action::RemoveContainer {
            id: found.id.clone(),
            name: found.name.clone(),
        })
        .chain(
            networks
                .filter(|found| ours(found.owner()))
                .map(|found| Action::RemoveNetwork {
                    id: found.id.clone(),
                    name: found.name.clone(),
                }),
        )
        .collect()
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
