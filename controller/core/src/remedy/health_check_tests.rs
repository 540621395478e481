//! Health checks that do not fit the program.

use std::time::Duration;

use crate::remedy::test_environment::TestEnvironment;
use crate::time::Timestamp;

const HTTP: &str = "{ path: /status, port: 8080, timeout: 1s }";
const REFUSED: &str = "GET /status on :8080: connection refused";

fn web(probe: &str, lines: &str, environment: &str) -> TestEnvironment {
    TestEnvironment::new(&format!(
        "  web:\n    image: web:1\n{lines}    container:\n      name: shop-web\n      environment: {{ {environment} }}\n      healthcheck: {probe}\n"
    ))
}

fn exec(command: &str, output: &str, listening: &[&str]) -> TestEnvironment {
    web(&format!("{{ type: exec, command: {command} }}"), "", "").unhealthy(output, listening)
}

#[test]
fn missing_program_is_replaced_by_a_request() {
    for (command, output, instead) in [
        (
            "[curl, -f, \"http://localhost:8080/health?token=x\"]",
            "exec curl: exit code 127: OCI runtime exec failed: exec failed: unable to start container process: exec: \"curl\": executable \
file not found in $PATH: unknown",
            "{ path: /health, port: 8080 }",
        ),
        (
            "[sh, -c, \"curl -f http://127.0.0.1/ || exit 1\"]",
            "exec sh: exit code 1: sh: curl: not found\n",
            "{ path: /, port: 80 }",
        ),
        (
            "[sh, -c, \"wget -qO- 'http://web:3000/up'\"]",
            "exec sh: exit code 127: /bin/sh: 1: wget: not found",
            "{ path: /up, port: 3000 }",
        ),
        (
            "[curl, -kf, \"https://localhost:8443/\"]",
            "exec curl: exit code 127: sh: curl: not found",
            "{ scheme: https, path: /, port: 8443 }",
        ),
        (
            "[nc, -z, localhost, \"5432\"]",
            "exec nc: exit code 127: sh: nc: not found",
            "{ type: tcp, port: 5432 }",
        ),
        (
            "[pg_isready, -U, app]",
            "exec pg_isready: exit code 127: sh: pg_isready: not found",
            "{ type: tcp, port: 5432 }",
        ),
        (
            "[check]",
            "exec check: exit code 127: sh: check: not found",
            "{ type: tcp, port: 9000 }",
        ),
    ] {
        exec(command, output, &["0.0.0.0:9000"]).assert_edit("web.container.healthcheck", instead);
    }
    let timed = "{ type: exec, command: [curl, \"http://localhost:8080/up\"], interval: 2s, retries: 5 }";
    web(timed, "", "")
        .unhealthy("exec curl: exit code 127: sh: curl: not found", &[])
        .assert_edit(
            "web.container.healthcheck",
            "{ path: /up, port: 8080, interval: 2s, retries: 5 }",
        );
}

#[test]
fn other_results_of_commands_blame_no_program() {
    for output in [
        "exec sh: exit code 1: sh: curl: not found\nwget: can't connect to remote host: Connection refused",
        "exec sh: exit code 127: ",
        "exec sh: exit code 1: user: not found",
        "exec sh: no answer within 1 s: waiting",
    ] {
        assert_eq!(
            exec("[sh, -c, check]", output, &["0.0.0.0:9000"]).text(),
            "none",
            "{output}"
        );
    }
}

#[test]
fn late_answer_has_a_longer_timeout() {
    let silent = "GET /status on :8080: no answer within 1 s";
    let late = |millis| {
        let mut test = web(HTTP, "", "").unhealthy(silent, &["0.0.0.0:8080"]);
        test.run.late_answer = Some(Duration::from_millis(millis));
        test
    };
    late(3_000).assert_edit("web.container.healthcheck.timeout", "from `1s` to `5s`");
    late(3_000).assert_edit(
        "web.container.healthcheck.timeout",
        "answered after 3.0 s, the timeout is 1 s",
    );
    // A later success with the same timeout shows a slow start.
    let mut recovered = late(3_000);
    recovered.run.recovered_at = Some(Timestamp(21_000));
    recovered.assert_edit(
        "web.container.healthcheck.startPeriod",
        "healthy 20 s after its start",
    );
    assert_eq!(late(3_000).was_healthy().text(), "none");
    assert_eq!(late(900).text(), "none");
    assert_eq!(
        web(HTTP, "", "").unhealthy(silent, &["0.0.0.0:8080"]).text(),
        "none"
    );
}

#[test]
fn listen_address_is_the_one_of_the_program() {
    let local = |lines: &str, environment: &str| {
        web(HTTP, lines, environment).unhealthy(REFUSED, &["127.0.0.1:8080"])
    };
    for (lines, environment, key) in [
        ("    command: [serve, --host, 127.0.0.1]\n", "", "web.command"),
        (
            "    command: [serve, \"--bind=127.0.0.1:8080\"]\n",
            "",
            "web.command",
        ),
        (
            "    command: [sh, -c, \"serve --listen 127.0.0.1 --port 8080\"]\n",
            "",
            "web.command",
        ),
        (
            "",
            "HOST: 127.0.0.1, REDIS_HOST: 127.0.0.1",
            "web.container.environment.HOST",
        ),
        (
            "",
            "BIND_ADDR: \"127.0.0.1:8080\"",
            "web.container.environment.BIND_ADDR",
        ),
        (
            "",
            "SERVER: \"127.0.0.1:8080\", DB_ADDR: \"127.0.0.1:5432\"",
            "web.container.environment.SERVER",
        ),
        (
            "",
            "FLASK_RUN_HOST: 127.0.0.1",
            "web.container.environment.FLASK_RUN_HOST",
        ),
    ] {
        local(lines, environment).assert_edit(key, "from `127.0.0.1` to `0.0.0.0`");
    }
    for (lines, environment) in [
        ("", "REDIS_HOST: 127.0.0.1"),
        ("", "DATABASE_ADDR: \"127.0.0.1:8080\""),
        ("    command: [serve, --redis-host, 127.0.0.1]\n", ""),
        ("    command: [serve, \"--upstream=127.0.0.1:9000\"]\n", ""),
    ] {
        assert_eq!(local(lines, environment).text(), "none", "{lines}{environment}");
    }
}

#[test]
fn listener_on_ipv6_only_has_another_address() {
    let command = "    command: [serve, --bind, \"[::]:8080\"]\n";
    web(HTTP, command, "")
        .unhealthy(REFUSED, &["[::]:8080"])
        .assert_edit("web.command", "from `[::]` to `0.0.0.0`");
    // A listener for both families answers.
    let broken = "GET /status on :8080: 502 Bad Gateway";
    assert_eq!(
        web(HTTP, command, "").unhealthy(broken, &["[::]:8080"]).text(),
        "none"
    );
}

#[test]
fn tls_and_credentials_change_the_check() {
    let mut tls = web(HTTP, "", "").unhealthy("GET /status on :8080: 400 Bad Request", &["0.0.0.0:8080"]);
    assert_eq!(tls.text(), "none");
    tls.evidence().speaks_tls = true;
    tls.assert_edit(
        "web.container.healthcheck.scheme",
        "`container.healthcheck.scheme: https`",
    );
    let mut closed =
        web(HTTP, "", "").unhealthy("GET /status on :8080: connection closed", &["0.0.0.0:8080"]);
    assert_eq!(closed.text(), "none");
    closed.evidence().stderr =
        vec!["error:0A00009C:SSL routines:ssl3_get_record:http request:ssl3_record.c:341:".to_owned()];
    closed.assert_edit(
        "web.container.healthcheck.scheme",
        "`container.healthcheck.scheme: https`",
    );
    let https = "{ path: /status, port: 8080, scheme: https }";
    let plain = "GET /status on :8080 with TLS: the port does not speak TLS";
    let plain = web(https, "", "").unhealthy(plain, &["0.0.0.0:8080"]);
    plain.assert_edit("web.container.healthcheck.scheme", "from `https` to `http`");
    for status in ["401 Unauthorized", "403 Forbidden"] {
        let output = format!("GET /status on :8080: {status}");
        let refused = || web(HTTP, "", "").unhealthy(&output, &["0.0.0.0:8080"]);
        let accepted = format!("`container.healthcheck.status: [200-399, {}]`", &status[..3]);
        refused().assert_edit("web.container.healthcheck.status", &accepted);
        let wrong = "{ path: /status, port: 8080, headers: { Authorization: Basic YTpi } }";
        web(wrong, "", "")
            .unhealthy(&output, &["0.0.0.0:8080"])
            .assert_edit("web.container.healthcheck.headers", "refuses the credentials");
        let mut open = refused();
        open.evidence().healthy_paths = vec!["/healthz".to_owned()];
        open.assert_edit("web.container.healthcheck.path", "to `/healthz`");
        // Its credentials changed.
        assert_eq!(refused().was_healthy().text(), "none");
    }
}

#[test]
fn log_without_enough_matches_names_pattern_or_times() {
    let of = |found: u32| {
        let output = format!("log `ready: ok`: {found} of 2 lines match");
        web("{ type: log, pattern: \"ready: ok\", times: 2 }", "", "").unhealthy(&output, &[])
    };
    of(0).assert_edit("web.container.healthcheck.pattern", "no line of the output");
    of(1).assert_edit("web.container.healthcheck.times", "raise `startPeriod`");
    assert_eq!(of(0).was_healthy().text(), "none");
}

#[test]
fn status_of_the_probe_is_not_read_from_its_path() {
    let probe = "{ path: \"/a:%20404\", port: 8080 }";
    let output = "GET /a:%20404 on :8080: 502 Bad Gateway";
    assert_eq!(
        web(probe, "", "").unhealthy(output, &["0.0.0.0:8080"]).text(),
        "none"
    );
}

#[test]
fn error_of_the_server_has_the_edit_of_its_log() {
    let broken = "GET /status on :8080: 500 Internal Server Error";
    let of = |line: &str| web(HTTP, "", "").wrote(line).unhealthy(broken, &["0.0.0.0:8080"]);
    of("KeyError: 'API_KEY' in os.environ")
        .assert_edit("web.container.environment.API_KEY", "`API_KEY` is missing");
    assert_eq!(of("GET /status 500 3ms").text(), "none");
    assert_eq!(
        of("KeyError: 'API_KEY' in os.environ").was_healthy().text(),
        "none"
    );
}

#[test]
fn published_port_is_that_of_the_program() {
    let web = |ports: &str, probe: &str| {
        let text = format!(
            "  web: {{ image: web:1, container: {{ name: web, ports: [{ports}], healthcheck: {probe} }} }}\n"
        );
        TestEnvironment::new(&text).unhealthy("GET / on :80: connection refused", &["0.0.0.0:8080"])
    };
    web("\"80\"", "{ path: / }").assert_edit("web.container.ports[0]", "from `80` to `8080`");
    web("\"9000:80\"", "{ path: / }").assert_edit("web.container.ports[0]", "to `9000:8080`");
    web("\"80\"", "{ path: /, port: 80 }").assert_edit("web.container.healthcheck.port", "8080");
}

#[test]
fn port_of_a_compose_file_is_a_published_one() {
    let web = |ports: &str| {
        let services = format!(
            "  web: {{ image: web:1, container: {{ name: web, ports: [{ports}], healthcheck: {{ type: tcp, port: 80 }} }} }}\n"
        );
        TestEnvironment::compose(&services).unhealthy("connect to :80: connection refused", &["0.0.0.0:3000"])
    };
    web("\"18080:80\"").assert_edit("web.ports[0]", "from `18080:80` to `18080:3000`");
    web("\"18080:80\", \"18081:81\"").assert_edit("web.ports[0]", "publish the port 3000");
}

#[test]
fn edits_of_a_compose_file_have_its_keys() {
    let web = |line| {
        let services = "  web: { image: web:1, command: [web], capDrop: [ALL], container: { name: web } }\n";
        TestEnvironment::compose(services).wrote(line)
    };
    web("GREETING is not set").assert_edit("web.environment.GREETING", "add `GREETING` to `environment`");
    web("chown: /data: Operation not permitted").assert_edit("web.cap_drop", "that `cap_drop` removes");
}

#[test]
fn compose_check_has_the_other_client() {
    let services = "  web: { image: \"shop/web:1\", container: { name: web, healthcheck: { type: exec, command: [curl, -f, \"http://localhost:8000/healthz\"] } } }\n";
    let output = "exec curl: exit code 126: OCI runtime exec failed: exec failed: unable to start container process: exec: \"curl\": executable file not found in $PATH: unknown";
    let edit = TestEnvironment::compose(services).unhealthy(output, &["0.0.0.0:8000"]);
    let text = edit.text();
    let command = r#"`["CMD", "wget", "-q", "-O", "/dev/null", "http://localhost:8000/healthz"]`"#;
    assert!(text.contains(command), "{text}");
}
