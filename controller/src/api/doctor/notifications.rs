//! Limits of the system for file notifications. All programs of a user share them, so a watch of this process shows if one is reached.

/// Limit that this user has reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReachedLimit {
    /// Name of the setting of the kernel.
    pub(crate) name: &'static str,
    /// Its value.
    pub(crate) value: u64,
}

impl ReachedLimit {
    /// Command that raises the limit until the next start of the machine.
    pub(crate) fn command(&self) -> String {
        format!("sudo sysctl {}={}", self.name, self.value.max(64) * 4)
    }
}

/// Watches one file for a moment.
#[cfg(target_os = "linux")]
pub(super) fn find_reached_limit() -> Option<ReachedLimit> {
    use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};
    use rustix::io::Errno;

    use super::machine::find_value;

    let reached = |name: &'static str| {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        let value = find_value(&path, "")?.parse().ok()?;
        Some(ReachedLimit { name, value })
    };
    let instance = match init(CreateFlags::CLOEXEC) {
        Ok(instance) => instance,
        Err(Errno::MFILE) => return reached("fs.inotify.max_user_instances"),
        Err(_) => return None,
    };
    match add_watch(&instance, "/", WatchFlags::DELETE_SELF) {
        Err(Errno::NOSPC) => reached("fs.inotify.max_user_watches"),
        Ok(_) | Err(_) => None,
    }
}

/// Other systems have no such limit.
#[cfg(not(target_os = "linux"))]
pub(super) fn find_reached_limit() -> Option<ReachedLimit> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_raises_the_limit() {
        let limit = |value| ReachedLimit {
            name: "fs.inotify.max_user_instances",
            value,
        };
        assert_eq!(
            limit(128).command(),
            "sudo sysctl fs.inotify.max_user_instances=512"
        );
        assert_eq!(
            limit(0).command(),
            "sudo sysctl fs.inotify.max_user_instances=256"
        );
    }
}
