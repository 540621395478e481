//! Properties of admission that hold for every file, including mutated ones.

#![allow(clippy::unwrap_used, reason = "a failed precondition fails the test")]

use std::path::Path;

use argus_core::desired::Desired;
use argus_core::desired::admit::{SpecContext, admit};
use argus_core::desired::hash::revision_of;
use argus_crds::{Diagnostic, E2eSpec, yaml};
use proptest::prelude::*;
use serde_json::Value;

const EDGE_CASES: [&str; 28] = [
    "",
    " ",
    "../x",
    "a/b",
    "{{",
    "{{env.X}}",
    "{{config.a}}",
    "{{ports.api.80}}",
    "{{services.db.url}}",
    "8080:80",
    "[::1]:1-9:1-9/udp",
    "65535-65535",
    ":",
    "::",
    "/",
    "/var/run/docker.sock:/x",
    "./a:/b:ro",
    "a:/b",
    "'",
    "\"\\",
    "日本",
    "\u{0}",
    "host",
    "db",
    "api",
    "0s",
    "{{config.{{config.a}}}}",
    "é{{uuid}}é",
];

fn seeds() -> Vec<(String, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/admitted");
    let files = ["everything", "probes", "wild", "mocks-only"];
    let read = |name: &str| {
        let text = std::fs::read_to_string(folder.join(name).with_extension("yaml")).unwrap();
        let spec = yaml::read(name, text.as_bytes()).spec.unwrap();
        (text, serde_json::to_value(spec).unwrap())
    };
    files.into_iter().map(read).collect()
}

/// Replaces leaf number `at` below a value.
fn change(value: &mut Value, at: &mut usize, new: &str) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| change(item, at, new)),
        Value::Object(fields) => fields.values_mut().for_each(|field| change(field, at, new)),
        leaf => {
            if *at == 0 {
                *leaf = match leaf {
                    Value::Number(_) => Value::from(new.len() * 7919 % 70_000),
                    Value::Bool(flag) => Value::Bool(!*flag),
                    _ => Value::from(new),
                };
            }
            *at = at.wrapping_sub(1);
        }
    }
}

fn context() -> SpecContext {
    SpecContext {
        directory: "/specs/shop".to_owned(),
        uuid: "u".to_owned(),
        ..SpecContext::default()
    }
}

/// Asserts the invariants that the rest of this crate relies on.
fn check_invariants(desired: &Desired) {
    assert_eq!(desired.revision, revision_of(desired));
    let json = serde_json::to_string(desired).unwrap();
    assert_eq!(
        &serde_json::from_str::<Desired>(&json).unwrap(),
        desired,
        "stored names pass validation again"
    );
    let mut containers = std::collections::BTreeSet::new();
    for (name, service) in &desired.services {
        assert_eq!(name, &service.name);
        assert!(
            containers.insert(&service.container_name),
            "two containers called {}",
            service.container_name
        );
        for need in &service.depends_on {
            assert!(
                &need.service != name && desired.services.contains_key(&need.service),
                "{need:?}"
            );
        }
        let mut ports = std::collections::BTreeSet::new();
        for port in &service.ports {
            assert!(port.container != 0 && port.requested != Some(0));
            assert!(ports.insert((port.container, port.protocol)));
        }
    }
    assert!(desired.ports.low <= desired.ports.high && desired.ports.low >= 1024);
}

fn check_admission(spec: &E2eSpec) {
    let admission = admit(spec, &context());
    assert_eq!(
        admission,
        admit(spec, &context()),
        "the same file has the same outcome"
    );
    let refused = admission.diagnostics.iter().any(Diagnostic::is_error);
    assert_eq!(
        admission.desired.is_none(),
        refused,
        "{:#?}",
        admission.diagnostics
    );
    if let Some(desired) = &admission.desired {
        check_invariants(desired);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn replaced_leaf_never_panics_admission(
        seed in 0..4usize,
        changes in prop::collection::vec((0..160usize, prop_oneof![
            prop::sample::select(EDGE_CASES.to_vec()).prop_map(str::to_owned), ".{0,40}", "[a-z0-9:./\\-\\[\\]{} ]{0,20}",
        ]), 1..6),
    ) {
        let mut value = seeds().swap_remove(seed).1;
        for (mut at, new) in changes {
            change(&mut value, &mut at, &new);
        }
        if let Ok(spec) = serde_json::from_value::<E2eSpec>(value) {
            check_admission(&spec);
        }
    }

    #[test]
    fn mangled_file_never_panics_admission(
        seed in 0..4usize,
        cuts in prop::collection::vec((any::<prop::sample::Index>(), 0..4u8), 1..5),
    ) {
        let text = seeds().swap_remove(seed).0;
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        for (at, operation) in cuts {
            let at = at.index(lines.len());
            match operation {
                0 => drop(lines.remove(at)),
                1 => lines.insert(at, lines[at].clone()),
                2 => lines.truncate(at + 1),
                _ => {
                    let half = lines[at].chars().count() / 2;
                    lines[at] = lines[at].chars().take(half).collect();
                }
            }
            if lines.is_empty() {
                break;
            }
        }
        if let Some(spec) = yaml::read("e2e.yaml", lines.join("\n").as_bytes()).spec {
            check_admission(&spec);
        }
    }
}
