//! Definition of an operation: arguments, output, effect and routes, and its form for a model.

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::context::Context;
use super::summary::Summary;
use crate::process::exit::Failure;

/// An operation. The fields of the type are its arguments, in HTTP and MCP with the same names.
pub(crate) trait Operation: DeserializeOwned + JsonSchema + Send + Sync + 'static {
    /// Effect of a call.
    const EFFECT: Effect;
    /// HTTP routes.
    const ROUTES: &'static [Route];
    /// True if a call reaches more than the engine and the folders of this controller, such as registries and networks.
    const IS_OPEN_WORLD: bool = false;
    /// True if the output has text of containers or secrets of a spec, so that reading it over HTTP needs the token.
    const IS_PRIVATE: bool = false;
    /// Output, as `-o json` and HTTP return it.
    type Output: Serialize + JsonSchema + Send;

    /// Runs the operation.
    fn run(&self, context: &Context) -> impl Future<Output = Result<Self::Output, Failure>> + Send;
}

/// An operation that is also a tool for agents.
pub(crate) trait Tool: Operation {
    /// Name of the tool, such as `argus_plan`.
    const NAME: &'static str;
    /// Title for people.
    const TITLE: &'static str;
    /// Description for the model: purpose and occasion of a call.
    const ABOUT: &'static str;
    /// True if only a controller with `--allow-test-commands` offers the tool.
    const RUNS_COMMANDS: bool = false;
    /// Structured data of the summary. Often the output itself; shorter if the output has no upper bound.
    type Data: Serialize + JsonSchema + Send;

    /// Summarizes an output for a model: bounded data, short text, and the next calls.
    fn summarize(
        &self,
        output: Self::Output,
        context: &Context,
    ) -> impl Future<Output = Summary<Self::Data>> + Send;
}

/// Effect of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Changes nothing.
    ReadOnly,
    /// Adds or resumes something; repeated calls change nothing more.
    Additive,
    /// Adds something else each time.
    NonIdempotent,
    /// Ends or replaces something; repeated calls change nothing more.
    Destructive,
    /// Ends or replaces something each time.
    DestructiveEachTime,
}

/// HTTP method of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    /// Arguments are in the path and in the query.
    Get,
    /// Arguments are in the path and in the JSON body.
    Post,
}

/// HTTP route of an operation. A variable of the path, such as `{environment}`, is the argument of the same name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Route {
    /// Method.
    pub(crate) method: Method,
    /// Path template.
    pub(crate) path: &'static str,
    /// Summary for the `OpenAPI` document.
    pub(crate) summary: &'static str,
    /// Arguments with a fixed value on this route.
    pub(crate) fixed: &'static [(&'static str, &'static str)],
    /// Arguments that this route does not accept.
    pub(crate) omitted: &'static [&'static str],
    /// Arguments that are required on this route.
    pub(crate) required: &'static [&'static str],
    /// True if one call runs at a time and further ones wait, because a call makes many calls to the engine.
    pub(crate) is_serial: bool,
    /// Maximum number of concurrent calls; further ones are rejected.
    pub(crate) max_calls: Option<usize>,
    /// True if the response has the status 202, because the effects follow asynchronously.
    pub(crate) is_accepted: bool,
    /// Maximum size of the body in bytes, if it exceeds the usual limit.
    pub(crate) max_body: Option<usize>,
}

impl Route {
    /// Creates a GET route.
    pub(crate) const fn get(path: &'static str, summary: &'static str) -> Self {
        Self {
            method: Method::Get,
            path,
            summary,
            fixed: &[],
            omitted: &[],
            required: &[],
            is_serial: false,
            max_calls: None,
            is_accepted: false,
            max_body: None,
        }
    }

    /// Creates a POST route.
    pub(crate) const fn post(path: &'static str, summary: &'static str) -> Self {
        Self {
            method: Method::Post,
            ..Self::get(path, summary)
        }
    }

    /// Creates the route of a command: a POST route that responds with the status 202.
    pub(crate) const fn command(path: &'static str, summary: &'static str) -> Self {
        Self {
            is_accepted: true,
            ..Self::post(path, summary)
        }
    }

    /// Fixes the values of arguments.
    pub(crate) const fn fixed(self, fixed: &'static [(&'static str, &'static str)]) -> Self {
        Self { fixed, ..self }
    }

    /// Omits arguments.
    pub(crate) const fn without(self, omitted: &'static [&'static str]) -> Self {
        Self { omitted, ..self }
    }

    /// Requires arguments.
    pub(crate) const fn requires(self, required: &'static [&'static str]) -> Self {
        Self { required, ..self }
    }

    /// Runs one call at a time.
    pub(crate) const fn serial(self) -> Self {
        Self {
            is_serial: true,
            ..self
        }
    }

    /// Rejects calls beyond this number of concurrent ones.
    pub(crate) const fn max_calls(self, calls: usize) -> Self {
        Self {
            max_calls: Some(calls),
            ..self
        }
    }

    /// Allows a larger body.
    pub(crate) const fn max_body(self, bytes: usize) -> Self {
        Self {
            max_body: Some(bytes),
            ..self
        }
    }

    /// Returns the names of the variables in the path.
    pub(crate) fn variables(&self) -> impl Iterator<Item = &'static str> {
        self.path
            .split('/')
            .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
    }

    /// True if the argument comes from the query or the body.
    pub(crate) fn has_parameter(&self, name: &str) -> bool {
        let is_fixed = self.fixed.iter().any(|(fixed, _)| *fixed == name);
        !is_fixed && !self.omitted.contains(&name) && self.variables().all(|variable| variable != name)
    }

    /// True if the path matches the template.
    pub(crate) fn matches(&self, path: &str) -> bool {
        let (mut template, mut parts) = (self.path.split('/'), path.split('/'));
        loop {
            match (template.next(), parts.next()) {
                (None, None) => return true,
                (Some(expected), Some(part)) if expected == part || expected.starts_with('{') => {}
                _ => return false,
            }
        }
    }
}
