//! State of a running controller that serves the current folder: that of a parent folder, or of another git worktree of the
//! repository.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use argus_docker::Endpoint;
use argus_reconciler::specs::location::{contains_home, is_system, worktrees_of};
use argus_reconciler::state_dir::StateDir;

use super::paths::state_of;
use crate::local_state::status;

/// Returns the state of a running controller that was started in a parent folder of the project, or in another worktree of the
/// repository. `None` if a controller runs here, or none runs elsewhere.
///
/// The controller serves this folder if it watches a folder, which can contain links to files, and if it uses the same engine.
pub(super) fn find(own: &StateDir, docker_host: Option<&str>) -> Option<StateDir> {
    let current = std::env::current_dir().ok()?.canonicalize().ok()?;
    let trees = worktrees_of(&current);
    let mut folders = parents_in_project(&current, trees.first().map(PathBuf::as_path));
    if let Some((top, others)) = trees.split_first() {
        let below = current.strip_prefix(top).ok()?;
        for other in others {
            // A command can start in a directory of the worktree.
            folders.extend([other.join(below), other.clone()]);
        }
    }
    folders.dedup();
    if folders.is_empty() || status::is_alive(own) {
        return None;
    }
    let engine = Endpoint::discover(docker_host).ok()?.to_string();
    let mut states = folders.iter().map(|folder| state_of(folder));
    states.find(|state| serves_others(state, &engine))
}

/// Returns the parents of a folder in its worktree, the nearest first. Without a worktree, a project ends below the folder of the
/// user and below system directories.
pub(super) fn parents_in_project(current: &Path, top: Option<&Path>) -> Vec<PathBuf> {
    let parents = current.ancestors().skip(1);
    let is_inside = |parent: &&Path| match top {
        Some(top) => parent.starts_with(top),
        None => !is_system(parent) && !contains_home(parent),
    };
    parents.take_while(is_inside).map(Path::to_path_buf).collect()
}

/// Returns true if a controller of this user runs on the state, and can read further files.
fn serves_others(state: &StateDir, engine: &str) -> bool {
    let own = rustix::process::geteuid().as_raw();
    let is_own = |path: &Path| {
        path.symlink_metadata()
            .is_ok_and(|found| found.is_dir() && found.uid() == own)
    };
    if !is_own(state.root()) || state.check_private().is_err() || !status::is_alive(state) {
        return false;
    }
    let known = status::read_controller(state).ok().flatten();
    known.is_some_and(|known| {
        Path::new(&known.specs).is_dir() && known.engine.is_some_and(|used| used.endpoint == engine)
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::net::UnixListener;

    use argus_crds::status::{ControllerStatus, EngineStatus};

    use super::*;

    #[test]
    fn project_ends_at_its_worktree_or_below_system_directories() {
        let parents = |current: &str, top: Option<&str>| {
            let found = parents_in_project(Path::new(current), top.map(Path::new));
            let shown = found.iter().map(|path| path.display().to_string());
            shown.collect::<Vec<_>>()
        };
        assert_eq!(parents("/w/shop/a/b", Some("/w/shop")), ["/w/shop/a", "/w/shop"]);
        assert_eq!(parents("/w/shop", Some("/w/shop")), [""; 0]);
        assert_eq!(parents("/srv/shop/a", None), ["/srv/shop"]);
        assert_eq!(parents("/srv/shop", None), [""; 0]);
    }

    #[test]
    fn controller_with_a_shared_state_serves_no_other_folder() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::prepare(&dir.path().join("state"), &dir.path().join("specs")).unwrap();
        let status = ControllerStatus {
            specs: dir.path().display().to_string(),
            engine: Some(EngineStatus {
                endpoint: "unix:///engine".to_owned(),
                ..EngineStatus::default()
            }),
            ..ControllerStatus::default()
        };
        let text = serde_json::to_string(&status).unwrap();
        std::fs::write(state.controller_json(), text).unwrap();
        let _listener = UnixListener::bind(state.socket()).unwrap();
        assert!(serves_others(&state, "unix:///engine"));
        assert!(!serves_others(&state, "unix:///other"));
        let shared = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(state.root(), shared).unwrap();
        assert!(!serves_others(&state, "unix:///engine"));
    }
}
