//! Tests of the names of volumes.

use std::sync::Arc;

use super::*;
use crate::action::Action;
use crate::desired::admit::{Admission, admit};
use crate::desired::key_lines::KeyLines;
use crate::ident::PortMap;
use crate::labels;
use crate::lease::ControllerLeases;
use crate::observed::{Object, Store, Volume, WatchEvent};
use crate::plan::{ControllerIdentity, Plan, render};
use crate::probe::HealthStates;
use crate::reconcile::{Inputs, Planner};
use crate::state::PlannerState;
use crate::time::Timestamp;
use crate::user_requests::UserRequests;
use crate::wait::{Wait, WaitReason};

const SPEC: &str = "project: { name: shop }\nservice: { image: web:1, container: { name: shop-web, volumes: [\"data:/data\"] } }\n";

fn admission(text: &str, allowed: bool) -> Admission {
    let mut context = SpecContext::default();
    context.host.allowed = allowed;
    let spec = argus_crds::yaml::read("e2e.yaml", text.as_bytes()).spec.unwrap();
    admit(&spec, &context)
}

fn desired(text: &str) -> Desired {
    admission(text, true).desired.unwrap()
}

fn names(desired: &Desired) -> Vec<&str> {
    desired.volumes.iter().map(ResourceName::as_str).collect()
}

/// Volumes of the environment `shop` with these names.
fn present(names: &[&str]) -> Vec<Arc<Volume>> {
    let labels = [
        (labels::MANAGED, "true"),
        (labels::ENVIRONMENT, "shop"),
        (labels::CONTROLLER, "me"),
    ];
    let labels: BTreeMap<String, String> = labels
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
    let volume = |name: &&str| {
        Arc::new(Volume {
            name: (*name).to_owned(),
            labels: labels.clone(),
        })
    };
    names.iter().map(volume).collect()
}

fn identity() -> ControllerIdentity {
    ControllerIdentity {
        controller: "me".to_owned(),
        run: "run".to_owned(),
        publish_address: [127, 0, 0, 1].into(),
    }
}

/// Volume `data` of the Compose project `shop`.
fn compose_volume() -> Arc<Volume> {
    let labels = [
        (labels::COMPOSE_PROJECT, "shop"),
        (labels::COMPOSE_VOLUME, "data"),
    ];
    Arc::new(Volume {
        name: "shop_data".to_owned(),
        labels: labels
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
    })
}

/// First plan of an allowed environment that has only these volumes.
fn plan_with(desired: &Desired, volumes: &[&str]) -> Arc<Plan> {
    plan_of(desired, true, present(volumes))
}

fn plan_of(desired: &Desired, allowed: bool, volumes: Vec<Arc<Volume>>) -> Arc<Plan> {
    let accepted = Accepted {
        file_hash: None,
        mounted_files: std::collections::BTreeMap::new(),
        desired: desired.clone(),
        spec_path: "e2e.yaml".to_owned(),
        lines: KeyLines::default(),
        accepted_at: Timestamp(0),
        has_pending_edit: false,
        allowed,
        is_ending: false,
    };
    let mut store = Store::default();
    store.apply(WatchEvent::Connected(Timestamp(0)));
    store.apply(WatchEvent::Init);
    for volume in volumes {
        store.apply(WatchEvent::Apply(Object::Volume(volume)));
    }
    store.apply(WatchEvent::InitDone);
    let specs = BTreeMap::from([(desired.env.clone(), Arc::new(accepted))]);
    let result = Planner::new(identity(), PlannerState::default()).reconcile(&Inputs {
        specs: &specs,
        scanned: true,
        store: &store,
        health: &HealthStates::new(),
        leases: &ControllerLeases::default(),
        requests: &UserRequests::default(),
        preflight: None,
        now: Timestamp(10_000),
    });
    result.plans[&desired.env].clone()
}

/// Volumes that a plan creates, or checks if they are external.
fn created(plan: &Plan) -> Vec<(&str, bool)> {
    let steps = plan.steps.iter();
    steps
        .filter_map(|step| match &step.action {
            Action::CreateVolume { name, external, .. } => Some((name.as_str(), *external)),
            _ => None,
        })
        .collect()
}

#[test]
fn each_environment_has_its_own_volume() {
    let other = SPEC.replace("name: shop }", "name: other }");
    let (shop, other) = (desired(SPEC), desired(&other));
    assert_eq!(names(&shop), ["argusai-shop_data"]);
    assert_eq!(names(&other), ["argusai-other_data"]);
    let long = "x".repeat(128);
    let text = SPEC.replace("data:/data", &format!("{long}:/data"));
    let shortened = desired(&text);
    assert!(names(&shortened)[0].starts_with("argusai-shop_"), "{shortened:?}");
    assert_eq!(shortened.former_volumes.values().next().unwrap().as_str(), long);
}

#[test]
fn upgrade_keeps_the_revision() {
    let desired = desired(SPEC);
    assert_eq!(names(&desired.with_former_volumes()), ["data"]);
    let before = "a26824d20c4d95b4115735246da7250f";
    assert_eq!(desired.revision.as_str(), before, "as with the former name");
}

/// Present volumes, the hash of the service, and the created volumes.
type Case<'a> = (&'a [&'a str], &'a crate::ident::Hash, &'a [(&'a str, bool)]);

#[test]
fn volume_of_an_earlier_version_stays_in_use() {
    let desired = desired(SPEC);
    let hash_with = |desired: &Desired| {
        let rendered = render::render_all(desired, &PortMap::new(), &identity());
        rendered.into_values().next().unwrap().1
    };
    let (new, former) = (hash_with(&desired), hash_with(&desired.with_former_volumes()));
    assert_ne!(new, former);
    let cases: [Case<'_>; 3] = [
        (&[], &new, &[("argusai-shop_data", false)]),
        (&["data"], &former, &[]),
        (&["data", "argusai-shop_data"], &new, &[]),
    ];
    for (volumes, hash, creates) in cases {
        let plan = plan_with(&desired, volumes);
        assert_eq!(plan.hashes.values().collect::<Vec<_>>(), [hash], "{volumes:?}");
        assert_eq!(created(&plan), creates, "{volumes:?}");
    }
}

#[test]
fn external_volume_has_the_name_of_the_file_and_is_only_checked() {
    for (settings, name) in [
        ("external: true", "data"),
        ("external: true, name: other_db", "other_db"),
    ] {
        let text = format!("{SPEC}volumes: {{ data: {{ {settings} }} }}\n");
        let desired = desired(&text);
        assert_eq!(names(&desired), [name]);
        assert_eq!(
            names(&desired.forked(&EnvName::new("two").unwrap())),
            [name],
            "a fork shares it"
        );
        assert_eq!(created(&plan_with(&desired, &[])), [(name, true)]);
        assert_eq!(admission(&text, true).diagnostics, []);
        let refused = admission(&text, false);
        let [only] = &refused.diagnostics[..] else {
            panic!("{refused:#?}")
        };
        assert_eq!(
            (&refused.desired, only.path.as_str()),
            (&None, "volumes.data.external")
        );
        assert!(only.hint.as_ref().unwrap().contains("`argus allow`"), "{only:?}");
        let mut context = SpecContext::default();
        context.host.external_volumes.insert(name.to_owned());
        let spec = argus_crds::yaml::read("e2e.yaml", text.as_bytes()).spec.unwrap();
        assert_eq!(
            admit(&spec, &context).diagnostics,
            [],
            "the operator names {name}"
        );
    }
}

#[test]
fn volume_of_compose_is_used_in_an_allowed_project() {
    let (shop, other) = (
        desired(SPEC),
        desired(&SPEC.replace("name: shop }", "name: other }")),
    );
    let compose = || vec![compose_volume()];
    let plan = plan_of(&shop, true, compose());
    assert_eq!(created(&plan), [("shop_data", true)], "Argus only checks it");
    let plan = plan_of(&other, true, compose());
    assert_eq!(created(&plan), [("argusai-other_data", false)]);
    let own = present(&["argusai-shop_data"]).into_iter().chain(compose());
    let plan = plan_of(&shop, true, own.collect());
    assert!(created(&plan).is_empty(), "its own volume stays in use");
    let plan = plan_of(&shop, false, compose());
    assert!(created(&plan).is_empty(), "no empty volume replaces the data");
    let is_named = |wait: &Wait| match &wait.on {
        WaitReason::NameTaken {
            name,
            conflicting_object: holder,
            ..
        } => name == "shop_data" && holder.contains("`argus allow` uses it"),
        _ => false,
    };
    assert!(plan.waits.iter().any(is_named), "{:?}", plan.waits);
}

#[test]
fn settings_without_effect_are_reported() {
    for (volumes, path, is_error) in [
        ("data: { name: other }", "volumes.data.name", true),
        ("data: { external: true, name: a/b }", "volumes.data.name", true),
        ("dta: { external: true }", "volumes.dta", false),
    ] {
        let found = admission(&format!("{SPEC}volumes: {{ {volumes} }}\n"), true);
        let [only] = &found.diagnostics[..] else {
            panic!("{volumes}: {found:#?}")
        };
        assert_eq!(
            (only.path.as_str(), only.is_error()),
            (path, is_error),
            "{volumes}"
        );
    }
    let plain = admission(&format!("{SPEC}volumes: {{ data: {{}} }}\n"), false);
    assert_eq!(plain.diagnostics, []);
    assert_eq!(names(&plain.desired.unwrap()), ["argusai-shop_data"]);
}
