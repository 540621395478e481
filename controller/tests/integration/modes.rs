//! Modes of a running controller, as commands and MCP tools report them from its status files.

#![allow(clippy::unwrap_used, reason = "a test may panic, and so may its helpers")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use argus_crds::status::{ControllerStatus, EnvironmentStatus, Mode, Phase};
use argus_reconciler::state_dir::StateDir;
use serde_json::{Value, json};

use crate::controller_socket::answer_commands;

const REASON: &str = "a reason in words";

/// Reason of a mode. Only mode `Full` has none.
fn reason_of(mode: Mode) -> Option<&'static str> {
    (mode != Mode::Full).then_some(REASON)
}

/// A state directory with one environment, whose controller is in this mode.
fn home(mode: Mode) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::at(dir.path().join("state"));
    std::fs::create_dir_all(state.environments()).unwrap();
    std::fs::create_dir_all(dir.path().join("specs")).unwrap();
    let shop = EnvironmentStatus {
        environment: "shop".to_owned(),
        project: "shop".to_owned(),
        phase: Phase::Ready,
        mode,
        as_of: "2026-11-21T19:00:00Z".to_owned(),
        ..EnvironmentStatus::default()
    };
    let path = state.environments().join("shop.json");
    std::fs::write(path, serde_json::to_vec(&shop).unwrap()).unwrap();
    answer_commands(&dir.path().join("state"));
    let controller = ControllerStatus {
        mode,
        mode_reason: reason_of(mode).map(str::to_owned),
        started_at: "2026-01-01T00:00:00.000Z".to_owned(),
        as_of: "2026-01-01T00:00:00.000Z".to_owned(),
        ..ControllerStatus::default()
    };
    std::fs::write(state.controller_json(), serde_json::to_vec(&controller).unwrap()).unwrap();
    dir
}

fn argus(home: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_argus"));
    command
        .env("ARGUS_STATE", home.join("state"))
        .env("ARGUS_SPECS", home.join("specs"))
        .env("DOCKER_HOST", "unix:///nowhere.sock")
        .env("NO_COLOR", "1")
        .current_dir(home)
        .stdin(Stdio::null())
        .args(words);
    command
}

fn stdout(home: &Path, words: &[&str]) -> String {
    let output = argus(home, words).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Structured content and text of `argus_status`.
fn mcp_status(home: &Path) -> (Value, String) {
    let mut child = argus(home, &["mcp"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut call = |id: usize, method: &str, params: &Value| -> Value {
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        writeln!(stdin, "{request}").unwrap();
        loop {
            let answer: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
            if answer["id"] == id {
                return answer["result"].clone();
            }
        }
    };
    let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "x", "version": "1" } });
    call(0, "initialize", &hello);
    let result = call(
        1,
        "tools/call",
        &json!({ "name": "argus_status", "arguments": {} }),
    );
    child.kill().unwrap();
    child.wait().unwrap();
    let text = result["content"][0]["text"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    (result["structuredContent"].clone(), text)
}

#[test]
fn commands_and_tools_report_every_mode() {
    for &mode in Mode::ALL {
        let home = home(mode);
        let home = home.path();
        let word = format!("{mode:?}");
        for verb in ["get", "describe"] {
            let status: Value = serde_json::from_str(&stdout(home, &[verb, "shop", "-o", "json"])).unwrap();
            assert_eq!(status["mode"], word, "{verb}: {status:#}");
        }
        let described = stdout(home, &["describe", "shop"]);
        let row = described.lines().find(|line| line.starts_with("Mode:")).unwrap();
        assert!(row.ends_with(&word), "{described}");
        let report: Value = serde_json::from_str(&stdout(home, &["doctor", "-o", "json"])).unwrap();
        let findings = report["findings"].as_array().unwrap().iter();
        let of_controller = findings.filter(|finding| finding["where"] == "controller");
        let messages = of_controller.map(|finding| finding["message"].as_str().unwrap());
        let about_modes: Vec<&str> = messages.filter(|message| message.contains("mode ")).collect();
        let expected = match mode {
            // A recovery ends without a person.
            Mode::Full | Mode::Recovery => Vec::new(),
            Mode::Limited | Mode::Reduced | Mode::Minimal => vec![format!("mode {word}: {REASON}")],
            Mode::Safe => vec![format!(
                "the controller is in mode `Safe` and performs no actions: {REASON}"
            )],
        };
        assert_eq!(about_modes, expected, "{report:#}");
        let (content, text) = mcp_status(home);
        let controller = &content["controller"];
        assert_eq!(
            (&controller["mode"], &controller["modeReason"]),
            (&json!(word), &json!(reason_of(mode))),
            "{content:#}"
        );
        let is_about_mode = |line: &&str| line.contains("the controller is in mode");
        let lines: Vec<&str> = text.lines().filter(is_about_mode).collect();
        let expected = reason_of(mode).map(|reason| format!("the controller is in mode {word}: {reason}"));
        assert_eq!(lines, expected.as_slice(), "{text}");
    }
}
