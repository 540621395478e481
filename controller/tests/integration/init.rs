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
    ]);
    let text = written(&dir.path().join("app"));
    let expected = "\
# Written by `argus init` from compose.yaml. All keys: `argus schema`.
# left out of `db`: volume `./init.sql:/docker-entrypoint-initdb.d/init.sql:ro`: outside the folder of this file, which needs \
`--allow-mount`
# left out of `web`: `privileged`
# left out of `web`: `env_file`: move its variables to `container.environment`
# values from the `.env` next to this file: `DB_PASSWORD`
# Argus rebuilds the image when its build context changes, so `.dockerignore` should contain `.argus`
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
                    "volumes": ["data:/var/lib/postgresql/data"],
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
                "memory": "256MB",
                "dependsOn": [{ "service": "migrate", "condition": "completed" }, "db"],
                "container": {
                    "name": "my-shop-web",
                    "ports": ["8080:80", "9000"],
                    "environment": { "LEVEL": "info" },
                    "healthcheck": { "type": "tcp", "port": 80 },
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
        (".dockerignore", ".argus\n"),
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
    assert!(!text.contains(".dockerignore"), "{text}");
    let empty = project(&[]);
    let text = written(&empty.path().join("app"));
    assert!(
        text.contains("# no compose file and no Dockerfile") && text.contains("name: app"),
        "{text}"
    );
}

#[test]
fn existing_file_is_kept_and_rejected_file_is_reported() {
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
    let rejected = argus(&app, &["init", "--force"]);
    assert_eq!(rejected.status.code(), Some(3), "{}", err(&rejected));
    assert!(
        err(&rejected).contains("99999") && err(&rejected).contains("argus validate"),
        "{}",
        err(&rejected)
    );
    std::fs::write(app.join("compose.yaml"), "services: [\n").unwrap();
    let broken = argus(&app, &["init", "--force"]);
    assert_eq!(broken.status.code(), Some(3), "{}", err(&broken));
}
