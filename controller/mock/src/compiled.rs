//! A mock as it is served: from a request to an answer.

use argus_crds::error::Code;
use argus_crds::{Diagnostic, MockMode};
use serde_json::json;

use crate::answer::MockReply;
use crate::fill::Moment;
use crate::forward::Target;
use crate::openapi::{Document, Violation};
use crate::path;
use crate::record::{Pair, Recordings};
use crate::request::Request;
use crate::route::{Nearest, Table};
use argus_crds::mock::config::{MockConfig, RESERVED};

/// A mock that is ready to answer.
#[derive(Debug)]
pub struct CompiledMock {
    overrides: Table,
    routes: Table,
    document: Option<Document>,
    mode: MockMode,
    validate: bool,
    target: Option<Target>,
    recordings: Recordings,
}

/// What is done about a request.
#[derive(Debug)]
pub enum Decision<'a> {
    /// It is answered.
    Reply(MockReply),
    /// It is passed on, and what comes back is recorded.
    Forward(&'a Target),
}

impl CompiledMock {
    /// The mock of a configuration, unless a complaint is an error; the complaints' paths are those of the spec.
    ///
    /// `recordings` count in the modes `replay` and `smart`.
    pub fn new(config: &MockConfig, recordings: Vec<Pair>) -> (Option<Self>, Vec<Diagnostic>) {
        let mut diagnostics = Vec::new();
        let (mock, at) = (&config.mock, format!("mocks.{}", config.name));
        let overrides = Table::new(&mock.overrides, "overrides", &at, &mut diagnostics);
        let routes = Table::new(&mock.routes, "routes", &at, &mut diagnostics);
        let document = config.document.as_deref().and_then(|text| {
            let (document, found) = Document::read(text, mock.max_depth);
            diagnostics.extend(
                found
                    .into_iter()
                    .map(|diagnostic| of_document(diagnostic, &at, mock.openapi.as_deref())),
            );
            document
        });
        if mock.openapi.is_some() && config.document.is_none() {
            diagnostics.push(Diagnostic::error(
                format!("{at}.openapi"),
                "the document is not at hand",
            ));
        }
        let target = match (mock.mode, mock.target.as_deref()) {
            (MockMode::Record, Some(url)) => {
                let path = format!("{at}.target");
                Target::new(url)
                    .map_err(|diagnostic| diagnostics.push(Diagnostic { path, ..diagnostic }))
                    .ok()
            }
            (MockMode::Record, None) => {
                diagnostics.push(Diagnostic::error(
                    format!("{at}.mode"),
                    "mode `record` needs a `target`",
                ));
                None
            }
            (MockMode::Auto | MockMode::Replay | MockMode::Smart, _) => None,
        };
        if mock.validate && mock.openapi.is_none() {
            let diagnostic = Diagnostic::warning(
                format!("{at}.validate"),
                "there is no `openapi` to validate against",
            );
            diagnostics.push(diagnostic.hint("add `openapi`, or remove `validate`"));
        }
        let refused = diagnostics.iter().any(Diagnostic::is_error);
        let served = Self {
            overrides,
            routes,
            document,
            mode: mock.mode,
            validate: mock.validate,
            target,
            recordings: Recordings::new(recordings),
        };
        ((!refused).then_some(served), diagnostics)
    }

    /// What is done about a request: overrides go first, then routes, then the target or the recordings, then the document.
    pub fn decide(&self, request: &Request, moment: Moment) -> Decision<'_> {
        let segments = path::segments(&request.path);
        let mut nearest: Vec<Nearest> = Vec::new();
        for table in [&self.overrides, &self.routes] {
            match table.answer(request, &segments, moment) {
                Ok(answer) => return Decision::Reply(answer),
                Err(near) => nearest.extend(near),
            }
        }
        let found = self
            .document
            .as_ref()
            .map(|document| (document, document.find(request, &segments)));
        if self.validate
            && let Some((document, Ok((operation, params)))) = &found
        {
            let violations = document.violations(operation, request, params);
            if !violations.is_empty() {
                return Decision::Reply(refused(&operation.name, &violations));
            }
        }
        if let Some(target) = &self.target {
            return Decision::Forward(target);
        }
        let from_recordings = match self.mode {
            MockMode::Replay | MockMode::Smart => true,
            MockMode::Auto | MockMode::Record => false,
        };
        if from_recordings && let Some(answer) = self.recordings.answer(request) {
            return Decision::Reply(answer);
        }
        if self.mode == MockMode::Replay {
            return Decision::Reply(unrecorded(request, self.recordings.len()));
        }
        Decision::Reply(match found {
            Some((document, Ok((operation, params)))) => {
                document.answer(operation, request, &params, self.mode == MockMode::Smart)
            }
            Some((_, Err(near))) => {
                nearest.extend(near);
                unmatched(request, nearest)
            }
            None => unmatched(request, nearest),
        })
    }
}

/// A complaint about a document as one about the mock that names it.
fn of_document(diagnostic: Diagnostic, at: &str, file: Option<&str>) -> Diagnostic {
    let file = file.unwrap_or("the document");
    let place = diagnostic.location.map_or_else(
        || file.to_owned(),
        |place| format!("{file}:{}:{}", place.line, place.column),
    );
    Diagnostic {
        path: format!("{at}.openapi"),
        message: format!("{place}: {}", diagnostic.message),
        location: None,
        ..diagnostic
    }
}

fn refused(operation: &str, violations: &[Violation]) -> MockReply {
    let first = violations.first().map(|violation| {
        let name = violation
            .name
            .as_ref()
            .map_or_else(String::new, |name| format!(" `{name}`"));
        let pointer = if violation.pointer.is_empty() {
            String::new()
        } else {
            format!(" at `{}`", violation.pointer)
        };
        format!("{}{name}{pointer}: {}", violation.place, violation.message)
    });
    let more = match violations.len() {
        0 | 1 => String::new(),
        count => format!(", and {} more", count - 1),
    };
    let message = format!(
        "the request does not fit `{operation}`: {}{more}",
        first.unwrap_or_default()
    );
    let details = json!({ "operation": operation, "violations": violations });
    let by = Some(format!("openapi {operation}"));
    MockReply {
        by,
        ..MockReply::refusal(422, Code::MockRequestInvalid, &message, &details)
    }
}

fn unrecorded(request: &Request, recordings: usize) -> MockReply {
    let asked = format!("{} {}", request.method, request.path);
    let message = format!("nothing was recorded for `{asked}`; there are {recordings} recordings");
    let details = json!({ "method": request.method, "path": request.path, "recordings": recordings });
    MockReply::refusal(404, Code::MockNoRoute, &message, &details)
}

/// Whether the mock itself answers what is asked for.
pub fn is_reserved(request: &Request) -> bool {
    path::segments(&request.path)
        .first()
        .is_some_and(|first| format!("/{first}") == RESERVED)
}

fn unmatched(request: &Request, mut nearest: Vec<Nearest>) -> MockReply {
    nearest.sort_by(|one, other| one.distance.total_cmp(&other.distance));
    let asked = format!("{} {}", request.method, request.path);
    let (message, near) = match nearest.first() {
        None => (
            format!("nothing answers `{asked}`: the mock has no routes"),
            json!(null),
        ),
        Some(near) => (
            format!(
                "nothing answers `{asked}`; nearest is `{}`: {}",
                near.route, near.because
            ),
            json!({ "route": near.route, "because": near.because }),
        ),
    };
    let details = json!({ "method": request.method, "path": request.path, "nearest": near });
    MockReply::refusal(404, Code::MockNoRoute, &message, &details)
}

#[cfg(test)]
#[path = "compiled_tests.rs"]
mod tests;
