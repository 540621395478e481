//! First remedies of failures whose cause is not in the failed part: wrappers, earlier data, other files, the engine.

use argus_crds::diagnostic::OtherFile;
use argus_crds::error::{ActionId, StructuredError};
use serde_json::json;

use super::spec_edits::{
    FILE, SPEC, assert_first, error_of, error_of_wait, exited, failing, failing_in, plain, rejected,
    unhealthy,
};
use super::*;
use crate::desired::Build;
use crate::dockerfile::Instruction;
use crate::outcome::{Evidence, HostFile};

/// A run whose wrapper still runs, with this last line of its output, and without a listener.
fn wrapped(line: &'static str) -> impl FnOnce(&mut FailedRun) {
    move |run| {
        unhealthy(&[], &[])(run);
        if let Some(evidence) = &mut run.evidence {
            evidence.stderr = vec![line.to_owned()];
        }
    }
}

#[test]
fn crash_behind_a_wrapper_is_not_a_slow_start() {
    let error = error_of(failing(wrapped("sh: API_KEY: parameter not set")));
    assert_eq!(error.code, Code::HealthCheckTimeout);
    assert_first(
        &error,
        "services.web.container.environment.API_KEY",
        10,
        None,
        None,
    );
    let started = error_of(failing(wrapped("starting")));
    assert!(
        started.remedies[0].summary.contains("startPeriod"),
        "{started:#?}"
    );
}

#[test]
fn program_that_never_listens_is_not_a_slow_start() {
    let silent_for = |line, seconds| {
        error_of(failing(move |run| {
            wrapped(line)(run);
            run.at = NOW + Duration::from_secs(seconds);
        }))
    };
    // The maximum is longer if the output says that the program starts.
    for (line, max) in [("hello", 60), ("starting", 300)] {
        for seconds in [40, max - 1] {
            let summary = &silent_for(line, seconds).remedies[0].summary;
            assert!(summary.contains("startPeriod"), "{line}, {seconds} s: {summary}");
        }
        let error = silent_for(line, max + 1);
        assert!(
            error.remedies.iter().all(|remedy| remedy.edit.is_none()),
            "{line}: {error:#?}"
        );
    }
}

#[test]
fn child_out_of_memory_behind_a_wrapper_needs_more_memory() {
    let unhealthy_wrapper = |run: &mut FailedRun| {
        wrapped("Killed")(run);
        (run.oom_event, run.memory_limit) = (true, Some(64_000_000));
    };
    let successful_wrapper = |run: &mut FailedRun| {
        (run.exit_code, run.oom_killed, run.memory_limit) = (0, true, Some(64_000_000));
    };
    for error in [
        error_of(failing(unhealthy_wrapper)),
        error_of(failing(successful_wrapper)),
    ] {
        assert_first(&error, "services.web.memory", 9, Some("64MB"), Some("92MiB"));
    }
}

#[test]
fn missing_program_is_named_in_the_command() {
    let text = SPEC.replace(
        "    memory: 64MB\n",
        "    command: [\"sh\", \"-c\", \"htpd -f; sleep 60\"]\n",
    );
    let first = |error: &StructuredError, code: Code| {
        assert_eq!(error.code, code, "{error:#?}");
        let edit = assert_first(error, "services.web.command", 9, Some("htpd"), Some("httpd"));
        assert!(edit.reason.contains("no program `htpd`"), "{edit:?}");
    };
    let first_with_details = |error: &StructuredError| {
        first(error, Code::EntrypointNotFound);
        let details = &error.details;
        assert_eq!(
            (&details["missingCommand"], &details["expectedPath"]),
            (&"htpd".into(), &"$PATH".into())
        );
        assert!(details["installHint"].as_str().unwrap().contains("`htpd`"));
    };
    // The wrapper runs, so only its health check fails.
    let behind_wrapper = error_of(failing_in(&text, wrapped("sh: htpd: not found")));
    first(&behind_wrapper, Code::HealthCheckTimeout);
    let not_runnable = |run: &mut FailedRun| {
        exited("sh: htpd: not found")(run);
        run.exit_code = 127;
    };
    first_with_details(&error_of_wait(
        failing_in(&text, not_runnable),
        WaitReason::NotRunnable { exit_code: 127 },
    ));
    let reason = "exec: \"htpd\": executable file not found in $PATH: unknown";
    let failure = Shop::failure(
        ActionKind::StartContainer,
        ActionError::EntrypointNotFound(reason.to_owned()),
    );
    first_with_details(&error_of_wait(
        failing_in(&text, |_| {}),
        WaitReason::Failed { failure },
    ));
    // The program of the image itself is not in the file.
    let error = error_of(failing(wrapped("sh: other: not found")));
    assert!(error.remedies[0].summary.contains("startPeriod"), "{error:#?}");
}

#[test]
fn listener_for_its_own_container_suggests_all_addresses() {
    let local = || unhealthy(&["127.0.0.1:80"], &[]);
    let text = SPEC.replace(
        "    memory: 64MB\n",
        "    command: [\"serve\", \"--listen\", \"127.0.0.1:80\"]\n",
    );
    let error = error_of(failing_in(&text, local()));
    let edit = assert_first(
        &error,
        "services.web.command",
        9,
        Some("127.0.0.1"),
        Some("0.0.0.0"),
    );
    assert!(edit.reason.contains("port 80 only inside"), "{edit:?}");
    let text = SPEC.replace(
        "      ports:",
        "      environment: { DB_URL: \"localhost:1\", BIND_ADDRESS: \"localhost:80\" }\n      ports:",
    );
    assert_first(
        &error_of(failing_in(&text, local())),
        "services.web.container.environment.BIND_ADDRESS",
        12,
        Some("localhost"),
        Some("0.0.0.0"),
    );
}

/// Shop whose service has a volume that was created at this time, and whose process printed this line.
fn with_volume(created: Timestamp, line: &'static str) -> Shop {
    let text = plain("").replace("databse", "db").replace(
        "      environment:",
        "      volumes: [\"data:/var/lib/db\"]\n      environment:",
    );
    let mut shop = failing_in(&text, exited(line));
    let desired = &shop.accepted.as_ref().unwrap().desired;
    let volume = desired.volumes[0].as_str().to_owned();
    let labels = BTreeMap::from([(labels::CREATED_AT.to_owned(), created.to_string())]);
    let name = volume.clone();
    shop.observed
        .volumes
        .insert(volume, Arc::new(crate::observed::Volume { name, labels }));
    shop
}

#[test]
fn volume_with_unfit_data_suggests_a_new_one() {
    let old = NOW - Duration::from_secs(3_600);
    let line = "the data directory was initialized by version 15, which is not compatible with 16";
    let error = error_of(with_volume(old, line));
    let edit = assert_first(
        &error,
        "services.web.container.volumes[0]",
        11,
        Some("data:/var/lib/db"),
        Some("data-2:/var/lib/db"),
    );
    assert!(edit.reason.contains("earlier data"), "{edit:?}");
    for (created, line) in [
        (NOW + Duration::from_secs(1), line),
        (old, "connection to the data directory lost"),
    ] {
        let error = error_of(with_volume(created, line));
        assert!(
            error.remedies.iter().all(|remedy| remedy.edit.is_none()),
            "{error:#?}"
        );
    }
}

#[test]
fn steps_after_an_edit_repeat_nothing_that_the_error_contains() {
    let text = plain("").replace("databse", "db");
    let error = error_of(failing_in(&text, exited("API_KEY is not set")));
    assert_eq!(error.suggested_actions, [ActionId::FixSpec], "{error:#?}");
    let mounted = text.replace(
        "      environment:",
        "      volumes: [\"./app:/app\"]\n      environment:",
    );
    let error = error_of(failing_in(&mounted, exited("/app/web.conf:3: syntax error")));
    let steps = [ActionId::FixSpec, ActionId::Retry];
    assert_eq!(error.suggested_actions, steps, "{error:#?}");
    assert_eq!(error.remedies[0].command.as_deref(), Some("argus retry shop/web"));
    let first = error.remedies[0].edit.as_ref().unwrap();
    assert_eq!((first.key.as_str(), first.line), ("", Some(3)));
    assert!(first.file.ends_with("app/web.conf"), "{first:?}");
    // Without an edit, the log is still the first step.
    let error = error_of(failing_in(&text, exited("boom")));
    assert_eq!(error.suggested_actions[0], ActionId::InspectLogs, "{error:#?}");
}

#[test]
fn wrong_condition_suggests_the_possible_one() {
    let once = plain("    dependsOn:\n      - service: db\n        condition: healthy\n")
        .replace("    image: db:1\n", "    image: db:1\n    oneShot: true\n");
    assert_first(
        &rejected(&once)[0],
        "services[1].dependsOn[0].condition",
        12,
        Some("healthy"),
        Some("completed"),
    );
    let server = plain("    dependsOn:\n      - service: db\n        condition: completed\n");
    assert_first(
        &rejected(&server)[0],
        "services[1].dependsOn[0].condition",
        11,
        Some("completed"),
        Some("healthy"),
    );
    // A service without port and health check is probably a job without `oneShot`.
    let job = server.replace(", healthcheck: { type: tcp, port: 5432 }", "");
    assert_first(
        &rejected(&job)[0],
        "services[1].dependsOn[0].condition",
        11,
        None,
        None,
    );
}

#[test]
fn misspelled_required_key_suggests_the_right_one() {
    let errors = rejected(&SPEC.replace("    image: web:1", "    imgae: web:1"));
    assert_first(&errors[0], "services.web.imgae", 8, Some("imgae"), Some("image"));
}

#[test]
fn problem_in_a_document_names_that_file() {
    let place = OtherFile {
        file: "./api/shop.yaml".to_owned(),
        path: "paths.users".to_owned(),
        line: Some(4),
    };
    let diagnostics = [
        Diagnostic::error("mocks.m.openapi", "a path does not start with `/`")
            .replace("users", "/users")
            .elsewhere(place),
    ];
    let rejection = Rejection {
        spec_path: FILE,
        code: Code::SpecInvalid,
        diagnostics: &diagnostics,
        is_compose: false,
    };
    let error = &crate::status::spec_errors(Some("shop"), rejection, NOW)[0];
    let edit = error.remedies[0].edit.clone().unwrap();
    assert_eq!(
        (edit.file.as_str(), edit.key.as_str(), edit.line),
        ("environments/shop/api/shop.yaml", "paths.users", Some(4))
    );
    assert_eq!(edit.suggest.as_deref(), Some("/users"));
}

#[test]
fn interrupted_build_is_first_waited_for() {
    let failure = |error| Shop::failure(ActionKind::BuildImage, error);
    let interrupted = failure(ActionError::BuildInterrupted {
        message: "connection refused".to_owned(),
        log: String::new(),
    });
    let until = NOW + Duration::from_secs(5);
    let error = error_of_wait(
        failing(|_| {}),
        WaitReason::Retry {
            failure: interrupted,
            until,
        },
    );
    assert_eq!(error.suggested_actions[0], ActionId::Wait, "{error:#?}");
    let failed = failure(ActionError::BuildFailed {
        message: "returned a non-zero code: 1".to_owned(),
        log: String::new(),
        instruction: None,
    });
    let error = error_of_wait(failing(|_| {}), WaitReason::Failed { failure: failed });
    assert_eq!(error.suggested_actions[0], ActionId::FixBuild, "{error:#?}");
}

/// Error of a build in the context `/app`.
fn failed_build(dockerfile: &str, instruction: Option<Instruction>) -> StructuredError {
    let mut failure = Shop::failure(
        ActionKind::BuildImage,
        ActionError::BuildFailed {
            message: "Step 2/2 : RUN make: exit code: 2".to_owned(),
            log: "Step 2/2 : RUN make\nmake: no rule".to_owned(),
            instruction: instruction.map(Box::new),
        },
    );
    let arguments = json!({ "context": "/app", "dockerfile": dockerfile });
    failure.call.arguments = arguments.as_object().unwrap().clone();
    error_of_wait(failing(|_| {}), WaitReason::Failed { failure })
}

fn instruction(line: usize, text: &str, corrected: Option<&str>) -> Instruction {
    Instruction {
        line,
        text: text.to_owned(),
        corrected: corrected.map(str::to_owned),
        excluded_by: None,
    }
}

#[test]
fn failed_build_names_its_dockerfile() {
    for (dockerfile, path) in [
        ("docker/api", "/app/docker/api"),
        ("/other/Dockerfile", "/other/Dockerfile"),
    ] {
        let error = failed_build(dockerfile, None);
        assert_eq!(error.details["dockerfile"], path, "{error:#?}");
        assert_eq!(
            error.remedies[0].summary,
            format!("fix `{path}`, its context or its target")
        );
    }
}

#[test]
fn failed_build_has_its_line_and_its_output() {
    let error = failed_build("Dockerfile", Some(instruction(7, "RUN make", None)));
    assert_eq!(
        error.message,
        "build failed in line 7 of the Dockerfile: make: no rule; Step 2/2 : RUN make: exit code: 2"
    );
    assert_eq!(
        error.stdout_tail.as_deref(),
        Some("Step 2/2 : RUN make\nmake: no rule")
    );
    assert_eq!(
        (&error.details["line"], &error.details["instruction"]),
        (&json!(7), &json!("RUN make"))
    );
    assert_eq!(
        error.remedies[0].summary,
        "fix `/app/Dockerfile:7`, its context or its target"
    );
    let corrected = instruction(3, "COPY --from=biuld / /", Some("COPY --from=build / /"));
    let error = failed_build("Dockerfile", Some(corrected));
    let edit = error.remedies[0].edit.clone().unwrap();
    assert_eq!((edit.file.as_str(), edit.line), ("/app/Dockerfile", Some(3)));
    assert_eq!(
        error.remedies[0].summary,
        "fix /app/Dockerfile:3: write `COPY --from=build / /`"
    );
}

fn built() -> Image {
    Image::Built(Build {
        tag: "web:1".to_owned(),
        context: "/app".to_owned(),
        dockerfile: "docker/Web".to_owned(),
        target: None,
        args: BTreeMap::new(),
        options: Box::default(),
        digest: hash("01"),
        excluded: crate::desired::excluded::Excluded::default(),
        allowed: false,
    })
}

#[test]
fn start_of_a_built_image_names_its_dockerfile() {
    let first = |text: &str, image: Image, reason: &str| {
        let mut shop = failing_in(text, |_| {});
        let desired = &mut shop.accepted.as_mut().unwrap().desired;
        desired.services.get_mut(&name("web")).unwrap().image = image;
        let failure = Shop::failure(
            ActionKind::StartContainer,
            ActionError::EntrypointNotFound(reason.to_owned()),
        );
        let error = error_of_wait(shop, WaitReason::Failed { failure });
        let edit = error.remedies[0].edit.clone();
        edit.map(|edit| (edit.file, edit.reason))
    };
    let missing = "exec: \"srv\": executable file not found in $PATH: unknown";
    let reason = "the image cannot run its `CMD` or `ENTRYPOINT`".to_owned();
    let expected = Some(("/app/docker/Web".to_owned(), reason));
    assert_eq!(first(SPEC, built(), missing), expected);
    // The platform of the image is wrong, or the file has the command.
    assert_ne!(first(SPEC, built(), "exec format error"), expected);
    let own = SPEC.replace("    memory: 64MB\n", "    command: [\"srv\"]\n");
    assert_ne!(first(&own, built(), missing), expected);
    let denied = "exec: \"/srv/run.sh\": permission denied: unknown";
    let (file, reason) = first(&own, built(), denied).unwrap();
    assert_eq!(file, "/app/docker/Web");
    assert_eq!(reason, "the file `/srv/run.sh` of the image is not executable");
}

#[test]
fn script_without_its_interpreter_is_no_missing_program() {
    let missing = |interpreter: Option<&str>| {
        let facts = HostFile {
            interpreter: interpreter.map(str::to_owned),
            ..HostFile::default()
        };
        let shop = failing(|run| {
            exited("[FATAL tini (7)] exec /entry.sh failed: No such file or directory")(run);
            run.exit_code = 127;
            let evidence = run.evidence.as_mut().unwrap();
            evidence.host_files.insert("/entry.sh".to_owned(), facts);
        });
        let error = error_of_wait(shop, WaitReason::NotRunnable { exit_code: 127 });
        error.details.get("missingCommand").cloned()
    };
    assert_eq!(missing(Some("/bin/bash")), None);
    assert_eq!(missing(None), Some("/entry.sh".into()));
}

#[test]
fn command_of_a_built_image_is_named_in_its_dockerfile() {
    let failed = |text: &str, line: &'static str, commands: &[Instruction]| {
        let commands = commands.to_vec();
        let mut shop = failing_in(text, |run| {
            exited(line)(run);
            run.exit_code = 127;
            run.evidence.as_mut().unwrap().image_commands = commands;
        });
        let desired = &mut shop.accepted.as_mut().unwrap().desired;
        desired.services.get_mut(&name("web")).unwrap().image = built();
        let error = error_of_wait(shop, WaitReason::NotRunnable { exit_code: 127 });
        let edit = error.remedies.iter().find_map(|remedy| remedy.edit.clone());
        edit.map(|edit| (edit.file, edit.line, edit.reason))
    };
    let tini = "[FATAL tini (7)] exec srv failed: No such file or directory";
    let entrypoint = instruction(8, "ENTRYPOINT [\"/entry.sh\"]", None);
    let both = [entrypoint, instruction(9, "CMD [\"srv\", \"--port\"]", None)];
    let at = |line| ("/app/docker/Web".to_owned(), Some(line));
    let (file, line, reason) = failed(SPEC, tini, &both).unwrap();
    assert_eq!((file, line), at(9));
    assert_eq!(reason, "the image cannot run its `CMD [\"srv\", \"--port\"]`");
    let script = "[FATAL tini (7)] exec /entry.sh failed: No such file or directory";
    let (file, line, reason) = failed(SPEC, script, &both).unwrap();
    assert_eq!((file, line), at(8));
    assert!(reason.contains("`/entry.sh`"), "{reason}");
    assert_eq!(failed(SPEC, "sh: other: not found", &both), None);
    // The command of the file counts.
    let own = SPEC.replace("    memory: 64MB\n", "    command: [\"srv\"]\n");
    assert_eq!(failed(&own, tini, &both).unwrap().0, FILE);
}

#[test]
fn program_of_an_image_without_its_mode_needs_it() {
    let mut shop = failing(|run| {
        exited("[FATAL tini (7)] exec srv failed: Permission denied")(run);
        run.exit_code = 126;
        run.evidence.as_mut().unwrap().image_commands = vec![instruction(9, "CMD [\"srv\"]", None)];
    });
    let desired = &mut shop.accepted.as_mut().unwrap().desired;
    desired.services.get_mut(&name("web")).unwrap().image = built();
    let error = error_of_wait(shop, WaitReason::NotRunnable { exit_code: 126 });
    let edit = error.remedies[0].edit.clone().unwrap();
    assert_eq!(edit.line, Some(9));
    assert_eq!(edit.reason, "the file of its `CMD [\"srv\"]` is not executable");
    assert!(edit.hint.unwrap().contains("--chmod=755"));
}

#[test]
fn health_check_of_a_built_image_is_in_its_dockerfile() {
    let text = plain("").replace("databse", "db");
    let mut shop = failing_in(&text, |run| {
        unhealthy(&["0.0.0.0:18431"], &[])(run);
        let output = "HEALTHCHECK of the image: exit code 1: wget: can't connect: Connection refused";
        run.probe_output = vec![output.to_owned()];
    });
    let desired = &mut shop.accepted.as_mut().unwrap().desired;
    let web = desired.services.get_mut(&name("web")).unwrap();
    (web.image, web.probe) = (built(), None);
    let edit = error_of(shop).remedies[0].edit.clone().unwrap();
    assert_eq!(edit.file, "/app/docker/Web");
    let expected = "its `HEALTHCHECK` reaches no process, the container listens on 18431";
    assert!(edit.reason.starts_with(expected), "{edit:?}");
}

#[test]
fn open_breaker_of_a_live_engine_restarts_no_engine() {
    let first = |reachable: bool| {
        let mut shop = Shop::ready();
        shop.reachable = reachable;
        let on = WaitReason::Breaker {
            until: Some(NOW),
            engine: true,
            why: "refused".to_owned(),
        };
        shop.add_wait("web", on);
        let status = shop.status();
        let mut errors = status.errors.iter();
        let error = errors.find(|error| error.code == Code::CircuitOpen).unwrap();
        error.suggested_actions[0]
    };
    assert_eq!(first(true), ActionId::ResetCircuit);
    assert_eq!(first(false), ActionId::StartEngine);
}

#[test]
fn repeated_failure_names_the_cause_above_its_last_line() {
    let shop_after = |exit_code: i64, lines: &[&str]| {
        let mut shop = failing_in(SPEC, |run| {
            run.exit_code = exit_code;
            run.evidence = Some(Evidence {
                stderr: lines.iter().map(ToString::to_string).collect(),
                ..Evidence::default()
            });
        });
        let failures = &mut shop.history.service_mut(&name("web")).failures;
        let first = failures[0].clone();
        failures.extend([first.clone(), first.clone(), first]);
        error_of_wait(shop, WaitReason::GaveUp { restarts: 3 }).message
    };
    let message = shop_after(1, &["config.yaml:3: parse error", "closing", "bye"]);
    assert!(
        message.ends_with("same failure 4 times: config.yaml:3: parse error"),
        "{message}"
    );
    let message = shop_after(139, &["cannot reach db"]);
    assert!(
        message.contains("same failure 4 times: process was ended by SIGSEGV"),
        "{message}"
    );
}

#[test]
fn variable_of_several_services_is_changed_where_it_is_written() {
    let text = "project: { name: shop }
x-env: &env
  DB_URL: postgres://app@db:5433/shop
services:
  db: { image: \"postgres:16\", container: { name: shop-db, ports: [\"5432\"] } }
  web: { image: \"web:1\", container: { name: shop-web, environment: *env } }
  worker: { image: \"web:1\", container: { name: shop-worker, environment: *env } }
";
    let error = error_of(failing_in(
        text,
        exited("Error: connect ECONNREFUSED 172.20.0.2:5433"),
    ));
    let key = "services.web.container.environment.DB_URL";
    assert_first(&error, key, 3, Some("5433"), Some("5432"));
}
