//! Values of missing and of rejected variables.

use crate::remedy::test_environment::TestEnvironment;

fn web(environment: &str, line: &str) -> TestEnvironment {
    let db = "  db: { image: \"postgres:16\", container: { name: db, environment: { POSTGRES_USER: shop, POSTGRES_PASSWORD: right-one, \
              POSTGRES_DB: orders } } }\n";
    let cache = "  cache: { image: \"redis:7\", container: { name: cache } }\n";
    let web = format!(
        "  web: {{ image: \"shop/web:1\", container: {{ name: web, environment: {{ {environment} }} }} }}\n"
    );
    TestEnvironment::new(&format!("{db}{cache}{web}")).wrote(line)
}

#[test]
fn missing_variable_has_the_value_of_the_server_that_it_means() {
    for (name, value) in [
        ("REDIS_HOST", "`container.environment.REDIS_HOST: cache`"),
        ("REDIS_URL", "redis://cache:6379"),
        ("DB_PORT", "5432"),
        ("POSTGRES_USER", "shop"),
        ("DATABASE_NAME", "orders"),
        ("DB_PASSWORD", "the value of `POSTGRES_PASSWORD` of `db`"),
        ("SESSION_SECRET", "only-for-tests"),
        ("LOG_LEVEL", "info"),
    ] {
        let line = format!("Error: {name} must be set");
        let text = web("A: b", &line).text();
        let value = value
            .trim_start_matches("`container.environment.REDIS_HOST: ")
            .trim_end_matches('`');
        assert!(
            text.contains(value) && text.contains(&format!("environment.{name}")),
            "{text}"
        );
    }
}

#[test]
fn missing_variable_has_the_value_of_a_similar_one() {
    web(
        "STRIPE_KEY: sk-1",
        "KeyError: the environment variable STRIPE_API_KEY is missing",
    )
    .assert_edit("web.container.environment.STRIPE_API_KEY", "sk-1");
}

#[test]
fn missing_path_of_a_secret_is_no_secret() {
    for name in ["TOKEN_FILE", "JWT_SECRET_PATH", "KEYS_SECRET_DIR"] {
        let text = web("A: b", &format!("Error: {name} must be set")).text();
        assert!(
            text.contains(&format!("`{name}`")) && text.contains("write a path in the container"),
            "{text}"
        );
        assert!(!text.contains("only-for-tests"), "{text}");
    }
}

#[test]
fn rejected_value_has_the_permitted_form() {
    for (environment, line, name, value) in [
        (
            "DC: dc1",
            "Error: was configured as 'dc1', but only found hosts in data centers: [datacenter1]",
            "DC",
            "datacenter1",
        ),
        (
            "MODE: prod",
            "invalid value 'prod' for MODE: must be one of: development, production",
            "MODE",
            "production",
        ),
        (
            "TTL: \"30\"",
            "time: missing unit in duration \"30\": invalid TTL",
            "TTL",
            "30s",
        ),
        (
            "FLAG: \"yes\"",
            "strconv.ParseBool: parsing \"yes\": invalid syntax",
            "FLAG",
            "true",
        ),
        (
            "WORKERS: 4x",
            "ValueError: invalid literal for int() with base 10: '4x'",
            "WORKERS",
            "4",
        ),
        (
            "MAIL: admin@localhost",
            "'admin@localhost' does not appear to be a valid email address",
            "MAIL",
            "admin@example.com",
        ),
        (
            "API_URL: \"api:80\"",
            "Error: API_URL is an invalid URL: missing scheme",
            "API_URL",
            "http://api:80",
        ),
        (
            "SERVER_PORT: \"80 80\"",
            "Failed to bind properties under 'server.port': expected a number",
            "SERVER_PORT",
            "80",
        ),
    ] {
        web(environment, line).assert_edit(&format!("web.container.environment.{name}"), value);
    }
}

#[test]
fn quotes_around_a_value_are_no_part_of_it() {
    let line = "cannot open \"/etc/app/app.yml\": No such file or directory";
    web("APP_CONFIG: '\"/etc/app/app.yml\"'", line)
        .assert_edit("web.container.environment.APP_CONFIG", "to `/etc/app/app.yml`");
    let text = web("APP_CONFIG: /etc/app/app.yml", line).text();
    assert!(!text.contains("quotes"), "{text}");
}
