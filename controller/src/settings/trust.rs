//! Trust in a project: keys of its `argus.toml` that count only with it, and the record of a person who gave it.
//!
//! A repository can contain any file, but not the record, which is in the private state of its folder. The record names the
//! content of `argus.toml`, so an edit ends the permission.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use argus_backend::host_path::{self, folder};
use argus_core::hex::hex;
use argus_reconciler::specs::location::worktrees_of;
use argus_reconciler::state_dir::{StateDir, StateError, write_private};
use argus_reconciler::state_file;
use sha2::{Digest as _, Sha256};

use super::{File, Listen, paths, shared_state};

/// Name of the settings file of a project.
pub(crate) const SETTINGS_FILE: &str = "argus.toml";
/// All that a permission includes besides the settings, for people.
pub(crate) const REACH: &str = "its spec files can mount below writable mounts, write git directories, see the state directory, use external \
     volumes and networks, and take over volumes of other folders and of Compose; its builds can read variables of the controller as secrets, use its SSH \
     agent, and push caches with its credentials; its Compose files and suites receive the variables of the shell; with \
     `--allow-privileged`, its containers can have privileges";
/// Record of the permission, in the private state of the folder.
const RECORD: &str = "allowed";
/// Maximum size of a record and of the settings file of a project in bytes.
const MAX_BYTES: u64 = 1 << 20;

impl File {
    /// Removes all keys with which a project in `folder` would get more than without the file. Returns their names.
    pub(super) fn remove_widening(&mut self, folder: &Path) -> Vec<&'static str> {
        // Without `..`, so that a new key does not compile before it is in one of the two groups.
        let Self {
            state,
            docker_host,
            listen,
            status_group,
            allow_test_commands,
            publish_address,
            env_allow,
            allow_mount,
            git_writable,
            build_cache_limit,
            namespace_from,
            specs,
            // These narrow, or change only times and outputs.
            ceiling: _,
            strict: _,
            log_format: _,
            no_helpers: _,
            debug: _,
            color: _,
            timeout_short: _,
            timeout_long: _,
            stop_grace: _,
            breaker_threshold: _,
            breaker_cooldown: _,
            restart_rate_limit: _,
            slow_retry_interval: _,
            action_attempts: _,
            action_retry_interval: _,
            shed_optional: _,
        } = self;
        let is_open = |listen: &mut Listen| !matches!(listen, Listen::Off) && *listen != Listen::default();
        let leaves = |specs: &mut PathBuf| {
            let folder = folder.canonicalize();
            specs.is_absolute() || !folder.is_ok_and(|folder| contains_specs(&folder, &folder.join(&*specs)))
        };
        let removed = [
            ("state", state.take().is_some()),
            ("docker-host", docker_host.take().is_some()),
            ("listen", listen.take_if(is_open).is_some()),
            ("status-group", status_group.take().is_some()),
            ("allow-test-commands", std::mem::take(allow_test_commands)),
            (
                "publish-address",
                publish_address
                    .take_if(|address| !address.is_loopback())
                    .is_some(),
            ),
            (
                "env-allow",
                env_allow.take_if(|names| !names.is_empty()).is_some(),
            ),
            (
                "allow-mount",
                allow_mount.take_if(|folders| !folders.is_empty()).is_some(),
            ),
            ("git-writable", git_writable.take_if(|on| *on).is_some()),
            // It removes cache entries of others.
            ("build-cache-limit", build_cache_limit.take().is_some()),
            // Any variable of the controller would become the name of an environment.
            (
                "namespace-from",
                namespace_from
                    .take_if(|source| source.starts_with("env:"))
                    .is_some(),
            ),
            ("specs", specs.take_if(leaves).is_some()),
        ];
        let names = removed.into_iter().filter(|(_, is_removed)| *is_removed);
        names.map(|(name, _)| name).collect()
    }
}

/// Returns the folder that a person allowed: this one, with this content of its `argus.toml`. A folder without the file also has
/// the permission of a parent folder in its project.
pub(super) fn find_allowed(folder: &Path, settings: Option<&str>) -> Option<PathBuf> {
    let folder = folder.canonicalize().ok()?;
    if is_allowed(&folder, settings) {
        return Some(folder);
    }
    if settings.is_some() {
        return None;
    }
    let top = worktrees_of(&folder).into_iter().next();
    let mut parents = shared_state::parents_in_project(&folder, top.as_deref()).into_iter();
    parents.find(|parent| read_settings(parent).is_ok_and(|settings| is_allowed(parent, settings.as_deref())))
}

/// Returns true if spec files belong to an allowed folder. A command in it can read those of another project.
pub(crate) fn contains(allowed: &Path, specs: &Path) -> bool {
    let resolved = std::path::absolute(specs).map(|specs| host_path::resolve(&specs));
    let Ok(Ok(found)) = resolved else {
        return false;
    };
    // A folder that does not exist yet is below one that does.
    let is_up = |part| part == Component::ParentDir;
    found.path.starts_with(allowed) && !found.path.components().any(is_up)
}

/// Returns true if spec files belong to a folder, and not to a git directory in it.
fn contains_specs(folder: &Path, specs: &Path) -> bool {
    let real = host_path::real(specs);
    let is_git = |inside: &Path| inside.components().any(|part| part.as_os_str() == ".git");
    contains(folder, specs) && real.strip_prefix(folder).is_ok_and(|inside| !is_git(inside))
}

/// Returns true if a file is in the git worktree of the current folder: the author of the repository can have written it.
pub(super) fn is_in_worktree(path: &Path) -> bool {
    let current = std::env::current_dir().and_then(|current| current.canonicalize());
    let top = current.map(|current| worktrees_of(&current).into_iter().next());
    let (Ok(Some(top)), Ok(real)) = (top, path.canonicalize()) else {
        return false;
    };
    real.starts_with(top)
}

/// Records that a person allows a folder with the present content of its `argus.toml`. Returns the keys of that content that count
/// only with the permission.
pub(crate) fn allow(folder: &Path) -> Result<Vec<&'static str>, StateError> {
    let (state, record) = record_of(folder);
    let failed = |path: &Path, source| StateError::Io {
        path: path.to_path_buf(),
        source,
    };
    let file = folder.join(SETTINGS_FILE);
    let settings = read_settings(folder).map_err(|error| failed(&file, error))?;
    state.create_private()?;
    let text = digest(settings.as_deref());
    write_private(&record, text.as_bytes()).map_err(|error| failed(&record, error))?;
    let keys = settings.map(|text| list_widening(&text, folder));
    Ok(keys.unwrap_or_default())
}

/// Removes the record of a folder, if there is one. Returns the parent folder whose permission the folder still has.
pub(crate) fn revoke(folder: &Path) -> Result<Option<PathBuf>, StateError> {
    let (state, record) = record_of(folder);
    state.check_private()?;
    folder::remove(&record).map_err(|source| StateError::Io { path: record, source })?;
    let settings = read_settings(folder);
    Ok(settings
        .ok()
        .and_then(|settings| find_allowed(folder, settings.as_deref())))
}

/// Reads the `argus.toml` of a folder; `None` if it does not exist.
pub(crate) fn read_settings(folder: &Path) -> std::io::Result<Option<String>> {
    match state_file::read_text(&folder.join(SETTINGS_FILE), MAX_BYTES) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads a file if it belongs to this user or to root.
pub(super) fn read_own(path: &Path) -> Option<String> {
    let owner = path.metadata().ok()?.uid();
    let is_own = owner == 0 || owner == rustix::process::geteuid().as_raw();
    read_named(path).ok().filter(|_| is_own)
}

/// Reads a settings file that the operator names, possibly through links.
pub(super) fn read_named(path: &Path) -> std::io::Result<String> {
    state_file::read_text(&paths::resolve_named(path.to_path_buf()), MAX_BYTES)
}

/// Returns the keys of the settings file of a folder that count only in an allowed project.
pub(crate) fn list_widening(settings: &str, folder: &Path) -> Vec<&'static str> {
    let file = toml::from_str::<File>(settings);
    file.map(|mut file| file.remove_widening(folder))
        .unwrap_or_default()
}

fn is_allowed(folder: &Path, settings: Option<&str>) -> bool {
    let (state, record) = record_of(folder);
    let recorded = || state_file::read_text(&record, MAX_BYTES).ok();
    state.check_private().is_ok() && recorded().is_some_and(|recorded| recorded == digest(settings))
}

fn record_of(folder: &Path) -> (StateDir, PathBuf) {
    let state = paths::state_of(folder);
    let record = state.private().join(RECORD);
    (state, record)
}

/// Returns a text that identifies the content of a settings file, or its absence.
fn digest(settings: Option<&str>) -> String {
    let digest = |settings: &str| hex(&Sha256::digest(settings.as_bytes()));
    settings.map_or_else(|| "without settings".to_owned(), digest) + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_widen_are_removed_and_others_stay() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        std::os::unix::fs::symlink("/etc", folder.join("link")).unwrap();
        let text = "state = \"s\"\ndocker-host = \"h\"\nlisten = \"0.0.0.0:9470\"\nstatus-group = \"0\"\nallow-test-commands = true\n\
                    publish-address = \"0.0.0.0\"\nenv-allow = [\"A\"]\nallow-mount = [\"/etc\"]\ngit-writable = true\n\
                    namespace-from = \"env:SECRET\"\nspecs = \"../other\"\n";
        let all = text.lines().map(|line| line.split(' ').next().unwrap());
        assert_eq!(list_widening(text, folder), all.collect::<Vec<_>>());
        let mut file: File = toml::from_str(text).unwrap();
        file.remove_widening(folder);
        assert_eq!(format!("{file:?}"), format!("{:?}", File::default()));
        let narrow = "listen = \"off\"\nallow-test-commands = false\npublish-address = \"127.0.0.1\"\nenv-allow = []\n\
                      allow-mount = []\ngit-writable = false\nstrict = true\nno-helpers = true\ntimeout-short = \"1s\"\nnamespace-from = \"branch\"\n\
                      specs = \"x/y\"\n";
        assert_eq!(list_widening(narrow, folder), [""; 0]);
        std::os::unix::fs::symlink(".git/refs", folder.join("refs")).unwrap();
        std::fs::create_dir_all(folder.join(".git/refs")).unwrap();
        for outside in ["/etc", "..", "x/../..", "link", "link/argus/x", ".git/x", "refs"] {
            let text = format!("specs = \"{outside}\"\n");
            assert_eq!(list_widening(&text, folder), ["specs"], "{outside}");
        }
    }

    #[test]
    fn digest_differs_with_content_and_absence() {
        let all = [
            digest(None),
            digest(Some("")),
            digest(Some("a")),
            digest(Some("without settings")),
        ];
        let different: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len(), "{all:?}");
    }

    #[test]
    fn settings_of_the_user_have_a_trusted_owner() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(SETTINGS_FILE);
        std::fs::write(&file, "strict = true\n").unwrap();
        assert_eq!(read_own(&file).as_deref(), Some("strict = true\n"));
        // Only root can give a file to another user.
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&file, Some(1234), None).unwrap();
            assert_eq!(read_own(&file), None);
        }
    }
}
