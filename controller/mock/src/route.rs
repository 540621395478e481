//! Routes of a mock: the matching route of a request, or the nearest one.

use std::cell::RefCell;
use std::collections::HashMap;

use argus_core::budget::Budget;
use argus_crds::{Diagnostic, MockRoute, MockWhen};

use crate::answer::{FRAMING, MockReply, Prepared};
use crate::fill::{MAX_FILLED_BYTES, Moment, TemplateContext, unresolvable_hint};
use crate::path::{self, Pattern};
use crate::request::Request;
use crate::when;

/// Routes in order of precedence.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    routes: Vec<Route>,
}

#[derive(Clone, Debug)]
struct Route {
    /// HTTP method; `None` for all methods.
    method: Option<String>,
    pattern: Pattern,
    spec: MockRoute,
    response: Prepared,
    /// Name for messages, such as `routes[2] GET /users/:id`.
    name: String,
}

/// Most similar route of an unmatched request, with the first difference.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Nearest {
    pub(crate) route: String,
    pub(crate) because: String,
    pub(crate) distance: f64,
}

impl Nearest {
    /// Compares a request with a route that does not match it. Without a method, the route has all methods.
    pub(crate) fn new(
        name: &str,
        (method, pattern): (Option<&str>, &Pattern),
        when: Option<&MockWhen>,
        request: &Request,
        segments: &[String],
    ) -> Self {
        let (far, why) = pattern.distance(segments);
        let fits = pattern.matches(segments).is_some();
        let wrong_method = method.filter(|own| *own != request.method);
        let (distance, because) = match (wrong_method, fits, when) {
            (None, true, Some(when)) => (0.1, when::holds(when, request).err().unwrap_or_default()),
            (Some(own), true, _) => (0.5, format!("the method is {}, not {own}", request.method)),
            (Some(_), false, _) => (far + 1.5, why),
            (None, _, _) => (far + 1.0, why),
        };
        Self {
            route: name.to_owned(),
            because,
            distance,
        }
    }

    /// Returns the nearest of several routes, of equal ones the first.
    pub(crate) fn of(all: impl Iterator<Item = Self>) -> Option<Self> {
        all.min_by(|one, other| one.distance.total_cmp(&other.distance))
    }
}

impl Table {
    /// Creates the table of the routes under `key` of a mock. `at` is the path of the mock for diagnostics.
    pub(crate) fn new(spec: &[MockRoute], key: &str, at: &str, diagnostics: &mut Vec<Diagnostic>) -> Self {
        let mut routes = Vec::with_capacity(spec.len());
        for (index, route) in spec.iter().enumerate() {
            check_route(route, &format!("{at}.{key}[{index}]"), diagnostics);
            let method = route.method.trim().to_uppercase();
            let is_any = ["ANY", "ALL", "*"].contains(&method.as_str());
            routes.push(Route {
                pattern: Pattern::new(&route.path),
                response: Prepared::new(&route.response),
                name: format!("{key}[{index}] {method} {}", route.path),
                spec: route.clone(),
                method: (!is_any).then_some(method),
            });
        }
        let mut seen: HashMap<_, &str> = HashMap::new();
        for (index, route) in routes.iter().enumerate() {
            let when = route
                .spec
                .when
                .as_ref()
                .map(|when| serde_json::json!(when).to_string());
            let same = (&route.method, route.pattern.shape(), when);
            if let Some(before) = seen.get(&same) {
                let message = format!("this route never matches: `{before}` matches the same requests first");
                let hint = "remove one of them, or distinguish them with `when`";
                diagnostics
                    .push(Diagnostic::warning(format!("{at}.{key}[{index}].path"), message).hint(hint));
            } else {
                seen.insert(same, &route.name);
            }
        }
        // The sort is stable, so equal routes keep the order of the file.
        routes.sort_by_key(|route| {
            let weight = route.spec.when.as_ref().map_or(0, when::weight);
            (
                route.pattern.rank(),
                route.method.is_none(),
                std::cmp::Reverse(weight),
            )
        });
        Self { routes }
    }

    /// Returns the response of the most specific matching route, otherwise the nearest route.
    pub(crate) fn answer(
        &self,
        request: &Request,
        segments: &[String],
        moment: Moment,
    ) -> Result<MockReply, Option<Nearest>> {
        let found = match self.find(request, segments, &request.method) {
            // A HEAD request gets the response of GET; the server omits the body.
            None if request.method == "HEAD" => self.find(request, segments, "GET"),
            found => found,
        };
        let Some((route, params)) = found else {
            return Err(Nearest::of(self.routes.iter().map(|route| {
                let of_route = (route.method.as_deref(), &route.pattern);
                Nearest::new(&route.name, of_route, route.spec.when.as_ref(), request, segments)
            })));
        };
        let budget = RefCell::new(Budget::new(0, MAX_FILLED_BYTES));
        let context = TemplateContext {
            request,
            params: &params,
            moment,
            budget: &budget,
        };
        Ok(route.response.answer(&context, &route.name))
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
                .spec
                .when
                .as_ref()
                .is_none_or(|when| when::holds(when, request).is_ok());
            holds.then_some((route, params))
        })
    }
}

/// Adds a diagnostic for each problem of a route.
fn check_route(route: &MockRoute, at: &str, diagnostics: &mut Vec<Diagnostic>) {
    if path::is_reserved(&route.path) {
        let message = path::reserved(&route.path);
        diagnostics.push(Diagnostic::error(format!("{at}.path"), message).hint("choose another path"));
    }
    if route.path.contains('?') {
        let message = format!(
            "the query in `{}` is not part of the path and is ignored",
            route.path
        );
        diagnostics.push(Diagnostic::warning(format!("{at}.path"), message).hint("move it to `when.query`"));
    }
    if route.path.contains('(') {
        let message = format!(
            "the expression in parentheses in `{}` is ignored, the parameter matches any text",
            route.path
        );
        diagnostics.push(Diagnostic::warning(format!("{at}.path"), message).hint("write only `:name`"));
    }
    let method = route.method.trim();
    if method.is_empty() || !method.chars().all(is_token) {
        let message = format!("`{method}` is not a valid HTTP method");
        diagnostics
            .push(Diagnostic::error(format!("{at}.method"), message).hint("use `GET`, `POST`, … or `ANY`"));
    }
    let response = &route.response;
    if !(200..=599).contains(&response.status) {
        let message = format!("{} is not a valid response status", response.status);
        let hint = "use a status from 200 to 599";
        diagnostics.push(Diagnostic::error(format!("{at}.response.status"), message).hint(hint));
    }
    for (name, value) in &response.headers {
        let path = format!("{at}.response.headers.{name}");
        if name.is_empty() || !name.chars().all(is_token) {
            let message = format!("`{name}` is not a valid header name");
            diagnostics.push(Diagnostic::error(path, message).hint("use letters, digits and `-`"));
        } else if value.chars().any(char::is_control) {
            let message = format!("the header `{name}` contains a line break or another control character");
            diagnostics.push(Diagnostic::error(path, message).hint("write it in one line"));
        } else if FRAMING.iter().any(|framing| name.eq_ignore_ascii_case(framing)) {
            let message = format!("the header `{name}` is ignored because the server sets it");
            diagnostics.push(Diagnostic::warning(path, message).hint("remove it"));
        }
    }
    let pattern = Pattern::new(&route.path);
    if let Some(body) = &response.body {
        check_templates(
            body,
            &pattern.names(),
            &format!("{at}.response.body"),
            diagnostics,
        );
    }
}

/// Adds a warning for each template that no request can resolve.
fn check_templates(value: &serde_json::Value, names: &[&str], at: &str, diagnostics: &mut Vec<Diagnostic>) {
    use argus_core::desired::template::{Segment, segments};
    use serde_json::Value;
    match value {
        Value::String(text) => {
            for piece in segments(text) {
                let Segment::Template(slot, raw) = piece else {
                    continue;
                };
                if let Some(hint) = unresolvable_hint(slot, names) {
                    let message = format!("`{raw}` has no value and stays unchanged");
                    diagnostics.push(Diagnostic::warning(at, message).hint(hint));
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                check_templates(item, names, &format!("{at}[{index}]"), diagnostics);
            }
        }
        Value::Object(map) => {
            for (key, item) in map {
                check_templates(item, names, &format!("{at}.{key}"), diagnostics);
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
