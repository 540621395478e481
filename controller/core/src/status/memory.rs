//! Warning about the memory use of a service.

use argus_crds::status::MemoryWarning;

use super::StatusInput;
use crate::observed::Container;

/// Warning of a running container whose memory use is near its limit.
pub(super) fn warning(input: &StatusInput<'_>, container: Option<&Container>) -> Option<MemoryWarning> {
    let container = container.filter(|container| container.state.is_up())?;
    let high = input.observed.memory_high.get(&container.id)?;
    let started_at = container.inspect.as_ref().and_then(|info| info.started_at);
    // A sample of an earlier run says nothing about this one.
    let is_of_this_run = started_at.is_none_or(|started_at| started_at <= high.at);
    is_of_this_run.then(|| MemoryWarning {
        used_bytes: high.used,
        limit_bytes: high.limit,
        since: high.at.to_string(),
    })
}
