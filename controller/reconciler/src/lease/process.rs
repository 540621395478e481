//! Detection of dead lease holders: checks the process of a lease if it is visible from here.

use argus_core::lease::ControllerLease;
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

/// Identifier of the visible processes: boot id and pid namespace. Empty if either is unknown.
pub fn pid_namespace() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    if boot.is_empty() || namespace.as_os_str().is_empty() {
        return String::new();
    }
    format!("{}/{}", boot.trim(), namespace.display())
}

/// Separates the leases of visible processes that no longer exist, so that no controller waits for their expiry.
pub fn split_exited(leases: Vec<ControllerLease>) -> (Vec<ControllerLease>, Vec<ControllerLease>) {
    let here = pid_namespace();
    leases.into_iter().partition(|lease| {
        let is_visible = !here.is_empty() && lease.spec.pid_namespace == here;
        !(is_visible && is_gone(lease.spec.pid))
    })
}

/// Returns the runs of leases whose processes are visible from here and exist.
pub fn visible_runs(leases: &[ControllerLease]) -> Vec<String> {
    let here = pid_namespace();
    let is_visible = |lease: &&ControllerLease| !here.is_empty() && lease.spec.pid_namespace == here;
    leases
        .iter()
        .filter(is_visible)
        .map(|lease| lease.spec.run.clone())
        .collect()
}

/// Reports whether the process does not exist, or has ended without a parent that collects it. A pid that was reused counts
/// as alive, which only means to wait.
fn is_gone(pid: u32) -> bool {
    let Some(id) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
        return false;
    };
    test_kill_process(id) == Err(Errno::SRCH) || is_zombie(pid)
}

/// Reports whether the process has ended. Only a `/proc` of the own pid namespace describes it.
fn is_zombie(pid: u32) -> bool {
    let own = std::fs::read_link("/proc/self").ok();
    if own != Some(std::process::id().to_string().into()) {
        return false;
    }
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name of the program, in parentheses, may contain any character.
    let state = stat
        .rsplit_once(')')
        .and_then(|(_, rest)| rest.split_whitespace().next());
    matches!(state, Some("Z" | "X"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use argus_core::lease::{LeaseSpec, TTL};
    use argus_core::time::Timestamp;

    use super::*;

    fn lease(pid: u32, processes: &str) -> ControllerLease {
        ControllerLease {
            name: format!("{pid}"),
            spec: LeaseSpec {
                controller: "c".to_owned(),
                run: format!("{pid}"),
                state_dir: "p".to_owned(),
                specs: None,
                host: "h".to_owned(),
                pid,
                pid_namespace: processes.to_owned(),
                ttl: TTL,
                since: None,
                claims: BTreeMap::new(),
            },
            created_at: Timestamp(0),
            renewed_at: Timestamp(0),
        }
    }

    #[test]
    fn only_a_visible_process_is_known_to_be_gone() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let gone = child.id();
        child.wait().unwrap();
        let (here, me) = (pid_namespace(), std::process::id());
        assert!(!here.is_empty());
        let mut all = vec![
            lease(me, &here),
            lease(gone, &here),
            lease(gone, "elsewhere"),
            lease(gone, ""),
        ];
        let (left, exited) = split_exited(all.clone());
        assert_eq!(exited, [all.remove(1)]);
        assert_eq!(visible_runs(&left), [me.to_string()]);
        assert_eq!(left, all);
    }

    #[test]
    fn killed_process_without_a_waiting_parent_is_gone() {
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        assert!(!is_gone(child.id()));
        child.kill().unwrap();
        // Waits for its end, and leaves it uncollected.
        let id = Pid::from_child(&child);
        let options = rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
        rustix::process::waitid(rustix::process::WaitId::Pid(id), options).unwrap();
        assert!(is_gone(child.id()), "it is a zombie");
        child.wait().unwrap();
        assert!(is_gone(child.id()));
    }
}
