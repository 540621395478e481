//! Host ports that the environments have reserved.

use super::Planner;
use crate::ident::{EnvName, PortMap, ProtocolPort, ServiceName};
use crate::plan::port::PortReservations;

/// Host ports that the environments have reserved, while a pass changes them.
pub(super) struct Reserved {
    pub(super) ports: PortReservations,
    /// An assignment changed in this pass.
    is_changed: bool,
}

impl Reserved {
    /// Replaces the ports of an environment.
    pub(super) fn replace(&mut self, env: &EnvName, ports: &PortMap) {
        self.is_changed = true;
        self.ports.retain(|_, (by, _)| by != env);
        self.ports.extend(reservations_of(env, ports));
    }

    /// Returns the reservations for the next pass; `None` after a change of the assignments.
    pub(super) fn unchanged(self) -> Option<PortReservations> {
        (!self.is_changed).then_some(self.ports)
    }
}

impl Planner {
    /// Takes the reservations of the last pass, or collects them after a change.
    pub(super) fn reservations(&mut self) -> Reserved {
        let known = self.reservations.take();
        let collected = || {
            let histories = self.state.environments.iter();
            histories
                .flat_map(|(env, history)| reservations_of(env, &history.ports))
                .collect()
        };
        Reserved {
            ports: known.unwrap_or_else(collected),
            is_changed: false,
        }
    }
}

fn reservations_of(env: &EnvName, ports: &PortMap) -> Vec<(ProtocolPort, (EnvName, ServiceName))> {
    ports
        .iter()
        .map(|(key, number)| {
            let host = ProtocolPort::new(*number, key.container.protocol);
            (host, (env.clone(), key.service.clone()))
        })
        .collect()
}
