//! Tests of the tools: their descriptions, and small outputs with next steps.

use std::collections::BTreeSet;
use std::sync::Arc;

use argus_crds::diagnostic::Diagnostic;
use argus_crds::error::{ActionId, Code, StructuredError};
use argus_crds::incident::{Incident, OpenIntent};
use argus_crds::status::{
    Condition, ControllerStatus, EnvironmentStatus, Phase, PortMapping, ServiceState, ServiceStatus, Truth,
    WaitingOn,
};
use rmcp::model::CallToolResult;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::api::apply::SMALL;
use crate::api::environment_summary::EnvironmentSummary;
use crate::error_fixtures::{assert_complete, assert_valid, full_of_errors, raised};
use crate::settings::{Options, Settings, SpecOptions};
use crate::spec_files;

mod fix;
mod foreign_text;

/// A state directory and a specs folder without a controller.
struct Fixture {
    dir: tempfile::TempDir,
}

impl Fixture {
    fn new(statuses: &[EnvironmentStatus]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (state, specs) = (dir.path().join("state"), dir.path().join("specs"));
        std::fs::create_dir_all(state.join("environments")).unwrap();
        std::fs::create_dir_all(&specs).unwrap();
        for status in statuses {
            let path = state
                .join("environments")
                .join(format!("{}.json", status.environment));
            std::fs::write(path, serde_json::to_vec(status).unwrap()).unwrap();
        }
        let controller = serde_json::to_vec(&ControllerStatus::default()).unwrap();
        std::fs::write(state.join("controller.json"), controller).unwrap();
        Self { dir }
    }

    fn client(&self) -> ControllerClient {
        let options = Options {
            state: Some(self.dir.path().join("state")),
            ..Options::default()
        };
        let specs = SpecOptions {
            specs: Some(self.dir.path().join("specs")),
            ..SpecOptions::default()
        };
        ControllerClient::remote(Settings::resolve(&options, &specs).unwrap())
    }

    /// Calls a tool, and checks the result against its schema.
    async fn call(&self, tool: &str, arguments: Value) -> CallToolResult {
        let entry = tools()
            .iter()
            .find(|entry| entry.description.name == tool)
            .unwrap();
        let arguments = arguments.as_object().cloned().unwrap();
        let result = entry.call(arguments, self.client(), None).await;
        let content = result.structured_content.clone().unwrap();
        validate_output(tool, &content).unwrap();
        if result.is_error == Some(true) {
            serde_json::from_value::<StructuredError>(content).unwrap();
        }
        result
    }
}

fn validate_output(tool: &str, content: &Value) -> Result<(), String> {
    let entry = tools().iter().find(|entry| entry.description.name == tool);
    let entry = entry.ok_or_else(|| format!("no tool `{tool}`"))?;
    let schema = entry.description.output_schema.clone().unwrap();
    let schema = Value::Object(Arc::unwrap_or_clone(schema));
    jsonschema::validate(&schema, content).map_err(|error| error.to_string())
}

fn text(result: &CallToolResult) -> String {
    json!(result.content)[0]["text"].as_str().unwrap().to_owned()
}

/// Returns the total length of a result for a model, in characters.
fn size(result: &CallToolResult) -> usize {
    let content = result.structured_content.as_ref().unwrap().to_string();
    content.chars().count() + text(result).chars().count()
}

fn row(name: &str, state: ServiceState) -> ServiceStatus {
    ServiceStatus {
        name: name.to_owned(),
        state,
        container_id: Some("c".repeat(64)),
        ..ServiceStatus::default()
    }
}

fn environment(phase: Phase, services: Vec<ServiceStatus>) -> EnvironmentStatus {
    let port = |(row, port): (&ServiceStatus, u16)| PortMapping {
        service: row.name.clone(),
        container_port: 8080,
        protocol: "tcp".to_owned(),
        original_port: port,
        actual_port: port,
        reassigned: false,
        host: Some("127.0.0.1".to_owned()),
    };
    EnvironmentStatus {
        environment: "shop".to_owned(),
        project: "shop".to_owned(),
        revision: Some("a".repeat(64)),
        observed_revision: Some("a".repeat(64)),
        phase,
        port_mappings: services.iter().zip(8080..).map(port).collect(),
        services,
        as_of: "2026-11-21T19:00:00Z".to_owned(),
        ..EnvironmentStatus::default()
    }
}

#[tokio::test]
async fn healthy_environment_takes_less_than_400_tokens() {
    let services = ["db", "cache", "api", "worker", "web"].map(|name| row(name, ServiceState::Ready));
    let fixture = Fixture::new(&[environment(Phase::Ready, services.to_vec())]);
    let result = fixture
        .call("argus_status", json!({ "environment": "shop" }))
        .await;
    assert!(size(&result) < 1_600, "{}: {result:?}", size(&result));
    assert!(
        text(&result).contains("shop is Ready: 5/5 services ready"),
        "{result:?}"
    );
    assert!(
        text(&result).contains("web:8080 is at 127.0.0.1:8084"),
        "{result:?}"
    );
    let full = json!({ "environment": "shop", "detail": "full" });
    let full = fixture
        .call("argus_status", full)
        .await
        .structured_content
        .unwrap();
    assert_eq!(
        full["full"][0]["services"][0]["name"], "db",
        "full detail has all of it"
    );
}

#[tokio::test]
async fn failed_environment_takes_less_than_1500_tokens() {
    let error = |service: &str| {
        let line = |number| format!("\"panic\" {number}: cannot reach db:5432\n");
        let tail: String = (0..150).map(line).collect();
        StructuredError::new(
            Code::ContainerRestartExhausted,
            "gave up after 3 restarts ".repeat(60),
        )
        .environment("shop")
        .service(service)
        .exit_code(3)
        .tails("", &tail)
    };
    let names: Vec<String> = (0..100).map(|number| format!("service-{number:03}")).collect();
    let failed = |name: &String| ServiceStatus {
        restarts: 3,
        waiting_on: Some(WaitingOn {
            message: "a person is needed ".repeat(50),
            ..WaitingOn::default()
        }),
        last_error: Some(error(name)),
        ..row(name, ServiceState::Failed)
    };
    let mut status = environment(Phase::Failed, names.iter().map(failed).collect());
    status.errors = names.iter().map(|name| error(name)).collect();
    for mapping in &mut status.port_mappings {
        (mapping.reassigned, mapping.original_port) = (true, 80);
    }
    status.conditions = vec![Condition {
        kind: "Ready".to_owned(),
        status: Truth::False,
        reason: "Failed".to_owned(),
        message: "waits ".repeat(500),
        last_transition_time: "2026-11-21T19:00:00Z".to_owned(),
    }];
    let fixture = Fixture::new(&[status.clone()]);
    let result = fixture.call("argus_status", json!({})).await;
    let content = result.structured_content.as_ref().unwrap();
    let error = &content["environments"][0]["error"];
    assert_eq!(error["code"], "CONTAINER_RESTART_EXHAUSTED");
    assert!(
        error["tail"].as_str().unwrap().ends_with("cannot reach db:5432"),
        "{error}"
    );
    assert!(!error["remedies"].as_array().unwrap().is_empty(), "{error}");
    assert!(
        text(&result).contains("cannot reach db:5432"),
        "the text has the cause, too"
    );
    let each = (content.to_string().chars().count(), text(&result).chars().count());
    assert!(each.0 < 6_000 && each.1 < 6_000, "{each:?}");
    // A typical environment has two services, one of them failed.
    status.services.truncate(2);
    status.errors.truncate(1);
    status.port_mappings.truncate(2);
    let fixture = Fixture::new(&[status]);
    let result = fixture
        .call("argus_status", json!({ "environment": "shop" }))
        .await;
    assert!(size(&result) < 6_000, "{}: {result:?}", size(&result));
}

#[test]
fn moved_ports_are_listed_and_counted() {
    let services = ["a", "b", "c", "d", "e", "f", "g"].map(|name| row(name, ServiceState::Ready));
    let mut status = environment(Phase::Ready, services.to_vec());
    for mapping in &mut status.port_mappings[1..] {
        (mapping.reassigned, mapping.original_port) = (true, 80);
    }
    let summary = EnvironmentSummary::from_status(&status);
    let listed = summary
        .port_mappings
        .iter()
        .map(|mapping| mapping.service.as_str());
    assert_eq!(listed.collect::<Vec<_>>(), ["b", "c", "d", "e", "f"]);
    assert_eq!(summary.more_port_mappings, 1);
    let text = summary.format_text();
    assert!(
        text.contains("moved: b:8080 wanted 80, has 8081") && text.contains("moved: 1 more"),
        "{text}"
    );
    let short = json!(summary.shorten());
    assert!(
        short["portMappings"].is_null() && short["morePortMappings"].is_null(),
        "{short}"
    );
}

#[tokio::test]
async fn next_steps_are_valid_calls() {
    for phase in Phase::ALL {
        for code in Code::ALL {
            let mut status = environment(*phase, vec![row("api", ServiceState::Failed)]);
            status.errors = vec![
                StructuredError::new(*code, "x")
                    .environment("shop")
                    .service("api"),
            ];
            let steps = EnvironmentSummary::from_status(&status).next_steps();
            for step in steps {
                check_arguments(&step.tool, &step.arguments)
                    .unwrap_or_else(|error| panic!("{step:?}: {error}"));
            }
        }
    }
    let fixture = Fixture::new(&[environment(Phase::Failed, vec![row("api", ServiceState::Failed)])]);
    for (tool, arguments) in [
        ("argus_status", json!({})),
        ("argus_why", json!({ "environment": "shop" })),
        (
            "argus_events",
            json!({ "environment": "shop", "type": ["restart_attempt"] }),
        ),
    ] {
        let result = fixture.call(tool, arguments).await;
        for step in result.structured_content.unwrap()["nextSteps"]
            .as_array()
            .unwrap()
        {
            let name = step["tool"].as_str().unwrap();
            check_arguments(name, step["arguments"].as_object().unwrap()).unwrap();
        }
    }
}

#[tokio::test]
async fn only_environment_is_the_default_of_reads() {
    let shop = environment(Phase::Failed, vec![row("api", ServiceState::Failed)]);
    let fixture = Fixture::new(std::slice::from_ref(&shop));
    let named = fixture.call("argus_why", json!({ "environment": "shop" })).await;
    let default = fixture.call("argus_why", json!({})).await;
    assert_eq!(default.structured_content, named.structured_content);
    let removed = fixture.call("argus_down", json!({})).await;
    assert!(
        text(&removed).contains("missing field `environment`"),
        "{removed:?}"
    );
    let other = EnvironmentStatus {
        environment: "other".to_owned(),
        ..shop.clone()
    };
    let refused = Fixture::new(&[shop, other]).call("argus_why", json!({})).await;
    assert_eq!(refused.is_error, Some(true));
    assert!(text(&refused).contains("several exist"), "{refused:?}");
}

#[test]
fn every_tool_has_a_description_and_schemas() {
    let names: Vec<&str> = tools()
        .iter()
        .map(|entry| entry.description.name.as_ref())
        .collect();
    for named in [
        "preflight_check",
        "reset_circuit",
        "status",
        "wait",
        "explain",
        "logs",
        "events",
        "apply",
        "retry",
        "hold",
        "resume",
        "rollback",
        "fork",
        "test",
        "down",
    ] {
        assert!(names.contains(&format!("argus_{named}").as_str()), "{named}");
    }
    let mut words = INSTRUCTIONS.to_owned();
    for entry in tools() {
        let tool = json!(entry.description);
        let about = tool["description"].as_str().unwrap();
        assert!(about.len() > 80 && about.len() < 1_000, "{about}");
        words.push_str(about);
        assert_eq!(tool["inputSchema"]["type"], "object", "{tool}");
        assert_eq!(tool["inputSchema"]["additionalProperties"], false, "{tool}");
        assert_eq!(tool["outputSchema"]["type"], "object", "{tool}");
        for (name, argument) in tool["inputSchema"]["properties"].as_object().unwrap() {
            assert!(argument["description"].is_string(), "{}: {name}", tool["name"]);
            // Some models support only a part of JSON Schema.
            assert!(
                argument["type"].is_string() && argument.get("$ref").is_none(),
                "{argument}"
            );
        }
        let hints = &tool["annotations"];
        for hint in [
            "readOnlyHint",
            "destructiveHint",
            "idempotentHint",
            "openWorldHint",
        ] {
            assert!(hints[hint].is_boolean(), "{tool}");
        }
    }
    let letters = |c: char| c.is_ascii_lowercase() || c == '_';
    for word in words
        .split(|c| !letters(c))
        .filter(|word| word.starts_with("argus_"))
    {
        assert!(names.contains(&word), "unknown tool `{word}`");
    }
    // Only descriptions and input schemas count: a model reads them before it acts.
    let read = |entry: &ServerTool| {
        let tool = json!(entry.description);
        tool["description"].to_string().len() + tool["inputSchema"].to_string().len()
    };
    let fixture = Fixture::new(&[]);
    let server = Server::new(fixture.client());
    let all: usize = server.offered_tools().map(read).sum();
    assert!(all < 24_000, "{all}");
    let with_commands: usize = tools().iter().map(read).sum();
    assert!(with_commands < 25_000, "{with_commands}");
}

#[test]
fn hints_describe_the_effects_of_tools() {
    let hints = |name: &str| {
        let entry = tools()
            .iter()
            .find(|entry| entry.description.name == name)
            .unwrap();
        let hints = json!(entry.description)["annotations"].clone();
        [
            "readOnlyHint",
            "destructiveHint",
            "idempotentHint",
            "openWorldHint",
        ]
        .map(|hint| hints[hint].as_bool().unwrap())
    };
    for (tool, expected) in [
        ("argus_status", [true, false, true, false]),
        ("argus_hold", [false, false, true, false]),
        // A check with `verify` starts helper containers.
        ("argus_network", [false, false, true, false]),
        ("argus_apply", [false, true, true, true]),
        // A second call can find another error.
        ("argus_fix", [false, true, false, true]),
        ("argus_retry", [false, false, true, true]),
        ("argus_restart", [false, true, false, false]),
        ("argus_down", [false, true, true, false]),
        ("argus_test_run", [false, true, false, true]),
        ("argus_exec", [false, true, false, true]),
    ] {
        assert_eq!(hints(tool), expected, "{tool}");
    }
}

#[tokio::test]
async fn commands_in_containers_need_a_flag() {
    let fixture = Fixture::new(&[environment(Phase::Ready, vec![row("api", ServiceState::Ready)])]);
    let call = json!({ "environment": "shop", "service": "api", "command": ["id"] });
    let result = fixture.call("argus_exec", call).await;
    let error = result.structured_content.clone().unwrap();
    assert_eq!(error["details"]["reason"], "forbidden", "{error}");
    let words = text(&result);
    assert!(words.contains("`--allow-test-commands`"), "{words}");
    let is_offered = |client: ControllerClient| {
        let server = Server::new(client);
        server
            .offered_tools()
            .any(|entry| entry.description.name == "argus_exec")
    };
    let mut settings = fixture.client().settings().clone();
    settings.allow_test_commands = true;
    assert!(!is_offered(fixture.client()));
    assert!(is_offered(ControllerClient::remote(settings)));
}

#[test]
fn every_error_matches_every_output_schema() {
    // The official TypeScript client validates error results as well.
    for code in Code::ALL {
        let error = StructuredError::new(*code, "x")
            .controller("01M7ZT8NQ3JK5CY13HJAQAYAWR")
            .environment("shop")
            .service("api")
            .details(json!({ "x": 1 }))
            .error_id("01M7ZT8NQ3JK5CY13HJAQAYAWR")
            .stage("start")
            .attempt(1)
            .container_id("c")
            .exit_code(3)
            .tails("x", "x")
            .revision("a")
            .timestamp("2026-11-21T19:00:00Z")
            .retry_after(1)
            .with_call(argus_crds::error::Call::new("x", serde_json::Map::new()));
        for entry in tools() {
            validate_output(&entry.description.name, &json!(error)).unwrap();
        }
    }
    for entry in tools() {
        assert!(
            validate_output(&entry.description.name, &json!({})).is_err(),
            "an empty object is invalid"
        );
    }
}

#[test]
fn error_lists_each_call_once_and_no_command() {
    let edit = argus_crds::SpecEdit::new("e2e.yaml", "services.api.memory", "it used 90MiB");
    let error = StructuredError::new(Code::ContainerOom, "out of memory")
        .environment("shop")
        .service("api")
        .details(json!({ "hint": "check it with `argus validate`" }))
        .edit(edit.line(7).now("64m").suggest("128MiB"));
    let words = text(&reply::error_result(&error, 1_200));
    assert_eq!(words.matches("next: argus_validate").count(), 1, "{words}");
    let first = words.lines().find(|line| line.starts_with("do:")).unwrap();
    assert!(first.contains("from `64m` to `128MiB` in e2e.yaml:7"), "{words}");
    let wait = "next: argus_wait {\"environment\":\"shop\"} (after that, wait until it is Ready)";
    assert!(words.contains(wait), "{words}");
    assert!(!words.contains("`argus ") && words.len() <= 1_200, "{words}");
}

#[test]
fn work_outside_of_argus_comes_before_its_call() {
    let of = |action, details| {
        let error = StructuredError::new(Code::BuildFailed, "no access").details(details);
        text(&reply::error_result(
            &error.environment("shop").suggest(&[action]),
            1_200,
        ))
    };
    for (action, details, work, call) in [
        (
            ActionId::LogIn,
            json!({ "registry": "registry.test:5000" }),
            "do: log in to the registry as the controller's user: `docker login registry.test:5000`",
            "next: argus_retry {\"environment\":\"shop\"} (retry)",
        ),
        (
            ActionId::JoinGroup,
            json!({ "group": "docker" }),
            "do: become a member of the group `docker`, then log in again: `sudo usermod -aG docker \"$USER\"`",
            "next: argus_preflight_check {} (check the access)",
        ),
        (
            ActionId::FreeDiskSpace,
            json!({}),
            "do: remove replaced images and the build cache: `argus prune`",
            "next: argus_preflight_check {} (check the disk)",
        ),
        (
            ActionId::FixBuild,
            json!({ "dockerfile": "/app/Dockerfile" }),
            "do: fix `/app/Dockerfile`, its context or its target",
            "next: argus_validate {} (check the file)",
        ),
        (
            ActionId::FreePort,
            json!({}),
            "do: free the port",
            "next: argus_retry {\"environment\":\"shop\"} (retry)",
        ),
    ] {
        let words = of(action, details);
        assert!(words.contains(&format!("{work}\n{call}\n")), "{words}");
    }
}

#[tokio::test]
async fn every_error_code_reaches_results_statuses_and_resources() {
    for code in Code::ALL {
        let result = reply::error_result(&Failure::new(raised(*code)).into_error(), usize::MAX);
        assert_eq!(result.is_error, Some(true));
        assert_complete(*code, result.structured_content.as_ref().unwrap());
        let words = text(&result);
        assert!(
            words.contains(code.as_str())
                && words.contains("try again in 7 s") == code.explanation().class.is_retried(),
            "{words}"
        );
        let mut calls = BTreeSet::new();
        for action in code.explanation().actions {
            let remedy = action.remedy(Some("shop"), Some("api"));
            let call = remedy.mcp.as_ref().map(|call| call.tool.clone());
            // The same call has one purpose.
            let is_repeated = !calls.insert(call.clone());
            assert!(is_repeated || words.contains(&remedy.summary), "{words}");
            assert!(
                call.is_none_or(|tool| words.contains(&format!("next: {tool} {{"))),
                "{words}"
            );
        }
    }
    let fixture = Fixture::new(&[full_of_errors()]);
    let all = json!({ "environment": "shop", "detail": "full", "maxTextBytes": 1 << 20 });
    let status = fixture
        .call("argus_status", all)
        .await
        .structured_content
        .unwrap();
    let read = resources::read(&fixture.client(), "argus://environments/shop")
        .await
        .unwrap();
    let read = json!(read)["contents"][0]["text"].as_str().unwrap().to_owned();
    let read: Value = serde_json::from_str(&read).unwrap();
    for document in [&status["full"][0], &read] {
        assert_valid("status.schema.json", document);
        for (index, code) in Code::ALL.iter().enumerate() {
            assert_complete(*code, &document["errors"][index]);
            assert_complete(*code, &document["services"][index]["lastError"]);
        }
    }
}

#[tokio::test]
async fn invalid_arguments_are_rejected_with_the_valid_ones() {
    let fixture = Fixture::new(&[environment(Phase::Ready, Vec::new())]);
    for (tool, arguments, expected) in [
        ("argus_wait", json!({ "env": "shop" }), "`environment`"),
        ("argus_wait", json!({ "for": "soon" }), "`ready`"),
        (
            "argus_test",
            json!({ "action": "begin", "case": "x" }),
            "`environment`",
        ),
        ("argus_preflight_check", json!({ "skip": ["disc"] }), "`disk`"),
        ("argus_status", json!({ "environment": "shoop" }), "shop"),
        ("argus_status", json!({ "environment": "../shop" }), "shop"),
        ("argus_explain", json!({ "code": "NOPE" }), "PORT_CONFLICT"),
        (
            "argus_explain",
            json!({ "key": "services.web.comand" }),
            "services.*.command",
        ),
        (
            "argus_explain",
            json!({ "code": "PORT_CONFLICT", "key": "services" }),
            "exclude each other",
        ),
        (
            "argus_why",
            json!({ "environment": "shop", "service": "x" }),
            "it has no services",
        ),
    ] {
        let result = fixture.call(tool, arguments.clone()).await;
        assert_eq!(result.is_error, Some(true), "{tool} {arguments}");
        assert!(
            text(&result).contains(expected),
            "{tool} {arguments}: {}",
            text(&result)
        );
    }
}

#[tokio::test]
async fn without_a_controller_only_queries_work() {
    let fixture = Fixture::new(&[environment(Phase::Ready, Vec::new())]);
    for tool in ["argus_status", "argus_validate", "argus_explain", "argus_events"] {
        assert_eq!(
            fixture.call(tool, json!({})).await.is_error,
            Some(false),
            "{tool}"
        );
    }
    let shop = json!({ "environment": "shop" });
    for tool in [
        "argus_retry",
        "argus_restart",
        "argus_hold",
        "argus_resume",
        "argus_cancel",
        "argus_rollback",
        "argus_fork",
        "argus_down",
        "argus_wait",
        "argus_reset_circuit",
    ] {
        let result = fixture.call(tool, shop.clone()).await;
        assert_eq!(result.is_error, Some(true), "{tool}");
        assert!(
            text(&result).contains("argus run --specs"),
            "{tool}: {}",
            text(&result)
        );
    }
}

#[tokio::test]
async fn apply_reports_why_argus_cannot_act() {
    for (code, is_reported) in [
        (Code::DockerUnavailable, true),
        (Code::CircuitOpen, true),
        (Code::JournalUnwritable, true),
        (Code::ContainerCrash, false),
    ] {
        let mut shop = environment(Phase::Progressing, Vec::new());
        shop.errors.push(StructuredError::new(code, "the cause"));
        let fixture = Fixture::new(&[shop]);
        let result = fixture.call("argus_apply", json!({ "content": SMALL })).await;
        assert_eq!(result.is_error, Some(false), "the file is written: {result:?}");
        let sentence = format!("Argus cannot act at present: {code}: the cause");
        assert_eq!(text(&result).contains(&sentence), is_reported, "{result:?}");
        let inactive = &result.structured_content.unwrap()["inactive"];
        let reported = is_reported.then(|| json!(code));
        assert_eq!(inactive.get("code"), reported.as_ref(), "{inactive}");
    }
}

#[tokio::test]
async fn apply_writes_only_valid_files() {
    let fixture = Fixture::new(&[]);
    let specs = fixture.dir.path().join("specs");
    let wrong = "version: \"1\"\nproject: { name: shop }\nservices: { web: { image: \"x:1\" } }\n";
    let result = fixture.call("argus_apply", json!({ "content": wrong })).await;
    let error = result.structured_content.unwrap();
    assert_eq!(error["code"], "SPEC_INVALID");
    assert_eq!(
        error["details"]["diagnostics"][0]["location"]["line"], 3,
        "{error}"
    );
    assert!(error["details"]["diagnostics"][0]["hint"].is_string(), "{error}");
    assert_eq!(std::fs::read_dir(&specs).unwrap().count(), 0);
    for name in [
        "../shop.e2e.yaml",
        "/tmp/shop.e2e.yaml",
        "shop.yaml",
        "a/b/e2e.yaml",
    ] {
        let result = fixture
            .call("argus_apply", json!({ "content": SMALL, "name": name }))
            .await;
        assert_eq!(result.is_error, Some(true), "{name}");
    }
    assert_eq!(std::fs::read_dir(&specs).unwrap().count(), 0);
    let result = fixture.call("argus_apply", json!({ "content": SMALL })).await;
    assert_eq!(result.is_error, Some(false), "{result:?}");
    assert_eq!(
        std::fs::read_to_string(specs.join("shop.e2e.yaml")).unwrap(),
        SMALL
    );
    let again = fixture.call("argus_apply", json!({ "content": SMALL })).await;
    assert_eq!(again.structured_content.unwrap()["changed"], false);
    let other = SMALL.replace("name: shop}", "name: other}");
    let onto = json!({ "content": other, "name": "shop.e2e.yaml" });
    let result = fixture.call("argus_apply", onto).await;
    assert_eq!(
        result.structured_content.unwrap()["code"],
        "SPEC_CONFLICT",
        "it would remove `shop`"
    );
}

#[test]
fn example_of_apply_is_valid() {
    let fixture = Fixture::new(&[]);
    let parsed = spec_files::parse_text(
        fixture.client().settings(),
        std::path::Path::new("e2e.yaml"),
        SMALL.as_bytes(),
        &CancellationToken::new(),
    );
    assert!(
        parsed.desired.is_some() && parsed.diagnostics.is_empty(),
        "{parsed:?}"
    );
}

#[tokio::test]
async fn examples_of_the_page_are_valid() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/mcp.md")).unwrap();
    let mut checked = 0;
    for block in page.split("```json").skip(1) {
        let (head, rest) = block.split_once('\n').unwrap();
        let body: Value = serde_json::from_str(rest.split("```").next().unwrap()).unwrap();
        let tool = head.trim();
        if tool.is_empty() {
            // Settings of a client, or a diagnostic.
            let mistake = body.get("severity").is_some();
            assert!(
                !mistake || serde_json::from_value::<Diagnostic>(body.clone()).is_ok(),
                "{body}"
            );
            continue;
        }
        checked += 1;
        if let Some(arguments) = body.get("arguments").filter(|_| body.get("nextSteps").is_none()) {
            check_arguments(tool, arguments.as_object().unwrap())
                .unwrap_or_else(|error| panic!("{body}: {error}"));
        } else if body.get("suggestedActions").is_some() {
            let error: StructuredError = serde_json::from_value(body.clone()).unwrap();
            let remedies = error.suggested_actions.iter().map(|action: &ActionId| {
                action.remedy(error.environment.as_deref(), error.service.as_deref())
            });
            assert_eq!(
                error.remedies,
                remedies.collect::<Vec<_>>(),
                "the page has the current remedies"
            );
        } else {
            validate_output(tool, &body).unwrap_or_else(|error| panic!("{body}: {error}"));
        }
    }
    assert!(checked > 3, "{checked}");
    for entry in tools() {
        assert!(
            page.contains(&format!("`{}`", entry.description.name)),
            "{}",
            entry.description.name
        );
    }
}

/// Returns arguments for a call of a tool that reads the status of `hung`.
fn arguments(entry: &ServerTool) -> Value {
    let schema = json!(entry.description)["inputSchema"].clone();
    let fits = |(name, value): (&str, Value)| {
        let is_there = schema["properties"].get(name).is_some();
        is_there.then(|| (name.to_owned(), value))
    };
    let all = [
        ("environment", json!("hung")),
        ("service", json!("api")),
        ("mock", json!("api")),
        ("action", json!("begin")),
        ("case", json!("x")),
    ];
    let mut all: serde_json::Map<String, Value> = all.into_iter().filter_map(fits).collect();
    if entry.description.name == "argus_apply" {
        all.insert(
            "content".to_owned(),
            json!(SMALL.replace("name: shop", "name: hung")),
        );
    }
    Value::Object(all)
}

/// Writes the contents of a pipe again and again until `done`, but not before `may`; false if `may` came too late.
fn serve_pipe(path: &std::path::Path, bytes: &[u8], may: &Latch, done: &Latch) -> bool {
    use std::os::unix::fs::OpenOptionsExt as _;
    let in_time = may.wait(std::time::Duration::from_secs(20));
    let nonblocking = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap();
    while !done.wait(std::time::Duration::from_millis(5)) {
        let reader = std::fs::File::options()
            .write(true)
            .custom_flags(nonblocking)
            .open(path);
        // At this moment, nothing reads, or the reader has closed the pipe.
        drop(reader.and_then(|mut reader| std::io::Write::write_all(&mut reader, bytes)));
    }
    in_time
}

/// One-time event between threads.
#[derive(Default)]
struct Latch(std::sync::Mutex<bool>, std::sync::Condvar);

impl Latch {
    fn set(&self) {
        *self.0.lock().unwrap() = true;
        self.1.notify_all();
    }

    fn wait(&self, limit: std::time::Duration) -> bool {
        let held = self.0.lock().unwrap();
        let (held, _) = self.1.wait_timeout_while(held, limit, |set| !*set).unwrap();
        *held
    }
}

#[tokio::test]
async fn hanging_file_delays_only_its_own_tool() {
    let status = EnvironmentStatus {
        environment: "hung".to_owned(),
        ..environment(Phase::Ready, vec![row("api", ServiceState::Ready)])
    };
    for entry in tools() {
        let fixture = Fixture::new(&[]);
        let name = entry.description.name.as_ref();
        let path = fixture.dir.path().join("state/environments/hung.json");
        let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        let (may, done) = (Arc::<Latch>::default(), Arc::<Latch>::default());
        let bytes = serde_json::to_vec(&status).unwrap();
        let disk = std::thread::spawn({
            let (may, done) = (may.clone(), done.clone());
            move || serve_pipe(&path, &bytes, &may, &done)
        });
        let arguments = arguments(entry).as_object().cloned().unwrap();
        let slow = entry.call(arguments, fixture.client(), None);
        // The runtime has one thread: a tool that reads on it would delay the code after it.
        let (result, ()) = tokio::join!(slow, async { may.set() });
        assert!(result.structured_content.is_some(), "{name}");
        done.set();
        let in_time = disk.join().unwrap();
        assert!(in_time, "{name} delayed other requests");
    }
}

#[tokio::test]
async fn incidents_are_listed_newest_first_and_read_in_full() {
    let fixture = Fixture::new(&[]);
    let folder = fixture.dir.path().join("state/incidents");
    std::fs::create_dir_all(&folder).unwrap();
    let none = fixture.call("argus_incidents", json!({})).await;
    assert!(text(&none).contains("no incidents"), "{none:?}");
    for number in 0..30 {
        let incident = Incident {
            id: format!("01M7ZT8NQ3JK5CY13HJAQAY{number:03}"),
            at: "2026-11-21T19:00:00Z".to_owned(),
            open_intents: vec![OpenIntent::default(); 40],
            ..Incident::default()
        };
        let path = folder.join(format!("{}.json", incident.id));
        std::fs::write(path, serde_json::to_vec(&incident).unwrap()).unwrap();
    }
    let result = fixture.call("argus_incidents", json!({})).await;
    let content = result.structured_content.clone().unwrap();
    assert_eq!(content["items"][0]["id"], "01M7ZT8NQ3JK5CY13HJAQAY029");
    assert_eq!(
        (&content["items"][0]["openIntents"], &content["more"]),
        (&json!(40), &json!(10))
    );
    assert!(size(&result) < 6_000, "{}", size(&result));
    let next = &content["nextSteps"][0];
    let one = fixture
        .call(next["tool"].as_str().unwrap(), next["arguments"].clone())
        .await;
    let report = one.structured_content.unwrap();
    let mut incident = report.clone();
    incident.as_object_mut().unwrap().remove("nextSteps");
    assert_valid("incident.schema.json", &incident);
    assert_eq!(incident["openIntents"].as_array().unwrap().len(), 40);
    for (id, expected) in [("nothing", "no incident"), ("01M7", "30 incidents begin")] {
        let result = fixture.call("argus_incidents", json!({ "id": id })).await;
        assert_eq!(result.is_error, Some(true));
        assert!(text(&result).contains(expected), "{}", text(&result));
    }
}
