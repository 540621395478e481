//! Paths of the programs that the tests run.

use std::path::{Path, PathBuf};

/// The `argus` binary of this build, from the directory of the running test executable. An instrumented test therefore
/// runs the instrumented program. `ARGUS_BIN` overrides it.
#[must_use]
pub fn argus() -> PathBuf {
    if let Some(given) = std::env::var_os("ARGUS_BIN") {
        return PathBuf::from(given);
    }
    let me = std::env::current_exe().expect("a test executable has a path");
    let found = me
        .ancestors()
        .skip(1)
        .take(3)
        .map(|folder| folder.join("argus"))
        .find(|path| path.is_file());
    found.unwrap_or_else(|| {
        panic!(
            "no `argus` next to {}\nhint: cargo build -p argus, or ./scripts/test",
            me.display()
        )
    })
}

/// The shared libraries that a dynamically linked program needs, with the loader; empty for a static one.
#[must_use]
pub fn libraries(program: &Path) -> Vec<PathBuf> {
    let output = std::process::Command::new("ldd")
        .arg(program)
        .output()
        .expect("ldd runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.split_whitespace()
        .filter(|word| word.starts_with('/'))
        .map(PathBuf::from)
        .collect()
}

/// A program from PATH or from the folders that root's PATH sometimes lacks.
#[must_use]
pub fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':')
        .chain(["/usr/bin", "/usr/sbin", "/bin", "/sbin"])
        .map(|folder| Path::new(folder).join(name))
        .find(|file| file.is_file())
}
