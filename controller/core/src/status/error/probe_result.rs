//! Text of the last result of a failed health check.

use std::net::SocketAddr;

use argus_crds::status::WaitingOn;

use crate::desired::{Probe, ProbeHandler};
use crate::observed::Container;
use crate::outcome::one_line;
use crate::probe::HealthStates;

/// Maximum number of addresses in a text.
const MAX_ADDRESSES: usize = 4;

/// Describes a result: for a command the first and the last line of its output, and the addresses on which the container listens, because
/// the request of the command is unknown.
pub(super) fn describe(probe: Option<&Probe>, output: &str, listening: Option<&[SocketAddr]>) -> String {
    let is_command = matches!(probe.map(|probe| &probe.kind), Some(ProbeHandler::Exec { .. }));
    if !is_command {
        return one_line(output);
    }
    let mut lines = output.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = one_line(lines.next().unwrap_or_default());
    let result = match lines.next_back() {
        Some(last) => format!("{first} … {}", one_line(last)),
        None => first,
    };
    match listening {
        Some([]) => format!("{result}; the container listens on no TCP port"),
        Some(listening) => format!("{result}; the container listens on {}", addresses(listening)),
        None => result,
    }
}

/// Adds the last result of a health check that has failed for a while to the wait for its first success.
pub(in crate::status) fn with_last(
    wait: WaitingOn,
    probe: Option<&Probe>,
    container: Option<&Container>,
    health: &HealthStates,
) -> WaitingOn {
    let seen = container.and_then(|container| {
        let started_at = container.inspect.as_ref().and_then(|info| info.started_at);
        let seen = health.get(&container.id);
        seen.filter(|seen| seen.failing && seen.started_at == started_at)
    });
    let Some(seen) = seen else { return wait };
    let start_period = probe.map(|probe| probe.start_period).unwrap_or_default();
    let grace = if start_period.is_zero() {
        String::new()
    } else {
        format!(" (start period {} s)", start_period.as_secs_f32())
    };
    let result = describe(probe, seen.last_output(), None);
    WaitingOn {
        reason: "ProbeFailing".to_owned(),
        message: format!("{}, which fails so far: {result}{grace}", wait.message),
        ..wait
    }
}

fn addresses(listening: &[SocketAddr]) -> String {
    let shown: Vec<String> = listening
        .iter()
        .take(MAX_ADDRESSES)
        .map(ToString::to_string)
        .collect();
    match listening.len().saturating_sub(MAX_ADDRESSES) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn probe(kind: ProbeHandler) -> Probe {
        let time = Duration::from_secs(1);
        Probe {
            kind,
            interval: time,
            timeout: time,
            retries: 1,
            success_threshold: 1,
            start_period: time,
        }
    }

    #[test]
    fn command_is_described_with_its_last_line_and_the_listeners() {
        let command = probe(ProbeHandler::Exec {
            command: vec!["check".to_owned()],
        });
        let at = |port: u16| SocketAddr::from(([0, 0, 0, 0], port));
        let of = |output: &str, ports: Option<&[u16]>| {
            let listening: Option<Vec<SocketAddr>> =
                ports.map(|ports| ports.iter().copied().map(at).collect());
            describe(Some(&command), output, listening.as_deref())
        };
        assert_eq!(
            of("exec check: exit code 1: a\nb\n\n refused \n", None),
            "exec check: exit code 1: a … refused"
        );
        assert_eq!(
            of("exec check: exit code 1: a", Some(&[])),
            "exec check: exit code 1: a; the container listens on no TCP port"
        );
        assert_eq!(
            of("exec check: no answer within 1 s", Some(&[1, 2, 3, 4, 5, 6])),
            "exec check: no answer within 1 s; the container listens on 0.0.0.0:1, 0.0.0.0:2, 0.0.0.0:3, 0.0.0.0:4 and 2 more"
        );
        let tcp = probe(ProbeHandler::Tcp { port: 1 });
        let listening = [at(1)];
        assert_eq!(describe(Some(&tcp), "refused\nmore", Some(&listening)), "refused");
    }
}
