//! Names of variables in the messages of programs.

use super::*;
use crate::remedy::test_environment::TestEnvironment;

#[test]
fn misspelled_names_differ_by_one_error() {
    for (name, meant, expected) in [
        ("DATABSE_URL", "DATABASE_URL", true),
        ("DATABASE_ULR", "DATABASE_URL", true),
        ("DB_USERS", "DB_USER", true),
        ("DBURL_MAIN", "DB_URL_MAIN", true),
        ("REDIS_HOST", "REDIS_PORT", false),
        ("DB1_URL", "DB2_URL", false),
        ("DB_URL", "DB_URL", false),
        ("HTTP_PROXY", "HTTPS_PROXY", false),
        ("APP_TOKEN", "APX_TOKEN", false),
        ("PORT", "HOST", false),
        ("MYSQL_ROOT_PASSWD", "MYSQL_ROOT_PASSWORD", true),
        ("POSTGRES_PASS", "POSTGRES_PASSWORD", true),
        ("DB_USERNAME", "DB_USER", true),
        ("HOST", "HOSTNAME", false),
        ("DB_PORT", "DB_PASSWORD", false),
    ] {
        assert_eq!(is_misspelled(name, meant), expected, "{name}");
    }
}

#[test]
fn missing_variable_is_found_in_common_messages() {
    let set = BTreeMap::from([("LOG_LEVEL".to_owned(), "info".to_owned())]);
    for (line, name) in [
        ("sh: DATABASE_URL: parameter not set", Some("DATABASE_URL")),
        ("FATAL: environment variable TOKEN is required", Some("TOKEN")),
        ("KeyError: 'API_KEY'", Some("API_KEY")),
        ("Error: SECRET_KEY_BASE must be set", Some("SECRET_KEY_BASE")),
        ("ERROR: a required field is missing", None),
        ("LOG_LEVEL is not set", None),
        ("GREETING is not set", Some("GREETING")),
        ("sh: GREETING: GREETING must be set", Some("GREETING")),
        ("Error: `GREETING` is required", Some("GREETING")),
        ("env GREETING not found", Some("GREETING")),
        ("missing required environment variable GREETING", Some("GREETING")),
        ("TLS is required", None),
        ("POST /cart failed: the quantity is not set", None),
        ("usage: SEED_FILE must name the seed file", Some("SEED_FILE")),
        ("usage: main.py [-h] --config-file CONFIG_FILE", None),
        ("started with DATABASE_URL", None),
        ("NameError: name 'API_KEY' is not defined", None),
        ("ReferenceError: API_KEY is not defined", None),
        ("ssl: CERTIFICATE_VERIFY_FAILED: missing issuer", None),
    ] {
        assert_eq!(variable_in(line, &set).as_deref(), name, "{line}");
    }
}

#[test]
fn variable_with_a_value_is_not_missing() {
    let edit = |variable| edit_for(variable, &["GREETING is not set"]);
    let expected = "services.web.container.environment.GREETING: add `GREETING` to `container.environment`";
    assert!(edit("NAME: x").starts_with(expected), "{}", edit("NAME: x"));
    assert_eq!(edit("GREETING: hello"), "none");
}

/// First edit for these lines of a service with one variable.
fn edit_for(variable: &str, lines: &[&str]) -> String {
    let text = format!(
        "  web: {{ image: \"nginx:1.27\", container: {{ name: web, volumes: [\"./templates:/etc/nginx/templates\"], environment: \
         {{ {variable} }} }} }}\n"
    );
    let mut environment = TestEnvironment::new(&text);
    environment.evidence().stderr = lines.iter().map(ToString::to_string).collect();
    environment.text()
}

#[test]
fn missing_variable_is_in_the_list_of_a_validator() {
    let object = [
        "Invalid environment variables: [",
        "  {",
        "    code: 'invalid_type',",
        "    path: [ 'DATABASE_URL' ],",
        "    message: 'Required'",
        "  }",
        "]",
    ];
    let json = [
        "ZodError: [",
        "    \"path\": [",
        "      \"SALT\"",
        "    ],",
        "    \"message\": \"Required\"",
    ];
    let plain = ["Missing environment variables:", "    JWT_SECRET: undefined"];
    for (lines, name) in [
        (&object[..], "DATABASE_URL"),
        (&json[..], "SALT"),
        (&plain[..], "JWT_SECRET"),
    ] {
        let text = edit_for("A: b", lines);
        assert!(text.contains(&format!("environment.{name}")), "{text}");
    }
    // It is set, or no name of a variable.
    assert_eq!(edit_for("DATABASE_URL: x", &object), "none");
    let other = ["Invalid environment variables: [", "  FAILED", "]"];
    assert_eq!(edit_for("A: b", &other), "none");
}

#[test]
fn variable_of_a_template_is_in_the_error_of_nginx() {
    let line = "nginx: [emerg] unknown \"api_host\" variable";
    let text = edit_for("A: b", &[line]);
    assert!(text.contains("environment.API_HOST"), "{text}");
    // A variable of nginx itself, and one of the file.
    let own = "nginx: [emerg] unknown \"proxy_hots\" variable";
    assert_eq!(edit_for("A: b", &[own]), "none");
    assert!(!edit_for("API_HOST: db", &[line]).contains("API_HOST"));
}
