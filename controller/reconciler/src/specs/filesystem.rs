//! Kinds of file systems: only local ones report every write by notifications and times.

use std::path::Path;

/// Magic numbers of local file systems: ext2 to ext4, XFS, Btrfs, tmpfs, overlayfs, F2FS, ZFS, ramfs, bcachefs.
const LOCAL: [i64; 9] = [
    0xEF53,
    0x5846_5342,
    0x9123_683E,
    0x0102_1994,
    0x794C_7630,
    0xF2F5_2010,
    0x2FC1_2FC1,
    0x8584_58F6,
    0xCA45_1A4E,
];

/// Returns true if every write of a file below this folder is made through this kernel.
pub(super) fn is_local(folder: &Path) -> bool {
    rustix::fs::statfs(folder).is_ok_and(|found| {
        // The type of the field depends on the platform.
        #[allow(clippy::useless_conversion, reason = "the type depends on the platform")]
        LOCAL.contains(&i64::from(found.f_type))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_is_not_a_local_file_system() {
        let dir = tempfile::tempdir().unwrap();
        assert!(is_local(dir.path()));
        assert!(!is_local(Path::new("/proc")));
        assert!(!is_local(&dir.path().join("gone")));
    }
}
