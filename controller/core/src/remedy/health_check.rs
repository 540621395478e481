//! Ports, paths and delays of health checks that do not fit the program.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use argus_crds::error::SpecEdit;

use super::{EditContext, recovery_time, seconds};
use crate::desired::ProbeHandler;
use crate::failed_run::FailedRun;
use crate::ident::Protocol;
use crate::outcome::Evidence;

/// A program that did not listen for this long is not only slow, so a longer `startPeriod` is no longer the first remedy.
const MAX_SILENCE: Duration = Duration::from_secs(60);

impl EditContext<'_> {
    /// Change of the health check that fits the observed program.
    pub(super) fn healthcheck(&self, failed_run: &FailedRun) -> Option<SpecEdit> {
        let probe = self.service.probe.as_ref()?;
        if let Some(took) = recovery_time(failed_run) {
            let reason = format!("the service was healthy {} s after its start", seconds(took));
            return Some(self.start_period(probe, took * 3 / 2, reason));
        }
        if self.was_healthy() {
            return None;
        }
        let evidence = failed_run.evidence.as_ref()?;
        let (path, port) = match &probe.kind {
            ProbeHandler::Http { path, port } => (Some(path.as_str()), *port),
            ProbeHandler::Tcp { port } => (None, *port),
            ProbeHandler::Exec { .. } | ProbeHandler::Docker => return None,
        };
        match evidence.listening.as_deref() {
            Some([]) => {
                let ran = failed_run.run_duration();
                if ran >= MAX_SILENCE {
                    return None;
                }
                let reason = format!("no process listened on a TCP port after {} s", seconds(ran));
                Some(self.start_period(probe, ran * 2, reason))
            }
            Some(listening) if listening.iter().all(|address| address.port() != port) => {
                self.probe_port(port, listening)
            }
            Some(listening) if is_local_only(port, listening) => self.local_address(port),
            Some(_) | None => self.probe_path(path?, evidence, failed_run),
        }
    }

    /// Address of the command or of a variable that makes the process listen on the loopback interface only.
    fn local_address(&self, port: u16) -> Option<SpecEdit> {
        const LOCAL: [&str; 3] = ["127.0.0.1", "localhost", "[::1]"];
        const LISTENING: [&str; 4] = ["HOST", "ADDR", "BIND", "LISTEN"];
        let mut words = self.service.command.iter().flatten();
        let in_command = words.find_map(|word| LOCAL.into_iter().find(|local| word.contains(local)));
        let in_variable = |(name, value): (&String, &String)| {
            let is_of_listener = LISTENING.iter().any(|word| name.to_uppercase().contains(word));
            let local = LOCAL.into_iter().find(|local| value.starts_with(local))?;
            is_of_listener.then(|| (format!("container.environment.{name}"), local))
        };
        let (key, local) = match in_command {
            Some(local) => ("command".to_owned(), local),
            None => self.service.env_vars.iter().find_map(in_variable)?,
        };
        let reason = format!("the process listens on port {port} only inside its container");
        Some(self.edit(&key, reason).now(local).suggest("0.0.0.0"))
    }

    fn probe_port(&self, port: u16, listening: &[SocketAddr]) -> Option<SpecEdit> {
        // The probe connects from outside, which a loopback address refuses.
        let reachable: BTreeSet<u16> = listening
            .iter()
            .filter(|address| !is_loopback(address))
            .map(SocketAddr::port)
            .collect();
        let published = self
            .service
            .ports
            .iter()
            .filter(|port| port.protocol == Protocol::Tcp);
        let published = published
            .map(|port| port.container)
            .find(|port| reachable.contains(port));
        let best = published.or_else(|| reachable.first().copied())?;
        let all: Vec<String> = reachable.iter().map(ToString::to_string).collect();
        let reason = format!(
            "no process listens on port {port}, the container listens on {}",
            all.join(", ")
        );
        Some(
            self.edit("container.healthcheck.port", reason)
                .suggest(best.to_string()),
        )
    }

    fn probe_path(&self, path: &str, evidence: &Evidence, failed_run: &FailedRun) -> Option<SpecEdit> {
        let last = failed_run.probe_output.last()?;
        let is_wrong = ["404", "405", "410"]
            .iter()
            .any(|status| last.contains(&format!(": {status}")));
        let without_query = path.split('?').next().unwrap_or(path);
        let best = evidence
            .healthy_paths
            .iter()
            .find(|healthy| *healthy != without_query);
        match best {
            // A path that exists may fail for a good reason.
            Some(best) if is_wrong => {
                let reason = format!("`{without_query}` does not succeed, `{best}` does");
                Some(
                    self.edit("container.healthcheck.path", reason)
                        .suggest(best.clone()),
                )
            }
            None if is_wrong => {
                let reason = format!("`{without_query}` does not exist in the container");
                Some(self.edit("container.healthcheck.path", reason))
            }
            Some(_) | None => None,
        }
    }
}

fn is_loopback(address: &SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

/// True if all listeners of a port refuse connections from outside.
fn is_local_only(port: u16, listening: &[SocketAddr]) -> bool {
    let mut of_port = listening.iter().filter(|address| address.port() == port);
    of_port.all(is_loopback)
}
