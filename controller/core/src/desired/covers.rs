//! Covers: mounts that Argus adds below the mounts of a file, so that no container changes a git directory or the state directory.
//!
//! Git runs programs that its directory names, such as hooks. Below a writable mount that contains it, the container therefore gets
//! `.git` read-only. The directories between are mounted as well: a container cannot rename the root of a mount. So no container
//! with covers can exchange the source of a cover, and the rule of [`nested_mounts`](super::nested_mounts) need not apply to it.
//! An empty directory hides the state directory.

use std::collections::BTreeSet;

use argus_crds::Diagnostic;

use crate::desired::admit::SpecContext;
use crate::desired::excluded;
use crate::desired::identity::shown;
use crate::desired::nested_mounts::MountPlaces;
use crate::desired::{Mount, Service, paths, tmpfs_path};

/// Options of the tmpfs that hides a state directory. Nothing can be written to it, so it needs no size.
const EMPTY: &str = "ro,mode=0555";

impl Service {
    /// Mounts of its container.
    pub(crate) fn all_mounts(&self) -> impl Iterator<Item = &Mount> {
        self.mounts.iter().chain(&self.covers)
    }

    /// Returns whether something covers a part of a bind mount: a mount of Argus, or a tmpfs.
    pub(crate) fn has_covers(&self) -> bool {
        let hides = |entry: &String| {
            let hidden = paths::to_absolute("/", tmpfs_path(entry));
            let mut binds = self.mounts.iter().filter(|mount| mount.source().is_some());
            binds.any(|bind| paths::is_inside(&hidden, bind.target()))
        };
        !self.covers.is_empty() || self.tmpfs.iter().any(hides)
    }

    /// Mounts of its container, each with whether it is a cover.
    pub(crate) fn mounts_and_covers(&self) -> impl Iterator<Item = (&Mount, bool)> {
        let mounts = self.mounts.iter().map(|mount| (mount, false));
        mounts.chain(self.covers.iter().map(|mount| (mount, true)))
    }
}

/// Reports a writable bind source in a git directory, or around a link `.git`, which no mount can protect.
pub(super) fn check_writable(
    real: &str,
    text: &str,
    path: &str,
    context: &SpecContext,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let Some(git) = &context.host.git else {
        return;
    };
    let has_part = |name: &str| real.split('/').any(|part| part == name);
    let contained = |path: &Option<String>| path.clone().filter(|path| paths::is_inside(path, real));
    let problem = if has_part(excluded::STATE) {
        "is part of a state directory".to_owned()
    } else if has_part(excluded::GIT) || git.paths.iter().any(|git| paths::is_inside(real, git)) {
        "is part of a git directory".to_owned()
    } else if let Some(link) = contained(&git.link) {
        format!(
            "contains the link `{}`, which a container can replace",
            shown(&link)
        )
    } else if let Some(excess) = contained(&git.excess) {
        let excess = shown(&excess);
        format!(
            "contains git directories or files besides the 65 with UTF-8 names that Argus can protect, such as `{excess}`"
        )
    } else {
        return;
    };
    let message = format!("`{}` {problem}, and the mount is writable", shown(text));
    let hint = "POLICY_VIOLATION: add `:ro`, run `argus allow` and restart the controller, or start the controller with `--git-writable`";
    diagnostics.push(Diagnostic::error(path, message).hint(hint));
}

/// Adds the covers of each service. Runs after all checks of the mounts of the file.
///
/// Reports a mount that needs a cover below another mount of the container: while the engine mounts both, a container that writes the
/// other one could exchange a directory above the target, and the cover would hide another place. Next to a cover, it also reports each
/// mount below a volume: a link in the volume could lead it to the place of the covered mount, which the engine would then mount elsewhere.
pub(super) fn add(
    services: &mut [(String, Service)],
    places: &MountPlaces,
    context: &SpecContext,
    diagnostics: &mut Vec<Diagnostic>,
) {
    if context.host.allowed {
        return;
    }
    let host = &context.host;
    let protected = || host.git.iter().flat_map(|git| &git.paths);
    let needs_cover = |mount: &Mount| {
        let mut all = protected().chain([&host.state_dir]);
        mount.writable_source().is_some() && all.any(|path| mount.parts_to(path).is_some())
    };
    for (_, service) in services {
        let taken = targets(service.mounts.iter(), &service.tmpfs);
        let mut covers = Covers::default();
        let has_covers = service.mounts.iter().any(needs_cover);
        for mount in service.mounts.iter().filter(|_| has_covers) {
            let is_covered = needs_cover(mount);
            let is_above = |other: &&Mount| {
                other.target() != mount.target()
                    && paths::is_inside(mount.target(), other.target())
                    && (is_covered || other.source().is_none())
            };
            if let Some(above) = service.mounts.iter().find(is_above) {
                diagnostics.push(places.refuse_below(service, (mount, is_covered), above));
            }
            if is_covered {
                for git in protected() {
                    covers.cover(mount, git, &taken);
                }
                covers.hide(mount, &host.state_dir, &taken);
            }
        }
        service.covers = covers.mounts;
        service.tmpfs.extend(covers.tmpfs);
    }
}

/// Returns whether a container can exchange the directory or file at `path`, or a directory above it, through one of its mounts.
pub(crate) fn can_exchange<'a>(
    mount: &Mount,
    path: &str,
    mut mounts: impl Iterator<Item = &'a Mount>,
    tmpfs: &[String],
) -> bool {
    let below = mount.writable_source().and_then(|_| mount.parts_to(path));
    let Some(BelowMount { target, .. }) = below.and_then(|mut below| below.next()) else {
        return false;
    };
    // The root of a mount is no name that a container can rename or remove.
    !mounts.any(|other| other.target() == target) && !tmpfs.iter().any(|entry| tmpfs_target(entry) == target)
}

/// Paths in a container at which something is mounted.
fn targets<'a>(mounts: impl Iterator<Item = &'a Mount>, tmpfs: &[String]) -> BTreeSet<String> {
    let mounts = mounts.map(|mount| mount.target().to_owned());
    mounts
        .chain(tmpfs.iter().map(|entry| tmpfs_target(entry)))
        .collect()
}

fn tmpfs_target(entry: &str) -> String {
    paths::to_absolute("/", tmpfs_path(entry))
}

/// A path below a bind mount.
struct BelowMount {
    source: String,
    target: String,
    /// True for the path itself, false for a directory above it.
    is_last: bool,
}

impl Mount {
    /// Returns each directory below the source of a bind mount down to `path`, and `path`. `None` if it is not below the source.
    fn parts_to<'a>(&'a self, path: &'a str) -> Option<impl Iterator<Item = BelowMount> + 'a> {
        let Self::Bind { source, target, .. } = self else {
            return None;
        };
        let below = paths::relative_to(path, source).filter(|below| !below.is_empty())?;
        let ends = below.match_indices('/').map(|(end, _)| end);
        Some(ends.chain([below.len()]).map(move |end| BelowMount {
            source: paths::to_absolute(source, &below[..end]),
            target: paths::to_absolute(target, &below[..end]),
            is_last: end == below.len(),
        }))
    }
}

#[derive(Default)]
struct Covers {
    mounts: Vec<Mount>,
    tmpfs: BTreeSet<String>,
}

impl Covers {
    /// Mounts a git path read-only below a writable mount. `taken` are the targets of the mounts of the file, which hide it.
    fn cover(&mut self, mount: &Mount, git: &str, taken: &BTreeSet<String>) {
        for part in mount.parts_to(git).into_iter().flatten() {
            if taken.contains(&part.target) {
                return;
            }
            let cover = Mount::Bind {
                source: part.source,
                target: part.target,
                read_only: part.is_last,
            };
            if !self.mounts.contains(&cover) {
                self.mounts.push(cover);
            }
        }
    }

    /// Hides the state directory below a writable mount.
    fn hide(&mut self, mount: &Mount, state_dir: &str, taken: &BTreeSet<String>) {
        let mut target = None;
        for part in mount.parts_to(state_dir).into_iter().flatten() {
            if taken.contains(&part.target) {
                return;
            }
            target = Some(part.target);
        }
        // A colon ends the path of an entry.
        let target = target.filter(|target| !target.contains(':'));
        self.tmpfs
            .extend(target.map(|target| format!("{target}:{EMPTY}")));
    }
}

#[cfg(test)]
#[path = "covers_tests.rs"]
mod tests;
