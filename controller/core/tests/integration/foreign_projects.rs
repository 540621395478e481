//! Volumes of a dead controller whose project is in another folder, but has the same names.
#![allow(clippy::unwrap_used, reason = "a failed precondition fails the test")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use argus_core::action::{Action, ActionFailure, ActionKind, Subject};
use argus_core::desired::admit::{SpecContext, admit};
use argus_core::desired::{Accepted, Mount};
use argus_core::ident::{ContainerId, EnvName, NetworkId, PortMap, ResourceName, ServiceName};
use argus_core::labels;
use argus_core::lease::{ControllerLeases, ProcessIdentity};
use argus_core::observed::{
    Attachment, Config, Container, ContainerState, InspectInfo, Network, Object, ObjectId, Store, Volume,
    WatchEvent,
};
use argus_core::outcome::ActionError;
use argus_core::plan::Plan;
use argus_core::plan::orphan::OrphanDecision;
use argus_core::plan::render::{render_all, stamped};
use argus_core::probe::HealthStates;
use argus_core::reconcile::{Inputs, Planner};
use argus_core::state::{EnvHistory, PlannerState};
use argus_core::time::Timestamp;
use argus_core::user_requests::{UserRequests, VolumeRemoval};
use argus_core::wait::WaitReason;

use crate::reconcile::{identity, listed_store, shop_labels};

const NOW: Timestamp = Timestamp(1_000_000);
const VOLUME: &str = "argusai-shop_data";
const HOUR: Duration = Duration::from_secs(3600);

type Specs = BTreeMap<EnvName, Arc<Accepted>>;

/// Spec file of the project in the folder `/a`: one service with a volume, and one without.
fn specs(project: &str, env: &str, is_allowed: bool) -> Specs {
    let text = format!(
        "version: \"1\"\nproject: {{ name: {project} }}\nisolation: {{ namespace: {env} }}\nservices:\n  - {{ name: web, image: web, container: {{ name: web, \
         volumes: [\"data:/data\"] }} }}\n  - {{ name: api, image: api, container: {{ name: api }} }}\n"
    );
    let written = argus_crds::yaml::read("e2e.yaml", text.as_bytes()).spec.unwrap();
    let mut desired = admit(&written, &SpecContext::default()).desired.unwrap();
    desired.folder = Some("/a".to_owned());
    let accepted = Accepted {
        desired,
        spec_path: "e2e.yaml".to_owned(),
        lines: argus_core::desired::key_lines::KeyLines::default(),
        accepted_at: NOW - HOUR,
        has_pending_edit: false,
        allowed: is_allowed,
        is_ending: false,
        file_hash: None,
        mounted_files: BTreeMap::new(),
    };
    [(EnvName::new(env).unwrap(), Arc::new(accepted))].into()
}

fn labels_of(controller: &str, folder: &str) -> BTreeMap<String, String> {
    let mut all = shop_labels("web", controller);
    all.insert(labels::FOLDER.to_owned(), folder.to_owned());
    all
}

/// Container of a dead controller.
fn container(folder: &str) -> Container {
    Container {
        id: ContainerId::new("c1").unwrap(),
        name: "shop-web".to_owned(),
        labels: labels_of("dead", folder),
        image: "web:1".to_owned(),
        state: ContainerState::Exited,
        created_at: NOW - HOUR,
        networks: BTreeMap::new(),
        inspect: None,
        stopped_by_other: None,
        oom_at: None,
    }
}

/// Objects of the environment `shop` of a dead controller, and a network of this one.
fn store(folder: &str) -> Store {
    let mut store = listed_store(NOW);
    let container = container(folder);
    let network = |id: &str, labels| Network {
        id: NetworkId::new(id).unwrap(),
        name: "argusai-shop-network".to_owned(),
        labels,
        created_at: NOW - HOUR,
        is_broken: false,
    };
    let volume = Volume {
        name: VOLUME.to_owned(),
        labels: labels_of("dead", folder),
    };
    for object in [
        Object::Container(Arc::new(container)),
        Object::Network(Arc::new(network("n1", labels_of("dead", folder)))),
        Object::Network(Arc::new(network("n2", labels_of("me", "/a")))),
        Object::Volume(Arc::new(volume)),
    ] {
        store.apply(WatchEvent::Apply(object));
    }
    store
}

fn pass(specs: &Specs, store: &Store, requests: &UserRequests) -> Plan {
    pass_with(specs, store, requests, PlannerState::default())
}

fn pass_with(specs: &Specs, store: &Store, requests: &UserRequests, state: PlannerState) -> Plan {
    let mut leases = ControllerLeases::new(ProcessIdentity {
        controller: "me".to_owned(),
        run: "run".to_owned(),
        state_dir: "here".to_owned(),
        holds_lease: false,
    });
    leases.on_listed(Vec::new(), NOW);
    let mut planner = Planner::new(identity(), state);
    let result = planner.reconcile(&Inputs {
        specs,
        scanned: true,
        store,
        health: &HealthStates::new(),
        leases: &leases,
        requests,
        preflight: None,
        now: NOW,
    });
    Plan::clone(&result.plans[&EnvName::new("shop").unwrap()])
}

fn wait_of<'a>(plan: &'a Plan, subject: &str) -> Option<&'a WaitReason> {
    let mut waits = plan.waits.iter();
    waits
        .find(|wait| wait.subject.to_string().contains(subject))
        .map(|wait| &wait.on)
}

#[test]
fn volume_of_another_project_keeps_its_data() {
    let none = UserRequests::default();
    let plan = pass(&specs("shop", "shop", false), &store("/b"), &none);
    assert!(
        matches!(wait_of(&plan, "/web"), Some(WaitReason::Volume { name }) if name.as_str() == VOLUME),
        "{plan:#?}"
    );
    let taken = plan.waits.iter().find_map(|wait| match &wait.on {
        WaitReason::NameTaken {
            name,
            conflicting_object,
            ..
        } => Some((name.as_str(), conflicting_object.as_str())),
        _ => None,
    });
    let (name, holder) = taken.unwrap();
    assert_eq!(name, VOLUME);
    assert!(holder.contains("`shop` of the project in `/b`"), "{holder}");
    assert!(
        holder.contains("`argus orphans --clean --project shop --volumes`"),
        "{holder}"
    );
    // The other service waits for its image only.
    assert!(
        !matches!(
            wait_of(&plan, "/api"),
            Some(WaitReason::Volume { .. } | WaitReason::NameTaken { .. })
        ),
        "{plan:#?}"
    );
    // The same folder, or a permission of a person.
    for (folder, is_allowed) in [("/a", false), ("/b", true)] {
        let plan = pass(&specs("shop", "shop", is_allowed), &store(folder), &none);
        assert!(
            !matches!(wait_of(&plan, "/web"), Some(WaitReason::Volume { .. })),
            "{folder}: {plan:#?}"
        );
        let names: Vec<_> = plan.orphans.iter().map(|orphan| orphan.name.as_str()).collect();
        assert!(!names.contains(&"shop-web"), "{folder}: {plan:#?}");
    }
}

#[test]
fn container_with_a_volume_of_another_project_is_not_adopted() {
    let specs = specs("shop", "shop", false);
    let desired = &specs[&EnvName::new("shop").unwrap()].desired;
    let rendered = render_all(desired, &PortMap::new(), &identity());
    let (_, hash) = &rendered[&ServiceName::new("web").unwrap()];
    for state in [ContainerState::Running, ContainerState::Exited] {
        let mut found = container("/b");
        found.state = state;
        found
            .labels
            .insert(labels::SPEC_HASH.to_owned(), hash.as_str().to_owned());
        let mut store = store("/b");
        store.apply(WatchEvent::Apply(Object::Container(Arc::new(found))));
        let plan = pass(&specs, &store, &UserRequests::default());
        assert!(
            matches!(wait_of(&plan, "/web"), Some(WaitReason::Volume { name }) if name.as_str() == VOLUME),
            "{state:?}: {plan:#?}"
        );
    }
}

/// State after the removal of the file of `shop`, which requested the removal of its volumes.
fn removed(specs: &Specs) -> PlannerState {
    let mut state = PlannerState::default();
    let history = EnvHistory {
        delete_volumes: Some(true),
        revision: Some(specs[&EnvName::new("other").unwrap()].desired.revision.clone()),
        ..EnvHistory::default()
    };
    state
        .environments
        .insert(EnvName::new("shop").unwrap(), Arc::new(history));
    state
}

#[test]
fn container_that_stays_keeps_only_the_objects_that_it_uses() {
    let specs = specs("shop", "other", false);
    let network = "argusai-shop-network".to_owned();
    let with = |mounts: Vec<Mount>, on: Option<&str>| {
        let attachment = |id| Attachment {
            network: Some(NetworkId::new(id).unwrap()),
            aliases: Vec::new(),
            address: None,
        };
        let config = Config {
            mounts,
            ..Config::default()
        };
        Container {
            networks: on
                .map(|id| (network.clone(), attachment(id)))
                .into_iter()
                .collect(),
            inspect: Some(InspectInfo {
                config,
                ..InspectInfo::default()
            }),
            ..container("/a")
        }
    };
    let id = container("/a").id;
    let removal = Subject::ExtraContainer { id: id.clone() };
    let foreign = PlannerState {
        not_owned: [id].into(),
        ..removed(&specs)
    };
    let failure = ActionFailure {
        verb: ActionKind::RemoveContainer,
        error: ActionError::Busy("the storage driver is busy".to_owned()),
        at: NOW,
        attempts: 100,
        earlier: Vec::new(),
        call: Box::default(),
    };
    let failed = PlannerState {
        action_failures: [(removal, failure)].into(),
        ..removed(&specs)
    };
    let data = || Mount::Volume {
        name: ResourceName::new(VOLUME).unwrap(),
        target: "/data".to_owned(),
        read_only: false,
    };
    let check = |container: &Container, state: &PlannerState| {
        let mut store = store("/a");
        let object = Object::Container(Arc::new(container.clone()));
        store.apply(WatchEvent::Apply(object));
        let plan = pass_with(&specs, &store, &UserRequests::default(), state.clone());
        let removed = plan.steps.iter().filter_map(|step| match &step.action {
            Action::RemoveNetwork { id, .. } => Some(id.to_string()),
            Action::RemoveVolume { name } => Some(name.to_string()),
            _ => None,
        });
        let kept = plan.waits.iter().filter_map(|wait| match &wait.on {
            WaitReason::InUse { object, containers } => Some(format!("{object} by {containers}")),
            _ => None,
        });
        (removed.collect::<Vec<_>>(), kept.collect::<Vec<_>>())
    };
    let (kept_network, kept_volume) = (
        format!("network `{network}` by `shop-web`"),
        format!("volume `{VOLUME}` by `shop-web`"),
    );
    for state in [&foreign, &failed] {
        let found = check(&with(Vec::new(), None), state);
        assert_eq!(found, (vec!["n1".into(), "n2".into(), VOLUME.into()], vec![]));
        let found = check(&with(Vec::new(), Some("n2")), state);
        let expected = (vec!["n1".into(), VOLUME.into()], vec![kept_network.clone()]);
        assert_eq!(found, expected);
        let found = check(&with(vec![data()], None), state);
        let expected = (vec!["n1".into(), "n2".into()], vec![kept_volume.clone()]);
        assert_eq!(found, expected);
        let unknown = check(&container("/a"), state);
        assert_eq!(unknown.1, vec![kept_volume.clone()], "its mounts are unknown");
    }
    // A container that leaves is awaited.
    let leaves = check(&with(vec![data()], Some("n2")), &removed(&specs));
    assert_eq!(leaves, (vec!["n1".into()], vec![]));
}

#[test]
fn removed_file_deletes_no_volume_of_another_project() {
    let specs = specs("shop", "other", false);
    let state = removed(&specs);
    let is_removed = |folder| {
        let plan = pass_with(&specs, &store(folder), &UserRequests::default(), state.clone());
        let mut steps = plan.steps.iter().map(|step| format!("{:?}", step.action));
        let waits = plan.waits.iter().map(|wait| wait.subject.to_string());
        let is_step = steps.any(|step| step.starts_with("RemoveVolume"));
        is_step || waits.into_iter().any(|subject| subject.contains(VOLUME))
    };
    assert!(is_removed("/a"));
    assert!(!is_removed("/b"));
}

/// Actions of a pass on this container and on the volume.
fn actions(plan: &Plan) -> Vec<String> {
    let steps = plan.steps.iter().map(|step| format!("{:?}", step.action));
    let of_volume = ["RemoveContainer", "RemoveVolume", "CreateVolume"];
    let kinds = steps.filter_map(|step| of_volume.into_iter().find(|kind| step.starts_with(kind)));
    kinds.map(str::to_owned).collect()
}

#[test]
fn requested_removal_of_a_volume_needs_no_removal_of_the_file() {
    let specs = specs("shop", "shop", false);
    let mut requests = UserRequests::default();
    let mut store = store("/b");
    let kept = pass(&specs, &store, &requests);
    assert_eq!(actions(&kept), [""; 0]);
    let listed = kept.orphans.iter().find(|orphan| orphan.name == VOLUME);
    let decision = OrphanDecision::KeptVolume { is_foreign: true };
    assert_eq!(listed.unwrap().decision, decision);
    let texts = argus_core::status::orphans(&kept);
    let texts: Vec<_> = texts.iter().filter(|orphan| orphan.is_kept()).collect();
    assert!(texts[0].other_folder, "{texts:?}");
    assert!(!format!("{texts:?}").contains("--clean"), "{texts:?}");

    // Without the volumes of other folders, the request removes nothing.
    for volumes in [VolumeRemoval::None, VolumeRemoval::OwnFolders] {
        requests.request_orphan_removal(["shop".to_owned()], volumes, NOW + HOUR);
        assert_eq!(actions(&pass(&specs, &store, &requests)), [""; 0]);
    }

    requests.request_orphan_removal(["shop".to_owned()], VolumeRemoval::AllFolders, NOW + HOUR);
    let plan = pass(&specs, &store, &requests);
    assert_eq!(actions(&plan), ["RemoveContainer"], "{plan:#?}");
    assert!(
        matches!(wait_of(&plan, VOLUME), Some(WaitReason::Containers)),
        "{plan:#?}"
    );
    store.apply(WatchEvent::Delete(ObjectId::Container(container("/b").id)));
    // Another service of this file runs.
    let mut other = container("/a");
    other
        .labels
        .insert(labels::CONTROLLER.to_owned(), "me".to_owned());
    other.labels.insert(labels::SERVICE.to_owned(), "api".to_owned());
    other.state = ContainerState::Running;
    store.apply(WatchEvent::Apply(Object::Container(Arc::new(other))));
    assert_eq!(actions(&pass(&specs, &store, &requests)), ["RemoveVolume"]);
    store.apply(WatchEvent::Delete(ObjectId::Volume(VOLUME.into())));
    assert_eq!(actions(&pass(&specs, &store, &requests)), ["CreateVolume"]);
}

#[test]
fn requested_removal_keeps_own_and_allowed_volumes() {
    let mut requests = UserRequests::default();
    requests.request_orphan_removal(["shop".to_owned()], VolumeRemoval::AllFolders, NOW + HOUR);
    for (folder, is_allowed) in [("/a", false), ("/b", true)] {
        let plan = pass(&specs("shop", "shop", is_allowed), &store(folder), &requests);
        assert!(!actions(&plan).contains(&"RemoveVolume".to_owned()), "{folder}");
        assert!(
            plan.orphans.iter().all(|orphan| orphan.name != VOLUME),
            "{folder}"
        );
    }
}

#[test]
fn created_container_inherits_no_label_of_its_image() {
    let specs = specs("shop", "shop", false);
    let desired = &specs[&EnvName::new("shop").unwrap()].desired;
    let rendered = render_all(desired, &PortMap::new(), &identity());
    let (spec, hash) = &rendered[&ServiceName::new("web").unwrap()];
    let created = stamped(spec, hash, desired, &identity(), NOW).labels;
    for key in [
        labels::MANAGED,
        labels::PROJECT,
        labels::ENVIRONMENT,
        labels::SERVICE,
        labels::ROLE,
        labels::SPEC_HASH,
        labels::REVISION,
        labels::CONTROLLER,
        labels::RUN_ID,
        labels::CREATED_AT,
        labels::FOLDER,
        labels::PORTS,
        labels::DEPENDS_ON,
    ] {
        assert!(created.contains_key(key), "{key}: {created:?}");
    }
}
