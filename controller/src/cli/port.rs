//! `argus port`: prints the published address of a port, as `docker compose port` does.

use argus_crds::error::Reason;
use argus_crds::status::PortMapping;
use clap::Args;

use super::{call, notes};
use crate::api::environments::GetEnvironment;
use crate::api::target::parse_service_target;
use crate::process::exit::{Exit, Failure};
use crate::render::output::OutputArgs;
use crate::settings::{Options, SpecOptions};

#[derive(Debug, Args)]
pub(crate) struct Port {
    /// Service, as ENVIRONMENT/SERVICE [default environment: the only one]
    target: String,
    /// Port in the container
    #[arg(value_name = "PORT")]
    number: u16,
    /// Protocol of the port
    #[arg(long, value_name = "NAME", default_value = "tcp")]
    protocol: String,
    #[command(flatten)]
    output: OutputArgs,
}

impl Port {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let context = call::create_context(options, &SpecOptions::default())?;
        notes::note_if_not_running(context.client.state());
        let (environment, service) = parse_service_target(context.client.state(), &self.target)?;
        let status = call::run(&context, &GetEnvironment { environment })?;
        let key = (service.as_str(), self.number, self.protocol.as_str());
        let mut mappings = status.port_mappings.iter();
        let address = mappings.find_map(|it| address_of(it, key)).ok_or_else(|| {
            let (port, protocol) = (self.number, &self.protocol);
            let message = format!("`{service}` publishes no port {port}/{protocol} that this host reaches");
            Failure::with_reason(Reason::NotFound, message).with_hint("list its ports with `argus ps`")
        })?;
        let name = address.clone();
        self.output
            .print(&serde_json::json!({ "address": address }), [&name], || {
                format!("{address}\n")
            })?;
        Ok(Exit::Done)
    }
}

/// Address of the port of a service that clients reach.
fn address_of(mapping: &PortMapping, key: (&str, u16, &str)) -> Option<String> {
    let is_it = (
        mapping.service.as_str(),
        mapping.container_port,
        mapping.protocol.as_str(),
    ) == key;
    let host = mapping.host.as_ref().filter(|_| is_it)?;
    Some(format!("{host}:{}", mapping.actual_port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_that_of_the_protocol_and_the_service() {
        let mapping = PortMapping {
            service: "dns".to_owned(),
            container_port: 53,
            protocol: "udp".to_owned(),
            original_port: 5353,
            actual_port: 9001,
            reassigned: true,
            host: Some("127.0.0.1".to_owned()),
        };
        let found = address_of(&mapping, ("dns", 53, "udp"));
        assert_eq!(found.as_deref(), Some("127.0.0.1:9001"));
        for other in [("web", 53, "udp"), ("dns", 54, "udp"), ("dns", 53, "tcp")] {
            assert_eq!(address_of(&mapping, other), None, "{other:?}");
        }
        let hidden = PortMapping {
            host: None,
            ..mapping
        };
        assert_eq!(address_of(&hidden, ("dns", 53, "udp")), None);
    }
}
