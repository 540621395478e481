//! MCP server: tools and resources of a controller for agents, over stdio and at `/mcp`.
//!
//! [`tool`] converts the operations of [`crate::api`] to tools and runs a call. [`resources`] lists and reads the resources,
//! [`reply`] builds the result of a call, [`cut`] limits its text and [`bound`] its structured content, [`http`] serves `/mcp`, and [`stdio`] starts a connection on stdin.

use std::sync::OnceLock;

use rmcp::ErrorData;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, Implementation, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams,
    ReadResourceResponse, ServerCapabilities, ServerConfig, Tool as ToolDescription,
};
use rmcp::service::{RequestContext, RoleServer, ServiceExt as _};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};

use crate::api::exec;
use crate::client::ControllerClient;
use crate::process::correlation;
use crate::process::exit::Failure;

mod bound;
mod cut;
mod http;
mod reply;
mod resources;
mod stdio;
mod tool;

pub(crate) use http::serve;

use tool::ServerTool;

/// Instructions that a model reads before the tools.
const INSTRUCTIONS: &str = "Argus runs Docker test environments as described in e2e.yaml files: it pulls, builds, starts, probes, \
restarts and repairs automatically. Begin with `argus_status`. To create or change an environment, call `argus_apply`, then \
`argus_wait`. If something is not ready, call `argus_why`, then `argus_evidence` or `argus_logs`; fix the cause (`argus_fix` writes a proposed change of the file), then `argus_retry`. \
Run the suites of the file with `argus_test_run`, or call `argus_test` with begin and end around your own test run, so that Argus \
restarts nothing during the test. Never start, stop or remove its containers yourself. Results contain the next calls in `nextSteps`, errors in `remedies`; all are complete.";

/// MCP server; one per connection, cheap to create.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    client: ControllerClient,
}

impl Server {
    /// Creates a server for a controller.
    pub(crate) fn new(client: ControllerClient) -> Self {
        Self { client }
    }

    /// Tools that the controller offers.
    fn offered_tools(&self) -> impl Iterator<Item = &'static ServerTool> {
        let settings = self.client.settings();
        tools().iter().filter(move |entry| entry.is_offered(settings))
    }
}

/// Serves on stdin and stdout until stdin ends.
pub(crate) async fn serve_stdio(client: ControllerClient) -> Result<(), Failure> {
    let (input, output) = rmcp::transport::stdio();
    let served = Box::pin(serve_streams(client, input, output)).await;
    exec::end_commands().await;
    served
}

/// Serves on an input and an output until the input ends.
pub(crate) async fn serve_streams(
    client: ControllerClient,
    input: impl AsyncRead + Send + Unpin + 'static,
    mut output: impl AsyncWrite + Send + Unpin + 'static,
) -> Result<(), Failure> {
    let failed = |error| Failure::operation_failed("cannot serve", &error);
    let mut input = tokio::io::BufReader::new(input);
    let Some(first) = stdio::first_message(&mut input, &mut output)
        .await
        .map_err(failed)?
    else {
        return Ok(());
    };
    let input = std::io::Cursor::new(first).chain(input);
    let served = Server::new(client).serve((input, output)).await;
    match served {
        Ok(running) => running
            .waiting()
            .await
            .map(drop)
            .map_err(|error| Failure::operation_failed("cannot serve", &error)),
        // stdin ended before the client initialized.
        Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => Ok(()),
        Err(error) => Err(Failure::operation_failed("cannot serve", &error)),
    }
}

/// Returns the tools, which are created once.
fn tools() -> &'static [ServerTool] {
    static TOOLS: OnceLock<Vec<ServerTool>> = OnceLock::new();
    TOOLS.get_or_init(tool::list_tools)
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .build();
        let about = Implementation::new("argus", env!("CARGO_PKG_VERSION")).with_title("Argus");
        ServerConfig::new(capabilities)
            .with_server_info(about)
            .with_instructions(INSTRUCTIONS)
    }

    fn get_tool(&self, name: &str) -> Option<ToolDescription> {
        let entry = tools().iter().find(|entry| entry.description.name == name)?;
        Some(entry.description.clone())
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let all = self.offered_tools().map(|entry| entry.description.clone());
        let all = all.collect();
        Ok(ListToolsResult::with_all_items(all))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(entry) = tools()
            .iter()
            .find(|entry| entry.description.name == request.name)
        else {
            let names: Vec<&str> = self
                .offered_tools()
                .map(|entry| entry.description.name.as_ref())
                .collect();
            let message = format!(
                "unknown tool `{}`; available tools: {}",
                request.name,
                names.join(", ")
            );
            return Err(ErrorData::invalid_params(message, None));
        };
        let token = context.meta.get_progress_token();
        let listener = token.map(|token| (token, context.peer.clone()));
        let arguments = request.arguments.unwrap_or_default();
        let work = entry.call(arguments, self.client.clone(), listener);
        let work = correlation::RequestContext::new(self.client.controller_id()).scope(work);
        tokio::select! {
            result = work => Ok(result.into()),
            // The client does not wait for a response any more.
            () = context.ct.cancelled() => Err(ErrorData::internal_error("cancelled", None)),
        }
    }

    async fn list_resources(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let all = resources::list(&self.client).await?;
        Ok(ListResourcesResult::with_all_items(all))
    }

    async fn list_resource_templates(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(
            resources::list_templates(),
        ))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let read = resources::read(&self.client, &request.uri);
        let request = correlation::RequestContext::new(self.client.controller_id());
        Ok(request.scope(read).await?.into())
    }
}

/// Validates arguments against the schema of a tool, for tests that printed calls are valid.
#[cfg(test)]
pub(crate) fn check_arguments(tool: &str, arguments: &rmcp::model::JsonObject) -> Result<(), String> {
    let entry = tools().iter().find(|entry| entry.description.name == tool);
    let entry = entry.ok_or_else(|| format!("no tool `{tool}`"))?;
    let schema = serde_json::Value::Object(std::sync::Arc::unwrap_or_clone(
        entry.description.input_schema.clone(),
    ));
    let given = serde_json::Value::Object(arguments.clone());
    jsonschema::validate(&schema, &given).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
