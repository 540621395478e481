//! The live table of `argus run`: environments and services with state, waits and ports.

use argus_crds::status::{EnvironmentStatus, ServiceStatus};

use super::image_progress;
use crate::render::output;
use crate::render::status_text::format_ports;
use crate::render::table;
use crate::view::Statuses;

const HEAD: &[&str] = &["ENVIRONMENT", "SERVICE", "STATE", "WAITS FOR", "PORTS"];

/// Lines of the table, truncated to `width`.
pub(crate) fn draw(statuses: &Statuses, note: &str, width: usize) -> Vec<String> {
    let mut rows = Vec::new();
    for status in statuses.environments.values() {
        rows.push(environment_lines(status));
        rows.extend(status.services.iter().map(service_lines));
    }
    let mut lines = if rows.is_empty() {
        Vec::new()
    } else {
        table::format_fitted(HEAD, &rows, None)
    };
    lines.extend(image_progress::format_bars(
        &image_progress::list_progress(statuses.environments.values().map(AsRef::as_ref)),
        width,
    ));
    lines.extend(statuses.controller.errors.iter().map(output::format_error));
    lines.push(note.to_owned());
    lines
        .into_iter()
        .map(|line| console::truncate_str(&line, width, "…").into_owned())
        .collect()
}

fn environment_lines(status: &EnvironmentStatus) -> Vec<String> {
    let error = status.errors.first().map(output::format_error);
    // Services have their own waits. The row of an environment shows an error, or its wait if it has no services.
    let waits = error.unwrap_or_else(|| {
        if status.services.is_empty() {
            crate::render::status_text::format_waits(status)
        } else {
            " ".to_owned()
        }
    });
    vec![
        status.environment.clone(),
        " ".to_owned(),
        output::format_phase(status.phase),
        waits,
        " ".to_owned(),
    ]
}

fn service_lines(row: &ServiceStatus) -> Vec<String> {
    vec![
        " ".to_owned(),
        row.name.clone(),
        output::format_state(row.state),
        row.waiting_on
            .as_ref()
            .map_or_else(|| " ".to_owned(), |on| on.message.clone()),
        if row.ports.is_empty() {
            " ".to_owned()
        } else {
            format_ports(&row.ports)
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
        let statuses = Statuses {
            environments: BTreeMap::from([("shop".to_owned(), std::sync::Arc::new(status))]),
            ..Statuses::default()
        };
        let lines = draw(&statuses, "watching ./environments", 60);
        assert_eq!(lines.len(), 4);
        assert!(
            lines.iter().all(|line| console::measure_text_width(line) <= 60),
            "{lines:#?}"
        );
    }
}
