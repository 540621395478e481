//! One probe of a container: its request in words, and its result within the timeout.

use std::time::Duration;

use argus_backend::Backend;
use argus_core::desired::ProbeHandler;
use argus_core::ident::ContainerId;
use argus_core::probe::NO_ANSWER;
use argus_crds::ProbeScheme;

use super::probe_history::ProbeResult;
use super::target::Target;
use super::{late, tcp};

/// Maximum time in which the processes of a command end after its timeout.
const EXEC_MARGIN: Duration = Duration::from_secs(2);

/// Value of the metric label `kind`.
pub(super) fn kind_label(kind: &ProbeHandler) -> &'static str {
    match kind {
        ProbeHandler::Http { .. } => "http",
        ProbeHandler::Tcp { .. } | ProbeHandler::DockerOrTcp { .. } => "tcp",
        ProbeHandler::Exec { .. } => "exec",
        ProbeHandler::Log { .. } => "log",
        ProbeHandler::Docker => "docker",
    }
}

/// Request of a probe in words, such as `GET /healthz on :8080`. Queries and arguments are omitted, because they may
/// contain secrets.
pub(super) fn describe_request(kind: &ProbeHandler) -> String {
    match kind {
        ProbeHandler::Http { path, port, options } => {
            let path = path.split('?').next().unwrap_or_default();
            let with_tls = match options.scheme {
                ProbeScheme::Http => "",
                ProbeScheme::Https => " with TLS",
            };
            format!("{} {path} on :{port}{with_tls}", options.method.as_str())
        }
        ProbeHandler::Tcp { port } | ProbeHandler::DockerOrTcp { port } => format!("connect to :{port}"),
        ProbeHandler::Exec { command } => {
            let program = command.first().and_then(|text| text.split_whitespace().next());
            format!("exec {}", program.unwrap_or_default())
        }
        ProbeHandler::Log { pattern, .. } => format!("log `{pattern}`"),
        ProbeHandler::Docker => "HEALTHCHECK of the image".to_owned(),
    }
}

/// Runs one probe within its timeout. Its output contains the request and the response.
pub(super) async fn probe_once<B: Backend>(
    backend: &B,
    id: &ContainerId,
    target: &Target,
) -> (ProbeResult, Option<late::Request>) {
    let (reply, request) = send_once(backend, id, target).await;
    let is_silent = reply.sent && !reply.answered;
    let response = match target.own_address.filter(|_| is_silent) {
        // The engine's port proxy accepts connections to ports without a listener.
        Some(own_address) if tcp::is_refused(own_address).await => tcp::REFUSED,
        Some(_) | None => &reply.output,
    };
    let output = format!("{}: {response}", describe_request(&target.probe.kind));
    (ProbeResult { output, ..reply }, request)
}

async fn send_once<B: Backend>(
    backend: &B,
    id: &ContainerId,
    target: &Target,
) -> (ProbeResult, Option<late::Request>) {
    let timeout = target.probe.timeout;
    let timed_out = || ProbeResult::no_reply(describe_timeout(timeout, ""));
    let reply = match (&target.probe.kind, target.address) {
        (ProbeHandler::Http { path, options, .. }, Some(address)) => {
            let mut request = late::Request::start(address, path, options);
            return match request.within(timeout).await {
                Some(reply) => (reply, None),
                None => (timed_out(), Some(request)),
            };
        }
        (ProbeHandler::Tcp { .. } | ProbeHandler::DockerOrTcp { .. }, Some(address)) => {
            let reply = tokio::time::timeout(timeout, tcp::probe(address)).await;
            reply.unwrap_or_else(|_| timed_out())
        }
        (ProbeHandler::Http { .. } | ProbeHandler::Tcp { .. } | ProbeHandler::DockerOrTcp { .. }, None) => {
            ProbeResult::no_reply(target.obstacle.clone())
        }
        (ProbeHandler::Exec { command }, _) => {
            // The backend ends the command at its timeout, so that its output is kept.
            let reply = run_command(backend, id, command, timeout);
            let reply = tokio::time::timeout(timeout + EXEC_MARGIN, reply).await;
            reply.unwrap_or_else(|_| timed_out())
        }
        (ProbeHandler::Log { .. }, _) => ProbeResult::unsent("its search runs in the background"),
        (ProbeHandler::Docker, _) => ProbeResult::failure("the engine runs this health check itself"),
    };
    (reply, None)
}

/// Runs a command in the container, for this time at most. Exit code 0 is a success.
async fn run_command<B: Backend>(
    backend: &B,
    id: &ContainerId,
    command: &[String],
    timeout: Duration,
) -> ProbeResult {
    match backend.exec(id, command, timeout).await {
        Ok(result) => match result.exit_code {
            Some(0) => ProbeResult::success(result.output),
            Some(code) => ProbeResult::failure(format!("exit code {code}: {}", result.output)),
            None => ProbeResult::no_reply(describe_timeout(timeout, &result.output)),
        },
        Err(error) => ProbeResult::unsent(error.to_string()),
    }
}

/// Describes a probe without a result in time, with what it wrote.
fn describe_timeout(timeout: Duration, output: &str) -> String {
    let limit = format!("{NO_ANSWER}{} s", timeout.as_secs_f32());
    match output.trim() {
        "" => limit,
        output => format!("{limit}: {output}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeout_keeps_the_output() {
        let timeout = Duration::from_millis(1_500);
        assert_eq!(describe_timeout(timeout, " \n"), "no answer within 1.5 s");
        assert_eq!(
            describe_timeout(timeout, "waiting for db\n"),
            "no answer within 1.5 s: waiting for db"
        );
    }
}
