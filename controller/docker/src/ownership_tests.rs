//! Tests of inherited labels, their image and their time.

use argus_core::observed::{Config, ContainerState, InspectInfo};

use super::*;
use crate::{Docker, Endpoint};

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

/// A container of 1970-01-01T00:01:00Z.
fn container(labels: &BTreeMap<String, String>) -> Container {
    Container {
        id: ContainerId::new("abc").unwrap(),
        name: "web".to_owned(),
        labels: labels.clone(),
        image: "web:1".to_owned(),
        state: ContainerState::Exited,
        created_at: Timestamp(60_000),
        networks: BTreeMap::new(),
        inspect: None,
        stopped_by_other: None,
        oom_at: None,
    }
}

#[test]
fn labels_inherited_from_the_image_do_not_count() {
    let image = labels(&[
        ("argusai.managed", "true"),
        ("argusai.created-at", "1"),
        ("x", "y"),
    ]);
    let is_inherited =
        |labels: &BTreeMap<_, _>, image: &BTreeMap<_, _>| are_of_image(&container(labels), image);
    assert!(is_inherited(&image, &image));
    let mut by_hand = image.clone();
    by_hand.insert("mine".into(), "z".into());
    assert!(is_inherited(&by_hand, &image));
    let ours = labels(&[("argusai.managed", "true"), ("argusai.created-at", "2")]);
    assert!(!is_inherited(&ours, &image));
    assert!(!is_inherited(&ours, &BTreeMap::new()));
}

#[test]
fn labels_without_their_image_need_the_time_of_the_container() {
    let hour = 3_600_000;
    for (at, offset, is_own) in [
        ("1970-01-01T00:00:58Z", 0, true),
        ("1970-01-01T00:50:00Z", 0, true),
        ("1970-01-01T02:00:00Z", 0, false),
        ("1970-01-01T05:00:58Z", -5 * hour, true),
        ("1970-01-01T05:00:58Z", 5 * hour, false),
        ("now", 0, false),
    ] {
        let ours = labels(&[("argusai.managed", "true"), ("argusai.created-at", at)]);
        assert_eq!(
            is_creation_time(&container(&ours), offset),
            is_own,
            "{at} {offset}"
        );
    }
    let unlabelled = labels(&[("argusai.managed", "true")]);
    assert!(!is_creation_time(&container(&unlabelled), 0));
}

#[test]
fn a_reference_cannot_change_the_path_of_the_url() {
    for good in [
        "busybox",
        "r.example:5000/a/b:1.0",
        "a@sha256:00ff",
        "sha256:00ff",
    ] {
        assert!(check_reference(good).is_ok(), "{good}");
    }
    for bad in [
        "",
        "../containers/x",
        "a/../b",
        "a?b",
        "a b",
        "a#b",
        "/a",
        "a%2fb",
        "a\n",
    ] {
        assert!(check_reference(bad).is_err(), "{bad}");
    }
}

#[tokio::test]
async fn build_of_an_image_counts_and_not_a_copied_label() {
    let endpoint = Endpoint::Unix("/nowhere/engine.sock".into());
    let docker = Docker::new(endpoint, Arc::new(|| Timestamp(0)));
    let images = &docker.shared.image_labels.known;
    for (id, image) in [
        ("built", labels(&[(BUILD_DIGEST, "d1")])),
        ("rebuilt", labels(&[(BUILD_DIGEST, "d2")])),
        ("foreign", labels(&[])),
    ] {
        images.lock().unwrap().insert(id.to_owned(), Arc::new(image));
    }
    for (label, image_id, expected) in [
        ("d1", "built", "d1"),
        ("d1", "rebuilt", "d2"),
        ("d1", "foreign", ""),
        // The engine does not answer.
        ("d1", "unknown", "d1"),
        ("", "built", ""),
    ] {
        let mut found = container(&labels(&[]));
        found.inspect = Some(InspectInfo {
            config: Config {
                build: label.to_owned(),
                ..Config::default()
            },
            ..InspectInfo::default()
        });
        read_build(&docker.shared, &mut found, image_id).await;
        assert_eq!(
            found.inspect.unwrap().config.build,
            expected,
            "{label} {image_id}"
        );
    }
}
