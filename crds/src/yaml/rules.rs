//! What belongs to the format and no single type can say.

use super::SourceMap;
use super::check::Collector;
use crate::complaint::Complaint;
use crate::environment::E2eSpec;
use crate::mock::{Mock, MockMode};
use crate::probe::{Healthcheck, ProbeType};

/// Complains about what single types cannot know.
pub(super) fn look(spec: &E2eSpec, source: &SourceMap, to: &mut Collector) {
    let mut found = Vec::new();
    if spec.version.split('.').next() != Some("1") {
        let message = format!(
            "`version` is `{}`, and only `1` is known",
            super::tree::shown(&spec.version)
        );
        found.push(Complaint::warning("version", message).hint("write `version: \"1\"`"));
    }
    if spec.service.is_some() && !spec.services.is_empty() {
        let message = "`service` is ignored, because `services` is there too";
        found.push(Complaint::warning("service", message).hint("keep one of them"));
    }
    let range = spec.isolation.port_range;
    if range.low > range.high {
        let message = format!(
            "`portRange` ends at {} before it begins at {}",
            range.high, range.low
        );
        let hint = format!("write `[{}, {}]`", range.high, range.low);
        found.push(Complaint::error("isolation.portRange", message).hint(hint));
    }
    for (index, service) in spec.services.iter().enumerate() {
        if service.name.as_deref().is_none_or(str::is_empty) {
            let path = format!("services[{index}]");
            let message = format!("`{path}` has no `name`");
            found.push(Complaint::error(path, message).hint("add `name: …`"));
        }
    }
    for declared in spec.declared() {
        let check = declared
            .service
            .container
            .as_ref()
            .and_then(|container| container.healthcheck.as_ref());
        let path = format!("{}.container.healthcheck", declared.path);
        found.extend(check.and_then(|check| probe(check, path)));
    }
    for (name, mock) in &spec.mocks {
        found.extend(recorded(name, mock));
    }
    for complaint in found {
        to.add(source.placed(complaint));
    }
}

fn probe(check: &Healthcheck, path: String) -> Option<Complaint> {
    let (kind, missing, hint) = match check.kind {
        ProbeType::Http if check.path.is_none() => (
            "http",
            "path",
            "add `path: /health`, or `type: tcp` to check only the port",
        ),
        ProbeType::Exec if check.command.is_none() => ("exec", "command", "add `command: […]`"),
        ProbeType::Http | ProbeType::Exec | ProbeType::Tcp | ProbeType::Docker => return None,
    };
    let message = format!("a `healthcheck` of type `{kind}` needs `{missing}`");
    Some(Complaint::error(path, message).hint(hint))
}

fn recorded(name: &str, mock: &Mock) -> Option<Complaint> {
    if mock.mode != MockMode::Record || mock.target.is_some() {
        return None;
    }
    let message = format!(
        "the mock `{}` has mode `record` and no `target`",
        super::tree::shown(name)
    );
    Some(Complaint::error(format!("mocks.{name}.mode"), message).hint("add `target: http://…`"))
}
