//! A mock as the container that it shall be: an image of somebody else's, or our own with what it answers.

use std::collections::BTreeMap;
use std::time::Duration;

use argus_crds::mock::config::{MockConfig, RESERVED};
use argus_crds::{Command, Diagnostic, Mock, MockMode};

use crate::desired::admit::SpecContext;
use crate::desired::excluded::Excluded;
use crate::desired::hash::hash_of;
use crate::desired::identity::{self, Identity};
use crate::desired::image;
use crate::desired::peers::Peers;
use crate::desired::template::{Deferral, Filler};
use crate::desired::{
    Build, Criticality, File, Image, Mount, Port, Probe, ProbeKind, Role, Service, mounts, own_image_tag,
    probe,
};
use crate::ident::Protocol;

/// Where a mock reads what it answers.
const CONFIG: &str = "/argus-mock.json";
/// Where its recordings are, in its container.
const RECORDINGS: &str = "/recordings";

/// The one port that a mock publishes.
pub(super) fn port(mock: &Mock) -> Port {
    Port {
        container: mock.container_port.unwrap_or(mock.port),
        protocol: Protocol::Tcp,
        wanted: Some(mock.port),
        address: None,
    }
}

/// The mock as its container, or nothing when a complaint refuses it.
pub(super) fn of(
    name: &str,
    mock: &Mock,
    identity: &Identity,
    context: &SpecContext,
    peers: &Peers,
    to: &mut Vec<Diagnostic>,
) -> Option<Service> {
    let path = format!("mocks.{name}");
    let checked = identity::service(name, "mock", &path, to);
    for (key, port) in [("port", Some(mock.port)), ("containerPort", mock.container_port)] {
        if port == Some(0) {
            let message = format!("`{key}` of mock `{}` is 0", identity::shown(name));
            to.push(
                Diagnostic::error(format!("{path}.{key}"), message).hint("write a number from 1 to 65535"),
            );
        }
    }
    let made = match &mock.image {
        Some(written) => of_image(name, mock, written, &path, identity, context, peers, to),
        None => of_ours(name, mock, &path, context, to),
    };
    let (made, checked) = (made?, checked?);
    let container_name = format!("{}-mock-{checked}", identity.env);
    Some(Service {
        container_name: identity::resource(&container_name, "container", &path, to)?,
        name: checked,
        role: Role::Mock,
        aliases: Vec::new(),
        image: made.image,
        entrypoint: None,
        command: made.command,
        environment: made.environment,
        ports: vec![port(mock)],
        mounts: made.mounts,
        tmpfs: Vec::new(),
        extra_hosts: made.extra_hosts,
        user: None,
        working_dir: None,
        memory: None,
        nano_cpus: None,
        stop_grace: Duration::from_secs(10),
        probe: made.probe,
        depends_on: Vec::new(),
        one_shot: false,
        criticality: Criticality::Important,
        file: made.file,
    })
}

/// What tells one kind of mock from the other.
struct MockContainer {
    image: Image,
    command: Option<Vec<String>>,
    environment: BTreeMap<String, String>,
    mounts: Vec<Mount>,
    probe: Option<Probe>,
    file: Option<File>,
    extra_hosts: Vec<String>,
}

/// An image that somebody else made.
#[allow(clippy::too_many_arguments, reason = "all that admission has, once")]
fn of_image(
    name: &str,
    mock: &Mock,
    written: &str,
    path: &str,
    identity: &Identity,
    context: &SpecContext,
    peers: &Peers,
    to: &mut Vec<Diagnostic>,
) -> Option<MockContainer> {
    if !mock.routes.is_empty() || mock.openapi.is_some() {
        let message = format!(
            "mock `{}` has an `image`, so its routes and `openapi` are ignored",
            identity::shown(name)
        );
        to.push(Diagnostic::warning(format!("{path}.image"), message).hint("keep one of them"));
    }
    let vars = BTreeMap::new();
    let filler = Filler {
        context,
        peers,
        vars: &vars,
    };
    let image = image::reference(written, &format!("{path}.image"), &filler, to);
    let args = mock.args.as_ref().map(|args| {
        let args = Command::Text(args.clone());
        probe::command(&args, &format!("{path}.args"), &filler, Deferral::Rendered, to)
    });
    let mounts = mounts::all(&mock.volumes, &format!("{path}.volumes"), context, identity, to);
    Some(MockContainer {
        image: Image::Named(image?),
        command: match args {
            None => None,
            Some(words) => Some(words?).filter(|words| !words.is_empty()),
        },
        environment: BTreeMap::new(),
        mounts,
        probe: None,
        file: None,
        extra_hosts: Vec::new(),
    })
}

/// This program in an image of its own, which reads what to answer from a file: other answers are no other container.
fn of_ours(
    name: &str,
    mock: &Mock,
    path: &str,
    site: &SpecContext,
    to: &mut Vec<Diagnostic>,
) -> Option<MockContainer> {
    let contents = site.build_digests.get(name).cloned();
    let digest = contents.unwrap_or_else(|| hash_of(&site.own_image));
    let document = site.documents.get(name).cloned();
    let mut served = mock.clone();
    let mut mounts = Vec::new();
    if matches!(mock.mode, MockMode::Record | MockMode::Replay) {
        let path = format!("{path}.recordingsDir");
        let source = mounts::bind_source(&mock.recordings_dir, &path, site, to)?;
        RECORDINGS.clone_into(&mut served.recordings_dir);
        mounts.push(Mount::Bind {
            source,
            target: RECORDINGS.to_owned(),
            read_only: mock.mode == MockMode::Replay,
        });
    }
    let port = mock.container_port.unwrap_or(mock.port);
    Some(MockContainer {
        image: Image::Built(Build {
            tag: own_image_tag(&digest),
            context: site.own_image.clone(),
            dockerfile: "Dockerfile".to_owned(),
            args: BTreeMap::new(),
            digest,
            excluded: Excluded::default(),
        }),
        command: Some(["mock", "serve", "--config", CONFIG].map(str::to_owned).to_vec()),
        environment: BTreeMap::new(),
        mounts,
        probe: Some(Probe {
            kind: ProbeKind::Http {
                path: format!("{RESERVED}/health"),
                port,
            },
            interval: Duration::from_secs(5),
            timeout: Duration::from_secs(2),
            retries: 3,
            success_threshold: 1,
            start_period: Duration::from_secs(10),
        }),
        // What is recorded may run on the engine's host.
        extra_hosts: match mock.mode {
            MockMode::Record => vec!["host.docker.internal:host-gateway".to_owned()],
            MockMode::Auto | MockMode::Replay | MockMode::Smart => Vec::new(),
        },
        file: Some(File {
            path: CONFIG.to_owned(),
            target: served.target.clone(),
            text: MockConfig::new(name, served, document).to_json(),
        }),
    })
}
