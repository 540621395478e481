//! Compiled mocks: from a request to a response.

use argus_crds::error::Code;
use argus_crds::{Diagnostic, MockMode, OtherFile};
use serde_json::json;

use crate::answer::MockReply;
use crate::cors;
use crate::fill::Moment;
use crate::forward::Target;
use crate::openapi::{Document, Violation};
use crate::path;
use crate::record::{Recording, Recordings};
use crate::request::Request;
use crate::route::{Nearest, Table};
use argus_crds::mock::config::MockConfig;

/// Mock that is ready to respond.
#[derive(Debug)]
pub struct CompiledMock {
    overrides: Table,
    routes: Table,
    document: Option<Document>,
    mode: MockMode,
    validate: bool,
    cors: bool,
    target: Option<Target>,
    recordings: Recordings,
}

/// Reaction to a request.
#[derive(Debug)]
pub enum Decision<'a> {
    /// Send this response.
    Reply(MockReply),
    /// Forward the request, and record the response.
    Forward(&'a Target),
}

impl CompiledMock {
    /// Compiles a configuration. The mock is `None` exactly if a diagnostic is an error.
    ///
    /// The diagnostics have the paths of the spec file. `recordings` apply only in modes `replay` and `smart`.
    pub fn new(config: &MockConfig, recordings: Vec<Recording>) -> (Option<Self>, Vec<Diagnostic>) {
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
                "the document is missing",
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
                "`validate` has no effect without `openapi`",
            );
            diagnostics.push(diagnostic.hint("add `openapi`, or remove `validate`"));
        }
        let has_error = diagnostics.iter().any(Diagnostic::is_error);
        let compiled = Self {
            overrides,
            routes,
            document,
            mode: mock.mode,
            validate: mock.validate,
            cors: mock.cors,
            target,
            recordings: Recordings::new(recordings),
        };
        ((!has_error).then_some(compiled), diagnostics)
    }

    /// Decides the reaction to a request. The order is overrides, routes, target or recordings, document.
    pub fn decide(&self, request: &Request, moment: Moment) -> Decision<'_> {
        let decision = self.decide_without_cors(request, moment);
        match decision {
            Decision::Reply(reply) if self.cors => {
                // Only a route or an operation for OPTIONS wins. Others would end a request of a browser before it is sent.
                let of_options = |by: &String| by.split(' ').nth(1) == Some("OPTIONS");
                let is_own = reply.by.as_ref().is_some_and(of_options) || cors::has_own(&reply);
                let preflight = (!is_own).then(|| cors::preflight(request)).flatten();
                Decision::Reply(preflight.unwrap_or_else(|| cors::expose(request, reply)))
            }
            decision => decision,
        }
    }

    fn decide_without_cors(&self, request: &Request, moment: Moment) -> Decision<'_> {
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
                return Decision::Reply(invalid_request(&operation.name, &violations));
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

/// Converts a diagnostic about a document to one about its mock.
fn of_document(diagnostic: Diagnostic, at: &str, file: Option<&str>) -> Diagnostic {
    let place = file.map(|file| OtherFile {
        file: file.to_owned(),
        path: diagnostic.path.clone(),
        line: diagnostic.location.map(|location| location.line),
    });
    let file = file.unwrap_or("the document");
    let location = diagnostic.location.map_or_else(
        || file.to_owned(),
        |location| format!("{file}:{}:{}", location.line, location.column),
    );
    let diagnostic = Diagnostic {
        path: format!("{at}.openapi"),
        message: format!("{location}: {}", diagnostic.message),
        location: None,
        ..diagnostic
    };
    match place {
        Some(place) => diagnostic.elsewhere(place),
        None => diagnostic,
    }
}

fn invalid_request(operation: &str, violations: &[Violation]) -> MockReply {
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
        "the request does not match `{operation}`: {}{more}",
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
    let line = format!("{} {}", request.method, request.path);
    let message = format!("no recording matches `{line}` ({recordings} recordings exist)");
    let details = json!({ "method": request.method, "path": request.path, "recordings": recordings });
    MockReply::refusal(404, Code::MockNoRoute, &message, &details)
}

/// Returns true if the path of a request is reserved for the mock server itself.
pub fn is_reserved(request: &Request) -> bool {
    path::is_reserved(&request.path)
}

fn unmatched(request: &Request, nearest: Vec<Nearest>) -> MockReply {
    let line = format!("{} {}", request.method, request.path);
    let (message, near) = match Nearest::of(nearest.into_iter()) {
        None => (
            format!("no route matches `{line}`: the mock has no routes"),
            json!(null),
        ),
        Some(near) => (
            format!(
                "no route matches `{line}`; the nearest is `{}`: {}",
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
