//! Variables of a spec file: its `.env`, and the permitted environment variables of the controller.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use argus_core::dotenv::{self, Problem};
use argus_core::hex;
use argus_core::quoting::PathText as _;
use argus_crds::diagnostic::{Diagnostic, Location, OtherFile};
use sha2::{Digest, Sha256};

use super::location::SpecLocation;
use super::scan::MAX_FILE_BYTES;

/// Prefix of the variables that every spec file may read.
pub const ENV_PREFIX: &str = "ARGUS_ENV_";

/// Name of the file with variables next to a spec file.
const DOTENV: &str = ".env";

/// Path of the `.env` file next to a spec file.
pub(super) fn dotenv_path(location: &SpecLocation) -> PathBuf {
    location.file.with_file_name(DOTENV)
}

/// Returns the variables of the `.env` file next to a spec file, and its problems. `permitted` are those of the controller.
pub fn dotenv(
    location: &SpecLocation,
    permitted: &BTreeMap<String, String>,
) -> (BTreeMap<String, String>, Vec<Diagnostic>) {
    let path = dotenv_path(location);
    let unreadable = |why: String| {
        let diagnostic = Diagnostic::warning("", format!("`{}` {why}", path.shown()));
        (BTreeMap::new(), vec![diagnostic])
    };
    let bytes = match location.read(&path, MAX_FILE_BYTES) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return unreadable(format!("is longer than {MAX_FILE_BYTES} bytes")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return (BTreeMap::new(), Vec::new()),
        Err(error) => return unreadable(format!("cannot be read: {error}")),
    };
    let file = dotenv::read(&bytes, &|name| permitted.get(name).cloned());
    let diagnostic = |problem: &Problem| {
        let place = OtherFile {
            file: DOTENV.to_owned(),
            path: String::new(),
            line: Some(problem.line),
        };
        Diagnostic::error("", problem.describe(&path))
            .hint(&problem.hint)
            .elsewhere(place)
    };
    (file.variables, file.problems.iter().map(diagnostic).collect())
}

/// Returns the text of a document that a spec file names, or the error text.
pub fn document(path: &Path, location: &SpecLocation) -> Result<String, String> {
    let shown = path.shown();
    match location.read(path, MAX_FILE_BYTES) {
        Ok(Some(bytes)) => String::from_utf8(bytes).map_err(|_| format!("`{shown}` is not UTF-8 text")),
        Ok(None) => Err(format!("`{shown}` is longer than {MAX_FILE_BYTES} bytes")),
        Err(error) => Err(format!("`{shown}` cannot be read: {error}")),
    }
}

/// Permitted variables of the controller. They override the `.env`, because the user named them explicitly.
pub fn permitted(process: &BTreeMap<String, String>, allowed: &[String]) -> BTreeMap<String, String> {
    let is_permitted = |name: &String| name.starts_with(ENV_PREFIX) || allowed.contains(name);
    let permitted = process.iter().filter(|(name, _)| is_permitted(name));
    permitted
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Warnings about variables of this process that a Compose file names and does not get, because its project is not allowed.
pub(super) fn warn_of_unread<'a>(
    unset: &'a BTreeMap<String, Option<Location>>,
    process: &'a BTreeMap<String, String>,
) -> impl Iterator<Item = Diagnostic> {
    let unread = unset.iter().filter(|(name, _)| process.contains_key(*name));
    unread.map(|(name, location)| {
        let message = format!("`{name}` of the shell is not read, because the project is not allowed");
        let hint = format!(
            "run `argus allow`, write `{name}` to the `.env`, or pass `--env-allow {name}`; a running controller reads only the `.env`"
        );
        Diagnostic {
            location: *location,
            ..Diagnostic::warning("", message).hint(hint)
        }
    })
}

/// Hash of variables.
pub(super) fn hash(variables: &BTreeMap<String, String>) -> Sha256 {
    let mut hash = Sha256::new();
    for part in variables.iter().flat_map(|(name, value)| [name, value]) {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash
}

/// UUID that is stable for the same contents of the same file.
pub fn uuid(controller: &str, path: &Path, hash: &[u8; 32]) -> String {
    let mut all = Sha256::new();
    for part in [controller.as_bytes(), path.as_os_str().as_encoded_bytes(), hash] {
        all.update((part.len() as u64).to_be_bytes());
        all.update(part);
    }
    let mut bits = [0; 16];
    bits.copy_from_slice(&all.finalize()[..16]);
    // Version 8: custom derivation.
    hex::uuid(u128::from_be_bytes(bits) & !(0xf << 76) & !(0xf << 60) | 0x8 << 76 | 0xa << 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_named_variables_of_the_controller_are_passed() {
        let map = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect()
        };
        let process = map(&[
            ("TOKEN", "t"),
            ("ARGUS_ENV_X", "x"),
            ("CI", "yes"),
            ("DB", "secret"),
        ]);
        let all = permitted(&process, &["CI".to_owned()]);
        assert_eq!(all, map(&[("ARGUS_ENV_X", "x"), ("CI", "yes")]));
    }

    #[test]
    fn only_set_variables_of_the_shell_are_unread() {
        let location = Location {
            line: 3,
            column: 1,
            length: 1,
        };
        let unset = [("TAG", Some(location)), ("OTHER", None)];
        let unset = unset.map(|(name, at)| (name.to_owned(), at)).into();
        let process = [("TAG", "hunter2"), ("HOME", "/root")];
        let process = process.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let found: Vec<_> = warn_of_unread(&unset, &process.into()).collect();
        let [warning] = found.as_slice() else {
            panic!("{found:?}");
        };
        assert!(
            !warning.is_error() && warning.location == Some(location),
            "{warning:?}"
        );
        let hint = warning.hint.as_deref().unwrap();
        assert!(hint.contains("--env-allow TAG"), "{hint}");
        assert!(!format!("{warning:?}").contains("hunter2"));
    }

    #[test]
    fn uuid_depends_on_controller_path_and_contents() {
        let one = uuid("C", Path::new("a"), &[1; 32]);
        assert_eq!(one, uuid("C", Path::new("a"), &[1; 32]));
        assert_ne!(one, uuid("C", Path::new("a"), &[2; 32]));
        assert_ne!(one, uuid("C", Path::new("b"), &[1; 32]));
        let parts: Vec<usize> = one.split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12]);
    }
}
