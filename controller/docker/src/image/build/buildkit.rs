//! `BuildKit`: its presence in the engine, and its steps and output as lines of the log.

use std::collections::{BTreeMap, HashMap};

use argus_backend::Progress;
use argus_core::action::Amount;
use argus_core::outcome::ActionError;
use bollard::moby::buildkit::v1::{StatusResponse, Vertex};

use super::Log;
use crate::Shared;
use crate::call;
use crate::error::Op;

/// Steps that each build has.
const INTERNAL: [&str; 2] = ["[internal] ", "copy /context "];

/// Error of a step that the engine stopped because another step failed.
const CANCELLED: &str = "context canceled";

/// Reports whether the engine contains `BuildKit`. Podman builds with its own builder, and its API has no sessions.
pub(super) async fn is_available(shared: &Shared) -> Result<bool, ActionError> {
    let client = shared.connection.client()?;
    let version = call::run(Op::Info, shared.times.read, client.version()).await?;
    let mut components = version.components.into_iter().flatten();
    Ok(components.any(|component| component.name == "Engine"))
}

/// Steps of a build that `BuildKit` has reported so far.
#[derive(Debug, Default)]
pub(super) struct Steps {
    by_digest: HashMap<String, Step>,
    /// The count with the largest share so far.
    completed: Option<Amount>,
    /// Name of the first failed step.
    failed: Option<String>,
}

#[derive(Debug, Default)]
struct Step {
    name: String,
    has_started: bool,
    has_ended: bool,
}

impl Step {
    fn is_internal(&self) -> bool {
        INTERNAL.iter().any(|prefix| self.name.starts_with(prefix))
    }

    /// Returns the stage of an instruction and the number of its instructions: those of `[2/3] RUN make` and `[base 1/2] FROM x`.
    fn stage(&self) -> Option<(&str, u64)> {
        let (head, _) = self.name.strip_prefix('[')?.split_once("] ")?;
        let (stage, position) = head.rsplit_once(' ').unwrap_or(("", head));
        let (step, total) = position.split_once('/')?;
        step.parse::<u64>().ok()?;
        Some((stage, total.parse().ok()?))
    }
}

impl Steps {
    /// Adds a report: the steps that started, and their output.
    pub(super) fn add(&mut self, report: StatusResponse, log: &mut Log, progress: &dyn Progress) {
        for vertex in report.vertexes {
            self.add_step(vertex, log, progress);
        }
        for output in report.logs {
            log.append_output(&String::from_utf8_lossy(&output.msg));
        }
        // Steps run in parallel, so the last one that started is not always the one that failed.
        if let Some(failed) = &self.failed {
            log.step = Some(failed.clone());
        }
    }

    fn add_step(&mut self, vertex: Vertex, log: &mut Log, progress: &dyn Progress) {
        let step = self.by_digest.entry(vertex.digest).or_default();
        step.name = vertex.name;
        step.has_ended |= vertex.completed.is_some();
        let has_failed = !vertex.error.is_empty() && !vertex.error.ends_with(CANCELLED);
        if has_failed && self.failed.is_none() {
            self.failed = Some(step.name.clone());
            // For example an image whose registry refuses the login.
            if step.is_internal() {
                log.store_line(&step.name);
            }
        }
        let starts = vertex.started.is_some() && !std::mem::replace(&mut step.has_started, true);
        if !starts || step.is_internal() {
            return;
        }
        let line = match (&step.name, vertex.cached) {
            (name, true) => format!("{name} (cached)"),
            (name, false) => name.clone(),
        };
        self.count();
        log.start_step(&line, self.completed, progress);
    }

    /// Counts the instructions that have ended, of all instructions of the known stages. `BuildKit` reports a stage when it reaches it.
    ///
    /// `BuildKit` runs equal steps of several builds once. Each of these builds then reports the step under its name in the first build,
    /// such as `[1/3]` instead of `[1/6]`. The total of a stage is therefore the one that most of its steps have.
    fn count(&mut self) {
        let mut stages: BTreeMap<&str, BTreeMap<u64, usize>> = BTreeMap::new();
        let mut done = 0;
        for step in self.by_digest.values() {
            let Some((stage, total)) = step.stage() else {
                continue;
            };
            *stages.entry(stage).or_default().entry(total).or_default() += 1;
            done += u64::from(step.has_ended);
        }
        let usual = |totals: &BTreeMap<u64, usize>| {
            let most = totals.iter().max_by_key(|(total, steps)| (**steps, **total));
            most.map_or(0, |(total, _)| *total)
        };
        let total = stages.values().map(usual).sum();
        let is_less = |before: Amount| done * before.total < before.done * total;
        if total > 0 && !self.completed.is_some_and(is_less) {
            self.completed = Some(Amount { done, total });
        }
    }
}

#[cfg(test)]
mod tests {
    use bollard::moby::buildkit::v1::VertexLog;

    use super::*;

    fn vertex(name: &str) -> Vertex {
        Vertex {
            digest: format!("sha256:{name}"),
            name: name.to_owned(),
            ..Vertex::default()
        }
    }

    fn started(name: &str) -> Vertex {
        let mut vertex = vertex(name);
        vertex.started.get_or_insert_default();
        vertex
    }

    fn ended(name: &str) -> Vertex {
        let mut vertex = started(name);
        vertex.completed.get_or_insert_default();
        vertex
    }

    fn report(vertexes: Vec<Vertex>) -> StatusResponse {
        StatusResponse {
            vertexes,
            ..StatusResponse::default()
        }
    }

    #[test]
    fn instructions_are_counted_before_the_engine_reports_all() {
        let mut steps = Steps::default();
        let mut add = |vertexes| {
            steps.add(report(vertexes), &mut Log::default(), &());
            steps.completed.map(|amount| (amount.done, amount.total))
        };
        assert_eq!(add(vec![ended(INTERNAL_STEP)]), None);
        assert_eq!(
            add(vec![ended("[base 1/2] FROM a"), started("[base 2/2] RUN make")]),
            Some((1, 2))
        );
        assert_eq!(
            add(vec![started("[stage-1 1/3] FROM b")]),
            Some((1, 2)),
            "1 of 5 is less"
        );
        assert_eq!(
            add(vec![
                ended("[base 2/2] RUN make"),
                ended("[stage-1 1/3] FROM b"),
                started("[stage-1 2/3] RUN test")
            ]),
            Some((3, 5))
        );
    }

    #[test]
    fn share_never_decreases_with_a_step_of_another_build() {
        let counts = |reports: Vec<Vec<Vertex>>| {
            let mut steps = Steps::default();
            let counts = reports.into_iter().map(|vertexes| {
                steps.add(report(vertexes), &mut Log::default(), &());
                steps.completed.map(|amount| (amount.done, amount.total))
            });
            counts.collect::<Vec<_>>()
        };
        let of_a_short_build = counts(vec![
            vec![ended("[1/3] FROM a")],
            vec![started("[2/6] RUN make")],
            vec![ended("[2/6] RUN make"), started("[3/6] RUN test")],
        ]);
        assert_eq!(of_a_short_build, [Some((1, 3)), Some((1, 3)), Some((2, 6))]);
        let of_a_long_build = counts(vec![
            vec![ended("[1/6] FROM a")],
            vec![started("[2/3] RUN make")],
            vec![ended("[2/3] RUN make"), started("[3/3] RUN test")],
        ]);
        assert_eq!(of_a_long_build, [Some((1, 6)), Some((1, 6)), Some((2, 3))]);
    }

    const INTERNAL_STEP: &str = "[internal] load metadata for host:5000/base";
    const FROM: &str = "[1/2] FROM host:5000/base";
    const RUN: &str = "[2/2] RUN make";

    #[test]
    fn steps_are_lines_of_the_log_in_the_order_of_their_starts() {
        let (mut steps, mut log) = (Steps::default(), Log::default());
        steps.add(
            report(vec![ended(INTERNAL_STEP), vertex(FROM), vertex(RUN)]),
            &mut log,
            &(),
        );
        let cached = Vertex {
            cached: true,
            ..ended(FROM)
        };
        steps.add(report(vec![cached, started(RUN)]), &mut log, &());
        steps.add(
            StatusResponse {
                vertexes: vec![started(RUN)],
                logs: vec![VertexLog {
                    msg: b"Step 2: make: ok\n".to_vec(),
                    ..VertexLog::default()
                }],
                ..StatusResponse::default()
            },
            &mut log,
            &(),
        );
        assert_eq!(
            log.text(),
            "[1/2] FROM host:5000/base (cached)\n[2/2] RUN make\nStep 2: make: ok"
        );
        assert_eq!(steps.completed, Some(Amount { done: 1, total: 2 }));
    }

    #[test]
    fn failed_step_is_named_whichever_started_last() {
        let (mut steps, mut log) = (Steps::default(), Log::default());
        let failed = |name: &str| Vertex {
            error: "exit code: 2".to_owned(),
            ..ended(name)
        };
        steps.add(
            report(vec![started(RUN), started("[late 1/1] RUN sleep 1")]),
            &mut log,
            &(),
        );
        steps.add(report(vec![failed(RUN)]), &mut log, &());
        let cancelled = Vertex {
            error: format!("process did not complete: {CANCELLED}"),
            ..ended("[late 1/1] RUN sleep 1")
        };
        steps.add(report(vec![cancelled]), &mut log, &());
        assert_eq!(log.step.as_deref(), Some(RUN));

        let (mut steps, mut log) = (Steps::default(), Log::default());
        steps.add(report(vec![failed(INTERNAL_STEP)]), &mut log, &());
        assert_eq!(log.step.as_deref(), Some(INTERNAL_STEP));
        assert!(log.text().ends_with(INTERNAL_STEP));
    }
}
