//! The routes of a mock: which one answers a request, and which one nearly did.

use std::collections::HashMap;

use argus_crds::{Diagnostic, MockRoute};

use crate::answer::{FRAMING, MockReply, Prepared};
use crate::fill::{Moment, TemplateContext, stands_for_nothing};
use crate::path::Pattern;
use crate::request::Request;
use crate::when;
use argus_crds::mock::config::RESERVED;

/// Routes, the most specific first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    routes: Vec<Route>,
}

#[derive(Clone, Debug)]
struct Route {
    /// Nothing for all methods.
    method: Option<String>,
    pattern: Pattern,
    written: MockRoute,
    response: Prepared,
    /// As in ``routes[2] GET /users/:id``.
    name: String,
}

/// A route that did not match, and why.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Nearest {
    pub(crate) route: String,
    pub(crate) because: String,
    pub(crate) distance: f64,
}

impl Table {
    /// A table of the routes under `key` of a mock; complaints say where in the file, below `at`.
    pub(crate) fn new(written: &[MockRoute], key: &str, at: &str, to: &mut Vec<Diagnostic>) -> Self {
        let mut routes = Vec::with_capacity(written.len());
        for (index, route) in written.iter().enumerate() {
            let place = format!("{at}.{key}[{index}]");
            look(route, &place, to);
            let method = route.method.trim().to_uppercase();
            let every = ["ANY", "ALL", "*"].contains(&method.as_str());
            routes.push(Route {
                pattern: Pattern::new(&route.path),
                response: Prepared::new(&route.response),
                name: format!("{key}[{index}] {method} {}", route.path),
                written: route.clone(),
                method: (!every).then_some(method),
            });
        }
        let mut seen: HashMap<_, &str> = HashMap::new();
        for (index, route) in routes.iter().enumerate() {
            let when = route
                .written
                .when
                .as_ref()
                .map(|when| serde_json::json!(when).to_string());
            let same = (&route.method, route.pattern.shape(), when);
            if let Some(before) = seen.get(&same) {
                let message = format!("this route never answers: `{before}` matches the same and goes first");
                let hint = "remove one of them, or tell them apart with `when`";
                to.push(Diagnostic::warning(format!("{at}.{key}[{index}].path"), message).hint(hint));
            } else {
                seen.insert(same, &route.name);
            }
        }
        // The order of the file decides last: the sort is stable.
        routes.sort_by_key(|route| {
            let weight = route.written.when.as_ref().map_or(0, when::weight);
            (
                route.pattern.rank(),
                route.method.is_none(),
                std::cmp::Reverse(weight),
            )
        });
        Self { routes }
    }

    /// The answer of the most specific route that matches, or what came nearest.
    pub(crate) fn answer(
        &self,
        request: &Request,
        segments: &[String],
        moment: Moment,
    ) -> Result<MockReply, Option<Nearest>> {
        let found = match self.find(request, segments, &request.method) {
            // What a GET answers, a HEAD is answered without its body.
            None if request.method == "HEAD" => self.find(request, segments, "GET"),
            found => found,
        };
        let Some((route, params)) = found else {
            return Err(self.nearest(request, segments));
        };
        let facts = TemplateContext {
            request,
            params: &params,
            moment,
        };
        Ok(route.response.answer(&facts, &route.name))
    }

    fn find(
        &self,
        request: &Request,
        segments: &[String],
        method: &str,
    ) -> Option<(&Route, crate::path::Params)> {
        self.routes.iter().find_map(|route| {
            if route.method.as_deref().is_some_and(|own| own != method) {
                return None;
            }
            let params = route.pattern.matches(segments)?;
            let holds = route
                .written
                .when
                .as_ref()
                .is_none_or(|when| when::holds(when, request).is_ok());
            holds.then_some((route, params))
        })
    }

    fn nearest(&self, request: &Request, segments: &[String]) -> Option<Nearest> {
        let mut best: Option<Nearest> = None;
        for route in &self.routes {
            let (far, why) = route.pattern.distance(segments);
            let fits = route.pattern.matches(segments).is_some();
            let wrong_method = route.method.as_deref().filter(|own| *own != request.method);
            let (distance, because) = match (wrong_method, fits, &route.written.when) {
                (None, true, Some(when)) => (0.1, when::holds(when, request).err().unwrap_or_default()),
                (Some(own), true, _) => (0.5, format!("the method is {}, not {own}", request.method)),
                (Some(_), false, _) => (far + 1.5, why),
                (None, _, _) => (far + 1.0, why),
            };
            if best.as_ref().is_none_or(|best| distance < best.distance) {
                best = Some(Nearest {
                    route: route.name.clone(),
                    because,
                    distance,
                });
            }
        }
        best
    }
}

/// What is wrong with a route.
fn look(route: &MockRoute, at: &str, to: &mut Vec<Diagnostic>) {
    let segments = crate::path::segments(&route.path);
    if segments
        .first()
        .is_some_and(|first| format!("/{first}") == RESERVED)
    {
        let message = format!(
            "the path `{}` lies under `{RESERVED}`, which the mock itself answers",
            route.path
        );
        to.push(Diagnostic::error(format!("{at}.path"), message).hint("choose another path"));
    }
    if route.path.contains('?') {
        let message = format!(
            "what follows the `?` in `{}` is no part of the path and is ignored",
            route.path
        );
        to.push(Diagnostic::warning(format!("{at}.path"), message).hint("ask for it under `when.query`"));
    }
    if route.path.contains('(') {
        let message = format!(
            "the expression in parentheses in `{}` is ignored: the parameter takes any text",
            route.path
        );
        to.push(Diagnostic::warning(format!("{at}.path"), message).hint("write `:name` alone"));
    }
    let method = route.method.trim();
    if method.is_empty() || !method.chars().all(is_token) {
        let message = format!("`{method}` is no HTTP method");
        to.push(Diagnostic::error(format!("{at}.method"), message).hint("write `GET`, `POST`, … or `ANY`"));
    }
    let response = &route.response;
    if !(200..=599).contains(&response.status) {
        let message = format!("{} cannot be the status of an answer", response.status);
        to.push(Diagnostic::error(format!("{at}.response.status"), message).hint("use one from 200 to 599"));
    }
    for (name, value) in &response.headers {
        let place = format!("{at}.response.headers.{name}");
        if name.is_empty() || !name.chars().all(is_token) {
            let message = format!("`{name}` cannot be the name of a header");
            to.push(Diagnostic::error(place, message).hint("use letters, digits and `-`"));
        } else if value.chars().any(char::is_control) {
            let message = format!("the header `{name}` holds a line break or another control character");
            to.push(Diagnostic::error(place, message).hint("write it in one line"));
        } else if FRAMING.iter().any(|framing| name.eq_ignore_ascii_case(framing)) {
            let message = format!("the header `{name}` is set by the server and is ignored here");
            to.push(Diagnostic::warning(place, message).hint("remove it"));
        }
    }
    let pattern = Pattern::new(&route.path);
    if let Some(body) = &response.body {
        slots(body, &pattern.names(), &format!("{at}.response.body"), to);
    }
}

/// Complains about templates that never stand for anything.
fn slots(value: &serde_json::Value, names: &[&str], at: &str, to: &mut Vec<Diagnostic>) {
    use argus_core::desired::template::{Piece, pieces};
    use serde_json::Value;
    match value {
        Value::String(text) => {
            for piece in pieces(text) {
                let Piece::Slot(slot, raw) = piece else { continue };
                if let Some(hint) = stands_for_nothing(slot, names) {
                    let message = format!("`{raw}` stands for nothing and stays as written");
                    to.push(Diagnostic::warning(at, message).hint(hint));
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                slots(item, names, &format!("{at}[{index}]"), to);
            }
        }
        Value::Object(map) => {
            for (key, item) in map {
                slots(item, names, &format!("{at}.{key}"), to);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn is_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c)
}

#[cfg(test)]
#[path = "route_tests.rs"]
mod tests;
