//! Translation of a Dockerfile to one service.

use std::io;

use serde_json::json;

use crate::compose::spec_draft::note::Note;
use crate::compose::spec_draft::{Draft, ProjectInfo};
use crate::process::exit::Failure;

/// A service that builds the Dockerfile and publishes its exposed ports.
pub(super) fn create_draft(project: &ProjectInfo<'_>) -> Result<Draft, Failure> {
    let bytes = (project.read)(&project.dir.join("Dockerfile"))
        .map_err(|why| Failure::operation_failed("cannot read `Dockerfile`", &io::Error::other(why)))?;
    let stage = parse_final_stage(&String::from_utf8_lossy(&bytes));
    let mut notes = Vec::new();
    let mut container = json!({ "name": format!("{}-app", project.slug) });
    let ports: Vec<String> = stage.ports.iter().map(|port| port.publish()).collect();
    if ports.is_empty() {
        notes.push(Note::remark(
            "the Dockerfile exposes no port; publish ports in `container.ports`, such as `8080:80`",
        ));
    } else {
        container["ports"] = json!(ports);
    }
    let tcp = stage.ports.iter().find(|port| !port.udp);
    if stage.checks_itself {
        container["healthcheck"] = json!({ "type": "docker" });
    } else if let Some(port) = tcp {
        container["healthcheck"] = json!({ "type": "tcp", "port": port.number });
        notes.push(Note::remark(
            "the health check only opens a connection; `{ type: http, path: /healthz }` sends a request",
        ));
    } else {
        notes.push(Note::remark(
            "no health check: the service is ready as soon as it runs",
        ));
    }
    let service = json!({
        "name": "app",
        "build": { "context": project.back },
        "container": container,
    });
    Ok(Draft {
        services: vec![service],
        from: Some("Dockerfile".to_owned()),
        notes,
        ..Draft::default()
    })
}

/// Instructions of the last stage that concern the container.
#[derive(Debug, Default, PartialEq, Eq)]
struct FinalStage {
    ports: Vec<Port>,
    checks_itself: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Port {
    number: u16,
    udp: bool,
}

impl Port {
    /// Published form. Host ports below 1024 need privileges, so these get 8000 added.
    fn publish(self) -> String {
        let host = if self.number < 1024 {
            8000 + self.number
        } else {
            self.number
        };
        let udp = if self.udp { "/udp" } else { "" };
        format!("{host}:{}{udp}", self.number)
    }
}

/// Parses the instructions of the last stage, which is the one that runs.
fn parse_final_stage(text: &str) -> FinalStage {
    let mut stage = FinalStage::default();
    let joined = text.replace("\\\r\n", " ").replace("\\\n", " ");
    for line in joined.lines() {
        let mut words = line.split_whitespace();
        let Some(instruction) = words.next() else { continue };
        match instruction.to_ascii_uppercase().as_str() {
            "FROM" => stage = FinalStage::default(),
            "EXPOSE" => stage.ports.extend(words.filter_map(parse_port)),
            "HEALTHCHECK" => {
                stage.checks_itself = !words.next().is_some_and(|word| word.eq_ignore_ascii_case("none"));
            }
            _ => {}
        }
    }
    stage
}

fn parse_port(word: &str) -> Option<Port> {
    let (number, protocol) = word.split_once('/').unwrap_or((word, "tcp"));
    let number = number.parse().ok().filter(|number| *number > 0)?;
    Some(Port {
        number,
        udp: protocol.eq_ignore_ascii_case("udp"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_and_healthcheck_are_those_of_the_last_stage() {
        let stage = parse_final_stage(
            "FROM a AS b\nEXPOSE 1\nHEALTHCHECK CMD x\nFROM c\nexpose 80 \\\n  9000/tcp\nEXPOSE 53/udp $PORT\n",
        );
        let published: Vec<String> = stage.ports.iter().map(|port| port.publish()).collect();
        assert_eq!(published, ["8080:80", "9000:9000", "8053:53/udp"]);
        assert!(!stage.checks_itself);
        assert!(parse_final_stage("FROM a\nHEALTHCHECK --interval=5s CMD true").checks_itself);
        assert!(!parse_final_stage("FROM a\nHEALTHCHECK NONE").checks_itself);
    }
}
