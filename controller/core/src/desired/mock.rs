//! A mock that is an image, as the container that it shall be.

use std::collections::BTreeMap;
use std::time::Duration;

use argus_crds::{Command, Complaint, Mock};

use crate::desired::admit::SpecSite;
use crate::desired::identity::{self, Identity};
use crate::desired::image;
use crate::desired::peers::Peers;
use crate::desired::template::{Filler, Later};
use crate::desired::{Criticality, Image, Port, Role, Service, check, mounts};
use crate::ident::Protocol;

/// The one port that a mock publishes.
pub(super) fn port(mock: &Mock) -> Port {
    Port {
        container: mock.container_port.unwrap_or(mock.port),
        protocol: Protocol::Tcp,
        wanted: Some(mock.port),
        address: None,
    }
}

/// The mock as its container, or nothing when it has no image or a complaint refuses it.
pub(super) fn of(
    name: &str,
    mock: &Mock,
    identity: &Identity,
    site: &SpecSite,
    peers: &Peers,
    to: &mut Vec<Complaint>,
) -> Option<Service> {
    let path = format!("mocks.{name}");
    let checked = identity::service(name, "mock", &path, to);
    for (key, port) in [("port", Some(mock.port)), ("containerPort", mock.container_port)] {
        if port == Some(0) {
            let message = format!("`{key}` of mock `{}` is 0", identity::shown(name));
            to.push(
                Complaint::error(format!("{path}.{key}"), message).hint("write a number from 1 to 65535"),
            );
        }
    }
    let written = mock.image.as_deref()?;
    if !mock.routes.is_empty() || mock.openapi.is_some() {
        let message = format!(
            "mock `{}` has an `image`, so its routes and `openapi` are ignored",
            identity::shown(name)
        );
        to.push(Complaint::warning(format!("{path}.image"), message).hint("keep one of them"));
    }
    let vars = BTreeMap::new();
    let filler = Filler {
        site,
        peers,
        vars: &vars,
    };
    let image = image::reference(written, &format!("{path}.image"), &filler, to);
    let args = mock.args.as_ref().map(|args| {
        let args = Command::Text(args.clone());
        check::command(&args, &format!("{path}.args"), &filler, Later::Rendered, to)
    });
    let mounts = mounts::all(&mock.volumes, &format!("{path}.volumes"), site, identity, to);
    let checked = checked?;
    let container_name = format!("{}-mock-{checked}", identity.env);
    Some(Service {
        container_name: identity::resource(&container_name, "container", &path, to)?,
        name: checked,
        role: Role::Mock,
        aliases: Vec::new(),
        image: Image::Named(image?),
        entrypoint: None,
        command: match args {
            None => None,
            Some(words) => Some(words?).filter(|words| !words.is_empty()),
        },
        environment: BTreeMap::new(),
        ports: vec![port(mock)],
        mounts,
        tmpfs: Vec::new(),
        extra_hosts: Vec::new(),
        user: None,
        working_dir: None,
        memory: None,
        nano_cpus: None,
        stop_grace: Duration::from_secs(10),
        probe: None,
        depends_on: Vec::new(),
        one_shot: false,
        criticality: Criticality::Important,
    })
}
