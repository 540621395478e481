//! The sockets of engines on this host: a container that reaches one of them controls the host.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use super::{FileId, PathError, Resolved, real, stat_of};

/// Sockets that engines use by default. Each is compared only where it exists.
const WELL_KNOWN: [&str; 7] = [
    "/run/docker.sock",
    "/var/run/docker.sock",
    "/run/docker/containerd/containerd.sock",
    "/run/containerd/containerd.sock",
    "/run/podman/podman.sock",
    "/run/crio/crio.sock",
    "/run/buildkit/buildkitd.sock",
];

/// Sockets of rootless engines, below the runtime folder of each user.
const OF_USERS: [&str; 3] = ["docker.sock", "podman/podman.sock", "buildkit/buildkitd.sock"];
/// Folder with the runtime folders of all users.
const USERS: &str = "/run/user";
/// Maximum number of users whose sockets are compared.
const MAX_USERS: usize = 1_000;

/// Objects that no container may have: each socket, and every directory that contains one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sockets {
    objects: BTreeSet<FileId>,
    /// Mount points of this host whose mounted object is one of `objects`. A bind mount of a directory above also
    /// contains them.
    mounted: Vec<PathBuf>,
}

impl Sockets {
    /// Finds the sockets as they are now; `engine` is the socket that this process uses.
    pub fn find(engine: Option<&Path>) -> Self {
        let mut all = BTreeSet::new();
        if let Some(engine) = engine {
            add(engine, &mut all);
        }
        let well_known = WELL_KNOWN.map(PathBuf::from).into_iter();
        for path in well_known.chain(of_users(Path::new(USERS))) {
            if stat_of(&path).is_some() {
                add(&path, &mut all);
            }
        }
        let is_object = |path: &PathBuf| stat_of(path).is_some_and(|stat| all.contains(&FileId::new(&stat)));
        let mounted = mount_points().into_iter().filter(is_object).collect();
        Self {
            objects: all,
            mounted,
        }
    }

    /// Refuses a source that is a socket, contains one, or has one mounted below it.
    ///
    /// # Errors
    /// [`PathError::Socket`].
    pub fn check(&self, source: &Resolved) -> Result<(), PathError> {
        let refused = || Err(PathError::Socket(source.path.clone()));
        if source
            .identity
            .is_some_and(|identity| self.objects.contains(&identity))
        {
            return refused();
        }
        let is_below = |point: &PathBuf| *point != source.path && point.starts_with(&source.path);
        if source.is_directory && self.mounted.iter().any(is_below) {
            return refused();
        }
        Ok(())
    }
}

/// Possible sockets of rootless engines.
fn of_users(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let users = std::fs::read_dir(folder).into_iter().flatten().take(MAX_USERS);
    users
        .flatten()
        .flat_map(|user| OF_USERS.map(|socket| user.path().join(socket)))
}

/// Adds the socket and every directory above it. The directory exists even while the engine is stopped and the socket
/// does not exist.
fn add(socket: &Path, to: &mut BTreeSet<FileId>) {
    for path in [socket.to_owned(), real(socket)] {
        let identities = path.ancestors().filter_map(stat_of);
        to.extend(identities.map(|stat| FileId::new(&stat)));
    }
}

/// Mount points of this process's mount namespace.
fn mount_points() -> Vec<PathBuf> {
    let Ok(table) = std::fs::read("/proc/self/mountinfo") else {
        return Vec::new();
    };
    let points = table.split(|byte| *byte == b'\n').filter_map(|line| {
        let point = line.split(|byte| *byte == b' ').nth(4)?;
        Some(unescaped(point))
    });
    points.collect()
}

/// Mount points have spaces and backslashes as three octal digits.
fn unescaped(text: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| *first == b'\\');
        let octal = digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        if let Some(byte) = octal {
            bytes.push(byte);
            rest = &after[3..];
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_path::resolve;

    #[test]
    fn mount_points_are_unescaped() {
        for (written, read) in [
            ("/a\\040b", "/a b"),
            ("/a\\134b", "/a\\b"),
            ("/a", "/a"),
            ("/a\\9", "/a\\9"),
        ] {
            assert_eq!(unescaped(written.as_bytes()), Path::new(read));
        }
    }

    #[test]
    fn socket_and_its_directories_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("run/engine")).unwrap();
        std::fs::create_dir_all(root.join("run/other")).unwrap();
        let socket = root.join("run/engine/e.sock");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        std::os::unix::fs::symlink("engine/e.sock", root.join("run/link")).unwrap();
        std::fs::hard_link(&socket, root.join("run/other/hard")).unwrap();
        for engine in ["run/engine/e.sock", "run/link"] {
            let sockets = Sockets::find(Some(&root.join(engine)));
            let check = |path: &str| sockets.check(&resolve(&root.join(path)).unwrap());
            for refused in [
                "run/engine/e.sock",
                "run/engine",
                "run",
                "",
                "run/link",
                "run/other/hard",
            ] {
                assert!(
                    matches!(check(refused), Err(PathError::Socket(_))),
                    "{engine} {refused}"
                );
            }
            assert_eq!(check("run/other"), Ok(()));
        }
    }

    #[test]
    fn sockets_of_rootless_engines_are_searched_for_each_user() {
        let dir = tempfile::tempdir().unwrap();
        for user in ["1000", "1001"] {
            std::fs::create_dir(dir.path().join(user)).unwrap();
        }
        let found: BTreeSet<PathBuf> = of_users(dir.path()).collect();
        assert_eq!(found.len(), 6);
        for socket in ["1000/docker.sock", "1001/podman/podman.sock"] {
            assert!(found.contains(&dir.path().join(socket)), "{socket}");
        }
        assert_eq!(of_users(&dir.path().join("none")).count(), 0);
    }

    #[test]
    fn directory_of_an_absent_socket_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let sockets = Sockets::find(Some(&root.join("e.sock")));
        assert!(sockets.check(&resolve(&root).unwrap()).is_err());
    }

    #[test]
    fn directory_with_a_mounted_socket_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("run/other")).unwrap();
        std::fs::create_dir_all(root.join("run2")).unwrap();
        let sockets = Sockets {
            mounted: vec![root.join("run/other/e.sock")],
            ..Sockets::default()
        };
        let is_accepted = |path: &str| sockets.check(&resolve(&root.join(path)).unwrap()).is_ok();
        assert_eq!(
            ["run", "run/other", "run2"].map(is_accepted),
            [false, false, true]
        );
    }
}
