//! `argus selftest`: breaks an environment made for it in the ways that are to heal, on the engine of whoever asks, and counts.

use std::time::Duration;

use argus_backend::Backend as _;
use argus_core::plan::Action;
use argus_crds::error::{Code, StructuredError};
use argus_docker::Docker;
use argus_reconciler::shutdown::Signals;
use argus_reconciler::{Command, Handle, Running};
use clap::Args;
use tokio_util::sync::CancellationToken;

use super::offline::EngineObserver;
use super::output::{self, Format};
use crate::app;
use crate::exit::{Exit, Failure};
use crate::settings::{Options, Settings, SpecOptions};

mod environment;
mod fault;
mod fixture;
mod report;

use environment::TestEnvironment;
use fault::Fault;
use fixture::{Fixture, RoundEnd};
use report::Report;

/// An image is built first, from this program, and the engine may be busy.
const FIRST: Duration = Duration::from_secs(300);
/// A healing that takes longer counts as none.
const HEALED: Duration = Duration::from_secs(120);
/// How long the controller may take to remove what it made; the rest is removed without it.
const GONE: Duration = Duration::from_secs(60);

#[derive(Debug, Args)]
pub(crate) struct Selftest {
    /// How often each trouble is made
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Only these troubles
    #[arg(long, value_enum, value_name = "TROUBLE", value_delimiter = ',')]
    only: Vec<Fault>,
    /// Format
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<Format>,
}

impl Selftest {
    pub(crate) fn carry_out(self, options: &Options) -> Result<Exit, Failure> {
        let settings = Settings::resolve(options, &SpecOptions::default())?;
        super::block_on(self.run(&settings))
    }

    async fn run(self, settings: &Settings) -> Result<Exit, Failure> {
        let signals = Signals::subscribe().map_err(|error| Failure::fault("cannot take signals", &error))?;
        let stop = CancellationToken::new();
        let house = TestEnvironment::make(settings)?;
        tokio::select! {
            ended = self.work(&house, &stop) => ended,
            () = signals.second(stop.clone()) => {
                let name = house.env();
                output::note(&format!("not cleaned up; `argus orphans --project {name} --clean` removes what is left"));
                Ok(Exit::Interrupted)
            }
        }
    }

    /// Everything, with what was made for it gone at the end, however it ends.
    async fn work(&self, house: &TestEnvironment, stop: &CancellationToken) -> Result<Exit, Failure> {
        let docker = app::docker(house.settings())?;
        // Before anything is made: an engine that is away is said at once.
        let eyes =
            EngineObserver::open(&docker, Some([house.env().clone(), house.stranger()].into())).await?;
        let (handle, running) = app::run_offline(house.settings()).await?;
        let mut report = Report::new(self.rounds);
        let tried = {
            let mut scene = Fixture {
                house,
                docker: docker.clone(),
                handle: handle.clone(),
                eyes,
                stop,
            };
            self.every_trouble(&mut scene, &mut report).await
        };
        output::note("cleaning up");
        let left = clean(house, docker, handle, running).await;
        house.remove();
        match tried {
            Ok(()) => {}
            Err(RoundEnd::Stopped) => {
                told(&left)?;
                return Ok(Exit::Interrupted);
            }
            Err(RoundEnd::Failed(failure)) => {
                if let Err(left) = told(&left) {
                    output::fail(left, self.output == Some(Format::Json));
                }
                return Err(failure);
            }
        }
        report.show(self.output)?;
        told(&left)?;
        report.verdict()
    }

    async fn every_trouble(&self, scene: &mut Fixture<'_>, report: &mut Report) -> Result<(), RoundEnd> {
        output::note(&format!(
            "making environment `{}`, which is removed at the end; nothing else is touched",
            scene.house.env()
        ));
        scene
            .until(FIRST, Fixture::is_whole)
            .await?
            .ok_or_else(|| scene.not_made("environment", FIRST))?;
        for trouble in Fault::all() {
            if !self.only.is_empty() && !self.only.contains(&trouble) {
                continue;
            }
            for round in 1..=self.rounds {
                let took = fault::round(trouble, round, scene, HEALED).await?;
                let name = trouble.name();
                match &took {
                    Ok(took) => output::note(&format!("{name}: whole after {:.1} s", took.as_secs_f64())),
                    Err(why) => output::note(&format!("{name}: {} {why}", output::red("not recovered:"))),
                }
                let missed = took.is_err();
                report.add(trouble, took);
                // The next one begins with what is whole.
                if missed && scene.until(HEALED, Fixture::is_whole).await?.is_none() {
                    report.give_up(trouble);
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// What could not be removed, as the end of the command.
fn told(left: &[String]) -> Result<(), Failure> {
    if left.is_empty() {
        return Ok(());
    }
    let message = format!("{} could not be removed", output::count(left.len(), "thing"));
    let error = StructuredError::new(Code::CleanupFailed, message);
    Err(Failure::new(error.details(serde_json::json!({ "left": left }))))
}

/// Removes all that was made: by the controller first, then what it left, by hand. Tells what stays, and why.
async fn clean(house: &TestEnvironment, docker: Docker, handle: Handle, running: Running) -> Vec<String> {
    let environment = house.env().clone();
    let asked = handle.send(Command::Down { environment }).await.is_ok();
    let both = || [house.env().clone(), house.stranger()].into();
    let mut left = Vec::new();
    match app::docker(house.settings()) {
        Ok(own) if asked => {
            if let Ok(mut eyes) = EngineObserver::open(&own, Some(both())).await {
                let gone =
                    async { while fixture::has(&eyes.store, house.env()) && eyes.see().await.is_ok() {} };
                // What is not gone then is removed below.
                drop(tokio::time::timeout(GONE, gone).await);
            }
        }
        Ok(_) | Err(_) => {}
    }
    running.stop_token().cancel();
    drop(handle);
    if let Err(died) = running.ended().await {
        left.push(format!("the controller of the selftest: {died}"));
    }
    match app::docker(house.settings()) {
        Ok(own) => match EngineObserver::open(&own, Some(both())).await {
            Ok(eyes) => {
                for act in rest(&eyes, house) {
                    let done = tokio::time::timeout(GONE, Box::pin(docker.execute(&act, &()))).await;
                    match done {
                        Ok(Ok(_)) => {}
                        Ok(Err(error)) => left.push(format!("{} {}: {error}", act.verb(), house.env())),
                        Err(_) => left.push(format!("{} {}: no answer", act.verb(), house.env())),
                    }
                }
            }
            Err(_) => left.push(format!("all of `{}`: the engine does not answer", house.env())),
        },
        Err(_) => left.push(format!("all of `{}`: no engine", house.env())),
    }
    if let Err(error) = remove_image(&docker, house).await {
        left.push(format!("image `{}`: {error}", house.image()));
    }
    left
}

/// Containers, then networks.
fn rest(eyes: &EngineObserver, house: &TestEnvironment) -> Vec<Action> {
    let names = [house.env().clone(), house.stranger()];
    let ours = |owner: Option<argus_core::labels::Owner>| {
        owner.is_some_and(|owner| names.contains(&owner.environment))
    };
    let store = &eyes.store;
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
    house: &TestEnvironment,
) -> Result<(), argus_core::outcome::ActionError> {
    for image in docker.built_images().await? {
        if image.tags.contains(&house.image()) {
            docker.remove_image(&image.id).await?;
        }
    }
    Ok(())
}
