//! Lexical operations on paths, without access to the disk.

/// Folders of a container in which the engine mounts what the kernel shows.
pub const KERNEL_FOLDERS: [&str; 3] = ["/proc", "/sys", "/dev"];

/// Files that the engine mounts into each container.
pub const FILES_OF_ENGINE: [&str; 3] = ["/etc/hosts", "/etc/hostname", "/etc/resolv.conf"];

/// Returns the absolute form of `path` relative to `directory`, without `.`, `..` and double slashes.
///
/// It does not follow symbolic links. The code that uses the path checks it again on the disk.
pub(crate) fn to_absolute(directory: &str, path: &str) -> String {
    let from = if path.starts_with('/') { "" } else { directory };
    let mut parts: Vec<&str> = Vec::new();
    for part in from.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            name => parts.push(name),
        }
    }
    format!("/{}", parts.join("/"))
}

/// Returns whether `path` is `root` or below it; both are absolute and without `..`.
pub(super) fn is_inside(path: &str, root: &str) -> bool {
    relative_to(path, root).is_some()
}

/// Returns the part of `path` below `root`; empty if they are equal.
pub(crate) fn relative_to<'a>(path: &'a str, root: &str) -> Option<&'a str> {
    let rest = path.strip_prefix(root.trim_end_matches('/'))?;
    if rest.is_empty() {
        Some(rest)
    } else {
        rest.strip_prefix('/')
    }
}

/// Maximum number of bytes of a path that a file names, as in the kernel.
pub const MAX_PATH_BYTES: usize = 4096;
/// Maximum number of components of a path that a file names.
pub const MAX_COMPONENTS: usize = 255;

/// Returns whether the text can be a path: not empty, without control characters, and within the maximum length.
pub(super) fn is_sane(path: &str) -> bool {
    // The part before the first slash of an absolute path is empty.
    let is_short = path.len() <= MAX_PATH_BYTES && path.split('/').count() <= MAX_COMPONENTS + 1;
    is_short && !path.is_empty() && !path.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn to_absolute_resolves_dots_and_slashes() {
        let cases = [
            (".", "/specs/shop"),
            ("./data", "/specs/shop/data"),
            ("data//x/./y/", "/specs/shop/data/x/y"),
            ("../shared", "/specs/shared"),
            ("../../../../etc", "/etc"),
            ("/var/../etc", "/etc"),
            ("..", "/specs"),
            ("/", "/"),
        ];
        for (path, expected) in cases {
            assert_eq!(to_absolute("/specs/shop", path), expected, "{path}");
        }
    }

    #[test]
    fn path_with_too_many_bytes_or_parts_is_not_sane() {
        let bytes = "a".repeat(4_096);
        assert!(is_sane(&bytes) && !is_sane(&(bytes + "a")));
        let parts = "a/".repeat(255);
        assert!(is_sane(&format!("{parts}x")) && !is_sane(&format!("{parts}/x")));
        assert!(!is_sane("") && !is_sane("a\n"));
    }

    #[test]
    fn is_inside_rejects_siblings_with_equal_prefix() {
        let cases = [
            ("/a/b", "/a/b", true),
            ("/a/b/c", "/a/b", true),
            ("/a/bc", "/a/b", false),
            ("/a", "/a/b", false),
            ("/a", "/", true),
            ("/a/b/c", "/a/b/", true),
        ];
        for (path, root, expected) in cases {
            assert_eq!(is_inside(path, root), expected, "{path} in {root}");
        }
    }
}
