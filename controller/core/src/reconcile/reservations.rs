//! Host ports that the environments have reserved.

use super::Planner;
use crate::ident::{EnvName, PortMap, ProtocolPort, ServiceName};
use crate::plan::port::PortReservations;

impl Planner {
    pub(super) fn reservations(&self) -> PortReservations {
        self.state
            .environments
            .iter()
            .flat_map(|(env, history)| reservations_of(env, &history.ports))
            .collect()
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
