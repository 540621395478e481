//! Spec files of broken environments. The failing service is `bad`, its container `NAME-bad`.

use argus_tests::fixture::IMAGE;
use serde_json::Value;

pub(super) const SOON: &str = "resilience: { container: { restartDelay: 1s } }";
pub(super) const NEVER: &str = "resilience: { container: { restartOnFailure: false } }";
pub(super) const STRICT: &str = "resilience: { network: { portConflictStrategy: fail } }";

/// Commands that need more memory than [`LITTLE`], and less than one and a half times as much.
pub(super) const GROW: &str =
    "x=aaaaaaaaaaaaaaaa; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do x=$x$x; done";
pub(super) const LITTLE: &str = "memory: 28m";
/// Serves `/healthz` on port 8080.
pub(super) const SERVE: &str = "exec httpd -f -p 8080 -h /www";

/// File with the service `bad`, and further top-level keys.
pub(super) fn service(more: &str, lines: &str) -> String {
    format!("{more}\nservices:\n  bad:\n    {lines}\n")
}

/// Line of a service that runs a script.
pub(super) fn script(text: &str) -> String {
    format!("command: [\"sh\", \"-c\", {}]", Value::from(text))
}

/// Web service with these lines of its health check, and further lines.
pub(super) fn probed(name: &str, start_period: &str, healthcheck: &str, more: &str) -> String {
    let lines = format!(
        "image: {IMAGE}\n    container:\n      name: {name}-bad\n      healthcheck:\n        interval: 500ms\n        \
         timeout: 1s\n        retries: 2\n        startPeriod: {start_period}\n        {healthcheck}\n    {more}"
    );
    service(SOON, &lines)
}

/// Service `bad` that uses the web service `database`, which listens once the gate is open.
pub(super) fn client(name: &str, condition: &str, host: &str, volume: &str) -> String {
    let command = script("wget -q -O /dev/null http://$DB/ || exit 3; touch /tmp/ok; exec sleep 3600");
    let lines = format!(
        "image: {IMAGE}\n    {command}\n    dependsOn:\n      - service: database\n        condition: {condition}\n    \
         container:\n      name: {name}-bad\n      volumes: [\"{volume}\"]\n      \
         healthcheck: {{ type: exec, command: [test, -e, /tmp/ok], interval: 500ms, startPeriod: 5m }}\n      \
         environment:\n        DB: {host}:8080\n  \
         database:\n    image: {IMAGE}\n    {}\n    container:\n      name: {name}-database\n      volumes: [\"./gate:/gate:ro\"]\n      \
         healthcheck: {{ path: /healthz, port: 8080, interval: 500ms, startPeriod: 5m }}",
        script(&format!("until [ -e /gate/{name} ]; do sleep 0.2; done; {SERVE}"))
    );
    service(NEVER, &lines)
}
