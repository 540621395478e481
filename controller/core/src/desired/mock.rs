//! Admission of one mock: a container of a third-party image, or of this program with a mock configuration.
//! Invariant 25: a mock is a normal container, and new responses restart nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use argus_crds::mock::config::{MockConfig, RESERVED_PATH};
use argus_crds::{Command, Diagnostic, Mock, MockMode, PullPolicy};

use crate::desired::admit::SpecContext;
use crate::desired::covers;
use crate::desired::excluded::Excluded;
use crate::desired::hash::hash_of;
use crate::desired::host;
use crate::desired::identity::{self, EnvIdentity};
use crate::desired::image;
use crate::desired::referenced_services::ReferencedServices;
use crate::desired::template::{PortReferences, TemplateResolver};
use crate::desired::{
    Build, Criticality, FileAccess, HttpOptions, Image, InjectedFile, Mount, Port, Probe, ProbeHandler, Role,
    Service, mounts, networks, own_image_tag, paths, probe,
};
use crate::ident::Protocol;

/// Path of the mock configuration in the container.
const CONFIG: &str = "/argus-mock.json";
/// Path of the recordings in the container.
pub const RECORDINGS: &str = "/recordings";

/// Returns the published port of a mock.
pub(super) fn port(mock: &Mock) -> Port {
    Port {
        container: mock.container_port.unwrap_or(mock.port),
        protocol: Protocol::Tcp,
        requested: Some(mock.port),
        address: None,
    }
}

/// Converts a mock; returns `None` if a diagnostic rejects it.
pub(super) fn admit_mock(
    name: &str,
    mock: &Mock,
    identity: &EnvIdentity,
    context: &SpecContext,
    referenced_services: &ReferencedServices,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Service> {
    let path = format!("mocks.{name}");
    let checked = identity::check_service_name(name, "mock", &path, diagnostics);
    for (key, port) in [("port", Some(mock.port)), ("containerPort", mock.container_port)] {
        if port == Some(0) {
            let message = format!("`{key}` of mock `{}` is 0", identity::shown(name));
            let hint = "write a number from 1 to 65535";
            diagnostics.push(Diagnostic::error(format!("{path}.{key}"), message).hint(hint));
        }
    }
    let parts = match &mock.image {
        Some(image) => from_image(
            name,
            mock,
            image,
            &path,
            identity,
            context,
            referenced_services,
            diagnostics,
        ),
        None => from_own_image(name, mock, &path, context, diagnostics),
    };
    let no_aliases: &[String] = &[];
    let listed = mock.networks.iter().map(|name| (name.as_str(), no_aliases));
    let networks = networks::resolve_attachments(listed, &format!("{path}.networks"), identity, diagnostics);
    let (parts, checked) = (parts?, checked?);
    let container_name = format!("{}-mock-{checked}", identity.env);
    Some(Service {
        container_name: identity::check_resource_name(&container_name, "container", &path, diagnostics)?,
        name: checked,
        role: Role::Mock,
        aliases: Vec::new(),
        networks,
        image: parts.image,
        entrypoint: None,
        command: parts.command,
        env_vars: parts.env_vars,
        labels: BTreeMap::new(),
        ports: vec![port(mock)],
        mounts: parts.mounts,
        covers: Vec::new(),
        tmpfs: Vec::new(),
        extra_hosts: parts.extra_hosts,
        user: None,
        working_dir: None,
        process: Box::default(),
        memory: None,
        nano_cpus: None,
        pull_policy: PullPolicy::Missing,
        stop_grace: Duration::from_secs(10),
        probe: parts.probe,
        depends_on: Vec::new(),
        one_shot: false,
        can_complete: false,
        criticality: Criticality::Important,
        injected_file: parts.injected_file,
    })
}

/// Settings that differ between the two kinds of mocks.
struct MockContainer {
    image: Image,
    command: Option<Vec<String>>,
    env_vars: BTreeMap<String, String>,
    mounts: Vec<Mount>,
    probe: Option<Probe>,
    injected_file: Option<InjectedFile>,
    extra_hosts: Vec<String>,
}

/// Converts a mock with a third-party image.
#[allow(
    clippy::too_many_arguments,
    reason = "these are the inputs of admission, and the only caller has them all"
)]
fn from_image(
    name: &str,
    mock: &Mock,
    text: &str,
    path: &str,
    identity: &EnvIdentity,
    context: &SpecContext,
    referenced_services: &ReferencedServices,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<MockContainer> {
    if !mock.routes.is_empty() || mock.openapi.is_some() {
        let message = format!(
            "mock `{}` has an `image`, so its routes and `openapi` are ignored",
            identity::shown(name)
        );
        diagnostics.push(Diagnostic::warning(format!("{path}.image"), message).hint("keep one of them"));
    }
    let vars = BTreeMap::new();
    let resolver = TemplateResolver {
        context,
        referenced_services,
        vars: &vars,
    };
    let image = image::resolve_reference(text, &format!("{path}.image"), &resolver, diagnostics);
    let args = mock.args.as_ref().map(|args| {
        let args = Command::Text(args.clone());
        probe::resolve_command(
            &args,
            &format!("{path}.args"),
            &resolver,
            PortReferences::Rendered,
            diagnostics,
        )
    });
    let mounts = mounts::resolve_mounts(
        &mock.volumes,
        &format!("{path}.volumes"),
        context,
        identity,
        diagnostics,
    );
    Some(MockContainer {
        image: Image::Named(image?),
        command: match args {
            None => None,
            Some(words) => Some(words?).filter(|words| !words.is_empty()),
        },
        env_vars: BTreeMap::new(),
        mounts,
        probe: None,
        injected_file: None,
        extra_hosts: Vec::new(),
    })
}

/// Converts a mock that runs this program.
///
/// It reads its configuration from a file, so a changed configuration does not replace the container.
fn from_own_image(
    name: &str,
    mock: &Mock,
    path: &str,
    context: &SpecContext,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<MockContainer> {
    let digest = hash_of(&context.own_image);
    if let Some(openapi) = &mock.openapi {
        let absolute = paths::to_absolute(&context.directory, openapi);
        host::resolve_host_path(
            host::PathUse::Content,
            absolute,
            openapi,
            &format!("{path}.openapi"),
            context,
            diagnostics,
        )?;
    }
    let document = context.documents.get(name).cloned();
    let mut served = mock.clone();
    let mut mounts = Vec::new();
    if matches!(mock.mode, MockMode::Record | MockMode::Replay) {
        let path = format!("{path}.recordingsDir");
        let source = mounts::bind_source(&mock.recordings_dir, &path, context, diagnostics)?;
        if mock.mode == MockMode::Record {
            covers::check_writable(&source, &mock.recordings_dir, &path, context, diagnostics);
        }
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
            context: context.own_image.clone(),
            dockerfile: "Dockerfile".to_owned(),
            target: None,
            args: BTreeMap::new(),
            digest,
            options: Box::default(),
            excluded: Excluded::default(),
            allowed: false,
        }),
        command: Some(["mock", "serve", "--config", CONFIG].map(str::to_owned).to_vec()),
        env_vars: BTreeMap::new(),
        mounts,
        probe: Some(Probe {
            kind: ProbeHandler::Http {
                path: format!("{RESERVED_PATH}/health"),
                port,
                options: HttpOptions::default(),
            },
            interval: Duration::from_secs(5),
            timeout: Duration::from_secs(2),
            retries: 3,
            success_threshold: 1,
            start_period: Duration::from_secs(10),
        }),
        // The recorded service can run on the host of the engine.
        extra_hosts: match mock.mode {
            MockMode::Record => vec!["host.docker.internal:host-gateway".to_owned()],
            MockMode::Auto | MockMode::Replay | MockMode::Smart => Vec::new(),
        },
        injected_file: Some(InjectedFile {
            path: CONFIG.to_owned(),
            access: FileAccess::default(),
            target: served.target.clone(),
            text: MockConfig::new(name, served, document).to_json(),
        }),
    })
}
