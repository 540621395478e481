//! A project with a Compose file and no spec file: every command reads the Compose file.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed step ends the test")]

use argus_tests::Registry;
use argus_tests::fixture::container_runs;
use serde_json::json;

use super::first_hour::NewUser;
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

/// Number of the line of a file that contains this text.
pub(super) fn line(compose: &str, text: &str) -> usize {
    1 + compose.lines().position(|line| line.contains(text)).unwrap()
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
    let me = NewUser::clones("direct", &files);
    let left_out = format!("compose.yaml:{}:", line(COMPOSE, "oom_score_adj"));
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
    let place = format!("compose.yaml:{}", line(COMPOSE, "databse"));
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
    me.sees_no_change(&run);

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
    let place = format!("compose.yaml:{}", line(COMPOSE, "18310"));
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
    let me = NewUser::clones("brief", &[("docker-compose.yml", compose)]);
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
    let me = NewUser::clones("kept", &files);
    let run = Run::start(&me.engine, &me.folder, &["run", "compose.yaml"]);
    me.waits();
    assert_eq!(me.page(18320), "sesame-4711greeting=hello\n440:7\n");
    for line in ["describe kept -o json", "diff kept", "logs kept", "events kept"] {
        let shown = me.types(&format!("argus {line} || true"), 0);
        assert!(!shown.contains("sesame"), "{line}: {shown}");
    }
    me.types("! grep -r sesame .argus", 0);
    me.types("! grep sesame compose.yaml", 0);
    me.sees_no_change(&run);

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

const PARTS: &str = r"services:
  db: { image: busybox:local, command: sleep 3600, stop_grace_period: 1s }
  web: { image: busybox:local, command: sleep 3600, stop_grace_period: 1s, depends_on: [db] }
  api: { image: busybox:local, command: sleep 3600, stop_grace_period: 1s, profiles: [api] }
  job: { image: busybox:local, command: sleep 3600, stop_grace_period: 1s }
";

#[test]
fn up_of_a_service_keeps_the_others() {
    let me = NewUser::clones("parts", &[("compose.yaml", PARTS)]);
    let running = || me.types("docker ps --format '{{.Names}} {{.ID}}' | sort", 0);
    let names = || {
        let running = running();
        let names = running.lines().filter_map(|line| line.split(' ').next());
        names.map(str::to_owned).collect::<Vec<_>>()
    };
    let run = Run::start(&me.engine, &me.folder, &["run", "compose.yaml", "--service=web"]);
    me.waits();
    assert_eq!(names(), ["parts-db", "parts-web"]);
    let first = running();
    let message = "the running controller has no service `parts/api`";
    me.fails("argus up api", 2, &[message, "`argus stop`"]);
    drop(run);
    let run = Run::start(&me.engine, &me.folder, &["up", "api"]);
    run.until("the service starts", || (names().len() == 3).then_some(()));
    me.waits();
    assert_eq!(names(), ["parts-api", "parts-db", "parts-web"]);
    let second = running();
    assert!(first.lines().all(|line| second.contains(line)), "{first}{second}");
    // An edit starts no other service.
    me.replaces("compose.yaml", "[api]", "[api], environment: { A: b }");
    me.waits();
    assert_eq!(names(), ["parts-api", "parts-db", "parts-web"]);

    // A running controller starts a stopped service with its dependencies, and no other stopped one.
    me.types("argus stop api db web", 0);
    assert_eq!(names(), [""; 0], "the command returns after the stop");
    me.sees("argus up -d web", &["parts "]);
    assert_eq!(names(), ["parts-db", "parts-web"]);
    // The environment existed before both commands, so it stays.
    me.types("timeout -s INT 10 argus up web || true", 0);
    drop(run);
    assert_eq!(names(), ["parts-db", "parts-web"]);
    me.leaves();
}

#[test]
fn images_come_without_containers() {
    let dockerfile = "FROM busybox:local\nRUN touch /made\n";
    let me = NewUser::clones("fetched", &[("app/Dockerfile", dockerfile)]);
    let registry = Registry::start(&me.engine, 5069);
    me.engine.make_busybox_image("served:1", &[]);
    let image = registry.push(&me.engine, "served:1");
    let compose = format!(
        "services:\n  web: {{ image: \"{image}\", command: sleep 3600 }}\n  app: {{ build: ./app, image: \"made:1\", profiles: [app] }}\n"
    );
    me.writes("compose.yaml", &compose);
    me.sees("argus pull", &[&format!("{image} pulled")]);
    // A named service needs no profile.
    let built = me.types("argus build", 0);
    assert!(!built.contains("made:1 built"), "{built}");
    me.sees("argus build app", &["made:1 built"]);
    me.types(&format!("docker image inspect {image} made:1"), 0);
    let containers = "docker ps --all --quiet --filter label=argusai.project=fetched";
    assert_eq!(me.types(containers, 0), "");
    me.fails("argus pull db", 3, &["no service `db`"]);
    me.replaces("compose.yaml", "served:1", "served:2");
    me.fails("argus pull -o json", 6, &["IMAGE_NOT_FOUND", "served:2"]);
    me.writes("app/Dockerfile", "FROM busybox:local\nRUN false\n");
    me.fails("argus build app -o json", 6, &["BUILD_FAILED", "RUN false"]);
}

#[test]
fn up_names_what_it_replaces_and_does_not_run() {
    let me = NewUser::clones("parts", &[("compose.yaml", PARTS)]);
    let run = Run::start(&me.engine, &me.folder, &["run", "compose.yaml"]);
    me.waits();
    let first = container_runs(&me.engine, "parts");
    assert_eq!(first.len(), 3, "{first:?}");
    me.sees("argus up -d", &["parts Ready"]);
    assert_eq!(container_runs(&me.engine, "parts"), first);
    me.sees("argus up -d --force-recreate", &["parts Ready"]);
    let second = container_runs(&me.engine, "parts");
    assert!(second.keys().eq(first.keys()), "{second:?}");
    for (name, (id, _)) in &second {
        assert_ne!(*id, first[name].0, "{name}");
    }
    drop(run);

    // A completed job runs again only on request.
    me.replaces(
        "compose.yaml",
        "job: { image: busybox:local, command: sleep 3600",
        "job: { image: busybox:local, command: \"true\"",
    );
    me.replaces(
        "compose.yaml",
        "depends_on: [db]",
        "depends_on: { job: { condition: service_completed_successfully } }",
    );
    let started = || me.types("docker inspect -f '{{.State.StartedAt}}' parts-job", 0);
    let shown = me.types("argus up -d", 0);
    assert!(!shown.contains("completed earlier"), "{shown}");
    let before = started();
    me.sees(
        "argus up -d",
        &[
            "`parts/job` completed earlier",
            "`argus restart parts/job` runs it",
        ],
    );
    assert_eq!(started(), before);
    me.sees("argus restart parts/job", &["parts/job restarted"]);
    assert_ne!(started(), before);

    // Another project name replaces the environment.
    me.types("argus stop", 0);
    me.sees(
        "argus up -d -p other",
        &["environment `parts` is replaced by `other`", "other Ready"],
    );
    me.types("argus wait parts --for gone --timeout 60s", 0);
    assert!(container_runs(&me.engine, "parts").is_empty());
    me.types("argus down other && argus stop", 0);
}

#[test]
fn health_check_of_the_image_precedes_that_of_the_port() {
    let compose = "services:\n  web: { image: \"checked:1\", ports: [\"18312:8080\"], command: \"httpd -f -p 8080\", stop_grace_period: 1s }\n";
    let me = NewUser::clones("checked", &[("compose.yaml", compose)]);
    let check = "HEALTHCHECK --interval=1s --retries=100 CMD test -e /ready";
    me.engine.make_busybox_image("checked:1", &[check]);
    let run = Run::start(&me.engine, &me.folder, &["run", "compose.yaml"]);
    let web = || {
        let status = me.types("argus describe checked -o json || true", 0);
        let status: serde_json::Value = serde_json::from_str(&status).unwrap_or_default();
        (status["services"][0].clone(), status["phase"] == "Ready")
    };
    run.until("the check of the image fails", || {
        let health = me.engine.inspect("checked-web")?["State"]["Health"].clone();
        (health["FailingStreak"].as_u64()? > 1).then_some(())
    });
    let (service, is_ready) = web();
    assert!(
        !is_ready,
        "its port answers, and its image is not healthy: {service}"
    );
    assert_ne!(service["health"], "Healthy", "{service}");
    me.types("docker exec checked-web touch /ready", 0);
    me.waits();
    me.leaves();
}

const PRIVILEGED: &str = r#"services:
  web:
    image: busybox:local
    command: sleep 3600
    cap_add: [NET_ADMIN]
    devices: ["/dev/null:/dev/x"]
    stop_grace_period: 1s
  whole:
    image: busybox:local
    command: sleep 3600
    privileged: true
    stop_grace_period: 1s
"#;

#[test]
fn privileges_need_an_operator_and_reach_the_container() {
    let me = NewUser::clones("grants", &[("compose.yaml", PRIVILEGED)]);
    let place = |key: &str| format!("compose.yaml:{}:", line(PRIVILEGED, key));
    let places = ["cap_add", "devices", "privileged"].map(place);
    let refuses = |words: &str| {
        let parts = places.iter().map(String::as_str);
        let parts: Vec<&str> = parts.chain(["`--allow-privileged`"]).collect();
        me.fails(words, 3, &parts);
    };
    refuses("argus up compose.yaml -d");
    refuses("argus up compose.yaml -d --allow-privileged");
    me.sees("argus allow", &["is allowed"]);
    refuses("argus up compose.yaml -d");
    assert!(me.engine.containers().is_empty());

    let words = ["run", "compose.yaml", "--allow-privileged"];
    let run = Run::start(&me.engine, &me.folder, &words);
    // An engine in a container may be unable to start a container with all privileges.
    run.until("one runs, and the other exists", || {
        let is_running = me.engine.inspect("grants-web")?["State"]["Running"] == true;
        me.engine.inspect("grants-whole").filter(|_| is_running)
    });
    let host_config = |name: &str| me.engine.inspect(name).unwrap()["HostConfig"].clone();
    let (web, whole) = (host_config("grants-web"), host_config("grants-whole"));
    // Some engine versions report the prefix.
    let added = web["CapAdd"][0].as_str().unwrap();
    assert_eq!(added.trim_start_matches("CAP_"), "NET_ADMIN");
    let device =
        json!([{ "PathOnHost": "/dev/null", "PathInContainer": "/dev/x", "CgroupPermissions": "rwm" }]);
    assert_eq!(web["Devices"], device);
    assert_eq!(
        (&web["Privileged"], &whole["Privileged"]),
        (&json!(false), &json!(true))
    );

    me.types(
        "docker exec grants-web sh -c 'test -c /dev/x && echo x > /dev/x'",
        0,
    );
    let status = me.types("docker exec grants-web cat /proc/self/status", 0);
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = u64::from_str_radix(effective.unwrap().trim(), 16).unwrap();
    assert_ne!(effective & (1 << 12), 0, "CAP_NET_ADMIN is missing: {status}");
    me.leaves();
}
