//! Access of this process to the socket of the engine.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use argus_core::outcome::ActionError;
use argus_core::socket_access::describe_refusal;
use rustix::fs::{Access, access};
use rustix::io::Errno;

/// Fails if the permissions of the socket refuse the user of this process. The connection itself reports other problems.
pub(super) fn check(socket: &Path) -> Result<(), ActionError> {
    match access(socket, Access::WRITE_OK) {
        Err(Errno::ACCESS) => {
            let group = group_with_access(socket);
            let refusal = describe_refusal(&socket.display().to_string(), group.as_deref());
            Err(ActionError::Unreachable(refusal))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Name of the group whose members can connect, or its number without a name; `None` without such a group.
fn group_with_access(socket: &Path) -> Option<String> {
    let meta = fs::metadata(socket).ok()?;
    let has_access = meta.mode() & 0o020 != 0 && meta.gid() != 0;
    let groups = || fs::read_to_string("/etc/group").unwrap_or_default();
    has_access.then(|| name_of(meta.gid(), &groups()).unwrap_or_else(|| meta.gid().to_string()))
}

/// Name of a group in the text of `/etc/group`.
fn name_of(gid: u32, groups: &str) -> Option<String> {
    let mut lines = groups.lines().map(|line| line.split(':'));
    lines.find_map(|mut fields| {
        let name = fields.next()?;
        let number: u32 = fields.nth(1)?.parse().ok()?;
        (number == gid).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_has_the_name_of_the_group_file() {
        let groups = "root:x:0:\n# none\ndocker:x:998:ana,ben\n";
        assert_eq!(name_of(998, groups).as_deref(), Some("docker"));
        assert_eq!(name_of(99, groups), None);
    }

    #[test]
    fn missing_socket_is_left_to_the_connection() {
        assert_eq!(check(Path::new("/nonexistent/docker.sock")), Ok(()));
    }
}
