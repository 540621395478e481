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
    let is_up_again = new.state.is_up() && !old.state.is_up();
    let started_at = new.inspect.as_ref().and_then(|inspect| inspect.started_at);
    // A restart ends the effect of an earlier stop. The start of the run decides, because a late inspect can show a container that
    // still ran before the stop.
    let is_over = |at: Timestamp| started_at.map_or(is_restarted || is_up_again, |start| start > at);
    let keep_stop = new.stopped_by_other.is_none() && old.stopped_by_other.is_some_and(|at| !is_over(at));
    let keep_oom = new.oom_at.is_none() && old.oom_at.is_some_and(|at| !is_over(at));
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::{ContainerState, InspectInfo};
    use super::*;
    use crate::ident::ContainerId;

    /// A container in this state; its last run began at this time.
    fn container(state: ContainerState, started: Option<i64>) -> Container {
        Container {
            id: ContainerId::new("c").unwrap(),
            name: "shop-web".to_owned(),
            labels: BTreeMap::new(),
            image: "web:1".to_owned(),
            state,
            created_at: Timestamp(1),
            networks: BTreeMap::new(),
            inspect: started.map(|at| InspectInfo {
                started_at: Some(Timestamp(at)),
                ..InspectInfo::default()
            }),
            stopped_by_other: None,
            oom_at: None,
        }
    }

    #[test]
    fn late_inspect_of_a_run_does_not_forget_its_stop() {
        let ended = Container {
            stopped_by_other: Some(Timestamp(200)),
            oom_at: Some(Timestamp(200)),
            ..container(ContainerState::Exited, None)
        };
        let keeps = |state, started| {
            let new = merged(&ended, Arc::new(container(state, started)));
            assert_eq!(new.stopped_by_other, new.oom_at);
            new.stopped_by_other.is_some()
        };
        assert!(
            keeps(ContainerState::Running, Some(100)),
            "it ran before the stop"
        );
        assert!(keeps(ContainerState::Exited, Some(100)));
        assert!(!keeps(ContainerState::Running, Some(300)), "a new run");
        assert!(!keeps(ContainerState::Exited, Some(300)), "a new run that ended");
        assert!(!keeps(ContainerState::Running, None), "a list shows a new run");
    }
}
