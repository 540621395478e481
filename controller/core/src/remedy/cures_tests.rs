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
