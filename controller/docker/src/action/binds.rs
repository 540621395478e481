//! Mounts of a container, and the paths that must not be links.
//!
//! The engine makes the mounts in the order of the depth of their targets, and resolves each target in what it has mounted before. So a
//! link can move a mount to another place, and a later mount can hide that link. A container with covers therefore has no target behind
//! a link at any time: not in its image, not on the host below a bind mount, and not in a volume, because no target is below one. A tmpfs
//! is empty and moves nothing, so links may lead to it, but not into another mount.

use std::collections::BTreeSet;
use std::path::PathBuf;

use argus_core::action::ContainerSpec;
use argus_core::desired::{FILES_OF_ENGINE, Mount, tmpfs_path};
use bollard::models;

/// The mounts of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Binds {
    /// Source and target of each bind mount.
    pairs: Vec<(String, String)>,
    /// Targets of volumes.
    volumes: BTreeSet<String>,
    tmpfs: Vec<String>,
}

impl Binds {
    pub(super) fn of_spec(spec: &ContainerSpec) -> Self {
        let mut found = Self::default();
        for mount in &spec.mounts {
            match mount {
                Mount::Bind { source, target, .. } => found.pairs.push((source.clone(), target.clone())),
                Mount::Volume { target, .. } => {
                    found.volumes.insert(target.clone());
                }
            }
        }
        found.tmpfs = spec.tmpfs.iter().map(|entry| tmpfs_target(entry)).collect();
        found
    }

    pub(super) fn of_container(host: models::HostConfig) -> Self {
        let mounts = host.mounts.unwrap_or_default().into_iter();
        let mounts = mounts.filter_map(|mount| {
            let is_bind = mount.typ == Some(models::MountType::BIND);
            Some((is_bind, mount.source.unwrap_or_default(), mount.target?))
        });
        let texts = host.binds.unwrap_or_default().into_iter();
        let texts = texts.filter_map(|text| {
            let mut parts = text.splitn(3, ':');
            let (source, target) = (parts.next()?.to_owned(), parts.next()?.to_owned());
            Some((source.starts_with('/'), source, target))
        });
        let (binds, volumes): (Vec<_>, Vec<_>) = mounts.chain(texts).partition(|(is_bind, ..)| *is_bind);
        let tmpfs = host.tmpfs.unwrap_or_default().into_keys();
        Self {
            pairs: binds
                .into_iter()
                .map(|(_, source, target)| (source, target))
                .collect(),
            volumes: volumes.into_iter().map(|(.., target)| target).collect(),
            tmpfs: tmpfs.map(|path| tmpfs_target(&path)).collect(),
        }
    }

    /// Adds the volumes that the engine created for the image.
    pub(super) fn add_volumes(&mut self, targets: impl IntoIterator<Item = String>) {
        self.volumes.extend(targets);
    }

    /// Paths on the host.
    pub(super) fn sources(&self) -> Vec<PathBuf> {
        self.pairs
            .iter()
            .map(|(source, _)| PathBuf::from(source))
            .collect()
    }

    pub(super) fn has_covers(&self) -> bool {
        self.covered().next().is_some()
    }

    /// Targets of the mounts with covers.
    fn covered(&self) -> impl Iterator<Item = &str> {
        let is_covered = move |bind: &&(String, String)| {
            self.pairs.iter().any(|other| is_cover(other, bind))
                || self.tmpfs.iter().any(|hidden| below(hidden, &bind.1).is_some())
        };
        self.pairs
            .iter()
            .filter(is_covered)
            .map(|(_, target)| target.as_str())
    }

    /// Targets of bind mounts and of volumes.
    fn filled(&self) -> impl Iterator<Item = &String> {
        self.pairs.iter().map(|(_, target)| target).chain(&self.volumes)
    }

    /// Paths in the image that must not be links: each target of a bind mount or volume that is in no other bind mount, and each
    /// directory above it.
    pub(super) fn paths_in_image(&self) -> BTreeSet<String> {
        let is_in_bind = |target: &String| self.pairs.iter().any(|(_, bind)| below(target, bind).is_some());
        with_folders_above(self.filled().filter(|target| !is_in_bind(target)))
    }

    /// Paths in the container, with all mounts in place, that must not be links: those of the image, and the targets in covered mounts.
    pub(super) fn paths_in_container(&self) -> BTreeSet<String> {
        let is_covered = |target: &&String| {
            let mut roots = self.covered();
            roots.any(|root| *root == **target || below(target, root).is_some())
        };
        let mut paths = with_folders_above(self.filled().chain(&self.tmpfs).filter(is_covered));
        paths.extend(self.paths_in_image());
        paths
    }

    /// Paths on the host that must not be links: each target in a bind mount, also of the engine's own mounts.
    pub(super) fn paths_on_host(&self) -> BTreeSet<PathBuf> {
        let targets = self.filled().chain(&self.tmpfs).map(String::as_str);
        let all = targets.chain(FILES_OF_ENGINE).flat_map(|target| {
            let in_bind =
                move |(source, bind): &(String, String)| Some(format!("{source}{}", below(target, bind)?));
            self.pairs.iter().filter_map(in_bind)
        });
        all.map(PathBuf::from).collect()
    }

    /// Returns whether a bind mount or a volume is mounted at a path.
    pub(super) fn is_filled(&self, path: &str) -> bool {
        self.filled().any(|target| target == path)
    }

    /// Targets of tmpfs mounts that are in no bind mount or volume.
    pub(super) fn tmpfs_outside_mounts(&self) -> impl Iterator<Item = &String> {
        let is_outside = |path: &&String| {
            let mut filled = self.filled();
            !filled.any(|target| target == *path || below(path, target).is_some())
        };
        self.tmpfs.iter().filter(is_outside)
    }

    /// Returns a target below that of a volume, with that of the volume.
    pub(super) fn below_volume(&self) -> Option<(&str, &str)> {
        let targets = self.filled().chain(&self.tmpfs).map(String::as_str);
        targets.chain(FILES_OF_ENGINE).find_map(|target| {
            let above = self.volumes.iter().find(|volume| below(target, volume).is_some());
            Some((target, above?.as_str()))
        })
    }

    /// For a container with one covered mount and nothing else: the places of a cover if a link moved the mount to a directory above its target,
    /// and thereby hid the link. `None` for other containers: in them, a further mount could hide the moved cover.
    pub(super) fn places_of_moved_cover(&self) -> Option<Vec<String>> {
        let top = self.pairs.iter().min_by_key(|(_, target)| target.len())?;
        let mut others = self.pairs.iter().filter(|other| *other != top);
        if !self.volumes.is_empty() || !others.clone().all(|other| is_cover(other, top)) {
            return None;
        }
        let is_leaf = |(_, cover): &&(String, String)| {
            let mut targets = self.pairs.iter();
            !targets.any(|(_, target)| below(target, cover).is_some())
        };
        let rest = below(&others.find(is_leaf)?.1, &top.1)?;
        let above = std::iter::once(String::new()).chain(folders_above(&top.1));
        Some(above.map(|folder| folder + rest).collect())
    }
}

/// Returns whether a bind mount mounts a part of another one at the same place below it.
fn is_cover((source, target): &(String, String), (above, top): &(String, String)) -> bool {
    below(target, top).is_some_and(|rest| below(source, above) == Some(rest))
}

/// Returns the part of a path below another one, with its slash.
fn below<'a>(path: &'a str, root: &str) -> Option<&'a str> {
    let rest = path.strip_prefix(root.trim_end_matches('/'))?;
    Some(rest).filter(|rest| rest.starts_with('/'))
}

fn with_folders_above<'a>(paths: impl Iterator<Item = &'a String>) -> BTreeSet<String> {
    let with_folders = |path: &'a String| folders_above(path).chain([path.clone()]);
    paths.flat_map(with_folders).collect()
}

/// Directories above a path, without the root.
pub(super) fn folders_above(path: &str) -> impl Iterator<Item = String> {
    let ends = path.match_indices('/').map(|(end, _)| end);
    ends.filter(|end| *end > 0).map(|end| path[..end].to_owned())
}

/// Path of a tmpfs mount, as `/path` or `/path:options`.
fn tmpfs_target(entry: &str) -> String {
    tmpfs_path(entry).trim_end_matches('/').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mounts of a file whose binds have the form `source:target`.
    fn mounts(binds: &[&str], volumes: &[&str], tmpfs: &[&str]) -> Binds {
        let bind = |text: &&str| {
            let (source, target) = text.split_once(':').unwrap();
            (source.to_owned(), target.to_owned())
        };
        Binds {
            pairs: binds.iter().map(bind).collect(),
            volumes: volumes.iter().map(|path| (*path).to_owned()).collect(),
            tmpfs: tmpfs.iter().map(|entry| tmpfs_target(entry)).collect(),
        }
    }

    fn texts<const N: usize>(paths: [&str; N]) -> BTreeSet<String> {
        paths.map(str::to_owned).into()
    }

    #[test]
    fn binds_of_a_container_are_read_in_both_forms() {
        let mount = |typ, source: &str| models::Mount {
            typ: Some(typ),
            source: Some(source.to_owned()),
            target: Some(format!("/at{source}")),
            ..Default::default()
        };
        let host = models::HostConfig {
            mounts: Some(vec![
                mount(models::MountType::BIND, "/a"),
                mount(models::MountType::VOLUME, "/named"),
            ]),
            binds: Some(vec!["/b:/x:ro".to_owned(), "named:/y".to_owned()]),
            ..Default::default()
        };
        let binds = Binds::of_container(host);
        assert_eq!(binds, mounts(&["/a:/at/a", "/b:/x"], &["/at/named", "/y"], &[]));
        assert!(!binds.has_covers());
    }

    #[test]
    fn targets_of_covered_mounts_need_paths_without_links() {
        let binds = [
            "/p:/srv/app",
            "/p/.git:/srv/app/.git",
            "/p:/other",
            "/q/x:/other/y",
        ];
        let tmpfs = ["/var/run", "/data/tmp", "/srv/app/tmp"];
        let found = mounts(&binds, &["/srv/app/node_modules", "/data"], &tmpfs);
        assert!(found.has_covers());
        let in_image = texts(["/data", "/other", "/srv", "/srv/app"]);
        assert_eq!(found.paths_in_image(), in_image);
        let covered = texts(["/srv/app/.git", "/srv/app/node_modules", "/srv/app/tmp"]);
        assert_eq!(
            found.paths_in_container(),
            in_image.union(&covered).cloned().collect()
        );
        let outside: Vec<&String> = found.tmpfs_outside_mounts().collect();
        assert_eq!(outside, ["/var/run"]);
        let on_host = ["/p/.git", "/p/node_modules", "/p/tmp", "/p/y"].map(PathBuf::from);
        assert_eq!(found.paths_on_host(), on_host.into());
        let found = mounts(&binds[2..], &[], &["/other/.argus:ro", "/run/x:ro"]);
        assert_eq!(
            found.paths_in_container(),
            texts(["/other", "/other/.argus", "/other/y"])
        );
    }

    #[test]
    fn target_below_a_volume_is_found() {
        let covered = ["/p:/p/x", "/p/.git:/p/x/.git"];
        for (volumes, tmpfs, expected) in [
            (&["/k", "/k/m"][..], &[][..], Some(("/k/m", "/k"))),
            (&["/p"], &[], Some(("/p/x", "/p"))),
            (&["/etc"], &[], Some(("/etc/hosts", "/etc"))),
            (&["/p/x/node_modules", "/kk", "/k"], &["/kkk/tmp"], None),
            (&["/k"], &["/k/tmp"], Some(("/k/tmp", "/k"))),
            (&[], &["/p"], None),
        ] {
            let found = mounts(&covered, volumes, tmpfs);
            assert_eq!(found.below_volume(), expected, "{volumes:?} {tmpfs:?}");
        }
    }

    #[test]
    fn container_with_other_mounts_needs_a_check_of_the_image() {
        let covered = [
            "/p:/srv/app",
            "/p/lib:/srv/app/lib",
            "/p/lib/.git:/srv/app/lib/.git",
        ];
        let hidden = &["/srv/app/.argus:ro", "/tmp"];
        let places = mounts(&covered, &[], hidden).places_of_moved_cover();
        let expected = ["/lib/.git", "/srv/lib/.git"].map(str::to_owned);
        assert_eq!(places, Some(expected.into()));
        for (more, volumes) in [
            ("/p:/b", &[][..]),
            ("/q:/srv/app/q", &[]),
            ("/p/c:/srv/app/c", &["/v"]),
        ] {
            let binds: Vec<_> = covered.iter().copied().chain([more]).collect();
            assert_eq!(
                mounts(&binds, volumes, &[]).places_of_moved_cover(),
                None,
                "{more}"
            );
        }
        assert_eq!(mounts(&covered[..1], &[], hidden).places_of_moved_cover(), None);
    }
}
