//! Entries in the index of a git worktree: its tracked files and its submodules.
//!
//! The index is in the git directory, which no container can change. `.gitmodules` is a file of the worktree: a container can change
//! it, and git also runs in a submodule that it does not name.

use std::ffi::OsStr;
use std::io::{self, BufRead};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path};

/// Mode of an entry that is a submodule.
pub(super) const GITLINK: u32 = 0o160_000;
/// Flag of an entry with two more bytes of flags.
const EXTENDED: u8 = 0x40;
/// Length of the times, the mode, the owner and the size of an entry. Its hash follows.
const METADATA: usize = 40;
/// Place of the mode in an entry.
const MODE: usize = 24;
/// Maximum length of a path.
const MAX_PATH: usize = 4_096;

/// Passes the mode and the relative path of each entry to `found`, until that returns false. `hash_length` is the length of a hash in bytes.
///
/// # Errors
/// The index has another format, or its end is missing. The entries before that are passed.
pub(super) fn read_entries(
    mut index: impl BufRead,
    hash_length: usize,
    mut found: impl FnMut(u32, &Path) -> bool,
) -> io::Result<()> {
    let mut header = [0; 12];
    index.read_exact(&mut header)?;
    let [b'D', b'I', b'R', b'C', 0, 0, 0, version @ 2..=4, count @ ..] = header else {
        return Err(invalid());
    };
    let mut fields = vec![0; METADATA + hash_length + 2];
    let mut path = Vec::new();
    for _ in 0..u32::from_be_bytes(count) {
        index.read_exact(&mut fields)?;
        let mut length = fields.len();
        if version > 2 && fields[METADATA + hash_length] & EXTENDED != 0 {
            index.read_exact(&mut [0; 2])?;
            length += 2;
        }
        if version == 4 {
            // The path begins as the one before it.
            let removed = read_number(&mut index)?;
            path.truncate(path.len().checked_sub(removed).ok_or_else(invalid)?);
            read_name(&mut index, &mut path)?;
        } else {
            path.clear();
            read_name(&mut index, &mut path)?;
            // The length of an entry with its final zero bytes, of which one is read, is a multiple of eight.
            let padding = 7 - (length + path.len()) % 8;
            index.read_exact(&mut [0; 7][..padding])?;
        }
        let mode = [0, 1, 2, 3].map(|byte| fields[MODE + byte]);
        let relative = Path::new(OsStr::from_bytes(&path));
        let mut parts = relative.components();
        let is_below = parts.all(|part| matches!(part, Component::Normal(_)));
        if is_below && !path.is_empty() && !found(u32::from_be_bytes(mode), relative) {
            break;
        }
    }
    Ok(())
}

/// Adds the bytes up to a zero byte to a path.
fn read_name(index: &mut impl BufRead, path: &mut Vec<u8>) -> io::Result<()> {
    let limit = (MAX_PATH - path.len().min(MAX_PATH)) as u64 + 1;
    io::Read::take(index, limit).read_until(0, path)?;
    match path.pop() {
        Some(0) => Ok(()),
        _ => Err(invalid()),
    }
}

/// Reads a number of variable length.
fn read_number(index: &mut impl BufRead) -> io::Result<usize> {
    let mut number: usize = 0;
    loop {
        let mut byte = [0];
        index.read_exact(&mut byte)?;
        number |= usize::from(byte[0] & 0x7f);
        if byte[0] & 0x80 == 0 {
            return Ok(number);
        }
        if number > MAX_PATH {
            return Err(invalid());
        }
        number = (number + 1) << 7;
    }
}

fn invalid() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "it is not an index of git")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An index with these entries. Each has two more bytes of flags if its path contains `x`.
    fn index(version: u8, hash_length: usize, entries: &[(u32, String)]) -> Vec<u8> {
        let mut bytes = vec![b'D', b'I', b'R', b'C', 0, 0, 0, version];
        bytes.extend(u32::try_from(entries.len()).unwrap().to_be_bytes());
        let mut before = "";
        for (mode, path) in entries {
            let start = bytes.len();
            bytes.extend([7; MODE]);
            bytes.extend(mode.to_be_bytes());
            bytes.extend([7; METADATA - MODE - 4]);
            bytes.extend(vec![9; hash_length]);
            let is_extended = version > 2 && path.contains('x');
            bytes.extend(if is_extended { [EXTENDED, 0] } else { [0, 0] });
            bytes.extend(vec![0; if is_extended { 2 } else { 0 }]);
            if version == 4 {
                let equal = before
                    .bytes()
                    .zip(path.bytes())
                    .take_while(|(a, b)| a == b)
                    .count();
                let removed = u16::try_from(before.len() - equal).unwrap();
                let [high, low] = (removed << 1).to_be_bytes();
                let low = low >> 1;
                match removed {
                    0..0x80 => bytes.push(low),
                    _ => bytes.extend([0x80 | (high - 1), low]),
                }
                bytes.extend(&path.as_bytes()[equal..]);
                bytes.push(0);
            } else {
                bytes.extend(path.as_bytes());
                bytes.push(0);
                bytes.extend(vec![0; (8 - (bytes.len() - start) % 8) % 8]);
            }
            before = path;
        }
        bytes.extend(vec![1; hash_length]);
        bytes
    }

    fn read(bytes: &[u8], hash_length: usize) -> (Vec<String>, bool) {
        let mut found = Vec::new();
        let result = read_entries(bytes, hash_length, |mode, path| {
            found.extend(path.to_str().filter(|_| mode == GITLINK).map(str::to_owned));
            true
        });
        (found, result.is_ok())
    }

    fn entries() -> impl Strategy<Value = Vec<(u32, String)>> {
        let mode = prop_oneof![Just(GITLINK), Just(0o100_644), Just(0o120_000), Just(0o040_000)];
        let path = prop_oneof!["[a-cx]{1,9}(/[a-cx]{1,9}){0,3}", "[a-cx]{100,400}"];
        proptest::collection::vec((mode, path), 0..12)
    }

    proptest! {
        #[test]
        fn submodules_of_every_version_are_found(
            version in 2_u8..=4,
            hash_length in prop_oneof![Just(20_usize), Just(32)],
            entries in entries(),
        ) {
            let links = entries.iter().filter(|(mode, _)| *mode == GITLINK);
            let expected: Vec<String> = links.map(|(_, path)| path.clone()).collect();
            prop_assert_eq!(read(&index(version, hash_length, &entries), hash_length), (expected, true));
        }

        #[test]
        fn damaged_index_never_panics(
            version in 0_u8..=5,
            hash_length in prop_oneof![Just(20_usize), Just(32)],
            entries in entries(),
            changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..20),
            end in any::<prop::sample::Index>(),
        ) {
            let mut bytes = index(version, 20, &entries);
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            bytes.truncate(end.index(bytes.len() + 1));
            let (found, _) = read(&bytes, hash_length);
            let is_below = |path: &String| !path.split('/').any(|part| part == "..") && !path.starts_with('/');
            prop_assert!(found.iter().all(is_below), "{:?}", found);
            prop_assert!(found.iter().all(|path| path.len() <= MAX_PATH));
        }
    }

    #[test]
    fn paths_out_of_the_worktree_are_no_submodules() {
        let entries = ["../a", "/a", "a/../../b", "", "ok"].map(|path| (GITLINK, path.to_owned()));
        assert_eq!(read(&index(2, 20, &entries), 20), (vec!["ok".to_owned()], true));
    }

    #[test]
    fn other_formats_and_endless_paths_are_errors() {
        for bytes in [
            &b""[..],
            b"DIRC",
            b"DIRC\0\0\0\x05\0\0\0\0",
            b"LINK\0\0\0\x02\0\0\0\0",
        ] {
            assert_eq!(read(bytes, 20), (vec![], false));
        }
        let long = [
            (GITLINK, "a".repeat(MAX_PATH)),
            (GITLINK, "a".repeat(MAX_PATH + 1)),
        ];
        for version in 2..=4 {
            assert_eq!(read(&index(version, 20, &long[..1]), 20).0.len(), 1);
            assert_eq!(read(&index(version, 20, &long[1..]), 20), (vec![], false));
        }
    }
}
