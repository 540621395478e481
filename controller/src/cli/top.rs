//! `argus top`: a live overview of all environments.

use std::time::Duration;

use argus_crds::status::{
    BreakerScope, BreakerState, BreakerStatus, ControllerStatus, EnvironmentStatus, Mode,
};
use argus_reconciler::state_dir::StateDir;
use clap::Args;

use crate::cli::notes;
use crate::exit::{Exit, Failure};
use crate::live::screen::LiveBlock;
use crate::output;
use crate::runtime;
use crate::settings::{Options, Settings, SpecOptions};
use crate::status;
use crate::table;

/// Interval of redraws.
const REDRAW_INTERVAL: Duration = Duration::from_millis(250);
const HEAD: &[&str] = &[
    "ENVIRONMENT",
    "SERVICE",
    "STATE",
    "HEALTH",
    "RESTARTS",
    "BREAKER",
    "WAITS FOR",
];

#[derive(Debug, Args)]
pub(crate) struct Top {
    /// Environment name [default: all]
    environment: Option<String>,
    /// Print the overview once and exit [default without a terminal]
    #[arg(long)]
    once: bool,
}

impl Top {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let settings = Settings::resolve(options, &SpecOptions::default())?;
        let state = StateDir::at(settings.state);
        if let Some(env) = &self.environment {
            status::find_environment(&state, env)?;
        }
        match LiveBlock::for_terminal().filter(|_| !self.once) {
            None => {
                notes::note_if_not_running(&state);
                output::print(&table::format_prose(
                    &output::join_lines(self.format_overview(&state, output::terminal_width())?),
                    output::terminal_width(),
                ))?;
                Ok(Exit::Done)
            }
            Some(screen) => runtime::block_on(async {
                loop {
                    let width = screen.width();
                    let cut = |line: String| console::truncate_str(&line, width, "…").into_owned();
                    screen.draw(self.format_overview(&state, None)?.into_iter().map(cut).collect());
                    tokio::time::sleep(REDRAW_INTERVAL).await;
                }
            }),
        }
    }

    fn format_overview(&self, state: &StateDir, width: Option<usize>) -> Result<Vec<String>, Failure> {
        let controller = status::read_controller(state)?;
        let all = match &self.environment {
            // The environment may be removed while the overview is shown.
            Some(env) => status::read_environment(state, env)?.into_iter().collect(),
            None => status::read_environments(state)?,
        };
        Ok(format_lines(
            controller.as_ref(),
            status::is_alive(state),
            &all,
            width,
        ))
    }
}

fn format_lines(
    controller: Option<&ControllerStatus>,
    alive: bool,
    all: &[EnvironmentStatus],
    width: Option<usize>,
) -> Vec<String> {
    let mut lines = vec![format_head(controller, alive, all)];
    let errors = controller
        .map(|controller| controller.errors.as_slice())
        .unwrap_or_default();
    lines.extend(
        errors
            .iter()
            .map(|error| output::red(format!("{}: {}", error.code, error.message))),
    );
    let mut rows = Vec::new();
    for status in all {
        let own = status
            .breaker
            .as_ref()
            .filter(|it| it.scope == BreakerScope::Environment);
        let waits = match status.errors.first() {
            Some(error) => output::red(format!("{}: {}", error.code, error.message)),
            None => String::new(),
        };
        rows.push(vec![
            status.environment.clone(),
            String::new(),
            output::format_phase(status.phase),
            String::new(),
            status
                .services
                .iter()
                .map(|row| row.restarts)
                .sum::<u32>()
                .to_string(),
            own.map(format_breaker).unwrap_or_default(),
            waits,
        ]);
        rows.extend(status.services.iter().map(|row| {
            let waits = row.waiting_on.as_ref().map(|on| on.message.clone());
            vec![
                " ".to_owned(),
                row.name.clone(),
                output::format_state(row.state),
                output::format_health(row.health),
                row.restarts.to_string(),
                " ".to_owned(),
                waits.unwrap_or_default(),
            ]
        }));
    }
    if rows.is_empty() {
        lines.push("no environments".to_owned());
    } else {
        lines.push(String::new());
        lines.extend(table::format_fitted(HEAD, &rows, width));
    }
    lines
}

/// Header such as `mode Full, engine unix:///… 29.1, breaker closed; 2 environments, 1 ready, 4 restarts`.
fn format_head(controller: Option<&ControllerStatus>, alive: bool, all: &[EnvironmentStatus]) -> String {
    let mut words = Vec::new();
    match controller.filter(|_| alive) {
        None => words.push(output::yellow("controller is not running")),
        Some(controller) => {
            let mode = format!("mode {:?}", controller.mode);
            words.push(if controller.mode == Mode::Full {
                mode
            } else {
                output::yellow(mode)
            });
            if let Some(engine) = &controller.engine {
                let version = engine.version.as_deref().unwrap_or_default();
                let named = format!("engine {} {version}", engine.endpoint);
                let named = named.trim_end().to_owned();
                words.push(if engine.reachable {
                    named
                } else {
                    output::red(named + " unreachable")
                });
            }
            let closed = BreakerStatus::default();
            words.push(format!(
                "breaker {}",
                format_breaker(controller.breaker.as_ref().unwrap_or(&closed))
            ));
        }
    }
    let ready = all
        .iter()
        .filter(|status| status.phase == argus_crds::status::Phase::Ready)
        .count();
    let restarts = all
        .iter()
        .flat_map(|status| &status.services)
        .map(|row| row.restarts);
    format!(
        "{}; {}, {ready} ready, {}",
        words.join(", "),
        output::format_count(all.len(), "environment"),
        output::format_count(
            usize::try_from(restarts.sum::<u32>()).unwrap_or(usize::MAX),
            "restart"
        )
    )
}

fn format_breaker(breaker: &BreakerStatus) -> String {
    match breaker.state {
        BreakerState::Closed => output::green("closed"),
        BreakerState::HalfOpen => output::yellow("half-open"),
        BreakerState::Open => {
            let at = breaker.retry_at.as_ref().map(|at| format!(", retry at {at}"));
            output::red(format!("open{}", at.unwrap_or_default()))
        }
    }
}

#[cfg(test)]
mod tests {
    use argus_crds::status::{Health, Phase, ServiceState, ServiceStatus};

    use super::*;

    #[test]
    fn overview_contains_states_restarts_and_breakers() {
        let web = ServiceStatus {
            name: "web".to_owned(),
            state: ServiceState::Ready,
            health: Health::Healthy,
            restarts: 2,
            ..ServiceStatus::default()
        };
        let shop = EnvironmentStatus {
            environment: "shop".to_owned(),
            phase: Phase::Ready,
            services: vec![web],
            breaker: Some(BreakerStatus {
                scope: BreakerScope::Environment,
                state: BreakerState::Open,
                ..BreakerStatus::default()
            }),
            ..EnvironmentStatus::default()
        };
        let controller = ControllerStatus::default();
        let lines: Vec<String> = format_lines(Some(&controller), true, &[shop], None)
            .iter()
            .map(|line| console::strip_ansi_codes(line).into_owned())
            .collect();
        assert_eq!(
            lines,
            [
                "mode Full, breaker closed; 1 environment, 1 ready, 2 restarts",
                "",
                "ENVIRONMENT   SERVICE   STATE   HEALTH    RESTARTS   BREAKER   WAITS FOR",
                "shop          -         Ready   -         2          open      -",
                "              web       Ready   Healthy   2                    -",
            ]
        );
        let none = super::format_lines(None, false, &[], None);
        assert_eq!(
            console::strip_ansi_codes(&none.join("\n")),
            "controller is not running; 0 environments, 0 ready, 0 restarts\nno environments"
        );
    }
}
