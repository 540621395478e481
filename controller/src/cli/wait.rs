//! `argus wait`: until environments are ready or gone, by their status files alone.

use std::time::Duration;

use argus_crds::error::{Code, Severity, StructuredError};
use argus_crds::status::{EnvironmentStatus, Phase, ServiceState, ServiceStatus, Truth};
use argus_reconciler::state_dir::StateDir;
use argus_reconciler::{Command, clock};
use clap::{Args, ValueEnum};

use super::get::{stamp, waits};
use super::output::{self, Format};
use super::{client, status};
use crate::blocking_io;
use crate::exit::{Exit, Failure};
use crate::live::image_progress::{self, Paced};
use crate::live::screen::Screen;
use crate::settings::{Options, Settings, SpecOptions};

/// What changes when a status does.
type Stamp = Vec<(String, Option<std::time::SystemTime>, u64)>;
/// Statuses by name, as they were at a stamp.
type News = (Stamp, Vec<Seen>);

/// How often the files are looked at: a look is a stat a file.
const LOOK: Duration = Duration::from_millis(50);

#[derive(Debug, Args)]
pub(crate) struct Wait {
    /// Environments
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    environments: Vec<String>,
    /// All environments that have a status
    #[arg(long)]
    all: bool,
    /// What to wait for
    #[arg(long = "for", value_enum, default_value = "ready")]
    goal: Goal,
    /// How long
    #[arg(long, default_value = "120s", value_parser = crate::settings::span)]
    timeout: Duration,
    /// Format
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<Format>,
}

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Goal {
    /// The phase is Ready at the revision that is wanted
    Ready,
    /// It has no status any more
    Gone,
}

impl Wait {
    pub(crate) fn carry_out(self, options: &Options) -> Result<Exit, Failure> {
        let settings = Settings::resolve(options, &SpecOptions::default())?;
        let state = StateDir::at(settings.state);
        status::say_if_alone(&state);
        let which = if self.all {
            None
        } else {
            Some(self.environments.as_slice())
        };
        let (screen, mut paced) = (Screen::of_terminal(), Paced::default());
        let show = |all: &[Seen]| {
            let works = image_progress::of(all.iter().filter_map(|(_, status)| status.as_ref()));
            match &screen {
                Some(screen) => screen.draw(image_progress::bars(&works, screen.width())),
                None => paced
                    .news(&works, clock::now())
                    .iter()
                    .for_each(|line| output::note(line)),
            }
        };
        let reached = super::block_on(async {
            if status::is_alive(&state) {
                // An edit from just now counts. Who may not tell the controller anything waits by the files alone.
                drop(client::send(&state, &Command::Sync).await);
            }
            until(&state, which, self.goal, self.timeout, show).await
        });
        // What was under way is over, or is nobody's any more who waits here.
        if let Some(screen) = &screen {
            screen.draw(Vec::new());
        }
        let reached = reached?;
        for status in reached {
            match self.output {
                Some(Format::Json) => output::json(&status)?,
                Some(Format::Yaml) => output::yaml(&status)?,
                Some(Format::Name) => output::data(&format!("{}\n", status.environment))?,
                Some(Format::Table | Format::Wide) | None => {
                    output::data(&format!(
                        "{} {}\n",
                        status.environment,
                        output::phase(status.phase)
                    ))?;
                }
            }
        }
        if self.goal == Goal::Gone && self.output.is_none() {
            output::data("gone\n")?;
        }
        Ok(Exit::Done)
    }
}

/// An environment, and its status where it has one.
pub(crate) type Seen = (String, Option<EnvironmentStatus>);

/// Waits until all of `which` (or every environment) is there; ends early where one is given up. What is seen is shown as it changes.
pub(crate) async fn until(
    state: &StateDir,
    which: Option<&[String]>,
    goal: Goal,
    timeout: Duration,
    mut show: impl FnMut(&[Seen]),
) -> Result<Vec<EnvironmentStatus>, Failure> {
    let deadline = clock::now() + timeout;
    let mut seen = None;
    let mut left = Vec::new();
    loop {
        let (there, which, before) = (state.clone(), which.map(<[String]>::to_vec), seen.clone());
        if let Some((stamp, statuses)) =
            blocking_io::read(move || news(&there, which, before.as_ref())).await?
        {
            show(&statuses);
            if goal == Goal::Ready {
                statuses
                    .iter()
                    .filter_map(|(_, status)| status.as_ref())
                    .try_for_each(given_up)?;
            }
            left = statuses
                .iter()
                .filter(|(_, status)| !is_there(status.as_ref(), goal))
                .cloned()
                .collect();
            // Waiting for all of nothing to be ready waits for the first one.
            let nothing = statuses.is_empty() && goal == Goal::Ready;
            if left.is_empty() && !nothing {
                return Ok(statuses.into_iter().filter_map(|(_, status)| status).collect());
            }
            seen = Some(stamp);
        }
        if clock::now() >= deadline {
            return Err(late(&left, goal, timeout));
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// All of `which` (or every environment) with its status, where anything is new since `before`.
fn news(
    state: &StateDir,
    which: Option<Vec<String>>,
    before: Option<&Stamp>,
) -> Result<Option<News>, Failure> {
    let stamp = stamp(state);
    if before == Some(&stamp) {
        return Ok(None);
    }
    let names = which.map_or_else(|| status::names(state), Ok)?;
    let statuses = names
        .into_iter()
        .map(|name| {
            let status = status::one(state, &name)?;
            Ok((name, status))
        })
        .collect::<Result<Vec<_>, Failure>>()?;
    Ok(Some((stamp, statuses)))
}

fn is_there(status: Option<&EnvironmentStatus>, goal: Goal) -> bool {
    match goal {
        Goal::Gone => status.is_none(),
        Goal::Ready => status.is_some_and(|status| {
            status.phase == Phase::Ready && !status.stale && status.revision == status.observed_revision
        }),
    }
}

/// An environment that is given up does not become ready by waiting.
fn given_up(status: &EnvironmentStatus) -> Result<(), Failure> {
    let worst = status.errors.first().cloned();
    let refused = status.revision.is_none()
        && worst
            .as_ref()
            .is_some_and(|error| Exit::of(error.code) == Exit::Refused);
    if let Some(error) = leased(status).filter(|error| is_alive(error) && !status.stale) {
        return Err(Failure::new(error.clone()));
    }
    // What is said of an engine that is away may be old; what is said of a file is not.
    let lost = status.phase == Phase::Failed || (status.phase == Phase::Degraded && has_lost(status));
    if !lost || (status.stale && !refused) {
        return Ok(());
    }
    let exit = if refused { Exit::Refused } else { Exit::GaveUp };
    Err(match worst {
        Some(mut error) => {
            let of = error
                .service
                .clone()
                .map_or_else(String::new, |service| format!("/{service}"));
            error.message = format!(
                "environment `{}` failed: {}{of}: {}",
                status.environment, status.environment, error.message
            );
            Failure::new(error).exit(exit)
        }
        None => Failure::of(
            Code::Internal,
            format!("environment `{}` failed", status.environment),
        )
        .about(serde_json::json!({ "phase": status.phase }))
        .environment(&status.environment)
        .exit(exit),
    })
}

/// Another controller is at work on it.
pub(crate) fn leased(status: &EnvironmentStatus) -> Option<&StructuredError> {
    status.errors.iter().find(|error| error.code == Code::LeaseHeld)
}

/// It surely lives: its end is not a matter of waiting.
fn is_alive(leased: &StructuredError) -> bool {
    let holder = leased.details.get("holder");
    holder.is_some_and(|holder| holder["renews"] == true)
}

/// A service of it is given up, and it is one that counts: of one that the environment is ready without it is warned.
fn has_lost(status: &EnvironmentStatus) -> bool {
    let blocked = status
        .conditions
        .iter()
        .any(|it| it.kind == "Blocked" && it.status == Truth::True);
    blocked
        && status
            .services
            .iter()
            .any(|row| row.state == ServiceState::Failed && !is_warned_of(row))
}

fn is_warned_of(row: &ServiceStatus) -> bool {
    row.last_error
        .as_ref()
        .is_some_and(|error| error.severity == Severity::Warning)
}

fn late(left: &[(String, Option<EnvironmentStatus>)], goal: Goal, timeout: Duration) -> Failure {
    let word = match goal {
        Goal::Ready => "ready",
        Goal::Gone => "gone",
    };
    let one = |(name, status): &(String, Option<EnvironmentStatus>)| match status {
        None => format!("`{name}` has no status"),
        Some(status) if goal == Goal::Gone => format!("`{name}` is {:?}", status.phase),
        Some(status) => format!("`{name}` is {:?}: {}", status.phase, waits(status)),
    };
    let told = if left.is_empty() {
        "there is no environment".to_owned()
    } else {
        left.iter().map(one).collect::<Vec<_>>().join("; ")
    };
    let waited = humantime::format_duration(timeout);
    let about = left.first().map_or_else(
        || "argus get".to_owned(),
        |(name, _)| format!("argus describe {name}"),
    );
    let details = serde_json::json!({
        "for": word,
        "waitedSeconds": timeout.as_secs(),
        "environments": left.iter().map(|(name, _)| name).collect::<Vec<_>>(),
    });
    let error = Failure::of(Code::Timeout, format!("not {word} within {waited}: {told}")).about(details);
    let mut held = left.iter().filter_map(|(_, status)| leased(status.as_ref()?));
    if let Some(held) = held.next() {
        return Failure::new(held.clone());
    }
    error.exit(Exit::Late).hint(format!("look closer: `{about}`"))
}

#[cfg(test)]
mod tests {
    use argus_crds::status::Condition;

    use super::*;

    fn row(state: ServiceState, error: StructuredError) -> ServiceStatus {
        ServiceStatus {
            name: error.service.clone().unwrap_or_default(),
            state,
            last_error: Some(error),
            ..ServiceStatus::default()
        }
    }

    #[test]
    fn nothing_is_given_up_while_what_is_required_may_come_back() {
        let lost = |severity| {
            let spent = StructuredError::new(Code::ContainerRestartExhausted, "gave up").service("side");
            let crash = StructuredError::new(Code::ContainerCrash, "exited with 1").service("api");
            let status = EnvironmentStatus {
                environment: "shop".to_owned(),
                phase: Phase::Degraded,
                revision: Some("r1".to_owned()),
                conditions: vec![Condition {
                    kind: "Blocked".to_owned(),
                    status: Truth::True,
                    reason: "InterventionNeeded".to_owned(),
                    message: String::new(),
                    last_transition_time: String::new(),
                }],
                services: vec![
                    row(ServiceState::Failed, spent.severity(severity)),
                    row(ServiceState::Waiting, crash.clone()),
                ],
                errors: vec![crash],
                ..EnvironmentStatus::default()
            };
            given_up(&status).is_err()
        };
        assert!(lost(Severity::Fatal));
        assert!(!lost(Severity::Warning));
    }
}
