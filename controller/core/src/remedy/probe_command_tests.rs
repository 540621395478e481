//! Commands of health checks that cannot succeed.

use crate::remedy::test_environment::TestEnvironment;

const COMMAND: &str = "web.container.healthcheck.command";
const UP: &[&str] = &["0.0.0.0:8080"];
const REFUSED: &str =
    "exec wget: exit code 1: wget: can't connect to remote host (127.0.0.1): Connection refused";

/// A service with these keys of its container, and a health check that failed with this result.
fn with_keys(keys: &str, command: &str, output: &str, listening: &[&str]) -> TestEnvironment {
    let services = format!(
        "  db: {{ image: db:1, container: {{ name: shop-db }} }}\n  web:\n    image: web:1\n    container:\n      name: shop-web\n{keys}      \
healthcheck: {{ type: exec, command: {command} }}\n"
    );
    TestEnvironment::new(&services).unhealthy(output, listening)
}

fn check(command: &str, output: &str, listening: &[&str]) -> TestEnvironment {
    with_keys("", command, output, listening)
}

fn assert_commands(cases: &[(&str, &str, &[&str], &str)]) {
    for (command, output, listening, text) in cases {
        let test = check(command, output, listening);
        if text.is_empty() {
            assert_eq!(test.text(), "none", "{command}: {output}");
        } else {
            test.assert_edit(COMMAND, text);
        }
        assert_eq!(test.was_healthy().text(), "none", "{command}: {output}");
    }
}

#[test]
fn command_with_the_syntax_of_a_shell_gets_one() {
    let waiting = "exec sh: exit code 1: waiting";
    let text = "[\"sh\", \"-c\", \"curl -f http://localhost:8080/ || exit 1\"]";
    assert_commands(&[
        (
            "\"curl -f http://localhost:8080/ || exit 1\"",
            "exec curl: exit code 6: curl: (6) Could not resolve host: ||",
            UP,
            text,
        ),
        (
            "[curl, -f, \"http://localhost:8080/\", \"||\", exit, \"1\"]",
            "exec curl: exit code 3: curl: (3) URL using bad/illegal format",
            UP,
            text,
        ),
        (
            "[\"pg_isready -U app\"]",
            "exec pg_isready -U app: exit code 127: OCI runtime exec failed: exec: \"pg_isready -U app\": executable file not found in $PATH",
            UP,
            "[\"sh\", \"-c\", \"pg_isready -U app\"]",
        ),
        (
            "[sh, -c, \"curl -f http://localhost:8080/ || exit 1\"]",
            waiting,
            UP,
            "",
        ),
        ("[sh, /opt/check, \"|\"]", waiting, UP, ""),
    ]);
}

#[test]
fn port_without_a_listener_is_the_open_one() {
    let other = &["0.0.0.0:3000", "127.0.0.1:9229"][..];
    assert_commands(&[
        (
            "[curl, -f, \"http://localhost:8080/up\"]",
            "exec curl: exit code 7: curl: (7) Failed to connect to localhost port 8080 after 0 ms: Couldn't connect to server",
            other,
            "from `localhost:8080` to `localhost:3000`",
        ),
        (
            "[sh, -c, \"wget -qO- http://localhost/up || exit 1\"]",
            REFUSED,
            other,
            "from `localhost` to `localhost:3000`",
        ),
        (
            "[nc, -z, localhost, \"8080\"]",
            "exec nc: exit code 1: nc: localhost (127.0.0.1:8080): Connection refused",
            other,
            "from `8080` to `3000`",
        ),
        (
            "[bash, -c, \"</dev/tcp/127.0.0.1/8080\"]",
            "exec bash: exit code 1: bash: connect: Connection refused",
            other,
            "from `8080` to `3000`",
        ),
        (
            "[redis-cli, ping]",
            "exec redis-cli: exit code 1: Could not connect to Redis at 127.0.0.1:6379: Connection refused",
            &["0.0.0.0:6380"],
            "[\"redis-cli\", \"-p\", \"6380\", \"ping\"]",
        ),
        (
            "[sh, -c, \"redis-cli ping | grep PONG\"]",
            "exec sh: exit code 1: Could not connect to Redis at 127.0.0.1:6379: Connection refused",
            &["0.0.0.0:6380"],
            "from `redis-cli` to `redis-cli -p 6380`",
        ),
        // Another container refused it.
        (
            "[pg_isready, -h, db]",
            "exec pg_isready: exit code 2: db:5432 - no response",
            other,
            "",
        ),
        ("[curl, \"http://db:8080/\"]", REFUSED, other, ""),
        ("[check]", REFUSED, other, ""),
    ]);
    let silent = check("[curl, \"http://localhost:8080/\"]", REFUSED, &[]);
    silent.assert_edit("web.container.healthcheck.startPeriod", "no process listened");
}

#[test]
fn listener_of_one_ip_version_needs_its_address() {
    let command = "[wget, --spider, \"http://localhost:8080/\"]";
    let unassigned =
        "exec wget: exit code 1: wget: can't connect to remote host: Cannot assign requested address";
    assert_commands(&[
        (
            "[wget, -qO-, \"http://[::1]:8080/\"]",
            unassigned,
            UP,
            "from `[::1]` to `127.0.0.1`",
        ),
        (
            "[sh, -c, \"curl -f http://[::1]:8080/up || exit 1\"]",
            "exec sh: exit code 7: curl: (7) Failed to connect to ::1 port 8080 after 0 ms: Couldn't connect to server",
            &["127.0.0.1:8080"],
            "from `[::1]` to `127.0.0.1`",
        ),
        (
            "[python3, -c, \"urlopen('http://[::1]:8080/')\"]",
            "exec python3: exit code 1: OSError: [Errno 99] Cannot assign requested address",
            UP,
            "from `[::1]` to `127.0.0.1`",
        ),
        (
            "[wget, -qO-, \"http://127.0.0.1:8080/\"]",
            REFUSED,
            &["[::1]:8080"],
            "from `127.0.0.1` to `[::1]`",
        ),
        (command, REFUSED, &["[::1]:8080"], "`localhost` can be IPv4"),
        (
            "[wget, -qO-, \"http://[::1]:8080/\"]",
            REFUSED,
            &["[::1]:8080"],
            "",
        ),
        (
            "[wget, -qO-, \"http://127.0.0.1:8080/\"]",
            REFUSED,
            &["[::]:8080"],
            "",
        ),
        (command, REFUSED, UP, "from `localhost` to `127.0.0.1`"),
        (command, REFUSED, &["[::]:8080"], ""),
        ("[wget, --spider, \"http://127.0.0.1:8080/\"]", REFUSED, UP, ""),
    ]);
}

#[test]
fn unknown_host_of_a_command_is_its_container() {
    assert_commands(&[
        (
            "[curl, -f, \"http://locahost:8080/\"]",
            "exec curl: exit code 6: curl: (6) Could not resolve host: locahost",
            UP,
            "from `locahost` to `localhost`",
        ),
        (
            "[redis-cli, -h, cache, ping]",
            "exec redis-cli: exit code 1: Could not connect to Redis at cache:6379: Name or service not known",
            UP,
            "from `cache` to `localhost`",
        ),
        (
            "[wget, -qO-, \"http://shop-bd:8080/\"]",
            "exec wget: exit code 1: wget: bad address 'shop-bd:8080'",
            UP,
            "from `shop-bd` to `shop-db`",
        ),
        // A sibling without a running container has a name that cannot be resolved.
        (
            "[curl, -f, \"http://db:8080/\"]",
            "exec curl: exit code 6: curl: (6) Could not resolve host: db",
            UP,
            "",
        ),
        (
            "[curl, -f, \"http://localhost:8080/\"]",
            "exec curl: exit code 22: {\"error\":\"Could not resolve host: queue\"}",
            UP,
            "",
        ),
    ]);
}

#[test]
fn path_that_answers_with_an_error_is_replaced() {
    let command = "[curl, -f, \"http://localhost:8080/up\"]";
    for output in [
        "exec curl: exit code 22: curl: (22) The requested URL returned error: 404",
        "exec curl: exit code 1: wget: server returned error: HTTP/1.1 401 Unauthorized",
    ] {
        let mut test = check(command, output, UP);
        test.assert_edit(COMMAND, "write a path that answers with success");
        test.evidence().healthy_paths = vec!["/healthz".to_owned()];
        test.assert_edit(COMMAND, "from `localhost:8080/up` to `localhost:8080/healthz`");
    }
    let broken = "exec curl: exit code 22: curl: (22) The requested URL returned error: 500";
    assert_eq!(check(command, broken, UP).text(), "none");
    let logged = check(command, broken, UP).wrote("KeyError: 'API_KEY' in os.environ");
    logged.assert_edit("web.container.environment.API_KEY", "`API_KEY` is missing");
}

#[test]
fn scheme_of_a_command_fits_its_port() {
    let plain = "[curl, -f, \"http://localhost:8443/\"]";
    let empty = "exec curl: exit code 52: curl: (52) Empty reply from server";
    let listening = &["0.0.0.0:8443"];
    let mut tls = check(plain, empty, listening);
    assert_eq!(tls.text(), "none");
    tls.evidence().speaks_tls = true;
    tls.assert_edit(COMMAND, "from `http://` to `https://`");
    let secure = "[curl, -f, \"https://localhost:8443/\"]";
    assert_commands(&[
        (
            secure,
            "exec curl: exit code 35: curl: (35) error:0A00010B:SSL routines::wrong version number",
            listening,
            "from `https://` to `http://`",
        ),
        (
            secure,
            "exec curl: exit code 60: curl: (60) SSL certificate problem: self-signed certificate",
            listening,
            "[\"curl\", \"-k\", \"-f\", \"https://localhost:8443/\"]",
        ),
        (
            "[curl, \"https://example.org/\"]",
            "exec curl: exit code 60: curl: (60) SSL certificate problem: certificate has expired",
            listening,
            "",
        ),
    ]);
}

#[test]
fn login_of_a_command_is_one_of_its_server() {
    const KEYS: &str =
        "      environment: { POSTGRES_USER: shop, POSTGRES_PASSWORD: swordfish, POSTGRES_DB: orders }\n";
    let fatal = |what: &str| format!("exec psql: exit code 2: psql: error: FATAL:  {what} does not exist");
    let listening = &["0.0.0.0:5432"];
    for (command, what, text) in [
        (
            "[psql, -U, app, -c, \"select 1\"]",
            "role \"app\"",
            "from `app` to `shop`",
        ),
        (
            "[psql, -c, \"select 1\"]",
            "role \"root\"",
            "[\"psql\", \"-U\", \"shop\", \"-c\", \"select 1\"]",
        ),
        (
            "[sh, -c, \"psql -U shop -d app -c 'select 1'\"]",
            "database \"app\"",
            "from `-d app` to `-d orders`",
        ),
        (
            "[psql, -U, shop, -c, \"select 1\"]",
            "database \"shop\"",
            "[\"psql\", \"-d\", \"orders\", \"-U\", \"shop\", \"-c\", \"select 1\"]",
        ),
    ] {
        with_keys(KEYS, command, &fatal(what), listening).assert_edit(COMMAND, text);
        // The server is another one.
        assert_eq!(check(command, &fatal(what), listening).text(), "none");
    }
    let refused = "exec mysql: exit code 1: ERROR 1045 (28000): Access denied for user 'root'@'localhost' (using password: NO)";
    check("[mysql, -uroot]", refused, listening).assert_edit(COMMAND, "the user and the password");
    assert_eq!(
        check("[mysql, -h, db, -uroot]", refused, listening).text(),
        "none"
    );
}

#[test]
fn script_of_a_check_is_found_on_the_host() {
    let keys = "      volumes: [\"./scripts:/scripts\", \"./check.sh:/opt/check.sh\"]\n";
    let of = |command: &str, output: &str| with_keys(keys, command, output, UP);
    let denied = "exec /scripts/up.sh: exit code 126: OCI runtime exec failed: exec: \"/scripts/up.sh\": permission denied: unknown";
    let edit = of("[/scripts/up.sh]", denied).edit().unwrap();
    assert_eq!((edit.file.as_str(), edit.key.as_str()), ("scripts/up.sh", ""));
    assert!(edit.to_string().contains("chmod +x scripts/up.sh"), "{edit}");
    of(
        "[sh, /check.sh]",
        "exec sh: exit code 2: sh: can't open '/check.sh': No such file or directory",
    )
    .assert_edit(COMMAND, "from `/check.sh` to `/opt/check.sh`");
    let absent = "exec cat: exit code 1: cat: can't open '/tmp/ready': No such file or directory";
    assert_eq!(of("[cat, /tmp/ready]", absent).text(), "none");
}

#[test]
fn missing_path_is_on_the_port_of_the_management() {
    let command = "[bash, -c, \"exec 3<>/dev/tcp/127.0.0.1/8080; head -1 <&3\"]";
    let result = "HTTP/1.1 404 Not Found";
    let line = "Listening on: http://0.0.0.0:8080. Management interface listening on http://0.0.0.0:9000.";
    let mut test = check(command, result, &["0.0.0.0:8080", "0.0.0.0:9000"]);
    test.evidence().stdout = vec![line.to_owned()];
    test.assert_edit(COMMAND, "from `8080` to `9000`");
    // Nothing listens there.
    let mut closed = check(command, result, UP);
    closed.evidence().stdout = vec![line.to_owned()];
    assert!(!closed.text().contains("9000"), "{}", closed.text());
}

#[test]
fn request_without_a_login_gets_that_of_its_server() {
    let result = "curl: (22) The requested URL returned error: 401 Unauthorized";
    let web = |environment: &str| {
        let text = format!(
            "  web: {{ image: \"docker.elastic.co/elasticsearch/elasticsearch:8.15.0\", container: {{ name: web, environment: {{ {environment} }}, \
             healthcheck: {{ type: exec, command: [curl, -f, \"http://localhost:9200/\"] }} }} }}\n"
        );
        TestEnvironment::new(&text).unhealthy(result, &["0.0.0.0:9200"])
    };
    web("ELASTIC_PASSWORD: right-one").assert_edit(
        COMMAND,
        "`-u elastic:` with the value of `ELASTIC_PASSWORD` of `web`",
    );
    let text = web("A: b").text();
    assert!(!text.contains("elastic:`"), "{text}");
}
