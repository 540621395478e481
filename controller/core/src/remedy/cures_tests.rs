//! The table of known messages.

use std::collections::BTreeSet;

use super::CURES;
use crate::remedy::test_environment::TestEnvironment;

#[test]
fn parts_of_messages_are_in_lower_case_and_not_general() {
    let mut known = BTreeSet::new();
    for cure in CURES.iter() {
        assert_eq!(cure.parts, cure.parts.to_lowercase());
        assert!(cure.parts.len() >= 7 && !cure.reason.is_empty(), "{}", cure.parts);
        assert!(
            known.insert((cure.parts, cure.key, cure.images)),
            "{}",
            cure.parts
        );
    }
}

#[test]
fn known_message_has_the_setting_of_its_service() {
    let db = "  db: { image: \"postgres:16\", container: { name: db } }\n";
    let nats = "  nats: { image: \"nats:2\", command: [\"-p\", \"4222\"], container: { name: nats } }\n";
    let web = |environment: &str| {
        format!(
            "{db}{nats}  web: {{ image: \"shop/web:1\", container: {{ name: web, environment: {{ {environment} }} }} }}\n"
        )
    };
    for (environment, line, key, text) in [
        (
            "",
            "ERROR: extension \"vector\" is not available",
            "db.image",
            "pgvector/pgvector:pg16",
        ),
        (
            "",
            "nats: error: jetstream not enabled",
            "nats.command",
            "[\"-p\", \"4222\", \"-js\"]",
        ),
        (
            "DB: \"jdbc:mysql://db:3306/shop\"",
            "java.sql.SQLException: Public Key Retrieval is not allowed",
            "web.container.environment.DB",
            "/shop?allowPublicKeyRetrieval=true",
        ),
        (
            "DB: \"postgres://db/shop\"",
            "NoSuchModuleError: error: can't load plugin: sqlalchemy.dialects:postgres",
            "web.container.environment.DB",
            "postgresql://",
        ),
        (
            "NODE_OPTIONS: \"--trace-warnings\"",
            "error:0308010C: digital envelope routines::unsupported",
            "web.container.environment.NODE_OPTIONS",
            "--trace-warnings --openssl-legacy-provider",
        ),
    ] {
        TestEnvironment::new(&web(environment))
            .wrote(line)
            .assert_edit(key, text);
    }
}

#[test]
fn present_setting_is_no_cure() {
    let nats = "  nats: { image: \"nats:2\", command: [\"-js\"], container: { name: nats } }\n";
    let text = format!("{nats}  web: {{ image: \"shop/web:1\", container: {{ name: web }} }}\n");
    assert_eq!(
        TestEnvironment::new(&text)
            .wrote("error: jetstream not enabled")
            .text(),
        "none"
    );
}

#[test]
fn flavour_of_an_image_has_the_settings_of_its_program() {
    let shop = |image: &str| {
        let text = format!(
            "  db: {{ image: \"{image}\", container: {{ name: db }} }}\n  web: {{ image: \"shop/web:1\", container: {{ name: web }} }}\n"
        );
        TestEnvironment::new(&text).wrote("FATAL: sorry, too many clients already")
    };
    for image in ["pgvector/pgvector:pg16", "postgis/postgis:16-3.4", "postgres:16"] {
        shop(image).assert_edit("db.command", "max_connections=300");
    }
    // Its own variable has the same effect, and the script of the image does not pass such options.
    shop("bitnami/postgresql:16").assert_edit(
        "db.container.environment.POSTGRESQL_MAX_CONNECTIONS",
        "POSTGRESQL_MAX_CONNECTIONS: 300",
    );
}

#[test]
fn larger_variant_of_an_image_has_the_library() {
    let web = |image: &str| {
        let text = format!("  web: {{ image: \"{image}\", container: {{ name: web }} }}\n");
        TestEnvironment::new(&text)
            .wrote("ImportError: libgomp.so.1: cannot open shared object file: No such file")
    };
    web("python:3.11-slim").assert_edit("web.image", "to `python:3.11`");
    assert_eq!(web("python:3.11").text(), "none");
}

#[test]
fn present_value_is_no_change() {
    let web = |command: &str| {
        let text = format!(
            "  web: {{ image: \"hashicorp/consul:1.19\", command: {command}, container: {{ name: web }} }}\n"
        );
        TestEnvironment::new(&text).wrote("agent: error: No cluster leader")
    };
    web("[agent, \"-bootstrap-expect=3\"]").assert_edit("web.command", "to `-bootstrap-expect=1`");
    assert_eq!(web("[agent, \"-bootstrap-expect=1\"]").text(), "none");
}

#[test]
fn command_of_an_unknown_image_stays() {
    let line = "Could not find a production build in the '.next' directory";
    let web = |keys: &str| {
        let text = format!("  web: {{ image: \"shop/web:1\", {keys} container: {{ name: web }} }}\n");
        TestEnvironment::new(&text).wrote(line)
    };
    web("command: [npm, start],").assert_edit("web.command", "npm run build && npm start");
    assert_eq!(web("").text(), "none");
}

#[test]
fn secret_of_an_edit_is_not_shown() {
    let text = "  web: { image: \"minio/minio:latest\", container: { name: web, environment: { MINIO_ROOT_PASSWORD: minio } } }\n";
    TestEnvironment::new(text)
        .wrote("FATAL Invalid credentials: secret key length at least 8 characters")
        .assert_edit("web.container.environment.MINIO_ROOT_PASSWORD", "only-for-tests");
}

#[test]
fn known_message_of_a_missing_program_has_a_setting() {
    let text = "  web: { image: \"python:3.12\", container: { name: web } }\n";
    let mut environment =
        TestEnvironment::new(text).wrote("ModuleNotFoundError: No module named 'distutils'");
    environment.run.exit_code = 127;
    environment.assert_edit("web.image", "python:3.11");
}

#[test]
fn part_of_a_message_is_replaced_in_a_variable() {
    let web = |variable: &str, line: &str| {
        let text = format!(
            "  web: {{ image: \"shop/web:1\", container: {{ name: web, environment: {{ {variable} }} }} }}\n"
        );
        TestEnvironment::new(&text).wrote(line)
    };
    let listen = "LISTEN: \"192.0.2.5:8080\"";
    web(
        listen,
        "listen tcp 192.0.2.5:8080: bind: cannot assign requested address",
    )
    .assert_edit(
        "web.container.environment.LISTEN",
        "from `192.0.2.5` to `0.0.0.0`",
    );
    web(
        "DSN: \"shop@db:3306/orders\"",
        "default addr for network 'db:3306' unknown",
    )
    .assert_edit("web.container.environment.DSN", "@tcp(db:3306)");
    let client = "dial tcp 192.0.2.5:8080: connect: cannot assign requested address";
    assert_eq!(web(listen, client).text(), "none");
}

#[test]
fn known_setting_is_in_the_entry_point() {
    let web = |command: &str| {
        let text = format!("  web: {{ image: \"shop/web:1\", {command}, container: {{ name: web }} }}\n");
        TestEnvironment::new(&text).wrote("listen tcp 192.0.2.5:8080: bind: cannot assign requested address")
    };
    web("entrypoint: [web, \"192.0.2.5:8080\"]")
        .assert_edit("web.entrypoint", "from `192.0.2.5` to `0.0.0.0`");
    web("command: [web, \"192.0.2.5:8080\"]").assert_edit("web.command", "from `192.0.2.5` to `0.0.0.0`");
    assert_eq!(web("command: [web, \"192.0.2.6:8080\"]").text(), "none");
}

#[test]
fn missing_variable_has_the_value_of_its_image() {
    let web = |image: &str| {
        let text = format!("  web: {{ image: \"{image}\", container: {{ name: web }} }}\n");
        TestEnvironment::new(&text)
            .wrote("libkafka.sh: line 350: KAFKA_CFG_NODE_ID: unbound variable")
            .text()
    };
    let text = web("bitnami/kafka:4.0");
    assert!(text.contains("KAFKA_CFG_NODE_ID: 1"), "{text}");
    let text = web("shop/kafka-like:1");
    assert!(!text.contains("KAFKA_CFG_NODE_ID: 1"), "{text}");
}

#[test]
fn volume_of_an_image_needs_the_user_of_the_image() {
    let web = |volume: &str| {
        let text = format!(
            "  web: {{ image: \"grafana/grafana:10.2.4\", user: \"1000\", container: {{ name: web, volumes: [\"{volume}\"] }} }}\n"
        );
        TestEnvironment::new(&text).wrote("GF_PATHS_DATA='/var/lib/grafana' is not writable.")
    };
    web("data:/var/lib/grafana").assert_edit("web.user", "from `1000` to `472`");
    web("./data:/var/lib/grafana").assert_edit("web.user", "from `1000` to `0`");
}
