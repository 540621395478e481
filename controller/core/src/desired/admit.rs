//! From what a file says to what an environment shall be, with everything that is wrong with it at once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use argus_crds::{Diagnostic, E2eSpec, VolumeDeletion};

use crate::desired::excluded::Excluded;
use crate::desired::hash::{hash_of, revision_of};
use crate::desired::host::HostPaths;
use crate::desired::identity::{Identity, shown};
use crate::desired::peers::{Peer, Peers};
use crate::desired::{
    Criticality, Desired, Image, Mount, Service, confinement, container, duplicates, ignored, mock, needs,
    settings,
};
use crate::ident::{EnvName, Hash, ResourceName};
use crate::secrets::Secrets;
use crate::time::Timestamp;

/// The most services and mocks of one environment.
const MOST_SERVICES: usize = 500;

/// What the caller knows about the place that a file stands in.
///
/// `now` and `uuid` are drawn once for each content of a file and kept with it: the same content then has the same
/// revision at every read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SpecContext {
    /// Absolute path of the folder that the file lies in.
    pub directory: String,
    /// What `{{env.NAME}}` may read: the `.env` beside the file, and what the controller was allowed to pass.
    pub env_vars: BTreeMap<String, String>,
    /// What `{{timestamp}}` and `{{date}}` stand for.
    pub now: Timestamp,
    /// What `{{uuid}}` stands for, everywhere in the file.
    pub uuid: String,
    /// The digest of each service's build context and Dockerfile; without one, a build counts as changed only when its
    /// section of the file does.
    pub build_digests: BTreeMap<String, Hash>,
    /// Folders outside the file's own that may be mounted.
    pub allow_mounts: Vec<String>,
    /// Absolute path of the folder that the image of this program is built from, which serves mocks.
    pub own_image: String,
    /// The text of each mock's `openapi` document, as far as it could be read.
    pub documents: BTreeMap<String, String>,
    /// What the host has at the paths that the file names.
    pub host: HostPaths,
}

/// What came of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admission {
    /// What the environment shall be, unless a complaint refuses the file.
    pub desired: Option<Desired>,
    /// Everything that is wrong with it, in the order of the format.
    pub diagnostics: Vec<Diagnostic>,
}

/// Admits a file: checks everything that it says together, settles every default, resolves what can be resolved now.
///
/// Total and pure: the same file at the same site has the same outcome, and no file makes it panic.
pub fn admit(written: &E2eSpec, context: &SpecContext) -> Admission {
    let mut diagnostics = Vec::new();
    let to = &mut diagnostics;
    let identity = Identity::of(written, to);
    // The rest is looked at under any name, so that a bad one is not the only complaint.
    let known = identity.is_some();
    let Some(identity) = identity.or_else(substitute) else {
        return Admission {
            desired: None,
            diagnostics,
        };
    };
    let network = identity.network(written.network.name.as_deref(), to);
    let ports = settings::ports(written, to);
    let peers = gather(written, to);
    let mut services = services(written, &identity, context, &peers, to);
    exclude(&mut services, context);
    duplicates::check(&services, ports.strategy, to);
    needs::circles(&services, to);
    let restart = settings::restart(written, to);
    let breaker = settings::breaker(written, to);
    let confinement = confinement::of(&written.argus.policy, to);
    let ttl = ttl(written, to);
    let secrets = Secrets::read_by(written, &context.env_vars);
    let refused = diagnostics.iter().any(Diagnostic::is_error);
    let desired = network.filter(|_| known && !refused).map(|network| {
        let mut desired = Desired {
            env: identity.env,
            project: written.project.name.clone(),
            revision: hash_of(""),
            network,
            volumes: volumes(&services),
            services: services
                .into_iter()
                .map(|(_, service)| (service.name.clone(), service))
                .collect(),
            ports,
            restart,
            confinement,
            breaker,
            preflight: settings::preflight(written),
            verify_links: written.resilience.network.verify_connectivity,
            hold: written.argus.hold,
            ttl,
            rollback: written
                .argus
                .rollback
                .auto
                .then(|| written.argus.rollback.deadline.get()),
            delete_volumes: match written.argus.deletion.volumes {
                VolumeDeletion::Keep => false,
                VolumeDeletion::Delete => true,
            },
            secrets: secrets.clone(),
            clean_orphans: written.resilience.preflight.clean_orphans,
            notes: ignored::of(written),
        };
        desired.revision = revision_of(&desired);
        desired
    });
    Admission {
        desired,
        diagnostics: diagnostics
            .into_iter()
            .map(|diagnostic| secrets.redacted_diagnostic(diagnostic))
            .collect(),
    }
}

/// How long the environment lives; none at all is a mistake and no wish.
fn ttl(written: &E2eSpec, to: &mut Vec<Diagnostic>) -> Option<Duration> {
    let ttl = written.argus.ttl?.get();
    if ttl.is_zero() {
        let message = "`ttl` is zero, so that nothing would ever be made";
        to.push(Diagnostic::error("argus.ttl", message).hint("write a time as in `2h`, or leave it out"));
    }
    Some(ttl)
}

fn substitute() -> Option<Identity> {
    EnvName::new("unnamed")
        .ok()
        .map(|env| Identity { env, namespace: None })
}

/// What the services may know about each other; complains about ports, and about names that are taken twice.
fn gather(written: &E2eSpec, to: &mut Vec<Diagnostic>) -> Peers {
    let mut peers = Peers::default();
    let declared = written.declared();
    let running = declared.len() + written.mocks.len();
    if running > MOST_SERVICES {
        let message = format!("the file has {running} services and mocks, and {MOST_SERVICES} is the most");
        to.push(Diagnostic::error("services", message).hint("split it into several environments"));
    }
    for declared in &declared {
        let container = declared.service.container.as_ref();
        let texts = container.map_or(&[][..], |container| &container.ports);
        let ports = container::published(texts, &format!("{}.container.ports", declared.path), to);
        if !peers.add(
            declared.name,
            Peer {
                ports,
                one_shot: declared.service.one_shot,
            },
        ) {
            let message = format!("there are two services called `{}`", shown(declared.name));
            to.push(Diagnostic::error(format!("{}.name", declared.path), message).hint("rename one of them"));
        }
    }
    for (name, mock) in &written.mocks {
        if !peers.add(
            name,
            Peer {
                ports: vec![mock::port(mock)],
                one_shot: false,
            },
        ) {
            let message = format!("`{}` is both a service and a mock", shown(name));
            to.push(Diagnostic::error(format!("mocks.{name}"), message).hint("rename one of them"));
        }
    }
    peers
}

/// Everything that runs, with its path in the file, in the order of the file.
fn services(
    written: &E2eSpec,
    identity: &Identity,
    context: &SpecContext,
    peers: &Peers,
    to: &mut Vec<Diagnostic>,
) -> Vec<(String, Service)> {
    let declared = written.declared();
    let mut explicit = BTreeSet::new();
    let mut services = Vec::new();
    for declared in &declared {
        if let Some(service) = container::of(declared, identity, context, peers, to) {
            if declared.service.criticality.is_some() {
                explicit.insert(service.name.clone());
            }
            services.push((declared.path.clone(), service));
        }
    }
    for (name, mock) in &written.mocks {
        let service = mock::of(name, mock, identity, context, peers, to);
        services.extend(service.map(|service| (format!("mocks.{name}"), service)));
    }
    let needed: BTreeSet<_> = services
        .iter()
        .flat_map(|(_, service)| &service.depends_on)
        .map(|need| need.service.clone())
        .collect();
    for (_, service) in &mut services {
        if needed.contains(&service.name) && !explicit.contains(&service.name) {
            service.criticality = Criticality::Critical;
        }
    }
    services
}

/// Leaves what no image may contain out of every build: known once all mounts of the environment are.
fn exclude(services: &mut [(String, Service)], context: &SpecContext) {
    let writable = |mount: &Mount| match mount {
        Mount::Bind {
            source,
            read_only: false,
            ..
        } => Some(source.clone()),
        Mount::Bind { .. } | Mount::Volume { .. } => None,
    };
    let mounts = services.iter().flat_map(|(_, service)| &service.mounts);
    let writable: BTreeSet<String> = mounts.filter_map(writable).collect();
    for (_, service) in services {
        if let Image::Built(build) = &mut service.image {
            let writable = writable.iter().map(String::as_str);
            build.excluded = Excluded::of(&build.context, &context.host.state, writable);
        }
    }
}

fn volumes(services: &[(String, Service)]) -> Vec<ResourceName> {
    let mounts = services.iter().flat_map(|(_, service)| &service.mounts);
    let names = mounts.filter_map(|mount| match mount {
        Mount::Volume { name, .. } => Some(name.clone()),
        Mount::Bind { .. } => None,
    });
    names.collect::<BTreeSet<_>>().into_iter().collect()
}
