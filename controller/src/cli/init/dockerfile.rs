//! One service from a Dockerfile.

use std::fs;

use serde_json::{Value, json};

use super::{Draft, Place};
use crate::exit::Failure;

/// The service that it builds, with the ports that it exposes.
pub(super) fn draft(place: &Place<'_>) -> Result<Draft, Failure> {
    let text = fs::read_to_string(place.dir.join("Dockerfile"))
        .map_err(|error| Failure::fault("cannot read `Dockerfile`", &error))?;
    let said = of(&text);
    let mut notes = Vec::new();
    let mut container = json!({ "name": format!("{}-app", place.slug) });
    let ports: Vec<String> = said.ports.iter().map(|port| port.published()).collect();
    if ports.is_empty() {
        notes.push(
            "the Dockerfile exposes no port: `container.ports` publishes some, as in `8080:80`".to_owned(),
        );
    } else {
        container["ports"] = json!(ports);
    }
    let tcp = said.ports.iter().find(|port| !port.udp);
    if said.checks_itself {
        container["healthcheck"] = json!({ "type": "docker" });
    } else if let Some(port) = tcp {
        container["healthcheck"] = json!({ "type": "tcp", "port": port.number });
        notes.push("the health check only connects: `{ type: http, path: /healthz }` asks more".to_owned());
    } else {
        notes.push("there is no health check: it is ready as soon as it runs".to_owned());
    }
    let service = json!({
        "name": "app",
        "build": { "context": place.back },
        "container": container,
    });
    Ok(Draft {
        services: vec![service],
        from: Some("Dockerfile".to_owned()),
        notes,
    })
}

/// What a Dockerfile says of the container.
#[derive(Debug, Default, PartialEq, Eq)]
struct Said {
    ports: Vec<Port>,
    checks_itself: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Port {
    number: u16,
    udp: bool,
}

impl Port {
    /// Where it may be published by anybody: below 1024 it may not.
    fn published(self) -> String {
        let host = if self.number < 1024 {
            8000 + self.number
        } else {
            self.number
        };
        let udp = if self.udp { "/udp" } else { "" };
        format!("{host}:{}{udp}", self.number)
    }
}

/// Of the last stage, which is the one that runs.
fn of(text: &str) -> Said {
    let mut said = Said::default();
    let joined = text.replace("\\\r\n", " ").replace("\\\n", " ");
    for line in joined.lines() {
        let mut words = line.split_whitespace();
        let Some(instruction) = words.next() else { continue };
        match instruction.to_ascii_uppercase().as_str() {
            "FROM" => said = Said::default(),
            "EXPOSE" => said.ports.extend(words.filter_map(port)),
            "HEALTHCHECK" => {
                said.checks_itself = !words.next().is_some_and(|word| word.eq_ignore_ascii_case("none"));
            }
            _ => {}
        }
    }
    said
}

fn port(word: &str) -> Option<Port> {
    let (number, protocol) = word.split_once('/').unwrap_or((word, "tcp"));
    let number = number.parse().ok().filter(|number| *number > 0)?;
    Some(Port {
        number,
        udp: protocol.eq_ignore_ascii_case("udp"),
    })
}

/// The port of the first that is not UDP, for a health check that only connects.
pub(super) fn first_tcp(ports: &[Value]) -> Option<u16> {
    let text = ports
        .iter()
        .filter_map(Value::as_str)
        .find(|port| !port.ends_with("/udp"))?;
    let inside = text.rsplit(':').next()?;
    inside.split(['/', '-']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_stage_tells_ports_and_health() {
        let said = of(
            "FROM a AS b\nEXPOSE 1\nHEALTHCHECK CMD x\nFROM c\nexpose 80 \\\n  9000/tcp\nEXPOSE 53/udp $PORT\n",
        );
        let published: Vec<String> = said.ports.iter().map(|port| port.published()).collect();
        assert_eq!(published, ["8080:80", "9000:9000", "8053:53/udp"]);
        assert!(!said.checks_itself);
        assert!(of("FROM a\nHEALTHCHECK --interval=5s CMD true").checks_itself);
        assert!(!of("FROM a\nHEALTHCHECK NONE").checks_itself);
    }
}
