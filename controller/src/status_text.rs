//! Texts of a status: waits, ports, holds, and running tests.

use argus_crds::status::{ActiveHold, EnvironmentStatus, Phase, PortMapping, RunningTest, Truth};

use crate::output;

/// Description of a running test.
pub(crate) fn format_running_test(test: &RunningTest) -> String {
    let owner = test.holder.as_ref().map(|holder| format!(" of {holder}"));
    let purpose = test.purpose.as_ref().map(|purpose| format!(": {purpose}"));
    format!(
        "test `{}`{} runs until {}{}",
        test.case,
        owner.unwrap_or_default(),
        test.until,
        purpose.unwrap_or_default()
    )
}

/// Description of a hold.
pub(crate) fn format_hold(hold: &ActiveHold) -> String {
    hold.sentence("all of it")
}

/// Summary of the waits of an environment: a rejected file, then the reason why it is not ready. A Ready environment
/// contributes the message of its `Degraded` condition, such as a given-up service.
pub(crate) fn format_waits(status: &EnvironmentStatus) -> String {
    let of = |kind: &str| status.conditions.iter().find(|it| it.kind == kind);
    let rejected = of("SpecAccepted").is_some_and(|accepted| accepted.status == Truth::False);
    let errors = status.diagnostics.iter().filter(|it| it.is_error()).count();
    let rejected = rejected.then(|| format!("file rejected: {}", output::format_count(errors, "error")));
    let ready = of("Ready").filter(|ready| ready.status != Truth::True);
    // Without an accepted revision, the file is the only cause.
    let ready = ready.filter(|_| rejected.is_none() || status.revision.is_some());
    let lost = of("Degraded").filter(|lost| status.phase == Phase::Ready && lost.status == Truth::True);
    let waits = rejected
        .into_iter()
        .chain(ready.or(lost).map(|condition| condition.message.clone()));
    waits.collect::<Vec<_>>().join("; ")
}

/// Port mappings in the form of `docker ps`: `127.0.0.1:8080->80/tcp`.
pub(crate) fn format_ports(mappings: &[PortMapping]) -> String {
    let one = |mapping: &PortMapping| {
        let host = mapping.host.as_deref().unwrap_or("127.0.0.1");
        let host = if host.contains(':') {
            format!("[{host}]")
        } else {
            host.to_owned()
        };
        let moved = if mapping.reassigned {
            format!(" (wanted {})", mapping.original_port)
        } else {
            String::new()
        };
        format!(
            "{host}:{}->{}/{}{moved}",
            mapping.actual_port, mapping.container_port, mapping.protocol
        )
    };
    mappings.iter().map(one).collect::<Vec<_>>().join(",")
}
