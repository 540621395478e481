//! Tests of good revisions.

use std::collections::BTreeMap;

use argus_core::desired::admit::{SpecContext, admit};
use argus_core::desired::key_lines::KeyLines;
use argus_core::ident::ContainerId;
use argus_core::labels::{ENVIRONMENT, MANAGED, SERVICE};
use argus_core::observed::{ContainerState, InspectInfo, Object, WatchEvent};
use argus_core::state::PlannerState;

use super::*;
use crate::specs::SpecRegistry;

fn store(image_id: &str) -> Store {
    store_in(ContainerState::Running, 0, image_id)
}

fn store_in(state: ContainerState, exit_code: i64, image_id: &str) -> Store {
    let labels = [(MANAGED, "true"), (ENVIRONMENT, "shop"), (SERVICE, "web")];
    let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let container = Container {
        id: ContainerId::new("c").unwrap(),
        name: "shop-web".to_owned(),
        labels: labels.into_iter().collect(),
        image: "web:1".to_owned(),
        state,
        created_at: Timestamp(1),
        networks: BTreeMap::new(),
        inspect: Some(InspectInfo {
            started_at: (state != ContainerState::Created).then_some(Timestamp(1)),
            exit_code,
            image_id: Some(image_id.to_owned()),
            ..InspectInfo::default()
        }),
        stopped_by_other: None,
        oom_at: None,
    };
    let mut store = Store::default();
    for event in [
        WatchEvent::Connected(Timestamp(1)),
        WatchEvent::Init,
        WatchEvent::Apply(Object::Container(Arc::new(container))),
        WatchEvent::InitDone,
    ] {
        store.apply(event);
    }
    store
}

fn accepted() -> Accepted {
    let text = "version: \"1\"\nproject: { name: shop }\nservices:\n  web: { image: web:1, container: { name: shop-web } }\n";
    let read = argus_crds::yaml::read("e2e.yaml", text.as_bytes());
    let spec = read.spec.unwrap();
    Accepted {
        desired: admit(&spec, &SpecContext::default()).desired.unwrap(),
        spec_path: "e2e.yaml".to_owned(),
        lines: KeyLines::from_spec(&spec, &read.source),
        accepted_at: Timestamp(1),
        has_pending_edit: false,
        allowed: false,
        is_ending: false,
        file_hash: None,
        mounted_files: std::collections::BTreeMap::new(),
    }
}

#[test]
fn new_image_of_the_same_revision_is_pinned_again() {
    let accepted = accepted();
    let (old, new) = (store("sha256:old"), store("sha256:new"));
    let good = pinned(&accepted, &old);
    assert!(runs_as_pinned(&good, &old) && !runs_as_pinned(&good, &new));
    assert!(
        runs_as_pinned(&pinned(&accepted, &new), &new),
        "a second pin changes nothing"
    );
    assert!(
        runs_as_pinned(&good, &Store::default()),
        "services that do not run are ignored"
    );
}

#[test]
fn rollback_keeps_the_image_of_an_unchanged_service() {
    let specs = SpecRegistry::default();
    let kept = |state: &PlannerState, current: &Accepted, present: &Store| {
        let mut to = pinned(&accepted(), &store("sha256:good"));
        let inputs = OverrideInputs {
            specs: &specs,
            store: present,
            state,
            now: Timestamp(60_000),
        };
        keep_unchanged(&mut to, current, inputs);
        let service = to.desired.services.values().next().unwrap();
        service.image.reference().to_owned()
    };
    let (mut state, current) = (PlannerState::default(), accepted());
    let running = store("sha256:good");
    assert_eq!(kept(&state, &current, &running), "web:1");
    // The name has another image by now, or the container has ended.
    let ended = store_in(ContainerState::Exited, 1, "sha256:good");
    for present in [store("sha256:new"), ended, Store::default()] {
        assert_eq!(kept(&state, &current, &present), "sha256:good");
    }
    let mut edited = accepted();
    edited.desired.services.values_mut().next().unwrap().memory = Some(1 << 20);
    assert_eq!(kept(&state, &edited, &running), "sha256:good");
    let name = current.desired.services.keys().next().unwrap();
    let mut history = EnvHistory::default();
    history.service_mut(name).health = Some(ProbeStatus::Unhealthy);
    state
        .environments
        .insert(current.desired.env.clone(), Arc::new(history));
    assert_eq!(kept(&state, &current, &running), "sha256:good");
}

#[test]
fn only_running_images_become_good() {
    let accepted = accepted();
    let env = accepted.desired.env.clone();
    let desired: DesiredState = [(env.clone(), Arc::new(accepted.clone()))].into();
    let mut state = PlannerState::default();
    let history = EnvHistory {
        last_ready: Some(accepted.desired.revision.clone()),
        ..EnvHistory::default()
    };
    state.environments.insert(env.clone(), Arc::new(history));
    let mut overrides = Overrides::default();
    let mut record = |store: &Store| {
        let specs = SpecRegistry::default();
        let now = Timestamp(60_000);
        let inputs = OverrideInputs {
            specs: &specs,
            store,
            state: &state,
            now,
        };
        overrides.record_known_good(&desired, inputs);
        let good = overrides.good_images.get(&env);
        good.map(|good| good.images.values().next().unwrap().clone())
    };
    let failed = |id| store_in(ContainerState::Exited, 1, id);
    assert_eq!(record(&failed("sha256:bad")), None);
    let mut restarted = store_in(ContainerState::Exited, 1, "sha256:good");
    let ended = restarted.of(&env).unwrap().containers.values().next().unwrap();
    let container = Container {
        state: ContainerState::Running,
        inspect: None,
        ..Container::clone(ended)
    };
    restarted.apply(WatchEvent::Apply(Object::Container(Arc::new(container))));
    for between in [Store::default(), restarted] {
        assert_eq!(record(&between), None, "nothing shows how long it runs");
    }
    let good = record(&store("sha256:good")).unwrap();
    assert_eq!((good.key.as_str(), good.id.as_str()), ("web:1", "sha256:good"));
    let after = record(&failed("sha256:bad")).unwrap();
    assert_eq!(after, good, "the image of a failed container is not good");
    let ended = store_in(ContainerState::Exited, 0, "sha256:new");
    assert_eq!(record(&ended).unwrap(), good, "neither is one that must not end");
    let created = store_in(ContainerState::Created, 0, "sha256:new");
    assert_eq!(record(&created).unwrap(), good, "neither is one that never ran");
    let values = overrides.known_good[&env][0].lines.values();
    assert_eq!(values["services.web.image"], "web:1");
}

#[test]
fn optional_service_and_completed_job_need_no_container() {
    for (line, is_completed, is_good) in [
        ("criticality: optional", false, true),
        ("criticality: recoverable", false, true),
        ("criticality: important", false, false),
        ("oneShot: true", true, true),
        ("oneShot: true", false, false),
    ] {
        let text = format!(
            "version: \"1\"\nproject: {{ name: shop }}\nservices:\n  web:\n    image: web:1\n    {line}\n    container: {{ name: shop-web }}\n"
        );
        let written = argus_crds::yaml::read("e2e.yaml", text.as_bytes()).spec.unwrap();
        let accepted = Accepted {
            desired: admit(&written, &SpecContext::default()).desired.unwrap(),
            ..accepted()
        };
        let mut history = EnvHistory {
            last_ready: Some(accepted.desired.revision.clone()),
            ..EnvHistory::default()
        };
        let name = accepted.desired.services.keys().next().unwrap();
        let hash = is_completed.then(|| argus_core::ident::Hash::new("1").unwrap());
        history.service_mut(name).completed = hash;
        let at = good_at(&accepted, &history, &Store::default());
        assert_eq!(at.is_some(), is_good, "{line}, completed: {is_completed}");
        let ended = good_at(
            &accepted,
            &history,
            &store_in(ContainerState::Exited, 0, "sha256:a"),
        );
        let may_end = !line.ends_with("important");
        assert_eq!(ended.is_some(), may_end, "{line} after its end");
    }
}
