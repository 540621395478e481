//! Token of the HTTP address, in a private file: its holders have the rights of the controller's user.

use std::fmt;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use argus_backend::host_path::folder;
use argus_core::hex::hex;
use argus_core::quoting::PathText as _;
use argus_reconciler::state_dir::{StateDir, write_private};
use argus_reconciler::state_file;
use sha2::{Digest as _, Sha256};

/// Maximum size of a token file in bytes.
const MAX_TOKEN_BYTES: u64 = 4 * 1024;

/// Token of an address. No output of this type contains it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Token(Arc<str>);

impl Token {
    /// Returns whether a client sent this token. Compares in constant time.
    pub(super) fn is(&self, sent: &str) -> bool {
        let digest = |text: &str| Sha256::digest(text.as_bytes());
        let (one, other) = (digest(sent), digest(&self.0));
        let differences = one.iter().zip(other.iter()).map(|(a, b)| a ^ b);
        differences.fold(0, |all, one| all | one) == 0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

#[cfg(test)]
impl From<&str> for Token {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

/// Returns the token of a state directory; creates it if it does not exist.
pub(super) fn load_token(state: &StateDir) -> io::Result<Token> {
    match read_token(&token_path(state)) {
        Some(token) => Ok(token),
        None => create_token(state),
    }
}

/// Replaces the token of a state directory.
pub(super) fn create_token(state: &StateDir) -> io::Result<Token> {
    let mut random = [0_u8; 32];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut random)?;
    let fresh = hex(&random);
    write_private(&token_path(state), format!("{fresh}\n").as_bytes())?;
    Ok(Token(fresh.into()))
}

/// Removes the token of a state directory, because another process receives what clients send to the address.
pub(super) fn discard_token(state: &StateDir) {
    let path = token_path(state);
    if let Err(error) = folder::remove(&path) {
        tracing::error!(path = %path.shown(), %error, "cannot remove the token");
    }
}

fn token_path(state: &StateDir) -> PathBuf {
    state.private().join("token")
}

fn read_token(path: &Path) -> Option<Token> {
    let text = state_file::read_text(path, MAX_TOKEN_BYTES).ok()?;
    let text = text.trim();
    (text.len() >= 32).then(|| Token(text.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Guard;

    #[test]
    fn discarded_token_never_returns() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::prepare(&dir.path().join("state"), &dir.path().join("specs")).unwrap();
        let first = load_token(&state).unwrap();
        assert_eq!(load_token(&state).unwrap(), first);
        discard_token(&state);
        assert!(!token_path(&state).exists());
        discard_token(&state);
        let second = load_token(&state).unwrap();
        assert_ne!(second, first);
        assert_ne!(create_token(&state).unwrap(), second);
    }

    #[test]
    fn token_is_created_once_and_is_private() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::prepare(&dir.path().join("state"), &dir.path().join("specs")).unwrap();
        let first = load_token(&state).unwrap();
        assert_eq!(first.0.len(), 64);
        assert_eq!(load_token(&state).unwrap(), first);
        let path = state.private().join("token");
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        std::fs::write(&path, "").unwrap();
        let second = load_token(&state).unwrap();
        assert!(
            second != first && second.0.len() == 64,
            "an incomplete token is replaced"
        );
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        assert_eq!(load_token(&state).unwrap().0.len(), 64, "a link is replaced");
        assert!(std::fs::symlink_metadata(&path).unwrap().is_file());
    }

    #[test]
    fn debug_output_does_not_contain_the_token() {
        let guard = Guard::Address {
            at: "127.0.0.1:9470".parse().unwrap(),
            token: "a-token".into(),
        };
        let shown = format!("{guard:?}");
        assert!(shown.contains("9470") && !shown.contains("a-token"), "{shown}");
    }
}
