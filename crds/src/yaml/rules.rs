//! Rules of the format that a JSON Schema of the types cannot express.
//!
//! They check the tree of nodes, so their diagnostics appear together with those about types.

use super::check::Collector;
use super::entry_map::Entry;
use super::tree::{Kind, Node, shown};
use crate::diagnostic::Diagnostic;
use crate::suite::MAX_HISTORY_RUNS;

/// Adds a diagnostic for each violated rule.
pub(super) fn check(root: &Node, collector: &mut Collector) {
    if let Some(version) = root.get("version")
        && let Some(text) = text(&version.value)
        && text.split('.').next() != Some("1")
    {
        let message = "`version` is not supported, only `1`";
        collector.add(
            Diagnostic::warning("version", message)
                .hint("write `version: \"1\"`")
                .at(version.location()),
        );
    }
    if let Some(service) = present(root, "service")
        && present(root, "services").is_some_and(|services| !is_empty(&services.value))
    {
        let message = "`service` is ignored because `services` exists";
        collector.add(
            Diagnostic::warning("service", message)
                .hint("remove one of them")
                .at(service.key_location),
        );
    }
    check_port_range(root, collector);
    check_history(root, collector);
    match present(root, "services").map(|services| &services.value.kind) {
        Some(Kind::List(items)) => {
            for (index, item) in items.iter().enumerate() {
                let path = format!("services[{index}]");
                if matches!(item.kind, Kind::Map(_)) && name_of(item).is_none() {
                    let message = format!("`{path}` has no `name`");
                    collector.add(
                        Diagnostic::error(path.clone(), message)
                            .hint("add `name: …`")
                            .at(item.location),
                    );
                }
                check_healthcheck(item, &path, collector);
            }
        }
        Some(Kind::Map(entries)) => {
            for entry in entries {
                check_healthcheck(&entry.value, &format!("services.{}", entry.key), collector);
            }
        }
        Some(Kind::Scalar { .. }) | None => {}
    }
    if let Some(service) = present(root, "service") {
        check_healthcheck(&service.value, "service", collector);
    }
    if let Some(Kind::Map(mocks)) = present(root, "mocks").map(|mocks| &mocks.value.kind) {
        for mock in mocks {
            check_record_target(mock, collector);
        }
    }
}

fn check_port_range(root: &Node, collector: &mut Collector) {
    let Some(range) = present(root, "isolation").and_then(|isolation| present(&isolation.value, "portRange"))
    else {
        return;
    };
    let Kind::List(ends) = &range.value.kind else {
        return;
    };
    let ends: Vec<u16> = ends.iter().filter_map(|end| text(end)?.parse().ok()).collect();
    if let [low, high] = ends[..]
        && low > high
    {
        let message = format!("the end {high} of `portRange` is below its start {low}");
        let diagnostic =
            Diagnostic::error("isolation.portRange", message).hint(format!("write `[{high}, {low}]`"));
        collector.add(diagnostic.at(range.location()));
    }
}

/// Warns about keys of the history that have no effect.
fn check_history(root: &Node, collector: &mut Collector) {
    let Some(history) = present(root, "history").map(|history| &history.value) else {
        return;
    };
    let mut warn = |entry: &Entry, path: &str, message: String, hint: &str| {
        let diagnostic = Diagnostic::warning(format!("history.{path}"), message).hint(hint);
        collector.add(diagnostic.at(entry.location()));
    };
    if let Some(path) = present(history, "path") {
        let message =
            "`path` has no effect, because Argus keeps the results in its state directory".to_owned();
        warn(
            path,
            "path",
            message,
            "remove it, or choose the directory with `--state`",
        );
    }
    if let Some(storage) = present(history, "storage")
        && text(&storage.value) == Some("memory")
    {
        let message =
            "`storage: memory` has no effect, because the results outlive the controller".to_owned();
        warn(
            storage,
            "storage",
            message,
            "write `enabled: false` to keep only the last run",
        );
    }
    let runs = present(history, "retention").and_then(|retention| present(&retention.value, "maxRuns"));
    let runs = runs.map(|runs| (runs, "retention.maxRuns"));
    let window = present(history, "flakyWindow").map(|window| (window, "flakyWindow"));
    for (entry, path) in runs.into_iter().chain(window) {
        let number = text(&entry.value).and_then(|number| number.parse::<usize>().ok());
        if number.is_some_and(|number| number > MAX_HISTORY_RUNS) {
            let message = format!(
                "Argus keeps at most {MAX_HISTORY_RUNS} runs, so a larger `{}` has no effect",
                shown(&entry.key)
            );
            warn(
                entry,
                path,
                message,
                &format!("write `{MAX_HISTORY_RUNS}` or less"),
            );
        }
    }
}

fn check_healthcheck(service: &Node, path: &str, collector: &mut Collector) {
    let check = present(service, "container").and_then(|container| present(&container.value, "healthcheck"));
    let Some(check) = check.filter(|check| matches!(check.value.kind, Kind::Map(_))) else {
        return;
    };
    let kind = present(&check.value, "type").map_or(Some("http"), |kind| text(&kind.value));
    let (missing, hint) = match kind {
        Some("http") if present(&check.value, "command").is_some() => {
            ("path", "set `type: exec` to run `command` in the container")
        }
        Some("http") if present(&check.value, "pattern").is_some() => {
            ("path", "set `type: log` to search the output for `pattern`")
        }
        Some("http") => (
            "path",
            "add `path: /health`, or `type: tcp` to check only the port",
        ),
        Some("exec") => ("command", "add `command: […]`"),
        Some("log") => (
            "pattern",
            "add `pattern: …` with a text of the line that the ready service writes",
        ),
        _ => return,
    };
    if present(&check.value, missing).is_none() {
        let message = format!(
            "a `healthcheck` of type `{}` needs `{missing}`",
            kind.unwrap_or_default()
        );
        let path = format!("{path}.container.healthcheck");
        collector.add(Diagnostic::error(path, message).hint(hint).at(check.key_location));
    }
}

fn check_record_target(mock: &Entry, collector: &mut Collector) {
    let Some(mode) = present(&mock.value, "mode") else {
        return;
    };
    if text(&mode.value) == Some("record") && present(&mock.value, "target").is_none() {
        let message = format!(
            "the mock `{}` needs a `target` in mode `record`",
            shown(&mock.key)
        );
        let path = format!("mocks.{}.mode", mock.key);
        collector.add(
            Diagnostic::error(path, message)
                .hint("add `target: http://…`")
                .at(mode.location()),
        );
    }
}

/// Returns the entry under a key, unless its value is null.
fn present<'n>(node: &'n Node, key: &str) -> Option<&'n Entry> {
    node.get(key).filter(|entry| !entry.value.is_null())
}

fn name_of(service: &Node) -> Option<&str> {
    text(&present(service, "name")?.value).filter(|name| !name.is_empty())
}

fn text(node: &Node) -> Option<&str> {
    match &node.kind {
        Kind::Scalar { text, .. } => Some(text),
        Kind::List(_) | Kind::Map(_) => None,
    }
}

fn is_empty(node: &Node) -> bool {
    match &node.kind {
        Kind::Scalar { text, .. } => text.is_empty(),
        Kind::List(items) => items.is_empty(),
        Kind::Map(entries) => entries.is_empty(),
    }
}
