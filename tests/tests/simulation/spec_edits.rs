//! From files to the engine: a rejected file changes nothing that runs.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use argus_backend::sim::FaultProfile;
use argus_core::action::Action;
use argus_core::desired::PullPolicy;
use argus_core::desired::hash::revision_of;
use argus_core::ident::ResourceName;
use argus_reconciler::specs::SpecRegistry;
use argus_reconciler::specs::admission::{AdmissionInput, SpecAdmitter};
use argus_reconciler::specs::parsed_file::ParsedFile;

use crate::fixture::{START, SimFixture};
use crate::specs::PRESENT;

const GOOD: &str = r#"
version: "1"
project: { name: shop }
service:
  image: app:1
  container: { name: shop-api, ports: ["8080:80"] }
"#;

fn judge(book: &mut SpecRegistry, bytes: &[u8], fixture: &SimFixture) {
    let file = ParsedFile::read("shop.yaml", bytes);
    let input = AdmissionInput::new(Path::new("/specs/shop.yaml"), START);
    let judged = SpecAdmitter::default().admit(&file, &input, &mut |_| None);
    book.on_admitted(Path::new("shop.yaml"), None, judged, fixture.now);
}

#[test]
fn rejected_spec_changes_nothing() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../controller/core/tests/corpus/refused");
    let mut fixture = SimFixture::new(1, FaultProfile::no_faults());
    fixture.engine.change(START, |model| model.add_image(PRESENT));
    let mut book = SpecRegistry::default();
    book.resume_grace_periods(fixture.now);
    judge(&mut book, GOOD.as_bytes(), &fixture);
    assert_eq!(book.environments.len(), 1, "{:?}", book.files);
    fixture.specs.clone_from(&book.environments);
    assert!(
        fixture.run_to_rest(Duration::from_secs(60)),
        "{:?} {:?}",
        fixture.stuck(),
        fixture.shortfalls()
    );
    let before = fixture.engine.model.calls().len();
    let mut tried = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        judge(&mut book, &std::fs::read(&path).unwrap(), &fixture);
        fixture.specs.clone_from(&book.environments);
        let later = fixture.now + Duration::from_secs(5);
        fixture.run_until(later);
        assert_eq!(fixture.engine.model.calls().len(), before, "{}", path.display());
        tried += 1;
    }
    assert!(tried > 50, "{tried} files");
    // The controller restarts while the file is invalid: the last good revision still applies.
    fixture.kill_controller(Duration::from_secs(1), true);
    assert!(fixture.run_to_rest(Duration::from_secs(60)));
    assert_eq!(fixture.engine.model.calls().len(), before);
}

#[test]
fn files_are_copied_before_the_first_start() {
    let file = |content: &str| {
        let files = format!("\"8080:80\"], files: [{{ path: /etc/a, content: {content} }}]");
        GOOD.replace("\"8080:80\"]", &files)
    };
    // The creations of network and container, the copy and the start.
    for killed_after in 0..=4 {
        let mut fixture = SimFixture::new(1, FaultProfile::no_faults());
        fixture.engine.change(START, |model| model.add_image(PRESENT));
        let mut book = SpecRegistry::default();
        book.resume_grace_periods(fixture.now);
        judge(&mut book, file("one").as_bytes(), &fixture);
        fixture.specs.clone_from(&book.environments);
        fixture.run_until_started(killed_after);
        fixture.kill_controller(Duration::from_secs(1), false);
        assert!(fixture.run_to_rest(Duration::from_secs(60)), "{killed_after}");
        judge(&mut book, file("two").as_bytes(), &fixture);
        fixture.specs.clone_from(&book.environments);
        assert!(fixture.run_to_rest(Duration::from_secs(60)), "{killed_after}");

        let mut copied = BTreeMap::new();
        let mut starts = Vec::new();
        for call in fixture.engine.model.calls() {
            match &call.action {
                Action::CopyFile { id, files } => {
                    copied.insert(id, files[0].text.as_str());
                }
                Action::StartContainer { id } => starts.push(copied.get(id).copied()),
                _ => {}
            }
        }
        starts.dedup();
        assert_eq!(
            starts,
            [Some("one"), Some("two")],
            "killed after {killed_after} calls"
        );
    }
}

#[test]
fn older_container_names_are_replaced_without_a_restart() {
    let file = format!("{GOOD}\nisolation: {{ namespace: tree }}\n");
    let mut fixture = SimFixture::new(1, FaultProfile::no_faults());
    let mut book = SpecRegistry::default();
    book.resume_grace_periods(fixture.now);
    judge(&mut book, file.as_bytes(), &fixture);
    let desired = book.environments.values().next().unwrap().desired.clone();
    let mut older = desired.clone();
    for service in older.services.values_mut() {
        assert_eq!(service.container_name.as_str(), "tree-shop-api");
        service.container_name = ResourceName::new("shop-api-tree").unwrap();
    }
    older.revision = revision_of(&older);
    let ids = |fixture: &SimFixture| -> Vec<_> {
        let containers = fixture.engine.model.containers();
        containers.map(|c| (c.id.clone(), c.name.clone())).collect()
    };

    fixture.wants(older);
    assert!(fixture.run_to_rest(Duration::from_secs(60)));
    let (id, name) = ids(&fixture).remove(0);
    assert_eq!(name, "shop-api-tree");
    fixture.kill_controller(Duration::from_secs(1), true);
    fixture.started.clear();
    fixture.wants(desired);
    assert!(fixture.run_to_rest(Duration::from_secs(60)));
    assert_eq!(ids(&fixture), [(id, "tree-shop-api".to_owned())]);
    let later = fixture.now + Duration::from_hours(1);
    fixture.run_until(later);
    assert_eq!(fixture.started.len(), 1, "{:?}", fixture.started);
    let action = &fixture.started[0].1.action;
    assert!(matches!(action, Action::RenameContainer { .. }), "{action:?}");
    assert!(fixture.broken.is_empty(), "{:?}", fixture.broken);
}

/// Image that only the registry has.
const REMOTE: &str = "remote:1";

/// Policies of the pulls so far.
fn pulls(fixture: &SimFixture) -> Vec<PullPolicy> {
    let policy = |action: &Action| match action {
        Action::PullImage { policy, .. } => Some(*policy),
        _ => None,
    };
    let started = fixture.started.iter();
    started.filter_map(|(_, step)| policy(&step.action)).collect()
}

/// A fixture whose registry has the image, and the file with this policy.
fn with_policy(policy: &str) -> (SimFixture, SpecRegistry, String) {
    let mut fixture = SimFixture::new(1, FaultProfile::no_faults());
    fixture
        .engine
        .change(START, |model| model.add_to_registry(REMOTE));
    let text = GOOD.replace(
        "image: app:1",
        &format!("image: {REMOTE}\n  pullPolicy: {policy}"),
    );
    let mut book = SpecRegistry::default();
    book.resume_grace_periods(fixture.now);
    judge(&mut book, text.as_bytes(), &fixture);
    fixture.specs.clone_from(&book.environments);
    (fixture, book, text)
}

#[test]
fn always_pulls_once_before_the_container_of_a_revision() {
    for (policy, expected) in [("missing", [0, 0, 0]), ("always", [1, 1, 2])] {
        let (mut fixture, mut book, text) = with_policy(policy);
        fixture.engine.change(START, |model| model.add_image(REMOTE));
        assert!(fixture.run_to_rest(Duration::from_secs(60)), "{policy}");
        assert_eq!(pulls(&fixture).len(), expected[0], "{policy}");
        // Another container of the same revision.
        let id = fixture.engine.model.containers().next().unwrap().id.clone();
        let now = fixture.now;
        fixture.engine.change(now, |model| model.kill(&id, 1));
        assert!(fixture.run_to_rest(Duration::from_secs(60)), "{policy}");
        assert_eq!(pulls(&fixture).len(), expected[1], "{policy}");
        let edited = text.replace("8080:80", "8081:80");
        judge(&mut book, edited.as_bytes(), &fixture);
        fixture.specs.clone_from(&book.environments);
        assert!(fixture.run_to_rest(Duration::from_secs(60)), "{policy}");
        assert_eq!(pulls(&fixture).len(), expected[2], "{policy}");
    }
}

#[test]
fn never_waits_for_an_image_that_is_loaded() {
    let (mut fixture, _, _) = with_policy("never");
    fixture.run_until(START + Duration::from_secs(30));
    assert_eq!(fixture.engine.model.containers().count(), 0);
    fixture
        .engine
        .change(fixture.now, |model| model.add_image(REMOTE));
    assert!(
        fixture.run_to_rest(Duration::from_secs(120)),
        "{:?}",
        fixture.stuck()
    );
    assert_eq!(fixture.engine.model.containers().count(), 1);
    let all = pulls(&fixture);
    assert!(
        !all.is_empty() && all.iter().all(|policy| *policy == PullPolicy::Never),
        "{all:?}"
    );
}
