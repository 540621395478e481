//! State directory of a running controller that serves several git worktrees of one repository.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use argus_docker::Endpoint;
use argus_reconciler::specs::location::worktrees_of;
use argus_reconciler::state_dir::StateDir;

use super::paths::LOCAL;
use crate::status;

/// Returns the state directory of a running controller that was started in another worktree of the repository. `None` if a
/// controller runs here, or none runs elsewhere.
///
/// The controller serves this worktree if it watches a folder, which can contain links to files, and if it uses the same engine.
pub(super) fn find(own: &Path, docker_host: Option<&str>) -> Option<PathBuf> {
    let current = std::env::current_dir().ok()?.canonicalize().ok()?;
    let trees = worktrees_of(&current);
    let (top, others) = trees.split_first()?;
    if others.is_empty() || status::is_alive(&StateDir::at(own.to_path_buf())) {
        return None;
    }
    let engine = Endpoint::discover(docker_host).ok()?.to_string();
    let below = current.strip_prefix(top).ok()?;
    let states = others.iter().flat_map(|other| {
        // A command can start in a directory of the worktree.
        let mut states = vec![other.join(below).join(LOCAL), other.join(LOCAL)];
        states.dedup();
        states
    });
    states.into_iter().find(|state| serves_others(state, &engine))
}

/// Returns true if a controller of this user runs on the state directory, and can read further files.
fn serves_others(state: &Path, engine: &str) -> bool {
    let own = rustix::process::geteuid().as_raw();
    let state_dir = StateDir::at(state.to_path_buf());
    if !state
        .symlink_metadata()
        .is_ok_and(|found| found.is_dir() && found.uid() == own)
        || !status::is_alive(&state_dir)
    {
        return false;
    }
    let known = status::read_controller(&state_dir).ok().flatten();
    known.is_some_and(|known| {
        Path::new(&known.specs).is_dir() && known.engine.is_some_and(|used| used.endpoint == engine)
    })
}
