//! Builds of an image whose context changes while it is built, and of an image that several services have.
#![allow(clippy::unwrap_used, reason = "all names in these tests are valid")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use argus_core::action::{Action, Step};
use argus_core::desired::admit::{SpecContext, admit};
use argus_core::desired::{Accepted, Desired, Image};
use argus_core::ident::{EnvName, Hash};
use argus_core::lease::ControllerLeases;
use argus_core::outcome::Done;
use argus_core::reconcile::Planner;
use argus_core::reconcile::forecast::apply_action;
use argus_core::state::PlannerState;
use argus_core::time::Timestamp;

use crate::reconcile::{identity, listed_store, reconcile};

/// File with one build of this digest.
fn accept(digest: &str) -> Arc<Accepted> {
    let text = "project: { name: shop }\nservices:\n  web: { build: { context: . }, container: { name: shop-web } }\n";
    let mut desired = desired(text);
    let web = desired.services.get_mut("web").unwrap();
    if let Image::Built(build) = &mut web.image {
        build.digest = Hash::new(digest).unwrap();
    }
    accept_desired(desired)
}

fn desired(text: &str) -> Desired {
    let written = argus_crds::yaml::read("e2e.yaml", text.as_bytes()).spec.unwrap();
    let context = SpecContext {
        directory: "/p".to_owned(),
        ..SpecContext::default()
    };
    admit(&written, &context).desired.unwrap()
}

fn accept_desired(desired: Desired) -> Arc<Accepted> {
    Arc::new(Accepted {
        desired,
        spec_path: "e2e.yaml".to_owned(),
        lines: argus_core::desired::key_lines::KeyLines::default(),
        accepted_at: Timestamp(0),
        has_pending_edit: false,
        allowed: false,
        is_ending: false,
        file_hash: None,
        mounted_files: BTreeMap::new(),
    })
}

fn digest_of(step: &Step) -> Option<&str> {
    match &step.action {
        Action::BuildImage(build) => Some(build.digest.as_str()),
        _ => None,
    }
}

#[test]
fn changes_during_a_build_make_one_more_build_after_it() {
    let (env, mut now) = (EnvName::new("shop").unwrap(), Timestamp(1_000_000));
    let mut planner = Planner::new(identity(), PlannerState::default());
    let (mut store, leases) = (listed_store(now), ControllerLeases::default());
    let mut specs = BTreeMap::from([(env.clone(), accept("aa"))]);
    let mut builds: Vec<Step> = Vec::new();
    for round in 0..20 {
        now = now + Duration::from_millis(200);
        // The context changes twice during the first build.
        let contents = ["aa", "aa", "bb", "cc"].get(round).unwrap_or(&"cc");
        specs.insert(env.clone(), accept(contents));
        let steps = reconcile(&mut planner, &specs, &store, &leases, now).steps;
        for (number, step) in steps.iter().enumerate() {
            if digest_of(step).is_some() {
                builds.push(step.clone());
            } else {
                let done = apply_action(&mut store, &step.action, now, round * 100 + number);
                planner.finished(step, &Ok(done), &store, now);
            }
        }
        let digests: Vec<_> = builds.iter().filter_map(digest_of).collect();
        match round {
            0..10 => assert!(
                digests.iter().all(|digest| *digest == "aa"),
                "{round}: {digests:?}"
            ),
            10 => {
                assert_eq!(digests, ["aa"]);
                planner.finished(&builds[0], &Ok(Done::Applied), &store, now);
            }
            _ => {}
        }
    }
    let digests: Vec<_> = builds.iter().filter_map(digest_of).collect();
    assert_eq!(digests, ["aa", "cc"]);
}

#[test]
fn equal_builds_without_a_tag_are_built_once() {
    let (env, now) = (EnvName::new("shop").unwrap(), Timestamp(1_000_000));
    let text = r#"
project: { name: shop }
services:
  web: { build: { context: . }, container: { name: shop-web } }
  worker: { build: { context: . }, container: { name: shop-worker } }
  again: { build: { context: . }, container: { name: shop-again } }
  test: { build: { context: ., target: test }, container: { name: shop-test } }
  named: { build: { context: ., image: "named:1" }, container: { name: shop-named } }
"#;
    let desired = desired(text);
    let reference = |service: &str| desired.services[service].image.reference();
    assert_eq!(reference("worker"), reference("web"));
    assert_eq!(reference("again"), reference("web"));
    assert_eq!(reference("test"), "argus/shop-test:latest");
    assert_eq!(reference("named"), "named:1");

    let mut planner = Planner::new(identity(), PlannerState::default());
    let (mut store, leases) = (listed_store(now), ControllerLeases::default());
    let specs = BTreeMap::from([(env, accept_desired(desired))]);
    let mut tags = Vec::new();
    for round in 0..20 {
        let now = now + Duration::from_millis(200 * round);
        let steps = reconcile(&mut planner, &specs, &store, &leases, now).steps;
        for (number, step) in (0_u64..).zip(&steps) {
            if let Action::BuildImage(build) = &step.action {
                tags.push(build.tag.clone());
            } else {
                let number = usize::try_from(round * 100 + number).unwrap();
                let done = apply_action(&mut store, &step.action, now, number);
                planner.finished(step, &Ok(done), &store, now);
            }
        }
    }
    tags.sort();
    assert_eq!(tags.len(), 3, "{tags:?}");
    tags.dedup();
    assert_eq!(tags.len(), 3, "{tags:?}");
}
