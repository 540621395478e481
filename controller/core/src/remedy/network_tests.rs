//! Addresses of siblings in the messages of programs.

use crate::remedy::test_environment::TestEnvironment;

const DB: &str =
    "  db: { image: postgres:16, container: { name: shop-db, healthcheck: { type: tcp, port: 5432 } } }\n";

fn web(environment: &str, more: &str) -> String {
    format!(
        "  web: {{ image: web:1, {more} container: {{ name: shop-web, environment: {{ {environment} }} }} }}\n"
    )
}

fn shop(environment: &str, line: &str) -> TestEnvironment {
    TestEnvironment::new(&format!("{DB}{}", web(environment, ""))).wrote(line)
}

#[test]
fn refused_port_is_the_port_of_the_healthy_sibling() {
    let url = "URL: \"postgres://db:9999/x\"";
    let line = "dial tcp 10.0.0.2:9999: connect: connection refused";
    shop(url, line)
        .healthy("db", 2_000)
        .assert_edit("web.container.environment.URL", "from `9999` to `5432`");
    // It may have listened later, if its image is not well-known.
    shop(url, line).assert_edit("web.container.environment.URL", "from `9999` to `5432`");
    let unknown = format!("{}{}", DB.replace("postgres:16", "db:1"), web(url, ""));
    assert_eq!(TestEnvironment::new(&unknown).wrote(line).text(), "none");
    let right = "URL: \"postgres://db:5432/x\"";
    let refused = "dial tcp 10.0.0.2:5432: connect: connection refused";
    assert_eq!(shop(right, refused).healthy("db", 2_000).text(), "none");
}

#[test]
fn host_of_the_command_is_that_of_a_sibling() {
    for line in [
        "nc: bad address 'dbx'",
        "wget: bad address 'dbx:5432'",
        "curl: (6) Could not resolve host: dbx",
        "ping: dbx: Name or service not known",
    ] {
        for (key, words) in [
            ("command", "[sh, \"-c\", \"nc -z dbx 5432 && exec web\"]"),
            ("entrypoint", "[wget, \"http://dbx:5432\"]"),
        ] {
            let text = format!("{DB}{}", web("", &format!("{key}: {words},")));
            TestEnvironment::new(&text)
                .wrote(line)
                .assert_edit(&format!("web.{key}"), "from `dbx` to `db`");
        }
    }
}

#[test]
fn sibling_that_was_healthy_later_is_a_dependency() {
    for line in [
        "dial tcp 10.0.0.2:5432: connect: connection refused",
        "psycopg2.OperationalError: could not translate host name \"db\" to address: Name or service not known",
        "Error: getaddrinfo ENOTFOUND db",
    ] {
        shop("URL: \"postgres://db:5432/x\"", line)
            .healthy("db", 9_000)
            .assert_edit("web.dependsOn", "set `dependsOn: [db]`");
    }
    let refused = "dial tcp 10.0.0.9:7777: connect: connection refused";
    // Another address was refused, or the dependency is declared.
    assert_eq!(
        shop("URL: \"postgres://db:5432/x\"", refused)
            .healthy("db", 9_000)
            .text(),
        "none"
    );
    let declared = format!("{DB}{}", web("URL: \"postgres://db:5432/x\"", "dependsOn: [db],"));
    let line = "dial tcp 10.0.0.2:5432: connect: connection refused";
    assert_eq!(
        TestEnvironment::new(&declared)
            .wrote(line)
            .healthy("db", 9_000)
            .text(),
        "none"
    );
}

#[test]
fn sibling_that_listens_only_inside_its_container_is_changed() {
    let api = "  api:\n    image: api:1\n    command: [serve, --bind, \"127.0.0.1:8000\"]\n    container: { name: shop-api, environment: { REDIS_HOST: 127.0.0.1 } }\n";
    let services = format!("{api}{}", web("API: \"http://api:8000\"", ""));
    let refused = "Error: connect ECONNREFUSED 10.0.0.3:8000";
    TestEnvironment::new(&services)
        .wrote(refused)
        .assert_edit("api.command", "from `127.0.0.1` to `0.0.0.0`");
    let open = services.replace("127.0.0.1:8000", "0.0.0.0:8000");
    assert_eq!(TestEnvironment::new(&open).wrote(refused).text(), "none");
}

#[test]
fn scheme_of_a_sibling_follows_its_answer() {
    let environment = |url: &str| format!("API: \"{url}\"");
    for line in [
        "Get \"https://db:8000/\": http: server gave HTTP response to HTTPS client",
        "Error: write EPROTO 40:error:1408F10B:SSL routines:ssl3_get_record:wrong version number",
        "tls: first record does not look like a TLS handshake",
        "javax.net.ssl.SSLException: Unsupported or unrecognized SSL message",
    ] {
        shop(&environment("https://db:8000"), line)
            .assert_edit("web.container.environment.API", "from `https://` to `http://`");
        // An address outside of the environment is not its cause.
        assert_eq!(shop(&environment("https://example.com"), line).text(), "none");
    }
    let line = "400 The plain HTTP request was sent to HTTPS port";
    shop(&environment("http://db:8000"), line)
        .assert_edit("web.container.environment.API", "from `http://` to `https://`");
}

#[test]
fn database_without_tls_turns_it_off() {
    let line = "psql: error: server does not support SSL, but SSL was required";
    shop("URL: \"postgres://db/x?sslmode=require\"", line)
        .assert_edit("web.container.environment.URL", "to `sslmode=disable`");
    shop("PGSSLMODE: require", line).assert_edit("web.container.environment.PGSSLMODE", "to `disable`");
    assert_eq!(shop("URL: \"postgres://db/x\"", line).text(), "none");
}

#[test]
fn two_listeners_on_one_port_are_named() {
    for line in [
        "listen tcp :8080: bind: address already in use",
        "Error: listen EADDRINUSE: address already in use :::8080",
        "[Errno 98] error while attempting to bind on address ('0.0.0.0', port 8080): address already in use",
    ] {
        shop(
            "PORT: \"8080\", METRICS_PORT: \"8080\", ADMIN_PORT: \"8081\"",
            line,
        )
        .assert_edit("web.container.environment.METRICS_PORT", "from `8080` to `8082`");
        assert_eq!(
            shop("PORT: \"8080\", METRICS_PORT: \"9090\"", line).text(),
            "none"
        );
    }
}

#[test]
fn noise_about_the_network_has_no_edit() {
    let environment = "URL: \"postgres://db:5432/x\", API: \"https://db:8000\", PORT: \"8080\"";
    for line in [
        "retrying after connection refused, connected",
        "GET https://db:8000/ 200",
        "WARN tls handshake with 203.0.113.7 was reset by the client",
        "listening on :8080",
        "panic: runtime error: index out of range [3] with length 2",
    ] {
        assert_eq!(
            shop(environment, line).healthy("db", 2_000).text(),
            "none",
            "{line}"
        );
    }
}

#[test]
fn sibling_on_another_network_shares_one() {
    let services = "  db: { image: \"mysql:8\", container: { name: db, networks: [back] } }\n  web: { image: \"web:1\", container: { name: web, networks: [front] } }\nnetworks: { front: {}, back: {} }\n";
    TestEnvironment::new(services)
        .wrote("Unknown MySQL server host 'db' (-2)")
        .assert_edit("web.container.networks", "[front, back]");
}

#[test]
fn unknown_host_is_the_sibling_that_the_variable_means() {
    let line = "could not translate host name \"legacy\" to address: Name or service not known";
    let key = "web.container.environment";
    shop("DB_HOST: legacy", line).assert_edit(&format!("{key}.DB_HOST"), "from `legacy` to `db`");
    shop("URL: \"postgres://legacy/x\"", line).assert_edit(&format!("{key}.URL"), "from `legacy` to `db`");
    // Another kind of server is outside of the environment.
    assert_eq!(shop("SMTP_HOST: legacy", line).text(), "none");
}

#[test]
fn script_that_waits_names_an_unknown_host() {
    let line = "wait-for-it: timeout occurred after waiting 15 seconds for database:5432";
    shop("DB_HOST: database", line)
        .assert_edit("web.container.environment.DB_HOST", "from `database` to `db`");
    let right = "wait-for-it: timeout occurred after waiting 15 seconds for db:5432";
    assert_eq!(shop("DB_HOST: db", right).healthy("db", 2_000).text(), "none");
}

#[test]
fn published_port_in_quotes_is_no_port_of_the_network() {
    let services = |port: &str| {
        format!(
            "  db: {{ image: \"postgres:16\", container: {{ name: db, ports: [\"4001:5432\"] }} }}\n{}",
            web(&format!("URL: \"postgresql://db:{port}/x\""), "")
        )
    };
    let line = "Error: P1001: Can't reach database server at `db`:`4001`";
    TestEnvironment::new(&services("4001"))
        .wrote(line)
        .assert_edit("web.container.environment.URL", "from `4001` to `5432`");
    let text = TestEnvironment::new(&services("5432")).wrote(line).text();
    assert!(!text.contains("environment.URL"), "{text}");
}

#[test]
fn host_without_a_port_needs_a_sibling_that_accepts_connections() {
    let services = |check: &str| {
        format!(
            "  db: {{ image: \"postgres:16\", container: {{ name: db{check} }} }}\n{}",
            web("DB_HOST: db", "dependsOn: [db],")
        )
    };
    let line = "psycopg2.OperationalError: could not connect to server: Connection refused";
    TestEnvironment::new(&services(""))
        .wrote(line)
        .assert_edit("db.container.healthcheck", "pg_isready");
    let checked = services(", healthcheck: { type: tcp, port: 5432 }");
    assert_eq!(TestEnvironment::new(&checked).wrote(line).text(), "none");
}
