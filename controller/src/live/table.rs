//! The live table of `argus run`: environments and services with state, waits and ports.

use argus_crds::status::{EnvironmentStatus, ServiceStatus};

use super::image_progress;
use crate::cli::{output, ports, table};
use crate::view::StatusDocuments;

const HEAD: &[&str] = &["ENVIRONMENT", "SERVICE", "STATE", "WAITS FOR", "PORTS"];

/// Lines of the table, truncated to `width`.
pub(crate) fn draw(shown: &StatusDocuments, note: &str, width: usize) -> Vec<String> {
    let mut rows = Vec::new();
    for status in shown.environments.values() {
        rows.push(of_environment(status));
        rows.extend(status.services.iter().map(of_service));
    }
    let mut lines = if rows.is_empty() {
        Vec::new()
    } else {
        table::lines(HEAD, &rows)
    };
    lines.extend(image_progress::bars(
        &image_progress::of(shown.environments.values()),
        width,
    ));
    lines.extend(
        shown
            .controller
            .errors
            .iter()
            .map(|error| output::red(format!("{}: {}", error.code, error.message))),
    );
    lines.push(note.to_owned());
    lines
        .into_iter()
        .map(|line| console::truncate_str(&line, width, "…").into_owned())
        .collect()
}

fn of_environment(status: &EnvironmentStatus) -> Vec<String> {
    let error = status.errors.first();
    let error = error.map(|error| output::red(format!("{}: {}", error.code, error.message)));
    // Services have their own waits. The row of an environment shows an error, or its wait if it has no services.
    let waits = error.unwrap_or_else(|| {
        if status.services.is_empty() {
            crate::cli::waits(status)
        } else {
            " ".to_owned()
        }
    });
    vec![
        status.environment.clone(),
        " ".to_owned(),
        output::phase(status.phase),
        waits,
        " ".to_owned(),
    ]
}

fn of_service(row: &ServiceStatus) -> Vec<String> {
    vec![
        " ".to_owned(),
        row.name.clone(),
        output::state(row.state),
        row.waiting_on
            .as_ref()
            .map_or_else(|| " ".to_owned(), |on| on.message.clone()),
        if row.ports.is_empty() {
            " ".to_owned()
        } else {
            ports(&row.ports)
        },
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use argus_crds::status::{Phase, ServiceState};

    use super::*;

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let web = ServiceStatus {
            name: "w".repeat(300),
            state: ServiceState::Ready,
            ..ServiceStatus::default()
        };
        let status = EnvironmentStatus {
            environment: "shop".to_owned(),
            phase: Phase::Ready,
            services: vec![web],
            ..EnvironmentStatus::default()
        };
        let shown = StatusDocuments {
            environments: BTreeMap::from([("shop".to_owned(), status)]),
            ..StatusDocuments::default()
        };
        let lines = draw(&shown, "watching ./environments", 60);
        assert_eq!(lines.len(), 4);
        assert!(
            lines.iter().all(|line| console::measure_text_width(line) <= 60),
            "{lines:#?}"
        );
    }
}
