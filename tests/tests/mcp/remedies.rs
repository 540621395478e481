//! Whatever an error suggests is carried out as it is printed: the command by a shell, the call by a client.

use std::collections::BTreeSet;
use std::process::{Output, Stdio};

use argus_crds::error::{ActionId, Code, Remedy};
use argus_tests::binary;
use argus_tests::stage::{LIMIT, shop};
use serde_json::{Value, json};

use crate::agent::{Over, Stage};

const ENV: &str = "remedied";
const SERVICE: &str = "web";

/// What is to be so before an action makes sense, done by a command; the environment is ready before each.
fn before(action: ActionId) -> Option<&'static [&'static str]> {
    if action == ActionId::Resume {
        return Some(&["hold", ENV]);
    }
    if action == ActionId::Rollback {
        // Who went back already has nothing to go back to.
        return Some(&["retry", ENV]);
    }
    // There is one copy of a name.
    (action == ActionId::Fork).then_some(&["down", "remedied-fork"])
}

/// How a command may end that does not end well, and what it then says.
fn excuse(action: ActionId) -> Option<(i32, &'static str)> {
    if action == ActionId::ResumeController {
        // That it ends mode Safe is held where the disk of the state directory is full.
        return Some((1, "not in mode `Safe`"));
    }
    // Who logs in types.
    (action == ActionId::LogIn).then_some((1, "TTY"))
}

/// The forms that a remedy has: the more is known, the more it names.
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

/// As a person pastes it.
fn pasted(stage: &Stage, command: &str) -> Output {
    let folder = binary::argus();
    let folder = folder.parent().expect("it lies in a folder").display();
    let path = std::env::var("PATH").unwrap_or_default();
    let mut shell = stage.engine.command_in_netns("sh");
    shell
        .args(["-c", command])
        .env("PATH", format!("{folder}:{path}"))
        .env("ARGUS_STATE", &stage.argus.state)
        .env("ARGUS_SPECS", &stage.argus.specs)
        .env("DOCKER_HOST", stage.engine.host())
        .env_remove("DOCKER_CONTEXT")
        .stdin(Stdio::null());
    shell.output().expect("a shell")
}

fn ready(stage: &Stage) {
    let status = stage.argus.cli(&["wait", ENV, "--timeout", "60s"]);
    assert!(
        status.status.success(),
        "{}",
        String::from_utf8_lossy(&status.stderr)
    );
}

fn prepare(stage: &Stage, action: ActionId) {
    if let Some(command) = before(action) {
        // What is not there need not go.
        drop(stage.argus.cli(command));
    }
}

/// A revision that was good, and another one that is.
fn made(stage: &Stage) {
    let goods = || {
        let bytes = std::fs::read(stage.argus.state.join("private/memory.json")).ok()?;
        let kept: Value = serde_json::from_slice(&bytes).ok()?;
        kept["goods"][ENV].as_array().map(Vec::len)
    };
    for (text, many) in [("one", 1), ("two", 2)] {
        stage.argus.write_spec("e2e.yaml", &shop(ENV, 18_640, text));
        stage.argus.wait_ready(ENV, LIMIT);
        stage.argus.wait_until(LIMIT, "the revision is a good one", || {
            (goods()? >= many).then_some(())
        });
    }
}

#[test]
fn every_remedy_runs_as_a_command_and_as_a_call() {
    let stage = Stage::start();
    made(&stage);
    let published = stage.ask(Over::Http, &[json!({ "tools": true })]);
    let tools = published[0]["tools"].as_array().expect("a list");
    let takes = |call: &argus_crds::error::ToolCall| {
        let tool = tools.iter().find(|tool| tool["name"] == call.tool.as_str());
        let tool = tool.unwrap_or_else(|| panic!("no tool `{}`", call.tool));
        let arguments = Value::Object(call.arguments.clone());
        jsonschema::validate(&tool["inputSchema"], &arguments)
            .unwrap_or_else(|why| panic!("{call:?}: {why}"));
    };
    let (mut ran, mut called, mut words) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for action in ActionId::ALL {
        for remedy in forms(*action) {
            if let Some(command) = &remedy.command {
                ready(&stage);
                prepare(&stage, *action);
                let output = pasted(&stage, command);
                let said = [output.stdout.as_slice(), &output.stderr].concat();
                let said = String::from_utf8_lossy(&said);
                let code = output.status.code().expect("it ends by itself");
                let excused = excuse(*action).is_some_and(|(with, why)| code == with && said.contains(why));
                assert!(code == 0 || excused, "`{command}` ends with {code}: {said}");
                ran.insert(*action);
            }
            if let Some(call) = &remedy.mcp {
                takes(call);
                ready(&stage);
                prepare(&stage, *action);
                let step = json!({ "call": call.tool, "arguments": call.arguments });
                let answers = stage.ask(Over::Stdio, &[step]);
                assert!(answers[0]["error"].is_null(), "{call:?}: {:#}", answers[0]);
                let result = &answers[0]["result"];
                let message = result["structuredContent"]["message"].as_str();
                let excused = excuse(*action)
                    .is_some_and(|(_, why)| message.is_some_and(|message| message.contains(why)));
                assert!(result["isError"] == false || excused, "{call:?}: {result:#}");
                called.insert(*action);
            }
            if remedy.command.is_none() && remedy.mcp.is_none() {
                words.insert(*action);
            }
        }
    }
    // Nothing of the table is left out.
    for code in Code::ALL {
        for action in code.about().actions {
            let full = action.remedy(Some(ENV), Some(SERVICE));
            assert_eq!(full.command.is_some(), ran.contains(action), "{action:?}");
            assert_eq!(full.mcp.is_some(), called.contains(action), "{action:?}");
            let all = [&ran, &called, &words];
            assert!(all.iter().any(|some| some.contains(action)), "{action:?}");
        }
    }
}
