//! Calls of operations by commands.

use std::num::NonZeroU32;
use std::time::Duration;

use tokio::sync::mpsc;

use crate::api::{Context, Operation};
use crate::client::ControllerClient;
use crate::client::command_reply::CommandReply;
use crate::process::exit::{Exit, Failure};
use crate::process::runtime;
use crate::render::output;
use crate::render::output::OutputArgs;
use crate::settings::{Options, Settings, SpecOptions};

/// Creates the context of a command's operations.
pub(crate) fn create_context(options: &Options, specs: &SpecOptions) -> Result<Context, Failure> {
    let settings = Settings::resolve(options, specs)?;
    Ok(Context::new(ControllerClient::for_command(settings)))
}

/// Creates the context of a command that reads the specs folder, or the file of a project without one.
pub(crate) fn create_file_context(options: &Options, specs: &SpecOptions) -> Result<Context, Failure> {
    let settings = Settings::resolve(options, specs)?.with_project_file();
    Ok(Context::new(ControllerClient::for_command(settings)))
}

/// Runs an operation, and prints its messages as notes.
pub(crate) fn run<T: Operation>(context: &Context, operation: &T) -> Result<T::Output, Failure> {
    let (sender, mut messages) = mpsc::unbounded_channel();
    let context = context.clone().with_progress(sender);
    let result = runtime::block_on(Box::pin(operation.run(&context)));
    while let Ok(message) = messages.try_recv() {
        output::print_note(&message);
    }
    result
}

/// Shows a value, and shows it again whenever it has changed.
pub(crate) async fn show_changes<T: PartialEq>(
    context: &Context,
    mut read: impl AsyncFnMut() -> Result<T, Failure>,
    mut show: impl FnMut(&T) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut changes = context.client.watch_statuses();
    let mut shown = None;
    loop {
        let now = Some(read().await?);
        if let Some(value) = now.as_ref().filter(|_| now != shown) {
            show(value)?;
        }
        shown = now;
        changes.changed().await;
    }
}

/// Sends a command to the controller and prints the reply, as text in the words of `format_text`.
pub(crate) fn execute_command<T: Operation<Output = CommandReply>>(
    options: &Options,
    operation: &T,
    output: OutputArgs,
    format_text: impl FnOnce(&CommandReply) -> String,
) -> Result<Exit, Failure> {
    let reply = run(&create_context(options, &SpecOptions::default())?, operation)?;
    let name = reply.environment.as_deref().unwrap_or("controller");
    output.print(&reply, [name], || format_text(&reply))?;
    Ok(Exit::Done)
}

/// Rounds a duration up to whole seconds, the unit of the operations.
pub(crate) fn round_to_seconds(span: Duration) -> NonZeroU32 {
    let seconds = u32::try_from(span.as_millis().div_ceil(1_000)).unwrap_or(u32::MAX);
    NonZeroU32::new(seconds).unwrap_or(NonZeroU32::MIN)
}
