//! Limits and privileges: processes, memory of runtimes, the init process, privileges and low ports.

use argus_crds::ByteSize;
use argus_crds::error::SpecEdit;

use super::case::{Case, contains, ports_in};

/// Memory of a runtime that ran out of its heap.
pub(super) fn heap(case: &Case<'_>) -> Option<SpecEdit> {
    case.line_with(&[
        "outofmemoryerror: java heap",
        "javascript heap out of memory",
        "system.outofmemoryexception",
        "runtime: out of memory",
        "failed to allocate memory (nomemoryerror)",
    ])?;
    let limit = case.context.service.memory?;
    let reason = "its runtime ran out of heap, whose size follows the limit".to_owned();
    let larger = ByteSize::from_bytes(limit.saturating_mul(2)).to_string();
    Some(case.context.edit("memory", reason).suggest(larger))
}

/// Limit of processes and threads.
pub(super) fn pids(case: &Case<'_>) -> Option<SpecEdit> {
    let line = case.line_with(&[
        "can't fork",
        "cannot fork",
        "fork: retry",
        "unable to fork",
        "pthread_create",
        "unable to create native thread",
        "can't start new thread",
        "can't create thread",
        "failed to create new os thread",
        "resource temporarily unavailable",
    ])?;
    // A socket that is not ready has the same text.
    let is_generic = contains(line, &["resource temporarily unavailable"]);
    if is_generic && !contains(line, &["fork", "thread", "clone", "spawn"]) {
        return None;
    }
    let limit = case.context.accepted.desired.container_limits.pids_limit;
    let reason = format!("the service cannot start another process or thread; the limit is {limit}");
    let edit = policy(case, "pidsLimit", reason);
    Some(edit.suggest(limit.saturating_mul(4).to_string()))
}

/// Program that must be the first process of its container.
pub(super) fn first_process(case: &Case<'_>) -> Option<SpecEdit> {
    let init = case.context.accepted.desired.container_limits.init;
    case.line_with(&[
        "only run as pid 1",
        "must be run as pid 1",
        "must run as pid 1",
        "not running as pid 1",
    ])
    .filter(|_| init)?;
    let reason = "its program must be the first process, and `init` takes this place".to_owned();
    Some(policy(case, "init", reason).suggest("false"))
}

/// Program that needs the privileges of its file.
pub(super) fn privileges(case: &Case<'_>) -> Option<SpecEdit> {
    let is_set = case.context.accepted.desired.container_limits.no_new_privileges;
    case.line_with(&[
        "effective uid is not 0",
        "must be suid",
        "setuid bit set",
        "no new privileges",
        "must be setuid root",
    ])
    .filter(|_| is_set)?;
    let reason = "its program needs the privileges of its file".to_owned();
    Some(policy(case, "noNewPrivileges", reason).suggest("false"))
}

/// Port below 1024 without the privileges of root.
pub(super) fn low_port(case: &Case<'_>) -> Option<SpecEdit> {
    let user = case.context.service.user.as_deref()?;
    let line = case.line_with(&["permission denied", "eacces"])?;
    if !contains(line, &["bind", "listen"]) {
        return None;
    }
    let ports: Vec<u16> = ports_in(line).filter(|port| *port < 1024).collect();
    let low = case.context.service.env_vars.iter().find_map(|(name, value)| {
        let port = value.parse::<u16>().ok()?;
        let is_meant = name.to_uppercase().contains("PORT") && ports.contains(&port);
        is_meant.then_some((name, port))
    });
    let reason = format!("the user `{user}` cannot listen on a port below 1024");
    let Some((name, port)) = low else {
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

fn policy(case: &Case<'_>, name: &str, reason: String) -> SpecEdit {
    let accepted = case.context.accepted;
    let key = format!("argus.policy.{name}");
    accepted.lines.edit(&accepted.spec_path, &key, reason)
}
