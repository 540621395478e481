//! This program as an image: what mocks and the selftest run, without a registry.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use argus_backend::host_path;
use argus_core::desired::excluded::Excluded;
use argus_core::desired::{Build, own_image_tag};
use argus_core::ident::Hash;
use argus_reconciler::specs::admitter::OwnImage;
use argus_reconciler::specs::digest::Digests;
use argus_reconciler::state_dir::StateDir;

/// The folder of a state directory that the image is built from.
pub(crate) fn folder(state: &StateDir) -> PathBuf {
    let folder = state.private().join("own-image");
    // However the state directory is written, it is one folder; a build context has no links in its path.
    host_path::real(&std::path::absolute(&folder).unwrap_or(folder))
}

/// For a controller, which fills the folder when a file has mocks.
pub(crate) fn when_needed(state: &StateDir) -> OwnImage {
    let folder = folder(state);
    let filled = folder.clone();
    OwnImage {
        folder,
        fill: Some(Arc::new(move || fill(&filled))),
    }
}

/// How to build it, after its folder was filled.
pub(crate) fn build(state: &StateDir) -> io::Result<Build> {
    let folder = folder(state);
    fill(&folder)?;
    let hex = Digests::default().of(&folder, Path::new("Dockerfile"), &Excluded::default())?;
    let digest = Hash::new(hex).map_err(io::Error::other)?;
    Ok(Build {
        tag: own_image_tag(&digest),
        context: folder.display().to_string(),
        dockerfile: "Dockerfile".to_owned(),
        args: BTreeMap::new(),
        digest,
        excluded: Excluded::default(),
    })
}

/// Fills a folder with this program, the libraries it runs with, and how to put them together. What is there already stays.
pub(crate) fn fill(image: &Path) -> io::Result<()> {
    fs::create_dir_all(image)?;
    let (to, running) = (image.join("argus"), fs::metadata("/proc/self/exe")?);
    let dockerfile = image.join("Dockerfile");
    if is_same(&to, &running) && dockerfile.exists() {
        return Ok(());
    }
    // Written last, so that a folder with it is whole.
    drop(fs::remove_file(&dockerfile));
    program(&to, &running)?;
    let mut lines = "FROM scratch\nCOPY argus /argus\n".to_owned();
    let libraries = libraries(&fs::read_to_string("/proc/self/maps")?);
    if !libraries.is_empty() {
        // Where loaders are looked for: the one of its name among these.
        for folder in ["lib", "lib64"] {
            fs::create_dir_all(image.join(folder))?;
            for library in &libraries {
                if let Some(name) = library.file_name() {
                    fs::copy(library, image.join(folder).join(name))?;
                }
            }
        }
        lines += "COPY lib /lib\nCOPY lib64 /lib64\nENV LD_LIBRARY_PATH=/lib\n";
    }
    lines += "ENTRYPOINT [\"/argus\"]\n";
    fs::write(image.join("Dockerfile"), lines)
}

/// Linked where that can be done, for it is large; a program that was replaced meanwhile is the one that runs.
fn program(to: &Path, running: &fs::Metadata) -> io::Result<()> {
    let beside = to.with_extension("new");
    drop(fs::remove_file(&beside));
    let linked = std::env::current_exe().and_then(|exe| fs::hard_link(exe, &beside));
    let is_it = linked.is_ok() && fs::metadata(&beside).is_ok_and(|there| there.ino() == running.ino());
    if !is_it {
        drop(fs::remove_file(&beside));
        copy(&beside, running).inspect_err(|_| {
            // Half of it would only fill a disk that is full.
            drop(fs::remove_file(&beside));
        })?;
    }
    fs::rename(&beside, to)
}

fn copy(to: &Path, running: &fs::Metadata) -> io::Result<()> {
    fs::copy("/proc/self/exe", to)?;
    fs::set_permissions(to, fs::Permissions::from_mode(0o755))?;
    let file = fs::File::options().write(true).open(to)?;
    file.set_modified(running.modified()?)
}

fn is_same(to: &Path, running: &fs::Metadata) -> bool {
    fs::metadata(to)
        .is_ok_and(|there| there.len() == running.len() && there.modified().ok() == running.modified().ok())
}

/// The libraries among what a process has mapped; a static program has none.
fn libraries(maps: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = maps
        .lines()
        .filter_map(|line| line.find('/').map(|at| PathBuf::from(&line[at..])))
        .filter(|path| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.split('.').skip(1).any(|part| part == "so"))
        })
        .collect();
    found.sort();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_is_filled_once_and_holds_what_runs() {
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("own");
        fill(&image).unwrap();
        let first = fs::metadata(image.join("argus")).unwrap();
        assert_eq!(first.len(), fs::metadata("/proc/self/exe").unwrap().len());
        fill(&image).unwrap();
        let second = fs::metadata(image.join("argus")).unwrap();
        assert_eq!(first.ino(), second.ino(), "it was there");
        let dockerfile = fs::read_to_string(image.join("Dockerfile")).unwrap();
        assert!(dockerfile.starts_with("FROM scratch\nCOPY argus /argus\n"));
    }

    #[test]
    fn a_process_runs_with_the_libraries_that_it_has_mapped() {
        let maps = "55d0-55d1 r-xp 00000000 08:01 1 /usr/bin/argus\n\
                    7f00-7f01 r--p 00000000 08:01 2 /usr/lib/x86_64-linux-gnu/libc.so.6\n\
                    7f01-7f02 r-xp 00000000 08:01 2 /usr/lib/x86_64-linux-gnu/libc.so.6\n\
                    7f02-7f03 rw-p 00000000 00:00 0 [stack]\n\
                    7f03-7f04 r-xp 00000000 08:01 3 /lib/ld-musl-x86_64.so.1\n";
        let found = libraries(maps);
        let names: Vec<_> = found.iter().map(|path| path.display().to_string()).collect();
        assert_eq!(
            names,
            ["/lib/ld-musl-x86_64.so.1", "/usr/lib/x86_64-linux-gnu/libc.so.6"]
        );
        assert!(libraries("55d0-55d1 r-xp 00000000 08:01 1 /usr/bin/argus\n").is_empty());
    }
}
