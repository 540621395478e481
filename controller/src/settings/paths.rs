//! Paths of the settings: the default state directory, and the source of the spec files.

use std::env;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use argus_reconciler::specs::source::SpecSource;
use rustix::fs::Access;
use sha2::{Digest as _, Sha256};

use super::Settings;

impl Settings {
    /// Returns the folder or the file that the setting `specs` names.
    pub(crate) fn spec_source(&self) -> SpecSource {
        SpecSource::new(&self.specs, &self.state)
    }
}

/// State directory in the current directory.
pub(super) const LOCAL: &str = ".argus";

/// Returns the state directory without a setting: `./.argus`, or a directory of the user if the current directory is not
/// writable. Controllers and clients that start in the same directory find the same one.
pub(super) fn default_state_dir() -> PathBuf {
    let fallback = || {
        let home = user_state_home(env::var_os("XDG_STATE_HOME"), env::var_os("HOME"))?;
        let current = env::current_dir().ok()?;
        Some(home.join("argus").join(name_of(&current)))
    };
    // A client of another user reads the status of a controller that can write here.
    let is_usable = Path::new(LOCAL).exists() || rustix::fs::access(".", Access::WRITE_OK).is_ok();
    let other = if is_usable { None } else { fallback() };
    other.unwrap_or_else(|| Path::new(".").join(LOCAL))
}

/// Returns the directory for state of the user, as the XDG base directory specification defines it.
fn user_state_home(xdg: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let absolute = |text: Option<OsString>| text.map(PathBuf::from).filter(|path| path.is_absolute());
    absolute(xdg).or_else(|| absolute(home).map(|home| home.join(".local/state")))
}

/// Returns a name that identifies a directory: its own name for people, and a hash of its path.
fn name_of(directory: &Path) -> String {
    let name = directory.file_name().unwrap_or_default().to_string_lossy();
    let hash = Sha256::digest(directory.as_os_str().as_encoded_bytes());
    let mut text = format!("{name}-");
    for byte in &hash[..6] {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_home_is_xdg_or_below_home() {
        let found = |xdg: Option<&str>, home: Option<&str>| {
            user_state_home(xdg.map(OsString::from), home.map(OsString::from))
        };
        assert_eq!(found(Some("/x"), Some("/home/me")), Some("/x".into()));
        let below_home = Some(PathBuf::from("/home/me/.local/state"));
        assert_eq!(found(Some("relative"), Some("/home/me")), below_home);
        assert_eq!(found(None, Some("/home/me")), below_home);
        assert_eq!(found(Some(""), None), None);
    }

    #[test]
    fn each_directory_has_its_own_name() {
        let shop = name_of(Path::new("/src/shop"));
        assert!(
            shop.starts_with("shop-") && shop.len() == "shop-".len() + 12,
            "{shop}"
        );
        assert_ne!(shop, name_of(Path::new("/other/shop")));
    }
}
