//! One service of a file as the container that it shall be.

use core::net::IpAddr;
use std::collections::BTreeMap;
use std::time::Duration;

use argus_crds::{Container, Declared, Diagnostic, PortText, Service as Written};

use crate::desired::admit::SpecContext;
use crate::desired::identity::{self, Identity, shown};
use crate::desired::image::{self, ImageRequest};
use crate::desired::peers::Peers;
use crate::desired::template::{Deferral, Filler, fill_vars};
use crate::desired::{Criticality, Port, Role, Service, mounts, needs, paths, policy, ports, probe};
use crate::ident::ResourceName;

/// The engine refuses less.
const LEAST_MEMORY: u64 = 6 * 1024 * 1024;
/// The engine refuses less: a hundredth of a processor.
const LEAST_NANO_CPUS: u64 = 10_000_000;
/// As the engine's own default.
const STOP_GRACE: Duration = Duration::from_secs(10);
/// Whatever waits longer to be killed holds up everything behind it.
const LONGEST_STOP_GRACE: Duration = Duration::from_secs(600);
/// Well below what a kernel takes for the environment and the arguments of one process.
const LONGEST_ENVIRONMENT: usize = 256 * 1024;

/// The service as its container, or nothing when a complaint refuses it.
pub(super) fn of(
    declared: &Declared<'_>,
    identity: &Identity,
    context: &SpecContext,
    peers: &Peers,
    to: &mut Vec<Diagnostic>,
) -> Option<Service> {
    let Declared {
        name,
        path,
        service: written,
    } = declared;
    let container = written.container.as_ref();
    policy::check(written, path, to);
    let name = match (&written.name, container) {
        (Some(_), _) => identity::service(name, "service", &format!("{path}.name"), to),
        // Named after the container: what is wrong with that name is said once.
        (None, Some(container)) if ResourceName::new(container.name.as_str()).is_err() => None,
        (None, Some(_)) => identity::service(name, "service", &format!("{path}.container.name"), to),
        (None, None) => None,
    };
    let Some(container) = container else {
        let message = format!("service `{}` has no `container`", shown(declared.name));
        to.push(Diagnostic::error(path.as_str(), message).hint("add `container: {name: …}`"));
        return None;
    };
    let inside = format!("{path}.container");
    let container_name = container_name(container, &inside, identity, to);
    let vars = fill_vars(&written.vars, context, peers, &format!("{path}.vars"), to);
    let filler = Filler {
        context,
        peers,
        vars: &vars,
    };
    // Complained about when the peers were gathered.
    let ports = published(&container.ports, "", &mut Vec::new());
    let probe = container
        .healthcheck
        .as_ref()
        .map(|written| probe::of(written, &ports, &format!("{inside}.healthcheck"), &filler, to));
    let words = |command: &Option<argus_crds::Command>, key: &str, to: &mut Vec<Diagnostic>| {
        let command = command.as_ref()?;
        probe::command(command, &format!("{path}.{key}"), &filler, Deferral::Rendered, to)
    };
    let entrypoint = words(&written.entrypoint, "entrypoint", to);
    let command = words(&written.command, "command", to);
    let environment = environment(
        &container.environment,
        &format!("{inside}.environment"),
        &filler,
        to,
    );
    let mounts = mounts::all(
        &container.volumes,
        &format!("{inside}.volumes"),
        context,
        identity,
        to,
    );
    limits(written, path, to);
    let tmpfs = tmpfs(&written.tmpfs, &format!("{path}.tmpfs"), to);
    let extra_hosts = extra_hosts(&written.extra_hosts, &format!("{path}.extraHosts"), to);
    process(written, path, to);
    // From here on the name is needed.
    let name = name?;
    let depends_on = needs::of(written, &name, path, peers, to);
    let image = ImageRequest {
        path,
        service: &name,
        image: written.image.as_deref(),
        build: written.build.as_ref(),
    };
    let image = image::of(image, identity, context, &filler, to);
    Some(Service {
        file: None,
        role: Role::Service,
        container_name: container_name?,
        aliases: if container.name == name.as_str() {
            Vec::new()
        } else {
            vec![container.name.clone()]
        },
        image: image?,
        entrypoint,
        command,
        environment,
        ports,
        mounts,
        tmpfs,
        extra_hosts,
        user: written.user.clone(),
        working_dir: written.working_dir.clone(),
        memory: written.memory.map(argus_crds::ByteSize::bytes),
        nano_cpus: written.cpus.map(argus_crds::CpuCount::nanos),
        stop_grace: written
            .stop_grace
            .map_or(STOP_GRACE, argus_crds::HumanDuration::get),
        probe: match probe {
            None => None,
            Some(probe) => Some(probe?),
        },
        depends_on,
        one_shot: written.one_shot,
        criticality: criticality(written),
        name,
    })
}

/// Important unless the file says otherwise: what nobody depends on is as a rule what is tested (decision 0017). What others
/// depend on is raised once all are known.
fn criticality(written: &Written) -> Criticality {
    match written.criticality {
        Some(argus_crds::Criticality::Critical) => Criticality::Critical,
        Some(argus_crds::Criticality::Important) | None => Criticality::Important,
        Some(argus_crds::Criticality::Recoverable) => Criticality::Recoverable,
        Some(argus_crds::Criticality::Optional) => Criticality::Optional,
    }
}

fn container_name(
    container: &Container,
    path: &str,
    identity: &Identity,
    to: &mut Vec<Diagnostic>,
) -> Option<ResourceName> {
    let path = format!("{path}.name");
    identity::resource(&container.name, "container", &path, to)?;
    identity::resource(&identity.on_engine(&container.name), "container", &path, to)
}

/// What a container publishes. A container port is published once: one that is written again is left out, and said.
pub(super) fn published(written: &[PortText], path: &str, to: &mut Vec<Diagnostic>) -> Vec<Port> {
    let mut all: Vec<Port> = Vec::new();
    for (index, text) in written.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let published = match ports::parse(text.as_str()) {
            Ok(published) => published,
            Err(why) => {
                let message = format!("the port `{}` {why}", shown(text.as_str()));
                to.push(Diagnostic::error(path, message).hint(why.hint()));
                continue;
            }
        };
        if published.first_of_range {
            let message = format!("of the host ports in `{text}` only the first is wanted");
            to.push(
                Diagnostic::warning(&path, message)
                    .hint("a taken port moves into `isolation.portRange` anyway"),
            );
        }
        for port in published.ports {
            if all
                .iter()
                .any(|other| (other.container, other.protocol) == (port.container, port.protocol))
            {
                let message = format!(
                    "container port {}/{} is published twice, and only the first counts",
                    port.container, port.protocol
                );
                to.push(
                    Diagnostic::warning(&path, message).hint("keep one host port for each container port"),
                );
            } else {
                all.push(port);
            }
        }
    }
    all
}

/// Environment variables with their templates filled in.
fn environment(
    written: &BTreeMap<String, String>,
    path: &str,
    filler: &Filler<'_>,
    to: &mut Vec<Diagnostic>,
) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let mut size = 0;
    for (name, value) in written {
        let path = format!("{path}.{name}");
        if name.is_empty() || name.contains(['=', '\0']) {
            let message = format!("`{}` cannot be the name of a variable", shown(name));
            to.push(Diagnostic::error(path, message).hint("leave `=` out of it"));
            continue;
        }
        let value = filler.fill(value, &path, Deferral::Rendered, to);
        if value.contains('\0') {
            let message = format!("the value of `{}` holds a zero byte", shown(name));
            to.push(Diagnostic::error(&path, message).hint("no process can be given one"));
        }
        size += name.len() + value.len() + 2;
        if size > LONGEST_ENVIRONMENT {
            let message = "the environment of the container grows beyond 256 KiB";
            to.push(Diagnostic::error(path, message).hint("mount a file instead"));
            break;
        }
        all.insert(name.clone(), value);
    }
    all
}

fn limits(written: &Written, path: &str, to: &mut Vec<Diagnostic>) {
    if let Some(memory) = written.memory.filter(|memory| memory.bytes() < LEAST_MEMORY) {
        let message = format!("`memory` is {memory}, and the engine refuses less than 6 MiB");
        to.push(
            Diagnostic::error(format!("{path}.memory"), message)
                .hint("write `64MB`, or leave it out for no limit"),
        );
    }
    if let Some(cpus) = written.cpus.filter(|cpus| cpus.nanos() < LEAST_NANO_CPUS) {
        let message = format!("`cpus` is {cpus}, and the engine refuses less than 0.01");
        to.push(
            Diagnostic::error(format!("{path}.cpus"), message)
                .hint("write `0.5`, or leave it out for no limit"),
        );
    }
    if let Some(grace) = written
        .stop_grace
        .filter(|grace| grace.get() > LONGEST_STOP_GRACE)
    {
        let message = format!("`stopGrace` is {grace}");
        to.push(
            Diagnostic::error(format!("{path}.stopGrace"), message).hint("write a time of at most `10m`"),
        );
    }
}

fn process(written: &Written, path: &str, to: &mut Vec<Diagnostic>) {
    let is_user = |user: &str| {
        !user.is_empty()
            && user.len() <= 256
            && user
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "_.:-$".contains(c))
    };
    if let Some(user) = written.user.as_deref().filter(|user| !is_user(user)) {
        let message = format!("`{}` is no user", shown(user));
        to.push(
            Diagnostic::error(format!("{path}.user"), message)
                .hint("write `user`, `user:group`, or numbers as in `1000:1000`"),
        );
    }
    if let Some(folder) = written
        .working_dir
        .as_deref()
        .filter(|dir| !dir.starts_with('/') || !paths::is_sane(dir))
    {
        let message = format!("`{}` is no absolute path in the container", shown(folder));
        to.push(Diagnostic::error(format!("{path}.workingDir"), message).hint("begin it with `/`"));
    }
}

fn tmpfs(written: &[String], path: &str, to: &mut Vec<Diagnostic>) -> Vec<String> {
    for (index, text) in written.iter().enumerate() {
        let folder = text.split(':').next().unwrap_or_default();
        if !folder.starts_with('/') || paths::absolute("/", folder) == "/" || !paths::is_sane(text) {
            let message = format!("`{}` is no folder in the container", shown(text));
            to.push(
                Diagnostic::error(format!("{path}[{index}]"), message)
                    .hint("write `/path`, or `/path:size=64m`"),
            );
        }
    }
    written.to_vec()
}

/// `name:address`, with Compose's `name=address` taken too.
fn extra_hosts(written: &[String], path: &str, to: &mut Vec<Diagnostic>) -> Vec<String> {
    let mut lines = Vec::new();
    for (index, text) in written.iter().enumerate() {
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
            let message = format!("`{}` is no `name:address`", shown(text));
            to.push(
                Diagnostic::error(format!("{path}[{index}]"), message)
                    .hint("write it as in `db.local:10.0.0.5` or `host:host-gateway`"),
            );
        }
        lines.extend(line);
    }
    lines
}
