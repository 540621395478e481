//! List of all operations, in a form that does not depend on their types.

use std::pin::Pin;
use std::sync::LazyLock;

use schemars::{Schema, SchemaGenerator};
use serde_json::Value;
use tokio::sync::Semaphore;

use super::arguments::{self, Object};
use super::context::Context;
use super::operation::{Effect, Operation, Route, Tool};
use super::summary::{Summary, ToolOutput};
use super::{
    apply, breaker, commands, doctor, environments, events, evidence, explain, incidents, logs,
    mock_requests, network, orphans, plan, preflight, prune, status, test, validate, wait, why,
};
use crate::exit::Failure;

/// An operation of the list.
pub(crate) struct OperationEntry {
    /// Schema of the arguments.
    pub(crate) arguments: Object,
    /// Effect of a call.
    pub(crate) effect: Effect,
    /// HTTP routes.
    pub(crate) routes: &'static [Route],
    /// True if reading over HTTP needs the token.
    pub(crate) is_private: bool,
    /// Schema of the output.
    pub(crate) output: fn(&mut SchemaGenerator) -> Schema,
    /// Runs the operation, and returns the output as JSON text.
    pub(crate) run: fn(Object, Context) -> Work<Vec<u8>>,
    /// Permits of concurrent calls over HTTP, per route.
    pub(crate) permits: Vec<Semaphore>,
    /// The tool for agents.
    pub(crate) tool: Option<ToolEntry>,
}

/// The tool of an operation.
pub(crate) struct ToolEntry {
    /// Name.
    pub(crate) name: &'static str,
    /// Title for people.
    pub(crate) title: &'static str,
    /// Description for the model.
    pub(crate) about: &'static str,
    /// Schema of a [`ToolOutput`].
    pub(crate) schema: fn() -> Object,
    /// Runs the operation, and returns the summary of its output.
    pub(crate) run: fn(Object, Context) -> Work<Summary<Value>>,
}

/// A running call.
pub(crate) type Work<T> = Pin<Box<dyn Future<Output = Result<T, CallError>> + Send>>;

/// Error of a call.
#[derive(Debug)]
pub(crate) enum CallError {
    /// The arguments are invalid.
    Arguments(String),
    /// The operation failed.
    Failed(Failure),
}

impl From<Failure> for CallError {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Returns all operations; tools in the order in which agents see them, the most important first.
pub(crate) fn all() -> &'static [OperationEntry] {
    static ALL: LazyLock<Vec<OperationEntry>> = LazyLock::new(|| {
        vec![
            tool::<status::Status>(),
            tool::<wait::Wait>(),
            tool::<apply::Apply>(),
            tool::<validate::Validate>(),
            tool::<why::Why>(),
            tool::<evidence::Evidence>(),
            tool::<logs::Logs>(),
            tool::<events::Events>(),
            tool::<plan::Plan>(),
            tool::<network::Network>(),
            tool::<mock_requests::MockRequests>(),
            tool::<incidents::Incidents>(),
            tool::<explain::Explain>(),
            tool::<preflight::Preflight>(),
            tool::<commands::Retry>(),
            tool::<breaker::ResetBreaker>(),
            tool::<orphans::Orphans>(),
            tool::<test::Test>(),
            tool::<commands::Hold>(),
            tool::<commands::Resume>(),
            tool::<commands::Cancel>(),
            tool::<commands::Rollback>(),
            tool::<commands::Fork>(),
            tool::<commands::Down>(),
            operation::<environments::Controller>(),
            operation::<environments::Environments>(),
            operation::<environments::Environment>(),
            operation::<environments::Service>(),
            operation::<breaker::Breakers>(),
            operation::<doctor::Doctor>(),
            operation::<prune::Prune>(),
        ]
    });
    &ALL
}

/// True if reading this path needs the token.
pub(crate) fn is_private(path: &str) -> bool {
    let mut private = all().iter().filter(|entry| entry.is_private);
    private.any(|entry| entry.routes.iter().any(|route| route.matches(path)))
}

fn operation<T: Operation>() -> OperationEntry {
    OperationEntry {
        arguments: arguments::schema_of::<T>(),
        effect: T::EFFECT,
        routes: T::ROUTES,
        is_private: T::IS_PRIVATE,
        output: SchemaGenerator::subschema_for::<T::Output>,
        run: |arguments, context| {
            Box::pin(async move {
                let operation: T = parse(arguments)?;
                let output = Box::pin(operation.run(&context)).await?;
                serde_json::to_vec(&output)
                    .map_err(|error| Failure::internal("cannot write the output", &error).into())
            })
        },
        permits: T::ROUTES.iter().map(permits).collect(),
        tool: None,
    }
}

fn permits(route: &Route) -> Semaphore {
    let limit = route.max_calls.unwrap_or(Semaphore::MAX_PERMITS);
    Semaphore::new(if route.is_serial { 1 } else { limit })
}

fn tool<T: Tool>() -> OperationEntry {
    let tool = ToolEntry {
        name: T::NAME,
        title: T::TITLE,
        about: T::ABOUT,
        schema: arguments::output_schema_of::<ToolOutput<T::Data>>,
        run: |arguments, context| {
            Box::pin(async move {
                let operation: T = parse(arguments)?;
                let output = Box::pin(operation.run(&context)).await?;
                let Summary { data, text, next } = Box::pin(operation.summarize(output, &context)).await;
                // Our own types have text keys and no foreign serializers, so they always serialize.
                let data = serde_json::to_value(data).unwrap_or_default();
                Ok(Summary { data, text, next })
            })
        },
    };
    OperationEntry {
        tool: Some(tool),
        ..operation::<T>()
    }
}

fn parse<T: Operation>(arguments: Object) -> Result<T, CallError> {
    serde_json::from_value(Value::Object(arguments)).map_err(|error| CallError::Arguments(error.to_string()))
}
