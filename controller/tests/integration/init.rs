//! `argus init`: the written file is valid, and notes name the keys that it cannot translate.

#![allow(clippy::unwrap_used, reason = "a test may panic, and so may its helpers")]

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

const COMPOSE: &str = r#"
name: My Shop
x-common: &common
  restart: always
  environment: { LEVEL: "${LEVEL:-info}" }
services:
  db:
    <<: *common
    image: postgres:${PG:-16}
    environment:
      POSTGRES_PASSWORD: ${DB_PASSWORD}
      PORT: 5432
    ports: ["127.0.0.1:5432:5432"]
    volumes: ["data:/var/lib/postgresql/data", "./init.sql:/docker-entrypoint-initdb.d/init.sql:ro"]
    healthcheck:
      test: ["CMD-SHELL", "pg_isready -U $$USER"]
      interval: 1m30s
      retries: 5
  migrate:
    image: flyway/flyway
    command: migrate
    depends_on:
      db: { condition: service_healthy }
  web:
    <<: *common
    build: { context: ., dockerfile: docker/Dockerfile, args: [A=1] }
    image: shop/web:dev
    privileged: true
    mem_limit: 256m
    env_file: web.env
    ports:
      - { target: 80, published: 8080 }
      - "9000"
    depends_on:
      migrate: { condition: service_completed_successfully }
      db: { condition: service_started }
networks: { default: {} }
volumes: { data: {} }
"#;

fn argus(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_argus"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("ARGUS_")) {
        command.env_remove(name);
    }
    // `init` allows the project in the private state of the user, which no project contains.
    command.env("XDG_STATE_HOME", dir.with_file_name("state"));
    command.current_dir(dir).stdin(Stdio::null()).args(args);
    command.output().unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn project(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = dir.path().join("app").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    std::fs::create_dir_all(dir.path().join("app")).unwrap();
    dir
}

fn written(dir: &Path) -> String {
    let output = argus(dir, &["init"]);
    let text = std::fs::read_to_string(dir.join("environments/e2e.yaml")).unwrap_or_default();
    assert_eq!(output.status.code(), Some(0), "{}\n{text}", err(&output));
    assert!(
        err(&output).contains("start a controller with `argus run`"),
        "{}",
        err(&output)
    );
    // A file that `init` writes passes strict validation without a warning.
    let strict = argus(dir, &["validate", "--strict"]);
    assert_eq!(strict.status.code(), Some(0), "{}\n{text}", err(&strict));
    text
}

#[test]
fn compose_file_is_translated_and_rest_is_noted() {
    let dir = project(&[
        ("compose.yaml", COMPOSE),
        ("docker/Dockerfile", "FROM scratch\n"),
        ("environments/.env", "DB_PASSWORD=pass\n"),
        ("init.sql", "select 1;\n"),
    ]);
    let text = written(&dir.path().join("app"));
    let expected = "\
# Written by `argus init` from compose.yaml. All keys: `argus schema`.
# left out of `web`: `privileged` (line 28)
# `web`: `env_file`: cannot read `web.env`: No such file or directory (os error 2) (line 30)
# values from the `.env` next to this file: `DB_PASSWORD`
";
    let (notes, yaml) = text.split_at(text.find("version:").unwrap());
    assert_eq!(notes, expected);
    let read = argus_crds::yaml::document("e2e.yaml", yaml.as_bytes())
        .unwrap()
        .value;
    let expected = serde_json::json!({
        "version": "1",
        "project": { "name": "My Shop" },
        "services": [
            {
                "name": "db",
                "image": "postgres:16",
                "container": {
                    "name": "my-shop-db",
                    "environment": { "PORT": "5432", "POSTGRES_PASSWORD": "{{env.DB_PASSWORD}}" },
                    "ports": ["127.0.0.1:5432:5432"],
                    "volumes": [
                        "data:/var/lib/postgresql/data",
                        "../init.sql:/docker-entrypoint-initdb.d/init.sql:ro",
                    ],
                    "healthcheck": {
                        "type": "exec",
                        "command": ["sh", "-c", "pg_isready -U $USER"],
                        "interval": "90s",
                        "retries": 5,
                    },
                },
            },
            {
                "name": "migrate",
                "image": "flyway/flyway",
                "command": "migrate",
                "dependsOn": [{ "service": "db", "condition": "healthy" }],
                "oneShot": true,
                "container": { "name": "my-shop-migrate" },
            },
            {
                "name": "web",
                "build": {
                    "context": "..",
                    "dockerfile": "../docker/Dockerfile",
                    "args": { "A": "1" },
                    "image": "shop/web:dev",
                },
                "memory": "256MiB",
                "dependsOn": [{ "service": "migrate", "condition": "completed" }, { "service": "db", "condition": "started" }],
                "container": {
                    "name": "my-shop-web",
                    "ports": ["8080:80", ":9000"],
                    "environment": { "LEVEL": "info" },
                    "healthcheck": { "type": "docker", "port": 80 },
                },
            },
        ],
    });
    assert_eq!(read, expected, "{yaml}");
}

#[test]
fn dockerfile_becomes_service_and_empty_folder_example() {
    let dir = project(&[
        ("Dockerfile", "FROM scratch\nEXPOSE 80 9000\n"),
        ("package.json", r#"{ "name": "@acme/till" }"#),
    ]);
    let text = written(&dir.path().join("app"));
    for part in [
        "name: till",
        "context: \"..\"",
        "8080:80",
        "9000:9000",
        "type: tcp",
    ] {
        assert!(text.contains(part), "no `{part}` in {text}");
    }
    let empty = project(&[]);
    let text = written(&empty.path().join("app"));
    assert!(
        text.contains("# no compose file and no Dockerfile") && text.contains("name: app"),
        "{text}"
    );
}

#[test]
fn existing_file_is_kept_and_rejected_part_is_reported() {
    let dir = project(&[("compose.yaml", "services: { web: { image: 'web:1' } }\n")]);
    let app = dir.path().join("app");
    let file = app.join("environments/e2e.yaml");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, "mine").unwrap();
    let output = argus(&app, &["init"]);
    assert_eq!(output.status.code(), Some(2), "{}", err(&output));
    assert!(err(&output).contains("`--force`"), "{}", err(&output));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
    let forced = argus(&app, &["init", "--force", "-o", "json"]);
    let value: Value = serde_json::from_slice(&forced.stdout).unwrap();
    assert_eq!(
        (&value["environment"], &value["accepted"]),
        (&"app".into(), &true.into())
    );

    std::fs::write(
        app.join("compose.yaml"),
        "services: { web: { image: 'web:1', ports: ['99999:1'] } }\n",
    )
    .unwrap();
    let repaired = argus(&app, &["init", "--force"]);
    assert_eq!(repaired.status.code(), Some(0), "{}", err(&repaired));
    let note = "note: left out of `web`: ";
    assert!(
        err(&repaired).contains(note)
            && err(&repaired).contains("99999")
            && err(&repaired).contains("(line 1)"),
        "{}",
        err(&repaired)
    );
    assert_eq!(argus(&app, &["validate"]).status.code(), Some(0));
    std::fs::write(app.join("compose.yaml"), "services: [\n").unwrap();
    let broken = argus(&app, &["init", "--force"]);
    assert_eq!(broken.status.code(), Some(3), "{}", err(&broken));
}

const BASE: &str = r#"
services:
  base:
    image: registry.example/base:${TAG}
    environment: [LEVEL=info, REGION=eu]
    env_file: base.env
    volumes: ["./shared:/shared:ro"]
    command: ["serve"]
"#;

const EXTRA: &str = "
services:
  cache: { image: 'redis:7', volumes: [/data], ports: ['6379'] }
volumes: { unused: {} }
";

const REALISTIC: &str = r#"
name: till
include:
  - extra/compose.yaml
services:
  db:
    image: postgres:${PG_VERSION:-16}
    environment: { POSTGRES_PASSWORD: "${DB_PASSWORD}" }
    ports: ["9092"]
    volumes: ["../initdb:/docker-entrypoint-initdb.d:ro", "pg:/var/lib/postgresql/data", "/srv/none:/none"]
    networks: { back: { aliases: [database], ipv4_address: 10.1.1.1 } }
    secrets: [token, { source: outside, target: x }]
  api:
    extends: { file: shared/base.yaml, service: base }
    build:
      { context: ., target: prod, dockerfile: Dockerfile, platforms: [linux/amd64], labels: [team=till, plain],
        cache_from: ["base:cache", "type=registry,ref=base:main", "type=gha"], network: host, ssh: [default] }
    command: ["api"]
    environment: { LEVEL: debug }
    env_file: [{ path: api.env }, { path: missing.env, required: false }]
    depends_on: [db, debug]
    deploy: { replicas: 3, resources: { limits: { memory: 128m } } }
    labels: { team: till }
    ports: ["99999:1", "8080:80"]
    tty: true
    restart: "no"
  debug: { image: 'busybox:1', profiles: [debug] }
networks:
  back: { internal: true }
  front: {}
volumes:
  pg: { driver_opts: { type: nfs } }
secrets:
  token: { file: ./token.txt }
  outside: { environment: TOKEN }
"#;

#[test]
#[allow(clippy::too_many_lines, reason = "the file is long")]
fn realistic_compose_file_is_kept_or_noted_with_its_line() {
    let dir = project(&[
        ("project/compose.yaml", REALISTIC),
        ("project/extra/compose.yaml", EXTRA),
        ("project/shared/base.yaml", BASE),
        ("project/shared/base.env", "FROM_BASE=1\nREGION=us\n"),
        ("project/shared/shared/keep", ""),
        ("project/api.env", "# a comment\nexport FEATURE='on'\n"),
        (
            "project/.env",
            "TAG=4.2\nPG_VERSION=17\nDB_PASSWORD=hunter \"2\"\n",
        ),
        ("project/Dockerfile", "FROM scratch AS prod\n"),
        ("project/token.txt", "secret"),
        ("initdb/one.sql", ""),
        (".git/HEAD", "ref: refs/heads/main\n"),
    ]);
    let root = dir.path().join("app/project");
    let text = written(&root);
    let (notes, yaml) = text.split_at(text.find("version:").unwrap());
    let read = argus_crds::yaml::document("e2e.yaml", yaml.as_bytes())
        .unwrap()
        .value;
    let expected = serde_json::json!([
        {
            "name": "db",
            "image": "postgres:17",
            "container": {
                "name": "till-db",
                "networks": { "back": { "aliases": ["database"] } },
                "environment": { "POSTGRES_PASSWORD": "{{env.DB_PASSWORD}}" },
                "volumes": [
                    "../../initdb:/docker-entrypoint-initdb.d:ro",
                    "pg:/var/lib/postgresql/data",
                    "../token.txt:/run/secrets/token:ro",
                ],
                "healthcheck": { "type": "docker", "port": 9092 },
            },
        },
        {
            "name": "api",
            "replicas": 3,
            "command": ["api"],
            "build": { "context": "..", "dockerfile": "../Dockerfile", "target": "prod", "image": "registry.example/base:4.2",
                "labels": { "plain": "", "team": "till" }, "platform": "linux/amd64", "cacheFrom": ["base:cache", "base:main"] },
            "dependsOn": [{ "service": "db", "condition": "started" }],
            "memory": "128MiB",
            "container": {
                "name": "till-api",
                "labels": { "team": "till" },
                "environment": { "FEATURE": "on", "FROM_BASE": "1", "LEVEL": "debug", "REGION": "eu" },
                "volumes": ["../shared/shared:/shared:ro"],
                "ports": ["8080:80"],
                "healthcheck": { "type": "docker", "port": 1 },
            },
        },
        {
            "name": "cache",
            "image": "redis:7",
            "container": {
                "name": "till-cache",
                "volumes": ["cache-data:/data"],
                "ports": [":6379"],
                "healthcheck": { "type": "docker", "port": 6379 },
            },
        },
    ]);
    assert_eq!(read["services"], expected, "{text}");
    assert_eq!(
        read["networks"],
        serde_json::json!({ "back": { "internal": true } }),
        "{text}"
    );
    let line = |needle: &str| 1 + REALISTIC.lines().position(|line| line.contains(needle)).unwrap();
    for (note, at) in [
        ("service `debug`, which has `profiles`", "profiles: [debug]"),
        ("`db`: `networks.back.ipv4_address`", "ipv4_address"),
        ("`db`: `secrets`: `outside` is not a file", "source: outside"),
        ("`db`: `/srv/none` is outside", "/srv/none"),
        ("`api`: `build.cache_from: type=gha`", "cache_from"),
        ("`api`: `build.network: host`", "network: host"),
        (
            "`api`: only an allowed project can use the SSH agent",
            "ssh: [default]",
        ),
        ("`api`: `tty`", "tty"),
        ("`api`: `restart`", "restart"),
        ("`api`: `depends_on`: `debug`", "[db, debug]"),
        ("99999", "99999"),
        ("`db`: `ports`, because all its networks are internal", "9092"),
        ("`volumes.pg.driver_opts`", "driver_opts"),
    ] {
        let found = notes.lines().find(|line| line.contains(note));
        let found = found.unwrap_or_else(|| panic!("no note with {note}: {notes}"));
        if !at.ends_with('\n') {
            assert!(found.contains(&format!("(line {})", line(at))), "{at}: {found}");
        }
    }
    let env = root.join("environments/.env");
    assert_eq!(
        std::fs::read_to_string(&env).unwrap(),
        "DB_PASSWORD=\"hunter \\\"2\\\"\"\n"
    );
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&env).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    assert!(!text.contains("hunter"), "{text}");
}

#[test]
fn generated_file_is_always_accepted() {
    for compose in [
        "services: {}\n",
        "services: { Web_1: { image: 'web:1' }, 'a b': { image: 'web:1' } }\n",
        "services: { web: { image: 7, ports: ['x', 80, {target: x}], command: {a: 1}, user: [] } }\n",
        "services: { web: { image: 'Bad Image', depends_on: [none] }, api: { image: 'a:1', depends_on: { web: {} } } }\n",
        "services: { a: { image: 'a:1', depends_on: [b] }, b: { image: 'b:1', depends_on: [a] } }\n",
        "services: { a: { image: 'a:1', container_name: x }, b: { image: 'b:1', container_name: x } }\n",
        "services: { a: { image: 'a:${TAG:-${NONE}}', ports: ['${P}:1'], volumes: ['/:/host', './s:/s:z', '/etc'] } }\n",
        "services: { a: { image: 'a:1', healthcheck: { test: CMD, interval: 0s, retries: -1 }, mem_limit: 1b, cpus: x } }\n",
        "services: { a: { extends: { service: a } }, b: { extends: { service: none, file: none.yaml } } }\n",
        "services: { a: { image: 'a:1', ports: ['80:80'], labels: [x, argusai.y=1], networks: { n: { aliases: ['-'] } } } }\nnetworks: { n: { internal: true } }\n",
        "include: [compose.yaml]\nservices: { a: { image: 'a:1', privileged: true, network_mode: host, cap_add: [ALL] } }\n",
        "name: '!!!'\nservices: { a: { build: 'https://example.com/a.git' }, b: { build: { context: ../../.. } } }\n",
        "services: { a: { image: 'a:1', environment: { 'A=B': 1, '': 2, C: '{{env.X}} {{' }, tmpfs: x, extra_hosts: { a: 1 } } }\n",
    ] {
        let dir = project(&[("compose.yaml", compose)]);
        let app = dir.path().join("app");
        let output = argus(&app, &["init"]);
        let text = std::fs::read_to_string(app.join("environments/e2e.yaml")).unwrap_or_default();
        assert_eq!(output.status.code(), Some(0), "{compose}{}\n{text}", err(&output));
        let valid = argus(&app, &["validate"]);
        assert_eq!(valid.status.code(), Some(0), "{compose}{}\n{text}", err(&valid));
    }
}

#[test]
fn secret_of_a_variable_stays_in_the_dotenv() {
    let compose = "services: { a: { image: 'a:1', secrets: [pin], configs: [conf] } }
secrets: { pin: { environment: PIN } }
configs: { conf: { content: \"level=${LEVEL}\" } }
";
    let dir = project(&[
        ("compose.yaml", compose),
        (".env", "PIN=sesame-4711\nLEVEL=debug\n"),
    ]);
    let app = dir.path().join("app");
    let text = written(&app);
    for part in ["{{env.PIN}}", "level=debug"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("sesame"), "{text}");
    let dotenv = std::fs::read_to_string(app.join("environments/.env")).unwrap();
    assert!(dotenv.contains("sesame-4711"), "{dotenv}");
}

#[test]
fn networks_keep_their_services_aliases_and_settings() {
    let compose = "services:\n  a:\n    image: 'a:1'\n    networks: { back: { aliases: [db] }, front: }\n  b: { image: 'b:1', networks: [proxy] }\n  \
                   c: { image: 'c:1' }\nnetworks:\n  default: { internal: true }\n  back: { internal: true, driver: bridge }\n  front: { name: shop-front }\n  \
                   proxy: { external: true, name: traefik }\n  unused: { ipam: {} }\n";
    let dir = project(&[("compose.yaml", compose)]);
    let text = written(&dir.path().join("app"));
    let read = argus_crds::yaml::document("e2e.yaml", text.as_bytes())
        .unwrap()
        .value;
    assert_eq!(read["network"], serde_json::json!({ "internal": true }), "{text}");
    let networks = serde_json::json!({
        "back": { "internal": true },
        "front": { "name": "shop-front" },
        "proxy": { "external": true, "name": "traefik" },
    });
    assert_eq!(read["networks"], networks, "{text}");
    let of = |index: usize| read["services"][index]["container"]["networks"].clone();
    let expected = serde_json::json!({ "back": { "aliases": ["db"] }, "front": {} });
    assert_eq!(of(0), expected, "{text}");
    assert_eq!(of(1), serde_json::json!({ "proxy": {} }), "{text}");
    assert_eq!(of(2), serde_json::Value::Null, "{text}");
}

#[test]
fn external_volumes_keep_their_names() {
    let compose = "services:\n  a:\n    image: 'a:1'\n    volumes: ['db:/db', 'old:/old', 'own:/own', '/etc:/etc']\nvolumes:\n  \
                   db: { external: true, name: shop_db }\n  old: { external: { name: shop_old } }\n  own: {}\n  unused: { external: true }\n";
    let dir = project(&[("compose.yaml", compose)]);
    let text = written(&dir.path().join("app"));
    let read = argus_crds::yaml::document("e2e.yaml", text.as_bytes())
        .unwrap()
        .value;
    let expected = serde_json::json!({
        "db": { "external": true, "name": "shop_db" },
        "old": { "external": true, "name": "shop_old" },
    });
    assert_eq!(read["volumes"], expected, "{text}");
    assert!(
        text.contains("`/etc` is outside"),
        "other parts are still checked: {text}"
    );
    assert!(!text.contains("left out: `volumes"), "{text}");
}
