//! Health checks that never succeed: a wrong path or port, a slow start, a crash behind a wrapper.

use super::specs::{GROW, LITTLE, SERVE, probed, script};
use super::{Broken, Group, Suggest};

fn all() -> Vec<Broken> {
    const TIMEOUT: &str = "HEALTH_CHECK_TIMEOUT";
    let good = "path: /healthz\n        port: 8080";
    let small = format!(
        "{LITTLE}\n    {}",
        script(&format!("({GROW}; {SERVE}); exec sleep 3600"))
    );
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
            Suggest::Nothing,
        ),
    ]
}

#[test]
fn first_remedies_repair_broken_health_checks() {
    let group = Group::of(all());
    let answers = group.assert_first_remedies();
    drop(group.repair(answers));
}
