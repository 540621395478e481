//! Paths as texts: made absolute and compared without looking at the disk.

/// The absolute form of `path` as seen from `directory`, with `.`, `..` and double slashes taken out.
///
/// Links are not followed: that needs a disk, and whoever has one checks again before the path is used.
pub(super) fn absolute(directory: &str, path: &str) -> String {
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

/// Whether `path` is `root` or lies below it; both absolute and without `..`.
pub(super) fn lies_in(path: &str, root: &str) -> bool {
    below(path, root).is_some()
}

/// What is left of `path` below `root`; empty when they are the same.
pub(super) fn below<'a>(path: &'a str, root: &str) -> Option<&'a str> {
    let rest = path.strip_prefix(root.trim_end_matches('/'))?;
    if rest.is_empty() {
        Some(rest)
    } else {
        rest.strip_prefix('/')
    }
}

/// Whether the text can be a path at all.
pub(super) fn is_sane(path: &str) -> bool {
    !path.is_empty() && path.len() <= 4096 && !path.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_made_absolute_without_a_disk() {
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
            assert_eq!(absolute("/specs/shop", path), expected, "{path}");
        }
    }

    #[test]
    fn a_sibling_with_the_same_beginning_does_not_lie_inside() {
        let cases = [
            ("/a/b", "/a/b", true),
            ("/a/b/c", "/a/b", true),
            ("/a/bc", "/a/b", false),
            ("/a", "/a/b", false),
            ("/a", "/", true),
            ("/a/b/c", "/a/b/", true),
        ];
        for (path, root, expected) in cases {
            assert_eq!(lies_in(path, root), expected, "{path} in {root}");
        }
    }
}
