//! Tests of the checks of mounts, with an engine that has one container.

use std::sync::Arc;

use argus_core::desired::InjectedFile;
use argus_core::ident::ContainerId;
use argus_core::outcome::ActionError;
use argus_core::time::Timestamp;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixListener;

use super::mounts::before_copy;
use crate::{Docker, Endpoint};

/// Serves a container in which only `/srv` is a link.
async fn serve(listener: UnixListener, host: Value) {
    while let Ok((mut stream, _)) = listener.accept().await {
        let mut head = [0; 4096];
        let read = stream.read(&mut head).await.unwrap();
        let head = String::from_utf8_lossy(&head[..read]).into_owned();
        let link = if head.contains("path=%2Fsrv ") { "/etc" } else { "" };
        let stat = json!({ "name": "x", "size": 0, "mode": 0, "mtime": null, "linkTarget": link });
        let stat = BASE64_STANDARD.encode(stat.to_string());
        let body = if head.starts_with("HEAD ") {
            String::new()
        } else {
            json!({ "Id": "c", "HostConfig": host }).to_string()
        };
        let answer = format!(
            "HTTP/1.1 200 OK\r\nconnection: close\r\nx-docker-container-path-stat: {stat}\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(answer.as_bytes()).await.unwrap();
    }
}

#[tokio::test]
async fn link_above_a_cover_refuses_a_copy() {
    let (engine, project) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::create_dir(project.path().join(".git")).unwrap();
    let source = project.path().canonicalize().unwrap();
    let source = source.to_str().unwrap();
    let binds = [
        format!("{source}:/srv/app"),
        format!("{source}/.git:/srv/app/.git:ro"),
    ];
    let path = engine.path().join("engine.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let docker = Docker::new(Endpoint::Unix(path), Arc::new(|| Timestamp(0)));
    let files = [InjectedFile {
        path: "/data/file".to_owned(),
        text: String::new(),
        access: argus_core::desired::FileAccess::default(),
        target: None,
    }];
    let id = ContainerId::new("c").unwrap();
    let checked = tokio::select! {
        checked = before_copy(&docker.shared, &id, &files) => checked,
        () = serve(listener, json!({ "Binds": binds })) => panic!("the engine ended"),
    };
    match checked {
        Err(ActionError::MountRefused(message)) => assert!(message.contains("`/srv`"), "{message}"),
        other => panic!("{other:?}"),
    }
}
