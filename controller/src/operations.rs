//! List of all operations, in a form that does not depend on their types.

use std::pin::Pin;
use std::sync::LazyLock;

use schemars::{Schema, SchemaGenerator};
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::api::arguments::{self, Object};
use crate::api::{
    Context, Effect, Operation, Route, Summary, Tool, ToolOutput, apply, breaker, commands, diff, doctor,
    environments, events, evidence, exec, explain, fix, incidents, logs, mock_requests, network, orphans,
    plan, preflight, prune, repairs, status, sync, test, test_results, validate, wait, why,
};
use crate::process::exit::Failure;
use crate::test_runner::operation::RunTests;

/// An operation of the list.
pub(crate) struct OperationEntry {
    /// Schema of the arguments.
    pub(crate) arguments: Object,
    /// Effect of a call.
    pub(crate) effect: Effect,
    /// True if a call reaches more than the engine and the folders of this controller.
    pub(crate) is_open_world: bool,
    /// HTTP routes.
    pub(crate) routes: &'static [Route],
    /// True if reading over HTTP needs the token.
    pub(crate) is_private: bool,
    /// Schema of the output.
    pub(crate) output: fn(&mut SchemaGenerator) -> Schema,
    /// Runs the operation, and returns the output as JSON text.
    pub(crate) run: fn(Object, Context) -> CallFuture<Vec<u8>>,
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
    /// True if only a controller with `--allow-test-commands` offers it.
    pub(crate) runs_commands: bool,
    /// Schema of a [`ToolOutput`].
    pub(crate) schema: fn() -> Object,
    /// Runs the operation, and returns the summary of its output.
    pub(crate) run: fn(Object, Context) -> CallFuture<Summary<Value>>,
}

/// A running call.
pub(crate) type CallFuture<T> = Pin<Box<dyn Future<Output = Result<T, CallError>> + Send>>;

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
            entry_with_tool::<status::Status>(),
            entry_with_tool::<wait::Wait>(),
            entry_with_tool::<apply::Apply>(),
            entry_with_tool::<fix::Fix>(),
            entry_with_tool::<validate::Validate>(),
            entry_with_tool::<why::Why>(),
            entry_with_tool::<diff::Diff>(),
            entry_with_tool::<evidence::Evidence>(),
            entry_with_tool::<logs::Logs>(),
            entry_with_tool::<events::Events>(),
            entry_with_tool::<plan::Plan>(),
            entry_with_tool::<network::Network>(),
            entry_with_tool::<mock_requests::MockRequests>(),
            entry_with_tool::<incidents::Incidents>(),
            entry_with_tool::<explain::Explain>(),
            entry_with_tool::<preflight::Preflight>(),
            entry_with_tool::<commands::Retry>(),
            entry_with_tool::<commands::Restart>(),
            entry_with_tool::<breaker::ResetBreaker>(),
            entry_with_tool::<orphans::Orphans>(),
            entry_with_tool::<RunTests>(),
            entry_with_tool::<test::Test>(),
            entry_with_tool::<test_results::TestResults>(),
            entry_with_tool::<commands::Hold>(),
            entry_with_tool::<commands::Resume>(),
            entry_with_tool::<commands::Cancel>(),
            entry_with_tool::<commands::Rollback>(),
            entry_with_tool::<commands::Fork>(),
            entry_with_tool::<commands::Down>(),
            entry_with_tool::<exec::Exec>(),
            entry::<environments::GetController>(),
            entry::<environments::Environments>(),
            entry::<environments::GetEnvironment>(),
            entry::<environments::GetService>(),
            entry::<breaker::Breakers>(),
            entry::<repairs::Repairs>(),
            entry::<sync::Sync>(),
            entry::<orphans::CleanOrphans>(),
            entry::<doctor::Doctor>(),
            entry::<prune::Prune>(),
        ]
    });
    &ALL
}

/// True if this is the path of an operation with private output.
pub(crate) fn is_private_operation(path: &str) -> bool {
    let mut private = all().iter().filter(|entry| entry.is_private);
    private.any(|entry| entry.routes.iter().any(|route| route.matches(path)))
}

fn entry<T: Operation>() -> OperationEntry {
    OperationEntry {
        arguments: arguments::schema_of::<T>(),
        effect: T::EFFECT,
        is_open_world: T::IS_OPEN_WORLD,
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

fn entry_with_tool<T: Tool>() -> OperationEntry {
    let tool = ToolEntry {
        name: T::NAME,
        title: T::TITLE,
        about: T::ABOUT,
        runs_commands: T::RUNS_COMMANDS,
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
        ..entry::<T>()
    }
}

fn parse<T: Operation>(arguments: Object) -> Result<T, CallError> {
    serde_json::from_value(Value::Object(arguments)).map_err(|error| CallError::Arguments(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_name_existing_arguments() {
        for entry in all() {
            let properties = entry.arguments.get("properties").and_then(Value::as_object);
            let is_argument = |name: &str| properties.is_some_and(|known| known.contains_key(name));
            for route in entry.routes {
                let fixed = route.fixed.iter().map(|(name, _)| *name);
                let named = fixed
                    .chain(route.omitted.iter().copied())
                    .chain(route.required.iter().copied());
                for name in named.chain(route.variables()) {
                    assert!(is_argument(name), "{}: {name}", route.path);
                }
            }
        }
    }
}
