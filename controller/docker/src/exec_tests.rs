//! Commands in containers: the end of their processes and of their output.

use std::sync::Mutex;

use argus_core::time::Timestamp;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};

use super::*;
use crate::{Docker, Endpoint};

/// Reads a request. Returns its path and its body; `None` after an abandoned one.
async fn read_request(stream: &mut UnixStream) -> Option<(String, Value)> {
    let mut text = String::new();
    loop {
        let mut part = [0; 8192];
        let read = stream.read(&mut part).await.ok().filter(|read| *read > 0)?;
        text.push_str(&String::from_utf8_lossy(&part[..read]));
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let path = head.split(' ').nth(1).unwrap().to_owned();
            if head.starts_with("GET ") {
                return Some((path, Value::Null));
            }
            if let Ok(body) = serde_json::from_str(body) {
                return Some((path, body));
            }
        }
    }
}

/// An engine whose first command does not end. Adds the body of each creation to `created`.
async fn serve(listener: UnixListener, created: &Mutex<Vec<Value>>) {
    let mut running = None;
    while let Ok((mut stream, _)) = listener.accept().await {
        let Some((path, body)) = read_request(&mut stream).await else {
            continue;
        };
        if path.ends_with("/start") {
            let answer = "HTTP/1.1 101 UPGRADED\r\nconnection: Upgrade\r\nupgrade: tcp\r\n\r\n";
            drop(stream.write_all(answer.as_bytes()).await);
            running.get_or_insert(stream);
            continue;
        }
        let body = if path.ends_with("/json") {
            json!({ "ExitCode": 0 }).to_string()
        } else {
            created.lock().unwrap().push(body);
            json!({ "Id": "e1" }).to_string()
        };
        let answer = format!(
            "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        drop(stream.write_all(answer.as_bytes()).await);
    }
}

#[tokio::test]
async fn command_is_killed_by_its_mark() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("engine.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let docker = Docker::new(Endpoint::Unix(path), Arc::new(|| Timestamp(0)));
    let (created, id) = (Mutex::default(), ContainerId::new("abc").unwrap());
    let command = ExecCommand {
        words: vec!["sleep".to_owned()],
        stdin: false,
        tty: false,
    };
    let kill = async {
        let session = start(&docker.shared, &id, &command).await.unwrap();
        session.exec.kill().await;
        // The end of another one is that of its limit.
        let ended = run(&docker.shared, &id, &command.words, std::future::ready(()), 10).await;
        assert_eq!(ended.unwrap().exit_code, None);
    };
    tokio::select! {
        () = kill => {}
        () = serve(listener, &created) => panic!("the engine ended"),
    }
    let created = created.into_inner().unwrap();
    assert_eq!(created[0]["Cmd"], json!(["sleep"]));
    let mark = &created[0]["Env"][0];
    assert!(
        mark.as_str().unwrap().starts_with("ARGUS_PROBE_ID="),
        "{created:#?}"
    );
    assert_eq!(created[1]["Cmd"], json!(["sh", "-c", KILL, mark]));
    let last = created.last().unwrap();
    assert_eq!(last["Cmd"][2], KILL, "{created:#?}");
    assert_ne!(last["Cmd"][3], *mark, "{created:#?}");
}

#[test]
fn long_output_keeps_its_end() {
    let end_of = |parts: &[(bool, &'static str)]| {
        let mut output = Output::new(10);
        for (stderr, part) in parts {
            output.add(&ExecOutput {
                stderr: *stderr,
                bytes: Bytes::from_static(part.as_bytes()),
            });
        }
        output.end()
    };
    let (stdout, stderr) = (false, true);
    let cases: [(&[(bool, &'static str)], &str); 9] = [
        (&[(stdout, "refused\n")], "refused\n"),
        (&[(stdout, "xxxxxxxxxx"), (stdout, "é refused")], "…é refused"),
        (&[(stdout, "é"), (stdout, "xxxxxxxxx")], "…xxxxxxxxx"),
        (&[(stderr, "é"), (stderr, "xxxxxxxxx")], "…xxxxxxxxx"),
        // All of it fits, so the order stays.
        (&[(stderr, "quota "), (stdout, "full")], "quota full"),
        (&[(stderr, "quota"), (stdout, "xxxxxxxxxx last")], "… last\nquota"),
        (
            &[(stdout, "xxxxxxxxxx"), (stderr, "quota"), (stdout, " last")],
            "… last\nquota",
        ),
        (
            &[(stdout, "xxxxxxx\n"), (stderr, "yyyyyyy used")],
            "…xxxx\n… used",
        ),
        (&[(stderr, "yyyyyyyy used"), (stdout, "last")], "last\n…y used"),
    ];
    for (parts, end) in cases {
        assert_eq!(end_of(parts), end, "{parts:?}");
    }
}
