//! Runtime of a command.

use crate::process::exit::Failure;

/// Runs a future on its own runtime. Tasks that are still running at the end are abandoned.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::operation_failed("cannot start", &error))?;
    let result = runtime.block_on(work);
    runtime.shutdown_background();
    result
}
