//! Line of an ignore file that excludes an existing path from a context.

use std::path::Path;

use argus_backend::host_path;
use argus_backend::host_path::folder::Folder;
use argus_core::dockerfile::Exclusion;
use rustix::fs::FileType;

use super::{locate_dockerfile, read_rules};
use crate::image::dockerignore::DockerIgnore;

/// Returns the line that excludes a path of a context; `None` if the path does not exist, or if no rule excludes it. No link is followed.
pub(crate) fn find_exclusion(context: &Path, dockerfile: &str, path: &str) -> Option<Exclusion> {
    let resolved = host_path::resolve_without_links(context).ok()?;
    let root = Folder::open(&resolved.path).ok()?;
    let path = Path::new(path);
    let folder = root.below(path.parent()?).ok()?;
    let stat = folder.stat(path.file_name()?).ok()?;
    let is_folder = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    let (inside, _) = locate_dockerfile(&resolved.path, dockerfile).ok()?;
    let (file, rules) = read_rules(&root, &inside).ok()?;
    let line = DockerIgnore::read(&rules).excluding_line(path, is_folder)?;
    Some(Exclusion { file, line })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn excluded_path_has_the_line_of_its_last_rule() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("web/dist")).unwrap();
        for (path, text) in [
            ("Dockerfile", ""),
            ("web.Dockerfile", ""),
            (".dockerignore", "# notes\n*\n!web\nweb/dist/\n"),
            ("web.Dockerfile.dockerignore", "a.txt"),
            ("a.txt", ""),
            ("web/dist/b.txt", ""),
        ] {
            fs::write(dir.path().join(path), text).unwrap();
        }
        for (dockerfile, path, expected) in [
            ("Dockerfile", "a.txt", Some((".dockerignore", 2))),
            ("Dockerfile", "web/dist", Some((".dockerignore", 4))),
            ("Dockerfile", "web/dist/b.txt", Some((".dockerignore", 4))),
            ("Dockerfile", "web", None),
            ("Dockerfile", "missing", None),
            ("Dockerfile", "/a.txt", None),
            (
                "web.Dockerfile",
                "a.txt",
                Some(("web.Dockerfile.dockerignore", 1)),
            ),
            ("web.Dockerfile", "web/dist", None),
        ] {
            let found = find_exclusion(dir.path(), dockerfile, path);
            let found = found.as_ref().map(|found| (found.file.as_str(), found.line));
            assert_eq!(found, expected, "{dockerfile}: {path}");
        }
    }
}
