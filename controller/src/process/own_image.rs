//! Image of this program, for mocks, helper containers and the selftest, built without a registry.

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
use argus_reconciler::specs::build_context::OwnImageContext;
use argus_reconciler::specs::digest::Digests;
use argus_reconciler::state_dir::StateDir;

/// Returns the build context of the image in a state directory.
pub(crate) fn context_folder(state: &StateDir) -> PathBuf {
    let folder = state.private().join("own-image");
    // All spellings of the state directory lead to the same path, without links.
    host_path::real(&std::path::absolute(&folder).unwrap_or(folder))
}

/// Returns the image for a controller, which fills the build context when a spec has mocks.
pub(crate) fn lazy_build(state: &StateDir) -> OwnImageContext {
    let folder = context_folder(state);
    let filled = folder.clone();
    OwnImageContext {
        folder,
        write_context: Some(Arc::new(move || fill_context(&filled))),
    }
}

/// Fills the build context and describes the build.
pub(crate) fn build(state: &StateDir) -> io::Result<Build> {
    let folder = context_folder(state);
    fill_context(&folder)?;
    let found = Digests::default().of(&folder, Path::new("Dockerfile"), &Excluded::default())?;
    let digest = Hash::new(found.digest).map_err(io::Error::other)?;
    Ok(Build {
        tag: own_image_tag(&digest),
        context: folder.display().to_string(),
        dockerfile: "Dockerfile".to_owned(),
        target: None,
        args: BTreeMap::new(),
        digest,
        options: Box::default(),
        excluded: Excluded::default(),
        allowed: false,
    })
}

/// Fills the build context with this program, its libraries and a Dockerfile. An up-to-date context stays unchanged.
pub(crate) fn fill_context(image: &Path) -> io::Result<()> {
    fs::create_dir_all(image)?;
    let (to, running) = (image.join("argus"), fs::metadata("/proc/self/exe")?);
    let dockerfile = image.join("Dockerfile");
    if is_up_to_date(&to, &running) && dockerfile.exists() {
        return Ok(());
    }
    // The Dockerfile is written last, so its presence proves a complete context.
    drop(fs::remove_file(&dockerfile));
    place_program(&to, &running)?;
    let mut lines = "FROM scratch\nCOPY argus /argus\n".to_owned();
    let libraries = parse_libraries(&fs::read_to_string("/proc/self/maps")?);
    if !libraries.is_empty() {
        // The libraries include the dynamic loader, which the program expects in one of these folders.
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

/// Places the running program at `to`, as a hard link if possible, because it is large.
/// If its file was replaced on disk, it copies the running program instead.
fn place_program(to: &Path, running: &fs::Metadata) -> io::Result<()> {
    let temporary = to.with_extension("new");
    drop(fs::remove_file(&temporary));
    let linked = std::env::current_exe().and_then(|exe| fs::hard_link(exe, &temporary));
    let is_running_program =
        linked.is_ok() && fs::metadata(&temporary).is_ok_and(|there| there.ino() == running.ino());
    if !is_running_program {
        drop(fs::remove_file(&temporary));
        copy_program(&temporary, running).inspect_err(|_| {
            // A partial copy would only use space on a full disk.
            drop(fs::remove_file(&temporary));
        })?;
    }
    fs::rename(&temporary, to)
}

fn copy_program(to: &Path, running: &fs::Metadata) -> io::Result<()> {
    fs::copy("/proc/self/exe", to)?;
    fs::set_permissions(to, fs::Permissions::from_mode(0o755))?;
    let file = fs::File::options().write(true).open(to)?;
    file.set_modified(running.modified()?)
}

fn is_up_to_date(to: &Path, running: &fs::Metadata) -> bool {
    fs::metadata(to)
        .is_ok_and(|there| there.len() == running.len() && there.modified().ok() == running.modified().ok())
}

/// Returns the shared libraries in a process's memory map; none for a static program.
fn parse_libraries(maps: &str) -> Vec<PathBuf> {
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
    fn build_context_is_filled_once_with_the_program() {
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("own");
        fill_context(&image).unwrap();
        let first = fs::metadata(image.join("argus")).unwrap();
        assert_eq!(first.len(), fs::metadata("/proc/self/exe").unwrap().len());
        fill_context(&image).unwrap();
        let second = fs::metadata(image.join("argus")).unwrap();
        assert_eq!(first.ino(), second.ino(), "the file was not written again");
        let dockerfile = fs::read_to_string(image.join("Dockerfile")).unwrap();
        assert!(dockerfile.starts_with("FROM scratch\nCOPY argus /argus\n"));
    }

    #[test]
    fn mapped_libraries_are_found() {
        let maps = "55d0-55d1 r-xp 00000000 08:01 1 /usr/bin/argus\n\
                    7f00-7f01 r--p 00000000 08:01 2 /usr/lib/x86_64-linux-gnu/libc.so.6\n\
                    7f01-7f02 r-xp 00000000 08:01 2 /usr/lib/x86_64-linux-gnu/libc.so.6\n\
                    7f02-7f03 rw-p 00000000 00:00 0 [stack]\n\
                    7f03-7f04 r-xp 00000000 08:01 3 /lib/ld-musl-x86_64.so.1\n";
        let found = parse_libraries(maps);
        let names: Vec<_> = found.iter().map(|path| path.display().to_string()).collect();
        assert_eq!(
            names,
            ["/lib/ld-musl-x86_64.so.1", "/usr/lib/x86_64-linux-gnu/libc.so.6"]
        );
        assert!(parse_libraries("55d0-55d1 r-xp 00000000 08:01 1 /usr/bin/argus\n").is_empty());
    }
}
