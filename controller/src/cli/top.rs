//! `argus top`: a live overview of all environments.

use argus_crds::status::{
    BreakerScope, BreakerState, BreakerStatus, ControllerStatus, EnvironmentStatus, Mode, Phase,
};
use clap::Args;

use super::get::{RESTARTS_OF_ALL, SERVICES};
use super::{call, notes};
use crate::api::target::{parse_target, select_service};
use crate::api::{Context, environments};
use crate::exit::{Exit, Failure};
use crate::live::screen::LiveBlock;
use crate::output;
use crate::runtime;
use crate::settings::{Options, SpecOptions};
use crate::table;

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
    /// Environment, or ENVIRONMENT/SERVICE [default: all]
    target: Option<String>,
    /// Print the overview once and exit [default without a terminal]
    #[arg(long)]
    once: bool,
}

impl Top {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let context = call::create_context(options, &SpecOptions::default())?;
        if let Some(target) = &self.target {
            let (environment, service) = parse_target(target, None)?;
            let status = call::run(&context, &environments::GetEnvironment { environment })?;
            select_service(status, service.as_deref())?;
        }
        let Some(screen) = LiveBlock::for_terminal().filter(|_| !self.once) else {
            notes::note_if_not_running(context.client.state());
            let width = output::terminal_width();
            let lines = runtime::block_on(self.format_overview(&context, width))?;
            output::print(&table::format_prose(&output::join_lines(lines), width))?;
            return Ok(Exit::Done);
        };
        let read = async || {
            let width = screen.width();
            let cut = |line: String| console::truncate_str(&line, width, "…").into_owned();
            let lines = self.format_overview(&context, None).await?;
            Ok(lines.into_iter().map(cut).collect())
        };
        let draw = |lines: &Vec<String>| {
            screen.draw(lines.clone());
            Ok(())
        };
        runtime::block_on(call::show_changes(&context, read, draw))?;
        Ok(Exit::Done)
    }

    async fn format_overview(&self, context: &Context, width: Option<usize>) -> Result<Vec<String>, Failure> {
        let is_alive = context
            .client
            .run_blocking(|client| Ok(client.is_alive()))
            .await?;
        let statuses = context.client.statuses().await?;
        // The environment may be removed while the overview is shown.
        let (environment, service) = match self.target.as_deref().map(|target| target.split_once('/')) {
            Some(Some((environment, service))) => (Some(environment), Some(service)),
            Some(None) => (self.target.as_deref(), None),
            None => (None, None),
        };
        let all = statuses.environments.values();
        let requested = all.filter(|status| environment.is_none_or(|env| env == status.environment));
        let requested =
            requested.filter_map(|status| select_service(EnvironmentStatus::clone(status), service).ok());
        let requested: Vec<_> = requested.collect();
        let all: Vec<_> = requested.iter().collect();
        Ok(format_lines(&statuses.controller, is_alive, &all, width))
    }
}

fn format_lines(
    controller: &ControllerStatus,
    is_alive: bool,
    all: &[&EnvironmentStatus],
    width: Option<usize>,
) -> Vec<String> {
    let mut lines = vec![format_head(controller, is_alive, all)];
    lines.extend(controller.errors.iter().map(output::format_error));
    let [name, state, health, restarts, _, waits, ..] = SERVICES.map(|(_, cell)| cell);
    let mut rows = Vec::new();
    for status in all {
        let breaker = status.breaker.as_ref();
        let breaker = breaker.filter(|breaker| breaker.scope == BreakerScope::Environment);
        rows.push(vec![
            status.environment.clone(),
            String::new(),
            output::format_phase(status.phase),
            String::new(),
            RESTARTS_OF_ALL.1(status),
            breaker.map(format_breaker).unwrap_or_default(),
            status
                .errors
                .first()
                .map(output::format_error)
                .unwrap_or_default(),
        ]);
        rows.extend(status.services.iter().map(|row| {
            let (blank, waits) = (" ".to_owned(), waits(row));
            vec![
                blank.clone(),
                name(row),
                state(row),
                health(row),
                restarts(row),
                blank,
                waits,
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
fn format_head(controller: &ControllerStatus, is_alive: bool, all: &[&EnvironmentStatus]) -> String {
    let mut words = Vec::new();
    if is_alive {
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
        let breaker = controller.breaker.clone().unwrap_or_default();
        words.push(format!("breaker {}", format_breaker(&breaker)));
    } else {
        words.push(output::yellow("controller is not running"));
    }
    let ready = all.iter().filter(|status| status.phase == Phase::Ready).count();
    let restarts = all
        .iter()
        .flat_map(|status| &status.services)
        .map(|row| row.restarts);
    format!(
        "{}; {}, {ready} ready, {}",
        words.join(", "),
        output::format_count(all.len(), "environment"),
        output::format_count(restarts.sum::<u32>(), "restart")
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
    use argus_crds::status::{Health, ServiceState, ServiceStatus};

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
        let lines: Vec<String> = format_lines(&controller, true, &[&shop], None)
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
        let none = super::format_lines(&controller, false, &[], None);
        assert_eq!(
            console::strip_ansi_codes(&none.join("\n")),
            "controller is not running; 0 environments, 0 ready, 0 restarts\nno environments"
        );
    }
}
