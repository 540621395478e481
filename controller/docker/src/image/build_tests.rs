//! Tests of the build: tags, messages and the log.

use std::sync::{Arc, Mutex};

use argus_core::action::{ActionProgress, Amount};
use argus_core::desired::BuildOptions;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixListener;

use super::*;
use crate::{Docker, Endpoint};

#[derive(Default)]
struct Recorder(Mutex<Vec<ActionProgress>>);
impl Progress for Recorder {
    fn report_step(&self, progress: ActionProgress) {
        self.0.lock().unwrap().push(progress);
    }

    fn report_status(&self, progress: ActionProgress) {
        self.report_step(progress);
    }
}

#[test]
fn foreign_tag_is_never_taken_over() {
    let labels = |pairs: &[(&str, &str)]| {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        Some(pairs.iter().map(owned).collect::<BTreeMap<_, _>>())
    };
    for (tag, labels, is_own) in [
        ("web", None, true),
        ("web", labels(&[]), false),
        ("web", labels(&[(BUILD_TAG, "web:latest")]), true),
        ("docker.io/library/web:1", labels(&[(BUILD_TAG, "web:1")]), true),
        ("index.docker.io/web:1", labels(&[(BUILD_TAG, "web:1")]), true),
        (
            "host:5000/web",
            labels(&[(BUILD_TAG, "host:5000/web:latest")]),
            true,
        ),
        // Tagged by others, or built by others from an image of Argus.
        (
            "web:2",
            labels(&[(BUILD_TAG, "web:1"), (BUILD_DIGEST, "d")]),
            false,
        ),
        ("web:2", labels(&[(BUILD_DIGEST, "d")]), true),
    ] {
        assert_eq!(is_available(tag, labels.as_ref()), is_own, "{tag} {labels:?}");
    }
}

fn build_of(target: Option<&str>) -> Build {
    Build {
        tag: "web:1".to_owned(),
        context: "/work".to_owned(),
        dockerfile: "Dockerfile".to_owned(),
        target: target.map(str::to_owned),
        args: BTreeMap::new(),
        digest: argus_core::ident::Hash::new("1").unwrap(),
        options: Box::default(),
        excluded: argus_core::desired::excluded::Excluded::default(),
        allowed: false,
    }
}

#[test]
fn unknown_stage_names_its_key_in_the_file() {
    // Messages of Docker 20.10 and 26.1.
    for message in [
        "failed to reach build target prod in Dockerfile",
        "target stage \"prod\" could not be found",
    ] {
        let failure = Error::DockerStreamError {
            error: message.to_owned(),
        };
        let expected = format!(
            "`build.target` is `prod`, which is not a stage of the Dockerfile `Dockerfile`: {message}"
        );
        match classify(&failure, &build_of(Some("prod")), &Log::default()) {
            ActionError::BuildFailed { message, .. } => assert_eq!(message, expected),
            other => panic!("{other:?}"),
        }
        assert_eq!(place::name_target(&build_of(None), message.to_owned()), message);
    }
    assert_eq!(
        place::name_target(&build_of(Some("prod")), "COPY failed".to_owned()),
        "COPY failed"
    );
}

#[test]
fn address_of_the_host_needs_an_allowed_project() {
    let dir = tempfile::tempdir().unwrap();
    let opened = |text: &str, allowed: bool, inline: Option<&str>| {
        std::fs::write(dir.path().join("Dockerfile"), text).unwrap();
        let options = BuildOptions {
            inline: inline.map(str::to_owned),
            ..BuildOptions::default()
        };
        let build = Build {
            context: dir.path().display().to_string(),
            options: Box::new(options),
            allowed,
            ..build_of(None)
        };
        open(&build).err()
    };
    let text = "FROM busybox\nADD http://127.0.0.1:9470/metrics /\n";
    assert_eq!(opened("FROM busybox\n", false, None), None);
    assert_eq!(opened(text, true, None), None);
    for refused in [
        opened(text, false, None),
        opened("FROM busybox\n", false, Some(text)),
    ] {
        match refused {
            Some(ActionError::BuildFailed {
                message,
                instruction: Some(instruction),
                ..
            }) => {
                assert!(
                    message.starts_with("line 2 of the Dockerfile reads an address"),
                    "{message}"
                );
                assert_eq!(instruction.text, "ADD http://127.0.0.1:9470/metrics /");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn steps_are_reported_and_the_last_lines_are_stored() {
    let recorder = Recorder::default();
    let mut log = Log::default();
    log.append("Step 1/2 : FROM x\n", &recorder);
    log.append(" ---> abc", &recorder);
    log.append("\nStep 2", &recorder);
    log.append("/2 : RUN y\n", &recorder);
    for n in 0..60 {
        log.append(&format!("line {n}\n"), &recorder);
    }
    log.append("the end", &recorder);
    let step = |line: &str, done| ActionProgress {
        steps: Some(Amount { done, total: 2 }),
        ..line.to_owned().into()
    };
    assert_eq!(
        *recorder.0.lock().unwrap(),
        [step("Step 1/2 : FROM x", 0), step("Step 2/2 : RUN y", 1)]
    );
    let text = log.text();
    assert_eq!(text.lines().count(), 51);
    assert!(text.starts_with("line 10\n") && text.ends_with("line 59\nthe end"));
}

#[test]
fn failed_build_has_its_step_and_log() {
    let mut log = Log::default();
    log.append("Step 1/2 : FROM x\nStep 2/2 : RUN make\nmake: no rule\n", &());
    let text = "Step 1/2 : FROM x\nStep 2/2 : RUN make\nmake: no rule";
    let complete = |log: &Log, error: ActionError| match log.complete(error) {
        ActionError::BuildFailed { message, log, .. } => ("failed", message, log),
        ActionError::BuildInterrupted { message, log } => ("interrupted", message, log),
        ActionError::DiskFull(message) => ("disk", message, String::new()),
        other => panic!("{other:?}"),
    };
    let failed = || build_failed("non-zero code: 2".to_owned());
    let message = "Step 2/2 : RUN make: non-zero code: 2".to_owned();
    assert_eq!(complete(&log, failed()), ("failed", message, text.to_owned()));
    let interrupted = build_interrupted("no progress for 120 s".to_owned());
    let message = "Step 2/2 : RUN make: no progress for 120 s".to_owned();
    assert_eq!(
        complete(&log, interrupted),
        ("interrupted", message, text.to_owned())
    );
    // The step found the disk full, and the builder reports only its exit code.
    log.append("cp: error writing 'big': No space left on device\n", &());
    let message = "Step 2/2 : RUN make: non-zero code: 2: no space left on device".to_owned();
    assert_eq!(complete(&log, failed()), ("disk", message, String::new()));
}

/// An engine that only has the image `web:1`, with this configuration and last step.
async fn serve_image(listener: UnixListener, config: Value, step: &str) {
    while let Ok((mut stream, _)) = listener.accept().await {
        let mut head = [0; 4096];
        let read = stream.read(&mut head).await.unwrap();
        let head = String::from_utf8_lossy(&head[..read]).into_owned();
        let path = head.split(' ').nth(1).unwrap_or_default();
        let (status, body) = if !path.contains("/images/web:1/") {
            ("404 Not Found", json!({ "message": "No such image" }))
        } else if path.ends_with("/history") {
            let last = json!({ "Id": "sha256:1", "Created": 0, "CreatedBy": step, "Tags": [], "Size": 0, "Comment": "" });
            ("200 OK", json!([last]))
        } else {
            ("200 OK", json!({ "Id": "sha256:1", "Config": config }))
        };
        let body = body.to_string();
        let answer = format!(
            "HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(answer.as_bytes()).await.unwrap();
    }
}

#[tokio::test]
async fn image_with_inherited_labels_keeps_its_tag() {
    let label = format!("/bin/sh -c #(nop)  LABEL {BUILD_TAG}=web:1");
    let own = json!({ "Labels": { BUILD_TAG: "web:1", BUILD_DIGEST: "d" } });
    let with_trigger = json!({ "Labels": { BUILD_TAG: "web:1" }, "OnBuild": ["RUN make"] });
    for (config, step, is_own) in [
        (&own, label.as_str(), true),
        (&own, "/bin/sh -c apt-get install curl", false),
        (&with_trigger, "ONBUILD RUN make", true),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("engine.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let docker = Docker::new(Endpoint::Unix(path), Arc::new(|| argus_core::time::Timestamp(0)));
        let tag = tokio::select! {
            tag = find_tag(&docker.shared, "web:1") => tag.unwrap(),
            () = serve_image(listener, config.clone(), step) => panic!("the engine ended"),
        };
        let expected = if is_own {
            "web:1".to_owned()
        } else {
            substitute_tag("web:1")
        };
        assert_eq!(tag, expected, "{step}");
    }
}
