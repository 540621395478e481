//! Call arguments and deadlines of an action, for error details and call traces.

use std::time::Duration;

use argus_crds::error::Call;
use serde_json::{Map, Value, json};

use super::{Action, Binding, ContainerSpec};

/// Deadlines of engine calls by their expected duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    /// Deadline of calls with an immediate response (`ARGUS_TIMEOUT_SHORT`).
    pub short: Duration,
    /// Maximum deadline of all calls, and maximum time without progress of a pull or a build (`ARGUS_TIMEOUT_LONG`).
    pub long: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            short: Duration::from_secs(10),
            long: Duration::from_secs(120),
        }
    }
}

impl Deadlines {
    /// Deadline of an action; `None` for pulls and builds, whose backend checks the progress instead.
    pub fn of(&self, action: &Action) -> Option<Duration> {
        let medium = Duration::from_secs(30).clamp(self.short.min(self.long), self.long);
        match action {
            Action::PullImage { .. } | Action::BuildImage(_) => None,
            // A restart waits for this action.
            Action::CollectEvidence { .. } => Some(self.short.max(Self::default().short) / 2),
            Action::CreateContainer { .. }
            | Action::StartContainer { .. }
            | Action::CreateNetwork { .. }
            | Action::RemoveNetwork { .. }
            | Action::ConnectNetwork { .. }
            | Action::DisconnectNetwork { .. } => Some(medium),
            Action::StopContainer { grace, .. } => Some(*grace + Duration::from_secs(10)),
            Action::RemoveContainer { .. } => Some(medium * 2),
            Action::CreateVolume { .. }
            | Action::RemoveVolume { .. }
            | Action::UnpauseContainer { .. }
            | Action::CopyFile { .. }
            | Action::RenameContainer { .. } => Some(self.short),
        }
    }

    /// Reason why an answered call counts as a failure of the engine: it took more than 80 % of its deadline. A stop, a removal and
    /// the collection of evidence depend on the container, too.
    pub(crate) fn slow(&self, action: &Action, took: Duration) -> Option<String> {
        let depends_on_container = matches!(
            action,
            Action::StopContainer { .. } | Action::RemoveContainer { .. } | Action::CollectEvidence { .. }
        );
        let deadline = self.of(action).filter(|_| !depends_on_container)?;
        (took * 5 > deadline * 4).then(|| {
            let (verb, took, limit) = (action.verb(), took.as_secs_f32(), deadline.as_secs_f32());
            format!("{verb} took {took:.1} s of at most {limit} s")
        })
    }
}

impl Action {
    /// Arguments of the call as names and numbers. Values of variables, file contents, commands and labels are left out,
    /// because they may be secret.
    pub fn arguments(&self) -> Map<String, Value> {
        let arguments = match self {
            Self::CreateNetwork { name, .. }
            | Self::CreateVolume { name, .. }
            | Self::RemoveVolume { name } => {
                json!({ "name": name })
            }
            Self::RemoveNetwork { id, name } => json!({ "id": id, "name": name }),
            Self::PullImage { reference, .. } => json!({ "image": reference }),
            Self::BuildImage(build) => json!({
                "tag": build.tag,
                "context": build.context,
                "dockerfile": Some(&build.dockerfile).filter(|_| build.options.inline.is_none()),
                "target": build.target,
                "buildArgs": build.args.keys().collect::<Vec<_>>(),
            }),
            Self::CreateContainer { name, spec } => {
                let mut arguments = container(spec);
                arguments.insert("name".to_owned(), json!(name));
                return arguments;
            }
            Self::StartContainer { id } | Self::UnpauseContainer { id } => json!({ "container": id }),
            Self::StopContainer { id, grace } => json!({ "container": id, "graceSeconds": grace.as_secs() }),
            Self::RenameContainer { id, to } => json!({ "container": id, "to": to }),
            Self::RemoveContainer { id, name } => json!({ "container": id, "name": name }),
            Self::CollectEvidence { run, .. } => json!({ "container": run.container, "run": run.number }),
            Self::CopyFile { id, files } => {
                let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
                json!({ "container": id, "path": paths.join(", ") })
            }
            Self::ConnectNetwork {
                network,
                container,
                aliases,
                ..
            } => json!({ "network": network, "container": container, "aliases": aliases }),
            Self::DisconnectNetwork { network, container } => {
                json!({ "network": network, "container": container })
            }
        };
        Call::arguments(arguments)
    }
}

fn container(spec: &ContainerSpec) -> Map<String, Value> {
    let port = |binding: &Binding| {
        let Binding {
            address,
            host,
            container,
            protocol,
        } = binding;
        format!("{address}:{host}->{container}/{protocol}")
    };
    Call::arguments(json!({
        "image": spec.image,
        "network": spec.network_mode(),
        "aliases": spec.aliases,
        "ports": spec.bindings.iter().map(port).collect::<Vec<_>>(),
        "environment": spec.env_vars.keys().collect::<Vec<_>>(),
        "mounts": spec.mounts.len(),
        "memory": spec.memory,
        "nanoCpus": spec.nano_cpus,
    }))
}

#[cfg(test)]
mod tests {
    use argus_crds::PullPolicy;

    use super::*;
    use crate::failed_run::FailedRun;
    use crate::ident::ContainerId;
    use crate::time::Timestamp;

    #[test]
    fn deadline_of_each_action_follows_from_the_settings() {
        let deadlines = |short, long| Deadlines {
            short: Duration::from_secs(short),
            long: Duration::from_secs(long),
        };
        let id = ContainerId::new("c1").unwrap();
        let name = "c1".to_owned();
        let evidence = Action::CollectEvidence {
            run: Box::new(FailedRun::new(id.clone(), Timestamp(0))),
            lines_since: None,
            port: None,
            http: false,
            by_engine: false,
            targets: Vec::new(),
            host: Box::default(),
        };
        let actions = [
            Action::UnpauseContainer { id: id.clone() },
            Action::StartContainer { id: id.clone() },
            Action::RemoveContainer { id, name },
            evidence,
        ];
        let seconds = |deadlines: Deadlines| {
            let of = |action: &Action| deadlines.of(action).map(|deadline| deadline.as_secs());
            actions.iter().map(of).collect::<Vec<_>>()
        };
        assert_eq!(seconds(Deadlines::default()), [10, 30, 60, 5].map(Some));
        assert_eq!(seconds(deadlines(60, 120)), [60, 60, 120, 30].map(Some));
        assert_eq!(seconds(deadlines(2, 20)), [2, 20, 40, 5].map(Some));
    }

    #[test]
    fn call_above_80_percent_of_its_deadline_is_slow() {
        let id = || ContainerId::new("c1").unwrap();
        let start = Action::StartContainer { id: id() };
        let stop = Action::StopContainer {
            id: id(),
            grace: Duration::from_secs(10),
        };
        let slow = |action: &Action, seconds| Deadlines::default().slow(action, Duration::from_secs(seconds));
        assert_eq!(slow(&start, 24), None);
        let expected = "start-container took 25.0 s of at most 30 s";
        assert_eq!(slow(&start, 25).as_deref(), Some(expected));
        assert_eq!(slow(&stop, 20), None, "the container took the time");
        let pull = Action::PullImage {
            reference: "web:1".to_owned(),
            policy: PullPolicy::default(),
        };
        assert_eq!(slow(&pull, 10_000), None, "it has no deadline");
    }
}
