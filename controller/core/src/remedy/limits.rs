//! Limits and privileges: processes, memory of runtimes, the init process, privileges and low ports.

use argus_crds::ByteSize;
use argus_crds::error::SpecEdit;

use super::EditContext;
use super::case::{Case, contains, ports_in};
use super::classes::{FIRST_PROCESS, FULL_HEAP, KILLED, NO_PROCESS, PRIVILEGED};
use super::privileges::is_root;
use crate::desired::ContainerLimits;
use crate::failed_run::FailedRun;

/// Options with the size of a heap.
const HEAP_OPTIONS: [&str; 3] = ["-Xmx", "--max-old-space-size=", "--max_old_space_size="];

/// Share of the memory limit in percent below which the heap was full, but not the container.
const UNUSED_PERCENT: u64 = 75;

/// Maximum size of the heap in the file or by default, if the container did not reach its limit.
pub(super) fn heap_option(case: &Case<'_>) -> Option<SpecEdit> {
    let line = case.line_with(&FULL_HEAP).filter(|_| !is_foreign(case))?;
    if has_heap_option(case) {
        return explicit_heap(case);
    }
    let limit = case.run.memory_limit.or(case.context.service.memory);
    let peak = case.run.peak();
    let is_unused = match (limit, peak) {
        (Some(limit), Some(peak)) => peak.saturating_mul(100) < limit.saturating_mul(UNUSED_PERCENT),
        (None, _) => true,
        (Some(_), None) => false,
    };
    if !is_unused {
        return None;
    }
    let (name, option) = if contains(line, &["javascript heap"]) {
        let mib = limit.map_or(4096, |limit| limit / 100 * UNUSED_PERCENT / (1 << 20));
        ("NODE_OPTIONS", format!("--max-old-space-size={mib}"))
    } else if contains(line, &["java heap"]) {
        (
            "JAVA_TOOL_OPTIONS",
            format!("-XX:MaxRAMPercentage={UNUSED_PERCENT}"),
        )
    } else {
        return None;
    };
    let reason = match (limit, peak) {
        (Some(limit), Some(peak)) => format!(
            "its heap was full at a memory peak of {} of {}",
            rounded(peak),
            ByteSize::from_bytes(limit)
        ),
        _ => "its heap was full, and the service has no memory limit".to_owned(),
    };
    let key = format!("container.environment.{name}");
    let edit = case.context.edit(&key, reason);
    Some(match case.context.service.env_vars.get(name) {
        Some(set) => edit.now(set.as_str()).suggest(format!("{set} {option}")),
        None => edit.suggest(option),
    })
}

/// Returns whether a client of Kafka read the answer of a port with TLS as the size of a message.
fn is_foreign(case: &Case<'_>) -> bool {
    case.line_with(&["networkreceive.readfrom"]).is_some()
}

/// Returns whether the file has an option for the size of the heap.
fn has_heap_option(case: &Case<'_>) -> bool {
    let service = case.context.service;
    let mut texts = service.command.iter().flatten().chain(service.env_vars.values());
    texts.any(|text| HEAP_OPTIONS.iter().any(|option| text.contains(option)))
}

/// Larger heap for an option of the file, if twice the heap fits into the memory limit.
fn explicit_heap(case: &Case<'_>) -> Option<SpecEdit> {
    let service = case.context.service;
    let in_command = service
        .command
        .iter()
        .flatten()
        .map(|word| ("command".to_owned(), word));
    let in_variable = service
        .env_vars
        .iter()
        .map(|(name, value)| (format!("container.environment.{name}"), value));
    let (key, option, size) = in_command.chain(in_variable).find_map(|(key, text)| {
        let (option, rest) = HEAP_OPTIONS
            .into_iter()
            .find_map(|option| Some((option, text.split_once(option)?.1)))?;
        let end = rest
            .find(|c: char| !c.is_ascii_alphanumeric())
            .unwrap_or(rest.len());
        Some((key, option, &rest[..end]))
    })?;
    let digits = size.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = &size[digits.len()..];
    let factor = match (option, unit.to_ascii_lowercase().as_str()) {
        ("-Xmx", "") => 1,
        ("-Xmx", "k") => 1 << 10,
        ("-Xmx", "m") | (_, "") => 1 << 20,
        ("-Xmx", "g") => 1 << 30,
        _ => return None,
    };
    let doubled = digits.parse::<u64>().ok()?.checked_mul(2)?;
    let limit = case.run.memory_limit.or(service.memory);
    let fits = limit.is_none_or(|limit| {
        let needed = doubled.saturating_mul(factor);
        needed.saturating_mul(100) <= limit.saturating_mul(UNUSED_PERCENT)
    });
    let reason = format!("its heap of {option}{size} was full");
    fits.then(|| {
        let edit = case.context.edit(&key, reason);
        edit.now(format!("{option}{size}"))
            .suggest(format!("{option}{doubled}{unit}"))
    })
}

fn rounded(bytes: u64) -> ByteSize {
    const MIB: u64 = 1 << 20;
    ByteSize::from_bytes(bytes.div_ceil(MIB) * MIB)
}

/// Memory of a runtime that ran out of its heap.
pub(super) fn heap(case: &Case<'_>) -> Option<SpecEdit> {
    case.line_with(&FULL_HEAP).filter(|_| !is_foreign(case))?;
    if heap_option(case).is_some() {
        return None;
    }
    let limit = case.context.service.memory?;
    let reason = "its runtime ran out of heap, whose size follows the limit".to_owned();
    let larger = ByteSize::from_bytes(limit.saturating_mul(2)).to_string();
    Some(case.context.edit("memory", reason).suggest(larger))
}

/// Memory of a server whose worker the kernel killed, while its main process lives.
pub(super) fn killed_worker(case: &Case<'_>) -> Option<SpecEdit> {
    case.line_with(&KILLED)?;
    // The server kills a worker that does not answer.
    let is_late = case.line_with(&["worker timeout", "timed out"]).is_some();
    let limit = case.run.memory_limit.or(case.context.service.memory)?;
    let peak = case.run.peak();
    let is_unused = peak.is_some_and(|peak| peak.saturating_mul(100) < limit.saturating_mul(90));
    if is_late || is_unused {
        return None;
    }
    let reason = format!(
        "a worker was killed, and the service has {}",
        ByteSize::from_bytes(limit)
    );
    let larger = ByteSize::from_bytes(limit.saturating_mul(2)).to_string();
    Some(case.context.edit("memory", reason).suggest(larger))
}

impl EditContext<'_> {
    /// Limit of processes and threads that the container of a run has reached.
    pub(crate) fn reached_pids_limit(&self, failed_run: &FailedRun) -> Option<u32> {
        let limit = self.accepted.desired.container_limits.pids_limit;
        let peak = failed_run.evidence.as_ref()?.pids_peak?;
        (peak >= u64::from(limit)).then_some(limit)
    }
}

/// Limit of processes and threads.
pub(super) fn pids(case: &Case<'_>) -> Option<SpecEdit> {
    let in_check = || {
        let last = case.run.last_probe_output()?;
        last.lines().find(|line| contains(line, &NO_PROCESS))
    };
    let line = case.line_with(&NO_PROCESS).or_else(in_check)?;
    let reached = case.context.reached_pids_limit(case.run);
    // A profile for system calls denied it, not the limit.
    if contains(line, &["operation not permitted", "eperm"]) {
        return None;
    }
    // A socket that is not ready, and a container that ends, have the same texts.
    let is_generic = contains(
        line,
        &["resource temporarily unavailable", "from pipe", "init-p:"],
    );
    if is_generic && reached.is_none() && !contains(line, &["fork", "thread", "clone", "spawn"]) {
        return None;
    }
    let limit = case.context.accepted.desired.container_limits.pids_limit;
    let evidence = case.run.evidence.as_ref();
    let peak = evidence.and_then(|evidence| evidence.pids_peak);
    // Something else denied it.
    if peak.is_some_and(|peak| peak.saturating_mul(100) < u64::from(limit) * 90) {
        return None;
    }
    let measured = match peak {
        Some(peak) => format!("the limit is {limit}, and {peak} were measured"),
        None => format!("the limit is {limit}"),
    };
    let reason = format!("the service cannot start another process or thread; {measured}");
    let accepted = case.context.accepted;
    let edit = accepted
        .lines
        .edit(&accepted.spec_path, "argus.policy.pidsLimit", reason);
    // A runtime starts several threads per processor.
    let larger = limit.saturating_mul(4).max(256);
    Some(edit.suggest(larger.to_string()))
}

/// Program that must be the first process of its container.
pub(super) fn first_process(case: &Case<'_>) -> Option<SpecEdit> {
    let init = limits_of(case).init;
    case.lines().find(|line| init && demands_first_process(line))?;
    let reason = "its program must be the first process, and `init` takes this place".to_owned();
    Some(setting(case, "init", reason))
}

/// Returns whether a line demands to be the first process, such as `must be run as process no 1`.
fn demands_first_process(line: &str) -> bool {
    let lower = line.to_lowercase();
    let mut rests = FIRST_PROCESS.iter().filter_map(|part| lower.split_once(part));
    rests.any(|(_, rest)| !rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// Program that needs the privileges of its file.
pub(super) fn privileges(case: &Case<'_>) -> Option<SpecEdit> {
    let is_set = limits_of(case).no_new_privileges;
    case.line_with(&PRIVILEGED).filter(|_| is_set)?;
    let reason = "its program needs the privileges of its file".to_owned();
    Some(setting(case, "noNewPrivileges", reason))
}

/// Port below 1024 without the privileges of root.
pub(super) fn low_port(case: &Case<'_>) -> Option<SpecEdit> {
    let user = case.context.service.user.as_deref();
    let line = case.line_with(&["permission denied", "eacces"])?;
    if !contains(line, &["bind", "listen"]) || contains(line, &["unix:", ".sock"]) {
        return None;
    }
    let ports: Vec<u16> = ports_in(line).filter(|port| *port < 1024).collect();
    if ports.is_empty() {
        return None;
    }
    let low = case.context.service.env_vars.iter().find_map(|(name, value)| {
        // Such as `http://+:80`.
        let port = value.rsplit(':').next()?.parse::<u16>().ok()?;
        let is_meant = contains(name, &["port", "urls", "listen", "addr"]) && ports.contains(&port);
        is_meant.then_some((name, port))
    });
    let subject = user.map_or_else(
        || "the user of the image".to_owned(),
        |user| format!("the user `{user}`"),
    );
    let reason = format!("{subject} cannot listen on a port below 1024");
    let Some((name, port)) = low else {
        let user = user.filter(|user| !is_root(user))?;
        let edit = case.context.edit("user", reason).now(user);
        return Some(edit.hint("remove it, or configure a port from 1024"));
    };
    let free = port.saturating_add(8000);
    let key = format!("container.environment.{name}");
    let edit = case.context.edit(&key, reason).now(port.to_string());
    let edit = edit.suggest(free.to_string());
    let probe = case.context.service.probe.as_ref();
    let is_probed = probe.and_then(|probe| probe.kind.port()) == Some(port);
    Some(if is_probed {
        edit.hint(format!("and set `port: {free}` of its health check"))
    } else {
        edit
    })
}

/// Limits and privileges of the container.
fn limits_of(case: &Case<'_>) -> ContainerLimits {
    let all = &case.context.accepted.desired.container_limits;
    all.of_container(&case.context.service.process)
}

/// A default of Argus that the service turns off. Its siblings keep it.
fn setting(case: &Case<'_>, key: &str, reason: String) -> SpecEdit {
    let off = case.context.accepted.lines.write_value(key, "false");
    case.context.edit(key, reason).suggest(off)
}

#[cfg(test)]
#[path = "limits_tests.rs"]
mod tests;
