//! Tests of the redaction of secrets.

use super::*;
use crate::desired::Desired;
use crate::desired::admit::{SpecContext, admit};
use crate::desired::hash::revision_of;

fn secrets(values: &[&str]) -> Secrets {
    let mut secrets = Secrets::default();
    for value in values {
        secrets.add(value);
    }
    secrets
}

#[test]
fn is_secret_decides_by_the_name() {
    for (name, secret) in [
        ("DB_PASSWORD", true),
        ("github_token", true),
        ("AWS_SECRET_ACCESS_KEY", true),
        ("RABBITMQ_DEFAULT_PASS", true),
        ("db-pw", true),
        ("ORACLE_PWD", true),
        ("KEY_PASSPHRASE", true),
        ("GREETING", false),
        ("KEYBOARD", false),
        ("PWD", false),
        ("HOST_PWD", false),
        ("OLDPWD", false),
        ("PASS_THROUGH", false),
        ("BYPASS", false),
    ] {
        assert_eq!(is_secret(name), secret, "{name}");
    }
}

#[test]
fn secret_is_redacted_in_every_form() {
    let secrets = secrets(&["hunter", "hunter-two", "a b@c", "first line\nsecond line", "act"]);
    for (text, redacted) in [
        ("nothing of it", "nothing of it"),
        ("as hunter-two, as hunter", "as [redacted], as [redacted]"),
        ("http://u:a%20b%40c@db", "http://u:[redacted]@db"),
        ("> second line\n", "> [redacted]\n"),
        ("é hunteré", "é [redacted]é"),
        ("an act", "an act"),
        (
            "http://u:a%20b%40c@db?p=a+b%40c",
            "http://u:[redacted]@db?p=[redacted]",
        ),
        (
            "postgres://u:p@ss@db/x, https://a:80/@b",
            "postgres://u:[redacted]@db/x, https://a:80/@b",
        ),
    ] {
        assert_eq!(secrets.redacted(text), redacted);
        assert_eq!(secrets.redacted(redacted), redacted, "redaction is idempotent");
    }
}

#[test]
fn short_secret_and_part_of_a_name_are_redacted_as_whole_words() {
    let mut secrets = secrets(&["plane", "postgres", "longersecret"]);
    secrets.limit_to_words("postgres");
    secrets.limit_to_words("other");
    for (text, redacted) in [
        (
            "`plane-db` waits for `postgres-db`, my_plane",
            "`plane-db` waits for `postgres-db`, my_plane",
        ),
        ("postgresql is no planet", "postgresql is no planet"),
        ("PASSWORD=plane", "PASSWORD=[redacted]"),
        ("{\"password\":\"postgres\"}", "{\"password\":\"[redacted]\"}"),
        ("login with plane. Done", "login with [redacted]. Done"),
        ("p=pl%61ne&x", "p=[redacted]&x"),
        ("dXNlcjpwb3N0Z3Jlcw==", "dXNlcjp[redacted]w=="),
        ("alongersecret-", "a[redacted]-"),
    ] {
        assert_eq!(secrets.redacted(text), redacted);
    }
    let mut joined = Secrets::default();
    joined.join(&secrets);
    assert_eq!(joined.redacted("postgres-db"), "postgres-db");
}

#[test]
fn encoded_secret_is_redacted() {
    let secret = "s/w\"o\\r d+f\u{e9}";
    let secrets = secrets(&[secret]);
    for text in [
        "s%2Fw%22o%5Cr%20d%2Bf%C3%A9",
        "s%2fw%22o%5cr%20d%2bf%c3%a9",
        "s%2Fw%22o%5Cr+d%2Bf%C3%A9",
        "s/w%22o%5Cr%20d+f%C3%A9",
        "s/w\\\"o\\\\r d+f\u{e9}",
        "s\\/w\\u0022o\\u005Cr d\\u002bf\\u00e9",
        // JSON in a query, and JSON in JSON.
        "s/w%5C%22o%5C%5Cr%20d%2Bf%C3%A9",
        "s/w\\\\\\\"o\\\\\\\\r d+f\u{e9}",
        "cy93Im9cciBkK2bDqQ==",
    ] {
        assert_eq!(secrets.redacted(text), REDACTED, "{text}");
        let inside = format!("<{text}>");
        assert_eq!(secrets.redacted(&inside), "<[redacted]>", "{text}");
    }
    // `user:SECRET`, `user1:SECRET` and `user12:SECRET` have three alignments.
    for (text, redacted) in [
        ("dXNlcjpzL3cib1xyIGQrZsOp", "dXNlcjp[redacted]"),
        ("dXNlcjE6cy93Im9cciBkK2bDqQ==", "dXNlcjE6[redacted]"),
        ("dXNlcjEyOnMvdyJvXHIgZCtmw6k=", "dXNlcjEyOn[redacted]k="),
    ] {
        assert_eq!(secrets.redacted(text), redacted);
    }
}

#[test]
fn secret_at_a_cut_is_redacted() {
    let secrets = secrets(&["swordfish"]);
    for (text, redacted) in [
        ("ordfish and sword", "[redacted] and [redacted]"),
        ("rdfish%20swo", "[redacted]%20swo"),
        ("fish", "[redacted]"),
        ("ish swo", "ish swo"),
    ] {
        assert_eq!(secrets.redacted_fragment(text), redacted);
    }
}

#[test]
fn json_redaction_keeps_keys_and_own_fields() {
    let secrets = secrets(&["line", "exit"]);
    let value = serde_json::json!({ "line": ["a line", 3, null], "kind": "exit" });
    let redacted = secrets.redacted_json(value, &["kind"]);
    let expected = serde_json::json!({ "line": ["a [redacted]", 3, null], "kind": "exit" });
    assert_eq!(redacted, expected);
}

#[test]
fn env_values_are_secret_unless_plain_or_names() {
    let text = "version: \"1\"\nproject: { name: shop }\nservices:\n  db:\n    image: \"x:{{ env.TAG }}\"\n    vars: { deep: \"{{env.DEEP}}\" }\n    \
                container:\n      name: shop-db\n      environment: { URL: \"pg://{{env.USER}}:{{config.deep}}@db:{{env.PORT}}/{{env.ON}}{{env.ABC}}\", A_TOKEN: '1234', B_TOKEN: '{{env.LATER}}' }\n";
    let written = argus_crds::yaml::read("e2e.yaml", text.as_bytes()).spec.unwrap();
    let variables = [
        ("TAG", "v1.2-rc"),
        ("DEEP", "swordfish"),
        ("USER", "shop-db"),
        ("PORT", "54321"),
        ("ON", "true"),
        ("ABC", "abc"),
        ("UNUSED", "not read"),
        // A part of `DEEP`.
        ("INNER_TOKEN", "ordfish"),
    ];
    let context = SpecContext {
        env_vars: variables
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        ..SpecContext::default()
    };
    let desired = admit(&written, &context).desired.unwrap();
    let found = desired.secret_values();
    assert_eq!(found, secrets(&["v1.2-rc", "swordfish", "1234", "ordfish"]));
    assert_eq!(format!("{found:?}"), "Secrets(4)");
    let without = Desired {
        secrets: Secrets::default(),
        ..desired.clone()
    };
    assert_eq!(revision_of(&without), desired.revision);
}

#[test]
fn secret_with_the_name_of_an_image_is_a_whole_word() {
    let text = "project: { name: shop }\nservices:\n  db:\n    image: \"library/postgres:16\"\n    container: { name: shop-db, environment: { POSTGRES_PASSWORD: postgres, API_TOKEN: swordfish } }\n";
    let written = argus_crds::yaml::read("e2e.yaml", text.as_bytes()).spec.unwrap();
    let desired = admit(&written, &SpecContext::default()).desired.unwrap();
    let mut found = desired.secret_values();
    for _ in 0..2 {
        assert_eq!(
            found.redacted("/var/lib/postgresql/data"),
            "/var/lib/postgresql/data"
        );
        assert_eq!(found.redacted("login with postgres"), "login with [redacted]");
        // What is left keeps its form.
        found.remove("swordfish");
    }
}

#[test]
fn diagnostics_contain_no_secret() {
    let text = "version: \"1\"\nproject: { name: shop }\nservices:\n  db:\n    image: \"no image {{env.TAG}}\"\n    container: { name: shop-db }\n";
    let written = argus_crds::yaml::read("e2e.yaml", text.as_bytes()).spec.unwrap();
    let context = SpecContext {
        env_vars: [("TAG".to_owned(), "swordfish".to_owned())].into(),
        ..SpecContext::default()
    };
    let diagnostics = admit(&written, &context).diagnostics;
    let message = &diagnostics[0].message;
    assert!(message.contains("[redacted]"), "{diagnostics:?}");
    assert!(
        !format!("{diagnostics:?}").contains("swordfish"),
        "{diagnostics:?}"
    );
}
