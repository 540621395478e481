//! Admission of one service: converts its section of the file into a [`Service`].

use core::net::IpAddr;
use std::collections::BTreeMap;
use std::time::Duration;

use argus_crds::{Container, DeclaredService, Diagnostic, PortText, PullPolicy, Service as ServiceSpec};

use crate::desired::admit::SpecContext;
use crate::desired::aliases::MAX_PART;
use crate::desired::container_labels::resolve_labels;
use crate::desired::effective::unresolved_hint;
use crate::desired::identity::{self, EnvIdentity, shown};
use crate::desired::image::{self, ImageRequest};
use crate::desired::referenced_services::ReferencedServices;
use crate::desired::template::{PortReferences, TemplateResolver, fill_vars};
use crate::desired::{
    Criticality, Port, Role, Service, aliases, container_files, mounts, needs, networks, policy, ports,
    probe, process, shared_network, tmpfs,
};
use crate::ident::{ResourceName, ServiceName};
use crate::published::overlap;

/// Minimum memory limit of the engine, in bytes.
const MIN_MEMORY: u64 = 6 * 1024 * 1024;
/// Minimum CPU limit of the engine: a hundredth of a core, in billionths.
const MIN_NANO_CPUS: u64 = 10_000_000;
/// Default time between stop signal and kill, equal to that of the engine.
const STOP_GRACE: Duration = Duration::from_secs(10);
/// Maximum time between stop signal and kill; a longer one would block all following actions.
const MAX_STOP_GRACE: Duration = Duration::from_secs(600);
const ONE_HOST_PORT: &str =
    "keep one host port per container port; IPv4 and IPv6 addresses need the same host port";
/// Maximum number of published ports.
const MAX_PORTS: usize = 256;
/// Maximum size of all environment variables in bytes, below the kernel limit for the environment of a process.
const MAX_ENVIRONMENT: usize = 256 * 1024;

/// Returns the valid name of a service; `None` if the name is invalid or missing.
fn service_name(declared: &DeclaredService<'_>, diagnostics: &mut Vec<Diagnostic>) -> Option<ServiceName> {
    let DeclaredService { name, path, service } = declared;
    let key = match (&service.name, &service.container) {
        (Some(_), _) => format!("{path}.name"),
        // The container names the service, and its invalid name is reported there.
        (None, Some(container)) if ResourceName::new(container.name.as_str()).is_err() => return None,
        (None, Some(_)) => format!("{path}.container.name"),
        (None, None) => return None,
    };
    identity::check_service_name(name, "service", &key, diagnostics)
}

/// Converts a service; returns `None` if a diagnostic rejects it.
pub(super) fn admit_service(
    declared: &DeclaredService<'_>,
    identity: &EnvIdentity,
    context: &SpecContext,
    referenced_services: &ReferencedServices,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Service> {
    let (path, spec) = (&declared.path, &declared.service);
    let container = spec.container.as_ref();
    let privileges = policy::check(spec, path, context, diagnostics);
    let name = service_name(declared, diagnostics);
    let Some(container) = container else {
        let message = format!("service `{}` has no `container`", shown(declared.name));
        diagnostics.push(Diagnostic::error(path.as_str(), message).hint("add `container: {name: …}`"));
        return None;
    };
    let container_path = format!("{path}.container");
    let container_name = container_name(container, &container_path, identity, diagnostics);
    let vars_path = format!("{path}.vars");
    let vars = fill_vars(&spec.vars, context, referenced_services, &vars_path, diagnostics);
    let resolver = TemplateResolver {
        context,
        referenced_services,
        vars: &vars,
    };
    // The collection of the peers has reported invalid ports.
    let ports = parse_ports(&container.ports, "", &mut Vec::new());
    let probe_path = format!("{container_path}.healthcheck");
    let probe = container
        .healthcheck
        .as_ref()
        .map(|healthcheck| probe::resolve_probe(healthcheck, &ports, &probe_path, &resolver, diagnostics));
    let (entrypoint, command) = resolve_commands(spec, container, path, &resolver, diagnostics);
    let env_path = format!("{container_path}.environment");
    let env_vars = resolve_env_vars(&container.environment, &env_path, &resolver, diagnostics);
    let labels_path = format!("{container_path}.labels");
    let references = PortReferences::Rendered;
    let labels = resolve_labels(
        &container.labels,
        &labels_path,
        &resolver,
        references,
        diagnostics,
    );
    let aliases_path = format!("{container_path}.aliases");
    let aliases = aliases::resolve_aliases(container, name.as_ref(), &aliases_path, diagnostics);
    let networks_path = format!("{container_path}.networks");
    let networks = networks::attachments(container, &networks_path, identity, diagnostics);
    let volumes_path = format!("{container_path}.volumes");
    let mounts = mounts::resolve_mounts(&container.volumes, &volumes_path, context, identity, diagnostics);
    check_limits(spec, path, diagnostics);
    let tmpfs = tmpfs::resolve_tmpfs(&spec.tmpfs, &format!("{path}.tmpfs"), diagnostics);
    let extra_hosts = extra_hosts(&spec.extra_hosts, &format!("{path}.extraHosts"), diagnostics);
    check_process(spec, path, diagnostics);
    let files = container_files::resolve_files(spec, &mounts, path, &resolver, diagnostics);
    let mut process = process::resolve(spec, path, files, privileges, diagnostics);
    // The remaining checks need the name.
    let name = name?;
    let mut depends_on = needs::resolve_dependencies(spec, &name, path, referenced_services, diagnostics);
    process.shared_network =
        shared_network::resolve(declared, &name, referenced_services, &mut depends_on, diagnostics);
    let image = ImageRequest {
        path,
        service: &name,
        image: spec.image.as_deref(),
        build: spec.build.as_ref(),
    };
    let image = image::resolve_image(image, identity, context, &resolver, diagnostics);
    Some(Service {
        injected_file: None,
        role: Role::Service,
        container_name: container_name?,
        aliases,
        networks,
        image: image?,
        pull_policy: pull_policy(spec, path, diagnostics),
        entrypoint,
        command,
        env_vars,
        labels,
        ports,
        mounts,
        covers: Vec::new(),
        tmpfs,
        extra_hosts,
        user: spec.user.clone(),
        working_dir: spec.working_dir.clone(),
        process: Box::new(process),
        memory: spec.memory.map(argus_crds::ByteSize::bytes),
        nano_cpus: spec.cpus.map(argus_crds::CpuCount::nanos),
        stop_grace: spec.stop_grace.map_or(STOP_GRACE, argus_crds::HumanDuration::get),
        probe: probe.map_or(Some(None), |probe| probe.map(Some))?,
        depends_on,
        one_shot: spec.one_shot,
        can_complete: spec.can_complete,
        criticality: criticality(spec),
        name,
    })
}

/// Returns the entry point and the command.
fn resolve_commands(
    spec: &ServiceSpec,
    container: &Container,
    path: &str,
    resolver: &TemplateResolver<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> (Option<Vec<String>>, Option<Vec<String>>) {
    let resolve_words =
        |command: &Option<argus_crds::Command>, key: &str, diagnostics: &mut Vec<Diagnostic>| {
            let command = command.as_ref()?;
            probe::resolve_command(
                command,
                &format!("{path}.{key}"),
                resolver,
                PortReferences::Rendered,
                diagnostics,
            )
        };
    let entrypoint = resolve_words(&spec.entrypoint, "entrypoint", diagnostics);
    if container.command.is_some() {
        let message = "`command` belongs to the service, not to its container";
        let hint = "move it further out, next to `container`";
        diagnostics.push(Diagnostic::warning(format!("{path}.container.command"), message).hint(hint));
    }
    let command = if spec.command.is_some() {
        resolve_words(&spec.command, "command", diagnostics)
    } else {
        resolve_words(&container.command, "container.command", diagnostics)
    };
    (entrypoint, command)
}

/// Returns the time of the pull. A built image is never pulled.
fn pull_policy(spec: &ServiceSpec, path: &str, diagnostics: &mut Vec<Diagnostic>) -> PullPolicy {
    if spec.pull_policy.is_some() && spec.build.is_some() {
        let message = "`pullPolicy` has no effect on a built image";
        let warning = Diagnostic::warning(format!("{path}.pullPolicy"), message);
        diagnostics.push(warning.hint("remove it, or remove `build`"));
        return PullPolicy::Missing;
    }
    spec.pull_policy.unwrap_or_default()
}

/// Returns the declared criticality, or `Important`. A service that others require becomes `Critical` later in admission.
///
/// The service under test has no dependents, so it is `Important`: see
/// `docs/decisions/0017-a-lost-leaf-degrades-the-environment.md`.
fn criticality(spec: &ServiceSpec) -> Criticality {
    match spec.criticality {
        Some(argus_crds::Criticality::Critical) => Criticality::Critical,
        Some(argus_crds::Criticality::Important) | None => Criticality::Important,
        Some(argus_crds::Criticality::Recoverable) => Criticality::Recoverable,
        Some(argus_crds::Criticality::Optional) => Criticality::Optional,
    }
}

fn container_name(
    container: &Container,
    path: &str,
    identity: &EnvIdentity,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<ResourceName> {
    let path = format!("{path}.name");
    identity::check_resource_name(&container.name, "container", &path, diagnostics)?;
    // The name is a DNS name in the network, and no program looks up a longer part of one.
    if let Some(long) = container.name.split('.').find(|part| part.len() > MAX_PART) {
        let message = format!(
            "the container name has {} characters, more than a DNS name can have",
            long.len()
        );
        let hint = format!("shorten it to at most {MAX_PART} characters");
        diagnostics.push(Diagnostic::error(path, message).hint(hint));
        return None;
    }
    identity::check_resource_name(
        &identity.format_container_name(&container.name),
        "container",
        &path,
        diagnostics,
    )
}

/// Returns the published ports; reports too many ports, and omits a container port that is published twice on one address.
pub(super) fn parse_ports(texts: &[PortText], path: &str, diagnostics: &mut Vec<Diagnostic>) -> Vec<Port> {
    let mut all: Vec<Port> = Vec::new();
    for (index, text) in texts.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let published = match ports::parse(text.as_str()) {
            Ok(published) => published,
            Err(why) => {
                let message = format!("`{}` is not a valid port: {why}", shown(text.as_str()));
                let hint = unresolved_hint(text.as_str()).unwrap_or_else(|| why.hint().into());
                diagnostics.push(Diagnostic::error(path, message).hint(hint));
                continue;
            }
        };
        if published.first_of_range {
            let message = format!("only the first host port of `{text}` is used");
            let hint = "write one host port; Argus replaces a taken one from `isolation.portRange`";
            diagnostics.push(Diagnostic::warning(&path, message).hint(hint));
        }
        if all.len() + published.ports.len() > MAX_PORTS {
            let message = format!("the container publishes more than {MAX_PORTS} ports");
            diagnostics.push(Diagnostic::error(path, message).hint("publish fewer ports"));
            break;
        }
        for port in published.ports {
            if all.iter().any(|other| is_repeated(other, &port)) {
                let message = format!(
                    "container port {}/{} is published twice, and Argus uses only the first host port",
                    port.container, port.protocol
                );
                diagnostics.push(Diagnostic::warning(&path, message).hint(ONE_HOST_PORT));
            } else {
                all.push(port);
            }
        }
    }
    all
}

/// True if the port is published already, at another host port or on the same address.
fn is_repeated(first: &Port, port: &Port) -> bool {
    let is_same_address = match (first.address, port.address) {
        (Some(one), Some(other)) => overlap(one, other),
        (None, None) => true,
        // The default address is usually that of IPv4.
        (None, Some(address)) | (Some(address), None) => address.is_ipv4(),
    };
    (first.container, first.protocol) == (port.container, port.protocol)
        && (first.requested != port.requested || is_same_address)
}

/// Checks the name of an environment variable or a build argument.
pub(super) fn is_variable_name(name: &str, path: &str, diagnostics: &mut Vec<Diagnostic>) -> bool {
    if !name.is_empty() && !name.contains(|c: char| c == '=' || c.is_control()) {
        return true;
    }
    let message = format!("`{}` is not a valid variable name", shown(name));
    let hint = "write a name without `=`, line breaks and zero bytes";
    diagnostics.push(Diagnostic::error(path, message).hint(hint));
    false
}

/// Returns the environment variables with resolved templates.
fn resolve_env_vars(
    texts: &BTreeMap<String, String>,
    path: &str,
    resolver: &TemplateResolver<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let mut size = 0;
    for (name, value) in texts {
        let path = format!("{path}.{name}");
        if !is_variable_name(name, &path, diagnostics) {
            continue;
        }
        let value = resolver.fill(value, &path, PortReferences::Rendered, diagnostics);
        if value.contains('\0') {
            let message = format!("the value of `{}` contains a zero byte", shown(name));
            diagnostics.push(Diagnostic::error(&path, message).hint("remove the zero byte"));
        }
        size += name.len() + value.len() + 2;
        if size > MAX_ENVIRONMENT {
            let message = "the environment variables of the container exceed 256 KiB";
            diagnostics.push(Diagnostic::error(path, message).hint("mount a file instead"));
            break;
        }
        all.insert(name.clone(), value);
    }
    all
}

fn check_limits(spec: &ServiceSpec, path: &str, diagnostics: &mut Vec<Diagnostic>) {
    if let Some(memory) = spec.memory.filter(|memory| memory.bytes() < MIN_MEMORY) {
        let message = format!("`memory` is {memory}, but the engine requires at least 6 MiB");
        let hint = "write a size such as `64MB`, or omit `memory` for no limit";
        diagnostics.push(Diagnostic::error(format!("{path}.memory"), message).hint(hint));
    }
    if let Some(cpus) = spec.cpus.filter(|cpus| cpus.nanos() < MIN_NANO_CPUS) {
        let message = format!("`cpus` is {cpus}, but the engine requires at least 0.01");
        let hint = "write a number such as `0.5`, or omit `cpus` for no limit";
        diagnostics.push(Diagnostic::error(format!("{path}.cpus"), message).hint(hint));
    }
    if let Some(grace) = spec.stop_grace.filter(|grace| grace.get() > MAX_STOP_GRACE) {
        let message = format!("`stopGrace` is {grace}, more than the maximum of 10m");
        let hint = "write a time of at most `10m`";
        diagnostics.push(Diagnostic::error(format!("{path}.stopGrace"), message).hint(hint));
    }
}

fn check_process(spec: &ServiceSpec, path: &str, diagnostics: &mut Vec<Diagnostic>) {
    let is_user = |user: &str| {
        !user.is_empty()
            && user.len() <= 256
            && user
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "_.:-$".contains(c))
    };
    if let Some(user) = spec.user.as_deref().filter(|user| !is_user(user)) {
        let message = format!("`{}` is not a valid user", shown(user));
        let hint = "write `user`, `user:group`, or numeric ids such as `1000:1000`";
        diagnostics.push(Diagnostic::error(format!("{path}.user"), message).hint(hint));
    }
    process::check_working_dir(spec.working_dir.as_deref(), path, diagnostics);
}

/// Returns the entries as `name:address`; also accepts the form `name=address` of Compose.
fn extra_hosts(texts: &[String], path: &str, diagnostics: &mut Vec<Diagnostic>) -> Vec<String> {
    let mut lines = Vec::new();
    for (index, text) in texts.iter().enumerate() {
        let parts = text.split_once('=').or_else(|| text.split_once(':'));
        let line = parts.and_then(|(name, address)| {
            let is_name = !name.is_empty()
                && name
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || "-._".contains(c));
            let bare = address.trim_start_matches('[').trim_end_matches(']');
            let is_address = bare == "host-gateway" || bare.parse::<IpAddr>().is_ok();
            (is_name && is_address).then(|| format!("{name}:{bare}"))
        });
        if line.is_none() {
            let message = format!("`{}` is not a valid host entry", shown(text));
            let hint = "write `name:address`, such as `db.local:10.0.0.5` or `host:host-gateway`";
            diagnostics.push(Diagnostic::error(format!("{path}[{index}]"), message).hint(hint));
        }
        lines.extend(line);
    }
    lines
}
