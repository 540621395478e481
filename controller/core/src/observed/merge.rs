//! Merge of a container in a list with its last inspect.

use std::sync::Arc;

use super::Container;
use crate::time::Timestamp;

/// Merges a container with its stored version.
///
/// A list contains less than an inspect. If both describe the same run, the fields of the earlier inspect stay valid.
pub(super) fn merged(old: &Container, new: Arc<Container>) -> Arc<Container> {
    let same_run = old.state == new.state && old.name == new.name;
    let keep_inspect = new.inspect.is_none() && old.inspect.is_some() && same_run;
    let is_restarted = match (&old.inspect, &new.inspect) {
        (Some(before), Some(after)) => before.started_at != after.started_at,
        _ => false,
    };
    // A restart ends the effect of an earlier stop.
    let is_up_again = new.state.is_up() && !old.state.is_up();
    let started_after = |stop: Timestamp| {
        new.inspect
            .as_ref()
            .and_then(|inspect| inspect.started_at)
            .is_some_and(|start| start > stop)
    };
    let is_same_run = !is_restarted && !is_up_again;
    let keep_stop = new.stopped_by_other.is_none()
        && old.stopped_by_other.is_some_and(|stop| !started_after(stop))
        && is_same_run;
    let keep_oom = new.oom_at.is_none() && old.oom_at.is_some_and(|at| !started_after(at)) && is_same_run;
    if !keep_inspect && !keep_stop && !keep_oom {
        return new;
    }
    let mut new = new;
    let container = Arc::make_mut(&mut new);
    if keep_inspect {
        container.inspect.clone_from(&old.inspect);
        for (name, attachment) in &mut container.networks {
            if let Some(known) = old.networks.get(name)
                && attachment.aliases.is_empty()
                && known.network == attachment.network
            {
                attachment.aliases.clone_from(&known.aliases);
            }
        }
    }
    if keep_stop {
        container.stopped_by_other = old.stopped_by_other;
    }
    if keep_oom {
        container.oom_at = old.oom_at;
    }
    new
}
