//! Admission: converts a parsed spec file into the desired state, or reports all of its problems together.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use argus_crds::{Diagnostic, E2eSpec, VolumeDeletion};

use crate::desired::ceiling::{self, Ceiling};
use crate::desired::effective::{effective, ignored_settings};
use crate::desired::excluded::Excluded;
use crate::desired::hash::{hash_of, revision_of};
use crate::desired::host::HostPaths;
use crate::desired::identity::{EnvIdentity, shown};
use crate::desired::image::{build_digest, default_tag};
use crate::desired::namespace::NamespaceFrom;
use crate::desired::nested_mounts::MountPlaces;
use crate::desired::referenced_services::{ReferencedService, ReferencedServices};
use crate::desired::{
    Build, Criticality, Desired, Image, Mount, NamedContext, Service, container, container_limits, covers,
    env_file, hosts, mock, needs, nested_mounts, networks, own_image_tag, replicas, secret_values,
    service_conflicts, settings, shared_network, volumes,
};
use crate::ident::{EnvName, Hash, ResourceName};
use crate::time::Timestamp;

/// Maximum number of services and mocks of one environment.
const MAX_SERVICES: usize = 500;

/// Maximum number of published ports of one environment.
const MAX_PORTS: usize = 10_000;

/// Maximum number of diagnostics of a file.
pub const MAX_DIAGNOSTICS: usize = 1_000;

/// Context of a spec file: its folder, its variables and the settings of the controller.
///
/// The caller chooses `now` and `uuid` once per content of a file and stores them. Equal contents then have equal
/// revisions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SpecContext {
    /// Absolute path of the folder of the file.
    pub directory: String,
    /// Values for `{{env.NAME}}`: the `.env` file next to the spec file, and the variables that `--env-allow` names.
    pub env_vars: BTreeMap<String, String>,
    /// Value of `{{timestamp}}` and `{{date}}`.
    pub now: Timestamp,
    /// Value of every `{{uuid}}` in the file.
    pub uuid: String,
    /// Additional folders that containers may mount.
    pub allow_mounts: Vec<String>,
    /// Absolute path of the build context for the image of this program, which runs the mocks.
    pub own_image: String,
    /// Text of the `openapi` document by mock, if it was readable.
    pub documents: BTreeMap<String, String>,
    /// Targets of the host paths that the file names.
    pub host: HostPaths,
    /// Source of the namespace of a file without one.
    pub namespace_from: NamespaceFrom,
    /// Limits of the operator.
    pub ceiling: Ceiling,
    /// True for a Compose file, in which a variable without a value is empty.
    pub is_compose: bool,
}

/// Result of an admission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admission {
    /// Desired state; `None` if a diagnostic rejects the file.
    pub desired: Option<Desired>,
    /// Name of the environment, also of a rejected file; `None` if the name itself is rejected.
    pub env: Option<EnvName>,
    /// All errors and warnings, in the order of the format.
    pub diagnostics: Vec<Diagnostic>,
    /// Places of the mounts in the file.
    pub mounts: MountPlaces,
}

/// Admits a spec file: checks it, fills in all defaults and resolves all templates that do not depend on ports.
///
/// The function is pure: equal files with equal contexts have equal results, and no file causes a panic.
///
/// ```
/// use argus_core::desired::admit::{SpecContext, admit};
///
/// let text = "project: { name: My Shop }\nservice: { image: demo, container: { name: api } }";
/// let spec = argus_crds::yaml::read("e2e.yaml", text.as_bytes()).spec.unwrap();
/// let admission = admit(&spec, &SpecContext::default());
/// let desired = admission.desired.unwrap();
/// assert_eq!(desired.env.as_str(), "my-shop");
/// assert_eq!(desired.services["api"].image.reference(), "demo");
/// assert!(admission.diagnostics.is_empty());
/// ```
pub fn admit(spec: &E2eSpec, context: &SpecContext) -> Admission {
    admit_with_digests(spec, context, &mut |_, _| None)
}

/// Admits a spec file like [`admit`], with the contents of its build contexts.
///
/// `digest_of` returns the digest of build context and Dockerfile. It is called once per build, and only if no
/// diagnostic rejects the file. Without a digest, only a change of the `build` section counts.
pub fn admit_with_digests(
    spec: &E2eSpec,
    context: &SpecContext,
    digest_of: &mut dyn FnMut(&Service, &Build) -> Option<Hash>,
) -> Admission {
    let (mut diagnostics, mut referenced_services) = (Vec::new(), ReferencedServices::default());
    let spec = &effective(spec, context, &referenced_services);
    let identity = EnvIdentity::from_spec(spec, context, &mut diagnostics);
    // A placeholder name lets the remaining checks run, so that an invalid name is not the only diagnostic.
    let env = identity.as_ref().map(|identity| identity.env.clone());
    let Some(mut identity) = identity.or_else(placeholder_identity) else {
        return Admission {
            desired: None,
            env,
            diagnostics,
            mounts: MountPlaces::default(),
        };
    };
    identity.external_volumes = volumes::external(spec, context, &mut diagnostics);
    identity.networks = networks::names(spec);
    let networks = networks::resolve(spec, &identity, context, &mut diagnostics);
    let mut ports = settings::ports(spec, &mut diagnostics);
    collect_peers(spec, &mut referenced_services, &mut diagnostics);
    let mut services = services(spec, &identity, context, &referenced_services, &mut diagnostics);
    let env_file = env_file::resolve(spec, context, &mut diagnostics);
    exclude(&mut services, context, env_file.as_deref());
    share_images(&mut services, &identity);
    service_conflicts::check(spec, &services, ports.strategy, &mut diagnostics);
    let mounts = MountPlaces::of(spec);
    if !context.host.allowed {
        nested_mounts::check(&services, &mounts, &mut diagnostics);
    }
    covers::add(&mut services, &mounts, context, &mut diagnostics);
    needs::report_cycles(&services, &mut diagnostics);
    shared_network::check_owners(&services, &mut diagnostics);
    let restart = settings::restart(spec, &mut diagnostics);
    let breaker = settings::breaker(spec, &mut diagnostics);
    let mut container_limits =
        container_limits::resolve_container_limits(&spec.argus.policy, &mut diagnostics);
    ceiling::apply(
        &context.ceiling,
        &mut container_limits,
        &mut ports,
        &services,
        &mut diagnostics,
    );
    let ttl = ttl(spec, &mut diagnostics);
    let secrets = secret_values::secrets_of(spec, context, &referenced_services);
    secret_values::report_tokens(spec, context, &mut diagnostics);
    hosts::report_misspelled(&services, &secrets, &mut diagnostics);
    diagnostics.extend(referenced_services.excess().cloned());
    let refused = diagnostics.iter().any(Diagnostic::is_error);
    let desired = networks.filter(|_| env.is_some() && !refused).map(|networks| {
        set_digests(&mut services, digest_of);
        let volumes = volume_names(&services);
        let rollback = &spec.argus.rollback;
        let mut desired = Desired {
            external_volumes: identity
                .external_volumes
                .values()
                .filter(|name| volumes.contains(name))
                .cloned()
                .collect(),
            former_volumes: volumes::former_names(spec, &identity),
            env: identity.env,
            project: spec.project.name.clone(),
            revision: hash_of(""),
            network: networks.default,
            internal: spec.network.internal && !spec.network.external,
            networks: networks.further,
            external_networks: networks.external,
            volumes,
            services: services
                .into_iter()
                .map(|(_, service)| (service.name.clone(), service))
                .collect(),
            ports,
            restart,
            container_limits,
            breaker,
            preflight: settings::preflight(spec),
            verify_connectivity: spec.resilience.network.verify_connectivity,
            hold: spec.argus.hold,
            ttl,
            rollback: rollback.auto.then(|| rollback.deadline.get()),
            delete_volumes: matches!(spec.argus.deletion.volumes, VolumeDeletion::Delete),
            secrets: secrets.clone(),
            env_file,
            folder: context.host.folder(),
            worktree: context.host.worktree.as_ref().map(|tree| tree.path.clone()),
            clean_orphans: spec.resilience.preflight.clean_orphans,
            notes: ignored_settings(spec),
        };
        desired.revision = revision_of(&desired);
        desired
    });
    Admission {
        desired,
        env,
        diagnostics: diagnostics
            .into_iter()
            .map(|diagnostic| secrets.redacted_diagnostic(diagnostic))
            .collect(),
        mounts,
    }
}

/// Returns the lifetime of the environment; zero is an error.
fn ttl(spec: &E2eSpec, diagnostics: &mut Vec<Diagnostic>) -> Option<Duration> {
    let ttl = spec.argus.ttl?.get();
    if ttl.is_zero() {
        let message = "`ttl` is zero, so Argus would never create the environment";
        diagnostics
            .push(Diagnostic::error("argus.ttl", message).hint("write a time such as `2h`, or omit it"));
    }
    Some(ttl)
}

fn placeholder_identity() -> Option<EnvIdentity> {
    EnvName::new("unnamed").ok().map(EnvIdentity::of)
}

/// Collects the properties that services can reference in each other; reports invalid ports and duplicate names.
fn collect_peers(
    spec: &E2eSpec,
    referenced_services: &mut ReferencedServices,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let declared = spec.declared_services();
    let containers = declared
        .iter()
        .map(|declared| declared.service.replicas.unwrap_or(1).max(1) as usize);
    let count = containers.sum::<usize>() + spec.mocks.len();
    if count > MAX_SERVICES {
        let message =
            format!("the file has {count} services and mocks, more than the maximum of {MAX_SERVICES}");
        diagnostics.push(Diagnostic::error("services", message).hint("split it into several environments"));
    }
    let mut published = 0;
    for declared in &declared {
        let container = declared.service.container.as_ref();
        let texts = container.map_or(&[][..], |container| &container.ports);
        let ports = container::parse_ports(texts, &format!("{}.container.ports", declared.path), diagnostics);
        published += ports.len() * declared.service.replicas.unwrap_or(1).max(1) as usize;
        if !referenced_services.add(
            declared.name,
            ReferencedService {
                is_server: !ports.is_empty()
                    || container.is_some_and(|container| container.healthcheck.is_some()),
                ports,
                one_shot: declared.service.one_shot,
            },
        ) {
            let message = format!("the service name `{}` is used twice", shown(declared.name));
            let hint = "rename one of them";
            diagnostics.push(Diagnostic::error(format!("{}.name", declared.path), message).hint(hint));
        }
    }
    if published > MAX_PORTS {
        let message = format!("the services publish {published} ports, more than the maximum of {MAX_PORTS}");
        diagnostics.push(Diagnostic::error("services", message).hint("publish fewer ports"));
    }
    for (name, mock) in &spec.mocks {
        if !referenced_services.add(
            name,
            ReferencedService {
                ports: vec![mock::port(mock)],
                one_shot: false,
                is_server: true,
            },
        ) {
            let message = format!("`{}` is both a service and a mock", shown(name));
            diagnostics.push(Diagnostic::error(format!("mocks.{name}"), message).hint("rename one of them"));
        }
    }
}

/// Returns all services and mocks with their paths in the file, in the order of the file.
fn services(
    spec: &E2eSpec,
    identity: &EnvIdentity,
    context: &SpecContext,
    referenced_services: &ReferencedServices,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<(String, Service)> {
    let declared = spec.declared_services();
    let (mut explicit, mut counts) = (BTreeSet::new(), BTreeMap::new());
    let mut services = Vec::new();
    for declared in &declared {
        if let Some(service) =
            container::admit_service(declared, identity, context, referenced_services, diagnostics)
        {
            if declared.service.criticality.is_some() {
                explicit.insert(service.name.clone());
            }
            counts.insert(service.name.clone(), replicas::count(declared, diagnostics));
            services.push((declared.path.clone(), service));
        }
    }
    for (name, mock) in &spec.mocks {
        let service = mock::admit_mock(name, mock, identity, context, referenced_services, diagnostics);
        services.extend(service.map(|service| (format!("mocks.{name}"), service)));
    }
    replicas::add(&mut services, &counts, referenced_services, diagnostics);
    let required: BTreeSet<_> = services
        .iter()
        .flat_map(|(_, service)| &service.depends_on)
        .filter(|dependency| !dependency.optional)
        .map(|dependency| dependency.service.clone())
        .collect();
    for (_, service) in &mut services {
        if required.contains(&service.name) && !explicit.contains(&service.name) {
            service.criticality = Criticality::Critical;
        }
    }
    services
}

/// Excludes the state directory, private folders, writable mounts and the file with the addresses from every build context. Runs
/// after all mounts are resolved.
fn exclude(services: &mut [(String, Service)], context: &SpecContext, env_file: Option<&str>) {
    let mounts = services.iter().flat_map(|(_, service)| &service.mounts);
    let writable = mounts.filter_map(Mount::writable_source).map(str::to_owned);
    let writable: BTreeSet<String> = writable.collect();
    for (_, service) in services {
        if let Image::Built(build) = &mut service.image {
            let HostPaths {
                state_dir,
                private_dirs,
                ..
            } = &context.host;
            let private = private_dirs.iter().filter(|dir| *dir != state_dir);
            let left_out = writable.iter().chain(private).map(String::as_str).chain(env_file);
            let left_out: Vec<&str> = left_out.collect();
            let excluded_of = |context: &str| Excluded::new(context, state_dir, left_out.iter().copied());
            build.excluded = excluded_of(&build.context);
            for named in build.options.contexts.values_mut() {
                if let NamedContext::Folder { path, excluded } = named {
                    *excluded = excluded_of(path);
                }
            }
        }
    }
}

/// Gives equal builds without a tag in the file the tag of the first one, so that one build serves all of them.
fn share_images(services: &mut [(String, Service)], identity: &EnvIdentity) {
    let mut tags: BTreeMap<Build, String> = BTreeMap::new();
    for (_, service) in services {
        let own = default_tag(identity, &service.name);
        if let Image::Built(build) = &mut service.image
            && build.tag == own
        {
            build.tag.clear();
            build.tag.clone_from(tags.entry(build.clone()).or_insert(own));
        }
    }
}

/// Sets the digest of each build whose contents are known.
fn set_digests(
    services: &mut [(String, Service)],
    digest_of: &mut dyn FnMut(&Service, &Build) -> Option<Hash>,
) {
    for (_, service) in services {
        let Image::Built(mut build) = service.image.clone() else {
            continue;
        };
        let Some(contents) = digest_of(service, &build) else {
            continue;
        };
        if service.injected_file.is_some() {
            build.tag = own_image_tag(&contents);
            build.digest = contents;
        } else {
            build.digest = build_digest(&contents, &build);
        }
        service.image = Image::Built(build);
    }
}

fn volume_names(services: &[(String, Service)]) -> Vec<ResourceName> {
    let mounts = services.iter().flat_map(|(_, service)| &service.mounts);
    let names = mounts.filter_map(|mount| match mount {
        Mount::Volume { name, .. } => Some(name.clone()),
        Mount::Bind { .. } => None,
    });
    names.collect::<BTreeSet<_>>().into_iter().collect()
}
