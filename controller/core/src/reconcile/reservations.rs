//! Host ports that the environments have reserved.

use super::Planner;
use crate::ident::{EnvName, PortMap, ProtocolPort, ServiceName};
use crate::plan::port::PortReservations;

impl Planner {
    /// Takes the reservations of the last pass, or collects them after a change.
    pub(super) fn reservations(&mut self) -> PortReservations {
        self.reservations.take().unwrap_or_else(|| {
            let histories = self.state.environments.iter();
            histories
                .flat_map(|(env, history)| reservations_of(env, &history.ports))
                .collect()
        })
    }
}

pub(super) fn reservations_of(env: &EnvName, ports: &PortMap) -> Vec<(ProtocolPort, (EnvName, ServiceName))> {
    ports
        .iter()
        .map(|(key, number)| {
            let host = ProtocolPort {
                number: *number,
                protocol: key.container.protocol,
            };
            (host, (env.clone(), key.service.clone()))
        })
        .collect()
}
