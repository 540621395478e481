//! Facts about the machine, for a support bundle.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::report::DoctorInputs;

/// System, kernel, processors, memory and disks. Of the `ARGUS_*` and `DOCKER_*` variables it contains only the names.
pub(super) fn gather_facts(inputs: &DoctorInputs) -> Value {
    let us = rustix::system::uname();
    let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
    let ours = |name: &String| name.starts_with("ARGUS_") || name.starts_with("DOCKER_");
    let variables = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    json!({
        "system": find_value("/etc/os-release", "PRETTY_NAME=").map(|name| name.trim_matches('"').to_owned()),
        "kernel": format!("{} {} {}", text(us.sysname()), text(us.release()), text(us.version())),
        "machine": text(us.machine()),
        "processors": std::thread::available_parallelism().map(std::num::NonZero::get).ok(),
        "memoryTotal": find_value("/proc/meminfo", "MemTotal:"),
        "memoryAvailable": find_value("/proc/meminfo", "MemAvailable:"),
        "load": fs::read_to_string("/proc/loadavg").ok().map(|load| load.trim().to_owned()),
        "user": rustix::process::geteuid().as_raw(),
        "inContainer": Path::new("/.dockerenv").exists() || Path::new("/run/.containerenv").exists(),
        "disks": {
            "state": read_disk(inputs.state.root()),
            "specs": read_disk(&inputs.settings.specs),
        },
        "variables": variables.filter(ours).collect::<Vec<_>>(),
    })
}

/// Returns the rest of the first line that begins with `word`.
pub(super) fn find_value(file: &str, word: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let rest = text.lines().find_map(|line| line.strip_prefix(word))?;
    Some(rest.trim().to_owned())
}

fn read_disk(path: &Path) -> Value {
    match rustix::fs::statvfs(path) {
        Ok(disk) => json!({
            "path": path.display().to_string(),
            "totalBytes": disk.f_blocks.saturating_mul(disk.f_frsize),
            "availableBytes": disk.f_bavail.saturating_mul(disk.f_frsize),
            "inodesFree": disk.f_favail,
        }),
        Err(error) => json!({ "path": path.display().to_string(), "error": error.to_string() }),
    }
}
