//! Remedies work as printed: the command in a shell, the call in a client.

use std::collections::BTreeMap;
use std::process::{Output, Stdio};

use argus_crds::error::{ActionId, Code, Remedy, ToolCall};
use argus_tests::binary;
use argus_tests::fixture::{LIMIT, shop};
use serde_json::{Value, json};

use super::agent::{McpFixture, Over};

const ENV: &str = "remedied";
const SERVICE: &str = "web";

/// Commands that prepare an action; the environment is Ready before each.
fn before(action: ActionId) -> Option<&'static [&'static str]> {
    if action == ActionId::Resume {
        return Some(&["hold", ENV]);
    }
    if action == ActionId::Rollback {
        // A second rollback is impossible.
        return Some(&["retry", ENV]);
    }
    // A name has one copy.
    (action == ActionId::Fork).then_some(&["down", "remedied-fork"])
}

/// Expected exit code and text of a command that cannot succeed here.
fn excuse(action: ActionId) -> Option<(i32, &'static str)> {
    if action == ActionId::ResumeController {
        // Another test ends safe mode, with a full disk of the state directory.
        return Some((1, "not in mode `Safe`"));
    }
    if action == ActionId::StabilizeTest {
        return Some((1, "has no suites"));
    }
    if action == ActionId::ReportBug {
        // The exit code reflects the findings, and other tests leave objects on this engine. The bundle is written
        // nevertheless.
        return Some((1, "wrote `argus-report.tar`"));
    }
    if action == ActionId::CreateNetwork {
        // Only an error knows the name.
        return Some((1, "requires 1 argument"));
    }
    // `docker login` needs a terminal.
    (action == ActionId::LogIn).then_some((1, "TTY"))
}

/// The forms of a remedy: with more arguments it names more.
fn forms(action: ActionId) -> Vec<Remedy> {
    let known = [(None, None), (Some(ENV), None), (Some(ENV), Some(SERVICE))];
    let mut all: Vec<Remedy> = Vec::new();
    for (env, service) in known {
        let remedy = action.remedy(env, service);
        if !all.contains(&remedy) {
            all.push(remedy);
        }
    }
    all
}

/// Runs a command as a user pastes it.
fn pasted(fixture: &McpFixture, command: &str) -> Output {
    let folder = binary::argus();
    let folder = folder.parent().expect("the binary has a directory").display();
    let path = std::env::var("PATH").unwrap_or_default();
    let mut shell = fixture.engine.command_in_netns("sh");
    // An empty directory, because the command refuses to overwrite files.
    let place = tempfile::tempdir().expect("a directory");
    shell
        .args(["-c", command])
        .current_dir(place.path())
        .env("PATH", format!("{folder}:{path}"))
        .env("ARGUS_STATE", &fixture.argus.state)
        .env("ARGUS_SPECS", &fixture.argus.specs)
        .env("DOCKER_HOST", fixture.engine.host())
        .stdin(Stdio::null());
    shell.output().expect("a shell")
}

fn ready(fixture: &McpFixture) {
    let status = fixture.argus.cli(&["wait", ENV, "--timeout", "60s"]);
    assert!(
        status.status.success(),
        "{}",
        String::from_utf8_lossy(&status.stderr)
    );
}

/// Makes the service fail once and waits until it is repaired.
fn failed(fixture: &McpFixture) {
    // The exit code does not matter.
    drop(
        fixture
            .engine
            .docker(&["exec", &format!("{ENV}-{SERVICE}"), "kill", "1"]),
    );
    let kept = format!("private/evidence/{ENV}/{SERVICE}/1/evidence.json");
    let kept = fixture.argus.state.join(kept);
    fixture
        .argus
        .wait_until(LIMIT, "the evidence is stored", || kept.is_file().then_some(()));
}

fn prepare(fixture: &McpFixture, action: ActionId, remedy: &Remedy) {
    // A remedy without an environment does not concern this one.
    let of_ours = remedy
        .mcp
        .as_ref()
        .is_some_and(|call| call.arguments.contains_key("environment"));
    if let Some(command) = before(action).filter(|_| of_ours) {
        // The object may be missing already.
        drop(fixture.argus.cli(command));
    }
}

/// Creates a good revision, and then another one.
fn made(fixture: &McpFixture) {
    let known_good = || {
        let bytes = std::fs::read(fixture.argus.state.join("private/state.json")).ok()?;
        let kept: Value = serde_json::from_slice(&bytes).ok()?;
        kept["knownGood"][ENV].as_array().map(Vec::len)
    };
    for (text, many) in [("one", 1), ("two", 2)] {
        fixture.argus.write_spec("e2e.yaml", &shop(ENV, 18_793, text));
        fixture.argus.wait_ready(ENV, LIMIT);
        fixture.argus.wait_until(LIMIT, "the revision is good", || {
            (known_good()? >= many).then_some(())
        });
    }
}

fn run(fixture: &McpFixture, action: ActionId, command: &str) {
    let output = pasted(fixture, command);
    let text = [output.stdout.as_slice(), &output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let code = output.status.code().expect("the command exits");
    let excused = excuse(action).is_some_and(|(with, why)| code == with && text.contains(why));
    assert!(code == 0 || excused, "`{command}` ends with {code}: {text}");
}

fn call_tool(fixture: &McpFixture, action: ActionId, call: &ToolCall) {
    let step = json!({ "call": call.tool, "arguments": call.arguments });
    let answers = fixture.run_steps(Over::Stdio, &[step]);
    assert!(answers[0]["error"].is_null(), "{call:?}: {:#}", answers[0]);
    let result = &answers[0]["result"];
    let message = result["structuredContent"]["message"].as_str();
    let excused = excuse(action).is_some_and(|(_, why)| message.is_some_and(|message| message.contains(why)));
    assert!(result["isError"] == false || excused, "{call:?}: {result:#}");
}

#[test]
fn every_remedy_runs_as_command_and_tool_call() {
    let fixture = McpFixture::start();
    made(&fixture);
    failed(&fixture);
    let published = fixture.run_steps(Over::Http, &[json!({ "tools": true })]);
    let tools = published[0]["tools"].as_array().expect("a list");
    let takes = |call: &ToolCall| {
        let tool = tools.iter().find(|tool| tool["name"] == call.tool.as_str());
        let tool = tool.unwrap_or_else(|| panic!("no tool `{}`", call.tool));
        let arguments = Value::Object(call.arguments.clone());
        jsonschema::validate(&tool["inputSchema"], &arguments)
            .unwrap_or_else(|why| panic!("{call:?}: {why}"));
    };
    // Many actions share a command or a call, which runs only once.
    let (mut ran, mut called) = (BTreeMap::new(), BTreeMap::new());
    for action in ActionId::ALL {
        for remedy in forms(*action) {
            // Every remedy has a command.
            let command = remedy.command.as_ref().expect("a command");
            if ran.insert(command.clone(), *action).is_none() {
                ready(&fixture);
                prepare(&fixture, *action, &remedy);
                run(&fixture, *action, command);
            }
            let call = remedy.mcp.as_ref().expect("a call");
            takes(call);
            if called.insert(json!(call).to_string(), *action).is_none() {
                ready(&fixture);
                prepare(&fixture, *action, &remedy);
                call_tool(&fixture, *action, call);
            }
        }
    }
    // The table is complete.
    for action in Code::ALL.iter().flat_map(|code| code.explanation().actions) {
        assert!(ActionId::ALL.contains(action), "{action:?}");
    }
    assert!(ran.len() >= 19 && called.len() >= 19, "{ran:#?} {called:#?}");
}
