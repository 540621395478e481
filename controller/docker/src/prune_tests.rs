//! Clean-up of images and of the build cache.

use std::sync::{Arc, Mutex};

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixListener;

use super::*;
use crate::{Docker, Endpoint};

fn step(id: &str, by: &str, tags: &[&str]) -> ImageHistoryResponseItem {
    ImageHistoryResponseItem {
        id: id.to_owned(),
        created_by: by.to_owned(),
        tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
        size: 5,
        ..ImageHistoryResponseItem::default()
    }
}

fn image(id: &str) -> ImageSummary {
    ImageSummary {
        id: id.to_owned(),
        repo_tags: vec!["<none>:<none>".to_owned()],
        labels: [(BUILD_TAG.to_owned(), "shop:argus".to_owned())].into(),
        ..ImageSummary::default()
    }
}

#[test]
fn an_image_is_ours_if_its_last_step_wrote_our_label() {
    let label = format!("/bin/sh -c #(nop)  LABEL {BUILD_TAG}=shop:argus");
    let ours = [
        step("sha256:1", &label, &[]),
        step("sha256:0", "/bin/sh -c x", &[]),
    ];
    let read_it = |history: &[ImageHistoryResponseItem]| read(&image("sha256:1"), history, &BTreeSet::new());
    let built = read_it(&ours).unwrap();
    assert_eq!(
        (built.built_as.as_str(), built.tags.len(), built.used),
        ("shop:argus", 0, false)
    );
    let on_ours = [
        step("sha256:2", "/bin/sh -c apt-get", &[]),
        step("sha256:1", &label, &[]),
    ];
    assert_eq!(
        read_it(&on_ours),
        None,
        "the label is inherited from the base image"
    );
    assert_eq!(read_it(&[]), None);
}

#[test]
fn build_keeps_the_image_of_a_rollback() {
    let build = |id: &str, at: i64| BuiltImage {
        id: id.to_owned(),
        built_as: "shop:argus".to_owned(),
        tags: Vec::new(),
        created_at: Timestamp(at),
        used: false,
        tagged_at: None,
        layer_sizes: BTreeMap::new(),
    };
    // `a` was Ready; the edits after it failed.
    let images = [build("a", 1), build("b", 2), build("c", 3), build("d", 4)];
    let removed = |kept: &[&str]| {
        let kept = kept.iter().map(|id| (*id).to_owned()).collect();
        let surplus = find_replaced(&images, &kept);
        surplus.iter().map(|image| image.id.clone()).collect::<Vec<_>>()
    };
    assert_eq!(removed(&["a"]), ["b"]);
    assert_eq!(removed(&[]), ["b", "a"]);
}

#[test]
fn the_steps_of_a_build_end_at_its_base_image() {
    let history = [
        step("sha256:3", "LABEL", &["shop:argus"]),
        step("sha256:2", "RUN", &[]),
        step("sha256:1", "CMD", &["busybox:1"]),
        step("sha256:0", "ADD", &[]),
    ];
    assert_eq!(
        own_steps(&history)
            .map(|step| step.id.as_str())
            .collect::<Vec<_>>(),
        ["sha256:3", "sha256:2"]
    );
    let pulled = [step("sha256:3", "LABEL", &[]), step("<missing>", "RUN", &[])];
    assert_eq!(own_steps(&pulled).count(), 1);
    let by_buildkit = |id: &str, by: &str| ImageHistoryResponseItem {
        comment: "buildkit.dockerfile.v0".to_owned(),
        ..step(id, by, &[])
    };
    let built = [
        step("sha256:3", "LABEL", &[]),
        by_buildkit("sha256:2", "RUN"),
        by_buildkit("<missing>", "COPY"),
        step("<missing>", "CMD", &[]),
    ];
    let keys: Vec<String> = own_steps(&built).map(layer_key).collect();
    assert_eq!(keys, ["sha256:3", "0 RUN", "0 COPY"]);
}

/// Builds of a tag, the oldest first. The last one has the tag. `BuildKit` gives all of them the time of their common layer.
fn builds(tag: &str, ids: &[&str]) -> Vec<ImageSummary> {
    let mut all = Vec::new();
    for (at, id) in ids.iter().enumerate() {
        let is_last = at + 1 == ids.len();
        all.push(ImageSummary {
            id: format!("sha256:{id}"),
            created: 7,
            repo_tags: is_last.then(|| tag.to_owned()).into_iter().collect(),
            labels: [(BUILD_TAG.to_owned(), tag.to_owned())].into(),
            ..ImageSummary::default()
        });
    }
    all
}

/// An engine with these images, which are all builds of Argus. Their last character is the second of their last tag.
async fn serve(listener: UnixListener, images: Vec<ImageSummary>, lists: &Mutex<usize>) {
    while let Ok((mut stream, _)) = listener.accept().await {
        let mut head = [0; 4096];
        let read = stream.read(&mut head).await.unwrap();
        let head = String::from_utf8_lossy(&head[..read]).into_owned();
        let path = head.split(' ').nth(1).unwrap_or_default();
        let body = if path.contains("/images/json") {
            *lists.lock().unwrap() += usize::from(path.contains("filters"));
            json!(images)
        } else if path.ends_with("/history") {
            let label = format!("/bin/sh -c #(nop)  LABEL {BUILD_TAG}=shop:argus");
            json!([step("sha256:1", &label, &[])])
        } else if let Some(id) = path.strip_suffix("/json").filter(|path| path.contains("sha256:")) {
            let second = id.chars().last().unwrap();
            json!({ "Metadata": { "LastTagTime": format!("2026-01-01T00:00:0{second}Z") } })
        } else {
            json!([])
        };
        let body = body.to_string();
        let length = body.len();
        let answer =
            format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}");
        stream.write_all(answer.as_bytes()).await.unwrap();
    }
}

#[tokio::test]
async fn removed_builds_are_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("engine.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let docker = Docker::new(Endpoint::Unix(path), Arc::new(|| Timestamp(0)));
    let recorded = Arc::new(Mutex::new(Vec::new()));
    let into = recorded.clone();
    docker.record_changes(Box::new(move |change| into.lock().unwrap().push(change)));
    let mut images = builds("shop:argus", &["a1", "a2", "a3", "a4"]);
    images.extend(builds(&substitute_tag("shop:argus"), &["b1", "b2", "b3"]));
    images.extend(builds("other:argus", &["c1", "c2", "c3"]));
    let lists = Mutex::new(0);
    let tags = BTreeSet::from(["shop:argus".to_owned()]);
    tokio::select! {
        () = limit(&docker.shared, &tags) => {}
        () = serve(listener, images, &lists) => panic!("the engine ended"),
    }
    let removed = |id| EngineChange::removed(ChangedObject::Image, id);
    let expected = ["sha256:a2", "sha256:a1", "sha256:b1"].map(removed);
    let mut recorded = recorded.lock().unwrap().clone();
    recorded.sort_by_key(|change| change.name == "sha256:b1");
    assert_eq!(recorded, expected);
    assert_eq!(*lists.lock().unwrap(), 1, "one list for all tags");
}
