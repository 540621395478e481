//! One line per change, for logs, pipes and CI.

use std::collections::BTreeMap;

use argus_crds::error::Code;
use argus_crds::status::{ControllerStatus, EnvironmentStatus, PortMapping, ServiceStatus, Truth};

use crate::render::status_text::{format_address, is_good};
use crate::view::Statuses;

/// Last printed state of each environment and service.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    printed: BTreeMap<String, String>,
}

impl Lines {
    /// Lines for changed states. Progress alone is not a change.
    pub(crate) fn changed_lines(&mut self, statuses: &Statuses) -> Vec<String> {
        let mut now = BTreeMap::new();
        let mut lines = Vec::new();
        for (subject, line) in controller_lines(&statuses.controller) {
            if self.printed.get(&subject) != Some(&line) {
                lines.push(line.clone());
            }
            now.insert(subject, line);
        }
        for status in statuses.environments.values() {
            for row in &status.services {
                let subject = format!("{}/{}", status.environment, row.name);
                let reason = row
                    .waiting_on
                    .as_ref()
                    .map(|on| on.reason.as_str())
                    .unwrap_or_default();
                let key = format!("{:?} {reason} {}", row.state, format_addresses(row));
                if self.printed.get(&subject) != Some(&key) {
                    lines.push(format!("{subject} {}", format_service(row)));
                }
                now.insert(subject, key);
            }
            let key = format!(
                "{:?} {:?}",
                status.phase,
                status.errors.iter().map(|e| e.code).collect::<Vec<_>>()
            );
            if self.printed.get(&status.environment) != Some(&key) {
                lines.push(format_environment(status));
            }
            now.insert(status.environment.clone(), key);
        }
        let gone = self
            .printed
            .keys()
            .filter(|subject| !subject.contains(' ') && !now.contains_key(*subject));
        lines.extend(gone.map(|subject| format!("{subject} Gone")));
        self.printed = now;
        lines
    }
}

/// Conditions and errors of the controller itself. Their subjects contain a blank, which names never do.
fn controller_lines(status: &ControllerStatus) -> Vec<(String, String)> {
    let conditions = status
        .conditions
        .iter()
        .filter(|condition| condition.status != Truth::Unknown);
    let conditions =
        conditions.map(|condition| (format!("condition {}", condition.kind), condition.message.clone()));
    // A condition reports an unreachable engine, and an unwritable journal ends the current actions.
    let excluded = [Code::DockerUnavailable, Code::JournalUnwritable];
    let errors = status
        .errors
        .iter()
        .filter(|error| !excluded.contains(&error.code));
    let errors = errors.map(|error| {
        (
            format!("error {}", error.message),
            format!("{}: {}", error.code, error.message),
        )
    });
    conditions.chain(errors).collect()
}

fn format_service(row: &ServiceStatus) -> String {
    let tail = match &row.waiting_on {
        Some(on) => format!(": {}", on.message),
        None if is_good(row) && !row.ports.is_empty() => format!(" {}", format_addresses(row)),
        None => String::new(),
    };
    format!("{:?}{tail}", row.state)
}

fn format_environment(status: &EnvironmentStatus) -> String {
    let error = status.errors.first();
    let tail = error.map_or_else(String::new, |error| format!(" {}: {}", error.code, error.message));
    format!("{} {:?}{tail}", status.environment, status.phase)
}

/// Addresses of a service, such as `http 127.0.0.1:8080, udp 127.0.0.1:53`.
fn format_addresses(row: &ServiceStatus) -> String {
    let one = |mapping: &PortMapping| format!("{} {}", mapping.protocol, format_address(mapping));
    row.ports.iter().map(one).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use argus_crds::status::{Phase, ServiceState, WaitingOn};

    use super::*;

    #[test]
    fn change_is_printed_once_and_progress_is_not() {
        let mut lines = Lines::default();
        let port = PortMapping {
            service: "web".to_owned(),
            container_port: 80,
            protocol: "tcp".to_owned(),
            original_port: 8080,
            actual_port: 8080,
            reassigned: false,
            host: Some("127.0.0.1".to_owned()),
        };
        let pulls = |line: &str| WaitingOn {
            reason: "ImageNotPresent".to_owned(),
            message: line.to_owned(),
            ..WaitingOn::default()
        };
        let mut web = ServiceStatus {
            name: "web".to_owned(),
            state: ServiceState::Pulling,
            waiting_on: Some(pulls("layer 1/7")),
            ports: vec![port],
            ..ServiceStatus::default()
        };
        let mut news = |web: &ServiceStatus, phase| {
            let status = EnvironmentStatus {
                environment: "shop".to_owned(),
                phase,
                services: vec![web.clone()],
                ..EnvironmentStatus::default()
            };
            lines.changed_lines(&Statuses {
                environments: BTreeMap::from([("shop".to_owned(), std::sync::Arc::new(status))]),
                ..Statuses::default()
            })
        };
        assert_eq!(
            news(&web, Phase::Progressing),
            ["shop/web Pulling: layer 1/7", "shop Progressing"]
        );
        web.waiting_on = Some(pulls("layer 2/7"));
        assert!(news(&web, Phase::Progressing).is_empty());
        web.state = ServiceState::Ready;
        web.waiting_on = None;
        assert_eq!(
            news(&web, Phase::Ready),
            ["shop/web Ready tcp 127.0.0.1:8080", "shop Ready"]
        );
        assert_eq!(
            lines.changed_lines(&Statuses::default()),
            ["shop Gone", "shop/web Gone"]
        );
    }
}
