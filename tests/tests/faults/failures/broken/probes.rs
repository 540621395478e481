//! Health checks that never succeed: a wrong path or port, a slow start, a crash behind a wrapper.

use std::process::Command;

use argus_tests::binary;
use argus_tests::fixture::{IMAGE, engine};
use argus_tests::image::Tree;

use super::specs::{GROW, LITTLE, SERVE, probed, script};
use super::{Broken, Group, Suggest};

const TIMEOUT: &str = "HEALTH_CHECK_TIMEOUT";

/// Image whose port 8443 speaks TLS with a self-signed certificate.
const TLS_IMAGE: &str = "journey-tls:local";

fn make_tls_image() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = binary::find("openssl").expect("openssl; hint: ./scripts/setup");
    let request = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=other -keyout key.pem -out cert.pem";
    let mut command = Command::new(&program);
    let made = command
        .args(request.split(' '))
        .current_dir(folder.path())
        .output();
    assert!(made.as_ref().is_ok_and(|made| made.status.success()), "{made:?}");
    let mut tree = Tree::new();
    tree.file("bin/openssl", &program);
    for library in binary::libraries(&program) {
        tree.file(&library.to_string_lossy()[1..], &library);
    }
    for name in ["key.pem", "cert.pem"] {
        tree.file(name, &folder.path().join(name));
    }
    let serve = r#"CMD ["/bin/openssl", "s_server", "-accept", "8443", "-key", "/key.pem", "-cert", "/cert.pem", "-www"]"#;
    engine().import(TLS_IMAGE, &tree.done(), &[serve]);
}

/// Health checks whose scheme, status or lines do not fit. Each key has its value in the file.
fn with_options() -> Vec<Broken> {
    let server = |name: &str, more: &str| {
        let login = format!("echo '/:ann:pw' > /tmp/c; {SERVE} -c /tmp/c");
        let check = format!("path: /healthz\n        port: 8080\n        {more}");
        probed(name, "1s", &check, &script(&login))
    };
    let tls = "path: /\n        port: 8443\n        scheme: http";
    vec![
        Broken::edit(
            "broken-tls",
            probed("broken-tls", "1s", tls, "").replace(IMAGE, TLS_IMAGE),
            TIMEOUT,
            "services.bad.container.healthcheck.scheme",
            Suggest::Exactly("https"),
        ),
        Broken::edit(
            "broken-plain",
            // It is ready only with this header.
            server(
                "broken-plain",
                "headers: { Authorization: Basic YW5uOnB3 }\n        scheme: https",
            ),
            TIMEOUT,
            "services.bad.container.healthcheck.scheme",
            Suggest::Exactly("http"),
        ),
        Broken::edit(
            "broken-login",
            server("broken-login", "status: 200-399"),
            TIMEOUT,
            "services.bad.container.healthcheck.status",
            Suggest::Exactly("[200-399, 401]"),
        ),
        Broken::edit(
            "broken-lines",
            // The restarted container has the line of its earlier run, too.
            probed(
                "broken-lines",
                "1s",
                "type: log\n        pattern: ready to [a-z]+\n        times: 2",
                &script("echo ready to serve >&2; exec sleep 3600"),
            ),
            TIMEOUT,
            "services.bad.container.healthcheck.times",
            Suggest::Nothing,
        ),
    ]
}

fn all() -> Vec<Broken> {
    let good = "path: /healthz\n        port: 8080";
    vec![
        Broken::edit(
            "broken-path",
            probed("broken-path", "1s", "path: /nowhere\n        port: 8080", ""),
            TIMEOUT,
            "services.bad.container.healthcheck.path",
            Suggest::Exactly("/healthz"),
        ),
        Broken::edit(
            "broken-root",
            probed(
                "broken-root",
                "1s",
                "path: /status\n        port: 8080",
                &script("mkdir /tmp/www; echo x > /tmp/www/index.html; exec httpd -f -p 8080 -h /tmp/www"),
            ),
            TIMEOUT,
            "services.bad.container.healthcheck.path",
            Suggest::Exactly("/"),
        ),
        Broken::edit(
            "broken-port",
            probed("broken-port", "1s", "path: /healthz\n        port: 8081", ""),
            TIMEOUT,
            "services.bad.container.healthcheck.port",
            Suggest::Exactly("8080"),
        ),
        Broken::edit(
            "broken-tcp",
            probed("broken-tcp", "1s", "type: tcp\n        port: 80", ""),
            TIMEOUT,
            "services.bad.container.healthcheck.port",
            Suggest::Exactly("8080"),
        ),
        Broken::edit(
            "broken-check",
            probed(
                "broken-check",
                "1s",
                "type: exec\n        command: [wget, -qO-, \"http://127.0.0.1:8081/healthz\"]",
                "",
            ),
            TIMEOUT,
            "services.bad.container.healthcheck.command",
            Suggest::Exactly("127.0.0.1:8080"),
        ),
        Broken::edit(
            "broken-local",
            probed(
                "broken-local",
                "1s",
                good,
                "command: [httpd, -f, -p, \"127.0.0.1:8080\", -h, /www]",
            ),
            TIMEOUT,
            "services.bad.command",
            Suggest::Exactly("0.0.0.0"),
        ),
        Broken::edit(
            "broken-slow",
            // It listens once the file waits for it.
            probed(
                "broken-slow",
                "1s",
                "path: /healthz\n        port: 8080\n      volumes: [\"./gate:/gate:ro\"]",
                &script(&format!(
                    "until [ -e /gate/broken-slow ]; do sleep 0.2; done; {SERVE}"
                )),
            ),
            TIMEOUT,
            "services.bad.container.healthcheck.startPeriod",
            Suggest::Any,
        ),
        Broken::edit(
            "broken-hidden",
            probed(
                "broken-hidden",
                "1s",
                good,
                &script(&format!("(: ${{API_KEY?}}; {SERVE}); exec sleep 3600")),
            ),
            TIMEOUT,
            "services.bad.container.environment.API_KEY",
            Suggest::Nothing,
        ),
    ]
}

/// Checks that fail because of a program.
fn with_programs() -> Vec<Broken> {
    let good = "path: /healthz\n        port: 8080";
    let small = format!(
        "{LITTLE}\n    {}",
        script(&format!("({GROW}; {SERVE}); exec sleep 3600"))
    );
    vec![
        Broken::edit(
            "broken-child",
            probed("broken-child", "5s", good, &small),
            TIMEOUT,
            "services.bad.memory",
            Suggest::Any,
        ),
        Broken::edit(
            "broken-program",
            probed(
                "broken-program",
                "1s",
                good,
                &script("htpd -f -p 8080 -h /www; exec sleep 3600"),
            ),
            TIMEOUT,
            "services.bad.command",
            Suggest::Exactly("httpd"),
        ),
    ]
}

#[test]
fn first_remedies_repair_broken_health_checks() {
    make_tls_image();
    let group = Group::of(
        all()
            .into_iter()
            .chain(with_programs())
            .chain(with_options())
            .collect(),
    );
    let answers = group.assert_first_remedies();
    drop(group.repair(answers));
    group.assert_earlier_runs_are_short("broken-hidden");
}
