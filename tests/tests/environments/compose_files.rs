//! A project with a Compose file and no spec file: every command reads the Compose file.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed step ends the test")]

use super::first_hour::Newcomer;
use super::repositories::Run;

const COMPOSE: &str = r#"name: direct
services:
  database:
    image: busybox:local
    command: ["sh", "-c", "mkdir -p /www && echo rows > /www/index.html && exec httpd -f -p 8080 -h /www"]
    healthcheck: { test: ["CMD", "test", "-e", "/www/index.html"], interval: 500ms, start_period: 60s }
    volumes: ["data:/data", "./seed:/seed:ro"]
    stop_grace_period: 1s
  web:
    build: ./app
    command: ["sh", "-c", "wget -q -O /dev/null http://$$DB/ || exit 3; echo $$GREETING > /www/index.html; exec httpd -f -p 8080 -h /www"]
    environment:
      DB: databse:8080
      GREETING: ${GREETING}
    ports: ["18310:8080"]
    depends_on: { database: { condition: service_healthy } }
    oom_score_adj: 5
    stop_grace_period: 1s
volumes:
  data: {}
"#;

/// Number of the line that contains this text.
fn line(text: &str) -> usize {
    1 + COMPOSE.lines().position(|line| line.contains(text)).unwrap()
}

#[test]
fn commands_read_the_compose_file_of_a_project() {
    let dockerfile = "FROM busybox:local\nRUN mkdir -p /www\n";
    let files = [
        ("compose.yaml", COMPOSE),
        (".env", "GREETING=hello\n"),
        ("seed/rows", "rows"),
        ("app/Dockerfile", dockerfile),
    ];
    let me = Newcomer::clones("direct", &files);
    let left_out = format!("compose.yaml:{}:", line("oom_score_adj"));
    me.sees(
        "argus validate compose.yaml",
        &[
            "ok environment `direct`, 2 services",
            "left out of `web`: `oom_score_adj`",
            &left_out,
        ],
    );
    me.sees(
        "argus plan --specs compose.yaml",
        &["build-image", "create-container"],
    );
    me.types("test ! -e environments", 0);

    // The remedy of a failure names the place in the Compose file.
    let run = Run::start(&me.engine, &me.folder, &["run", "compose.yaml"]);
    let place = format!("compose.yaml:{}", line("databse"));
    run.until("the misspelled name is reported", || {
        let why = me.types("argus why direct || true", 0);
        // Warnings about the file come before the failure.
        let status = me.types("argus describe direct -o json || true", 0);
        let has_remedy = status.contains(r#""key": "services.web.environment.DB""#);
        (why.contains(&place) && has_remedy).then_some(())
    });
    me.replaces("compose.yaml", "databse", "database");
    me.waits();
    assert_eq!(me.page(18310), "hello\n");
    me.rests(&run);

    // Edits of the Compose file, and of a file that it names.
    me.replaces("compose.yaml", "18310:8080", "18311:8080");
    me.waits();
    assert_eq!(me.page(18311), "hello\n");
    me.writes(".env", "GREETING=welcome\n");
    run.until("the changed variable is used", || {
        (me.page(18311) == "welcome\n").then_some(())
    });
    me.waits();

    // A rejected edit keeps the environment.
    me.replaces("compose.yaml", "18311:8080", "18311:80800");
    let place = format!("compose.yaml:{}", line("18310"));
    run.until("the invalid port is reported", || {
        let shown = me.types("argus describe direct", 0);
        (shown.contains("SPEC_INVALID") && shown.contains(&place)).then_some(())
    });
    assert_eq!(me.page(18311), "welcome\n");
    me.replaces("compose.yaml", "18311:80800", "18311:8080");
    me.waits();
    // So does an invalid included file, and an edit that leaves no service.
    let text = std::fs::read_to_string(me.folder.join("compose.yaml")).unwrap();
    me.writes("more.yaml", "servi");
    for broken in [
        format!("include: [more.yaml]\n{text}"),
        text.replace("services:", "servces:"),
    ] {
        me.writes("compose.yaml", &broken);
        run.until("the edit is rejected", || {
            let shown = me.types("argus describe direct", 0);
            shown.contains("SPEC_INVALID").then_some(())
        });
        assert_eq!(me.page(18311), "welcome\n");
    }
    me.writes("compose.yaml", &text);
    me.waits();
    me.sees("argus up -- true", &["direct Ready"]);
    me.leaves();
}

#[test]
fn up_takes_a_compose_file_for_one_command() {
    let compose =
        "services:\n  one:\n    image: busybox:local\n    command: sleep 3600\n    stop_grace_period: 1s\n";
    let me = Newcomer::clones("brief", &[("docker-compose.yml", compose)]);
    me.fails(
        "argus up -- sh -c 'docker ps --format {{.Names}}; exit 7'",
        7,
        &["brief-one"],
    );
    me.sees("docker ps --all --format {{.Names}}", &[]);
    me.sees("argus init", &["from `docker-compose.yml`"]);
    me.sees(
        "argus validate environments",
        &["environments/e2e.yaml: ok environment `brief`"],
    );
    me.writes("docker-compose.yml", "services: [\n");
    me.fails("argus up docker-compose.yml", 3, &["docker-compose.yml:"]);
}

const KEPT: &str = r#"services:
  web:
    image: busybox:local
    command:
      - sh
      - -c
      - "mkdir -p /www; { cat /run/secrets/pin /app/x.conf; stat -c %a:%u /run/secrets/pin; } > /www/index.html; exec httpd -f -p 8080 -h /www"
    ports: ["18320:8080"]
    volumes: ["./seed:/seed:ro"]
    secrets: [{ source: pin, mode: 0440, uid: "7" }]
    configs: [{ source: conf, target: /app/x.conf }]
    stop_grace_period: 1s
secrets: { pin: { environment: PIN } }
configs: { conf: { content: "greeting=${GREETING}\n" } }
"#;

#[test]
fn values_of_secrets_and_configs_reach_the_container() {
    let files = [
        ("compose.yaml", KEPT),
        (".env", "PIN=sesame-4711\nGREETING=hello\n"),
        ("seed/rows", "rows"),
    ];
    let me = Newcomer::clones("kept", &files);
    let run = Run::start(&me.engine, &me.folder, &["run", "compose.yaml"]);
    me.waits();
    assert_eq!(me.page(18320), "sesame-4711greeting=hello\n440:7\n");
    for line in ["describe kept -o json", "diff kept", "logs kept", "events kept"] {
        let shown = me.types(&format!("argus {line} || true"), 0);
        assert!(!shown.contains("sesame"), "{line}: {shown}");
    }
    me.types("! grep -r sesame .argus", 0);
    me.types("! grep sesame compose.yaml", 0);
    me.rests(&run);

    me.writes(".env", "PIN=sesame-4712\nGREETING=welcome\n");
    run.until("the changed values are used", || {
        (me.page(18320) == "sesame-4712greeting=welcome\n440:7\n").then_some(())
    });
    me.waits();
    me.writes(".env", "GREETING=hello\n");
    let message = "`secrets.pin` needs the variable `PIN`, which is not set";
    me.fails("argus validate compose.yaml", 3, &["compose.yaml:10:", message]);
    assert_eq!(me.page(18320), "sesame-4712greeting=welcome\n440:7\n");
    me.leaves();
}
