//! Walks over real trees of links, and a property over generated ones.

use std::os::unix::fs::symlink;

use proptest::prelude::*;

use super::*;

fn tree() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    (dir, root)
}

#[test]
fn link_is_followed_and_recorded() {
    let (_dir, root) = tree();
    std::fs::create_dir_all(root.join("p/data")).unwrap();
    symlink("p", root.join("a")).unwrap();
    symlink(root.join("a/data"), root.join("b")).unwrap();
    let resolved = resolve(&root.join("b/../data/./new/x")).unwrap();
    assert_eq!(resolved.path, root.join("p/data/new/x"));
    assert_eq!((resolved.identity, resolved.followed.len()), (None, 2));
    let found = resolve(&root.join("b")).unwrap();
    assert_eq!(found.path, root.join("p/data"));
    assert!(found.identity.is_some() && found.is_directory);
}

#[test]
fn link_in_any_component_is_refused_without_links() {
    let (_dir, root) = tree();
    std::fs::create_dir_all(root.join("p/data")).unwrap();
    symlink("p", root.join("a")).unwrap();
    assert!(resolve_without_links(&root.join("p/data")).is_ok());
    let refused = resolve_without_links(&root.join("a/data")).unwrap_err();
    assert_eq!(refused, PathError::Link(root.join("a")));
    let missing = resolve_without_links(&root.join("p/none")).unwrap_err();
    assert_eq!(missing, PathError::Missing(root.join("p/none")));
}

#[test]
fn dots_after_a_missing_component_are_refused() {
    let (_dir, root) = tree();
    let path = root.join("none/../x");
    assert_eq!(resolve(&path).unwrap_err(), PathError::Missing(path));
    assert_eq!(resolve(&root.join("none/x")).unwrap().identity, None);
}

#[test]
fn nearest_folder_of_a_deep_path_needs_few_lookups() {
    let path = Path::new("/a/b").join("x/".repeat(2_000));
    let lookups = std::cell::Cell::new(0);
    let is_folder = |folder: &Path| {
        lookups.set(lookups.get() + 1);
        Path::new("/a/b").starts_with(folder)
    };
    let found = nearest(&path, is_folder);
    assert_eq!(found, Some((Path::new("/a/b"), Path::new("/a/b/x"))));
    assert!((1..20).contains(&lookups.get()), "{lookups:?}");
    let (_dir, root) = tree();
    let (missing, there) = (root.join("none/x/y"), root.join("file"));
    let next = root.join("none");
    assert_eq!(nearest_folder(&missing), Some((root.as_path(), next.as_path())));
    std::fs::write(&there, "").unwrap();
    assert_eq!(nearest_folder(&there), Some((root.as_path(), there.as_path())));
    assert_eq!(nearest_folder(Path::new("/")), None);
}

#[test]
fn path_of_a_file_with_too_many_components_is_refused() {
    let (_dir, root) = tree();
    let roots = Roots::new([root.as_path()]);
    let own = root.components().skip(1).count();
    let deep = |components: usize| root.join(vec!["a"; components - own].join("/"));
    assert!(roots.resolve(&deep(255)).is_ok());
    assert_eq!(roots.resolve(&deep(256)).unwrap_err(), PathError::TooLong);
    // Names of usual lengths, whose sum is too long.
    let long = |names: usize| root.join(vec!["a".repeat(200); names].join("/"));
    assert!(roots.resolve(&long(15)).is_ok());
    assert_eq!(roots.resolve(&long(21)).unwrap_err(), PathError::TooLong);
    let opened = roots.open(&deep(256)).unwrap_err().to_string();
    assert!(opened.contains("255 components"), "{opened}");
}

#[test]
fn circle_of_links_is_refused() {
    let (_dir, root) = tree();
    symlink("b", root.join("a")).unwrap();
    symlink("a", root.join("b")).unwrap();
    assert!(matches!(
        resolve(&root.join("a")),
        Err(PathError::Unreadable { .. })
    ));
}

#[test]
fn process_links_are_resolved_by_their_text() {
    let roots = Roots::new([Path::new("/proc/self/task")]);
    assert!(matches!(
        roots.resolve(Path::new("/proc/self/root/etc")),
        Err(PathError::Outside { .. })
    ));
}

#[test]
fn opened_file_is_the_resolved_one() {
    let (_dir, root) = tree();
    std::fs::write(root.join("inside"), "in").unwrap();
    std::fs::write(root.join("other"), "other").unwrap();
    let resolved = resolve(&root.join("inside")).unwrap();
    assert!(resolved.open().is_ok());
    std::fs::rename(root.join("other"), root.join("inside")).unwrap();
    assert!(resolved.open().is_err(), "another file was put in its place");
    std::fs::remove_file(root.join("inside")).unwrap();
    symlink("/etc/passwd", root.join("inside")).unwrap();
    assert!(resolved.open().is_err(), "a link was put in its place");
}

/// One entry of a generated tree; names are few, so that links meet.
#[derive(Debug, Clone)]
enum Made {
    Directory(Vec<u8>),
    Link(Vec<u8>, String),
}

fn entry() -> impl Strategy<Value = Made> {
    let place = || proptest::collection::vec(0_u8..4, 1..4);
    let target = prop_oneof![
        Just("..".to_owned()),
        Just("/".to_owned()),
        Just("/etc".to_owned()),
        Just("OUT".to_owned()),
        Just("ROOT".to_owned()),
        proptest::collection::vec(
            prop_oneof![Just(".."), Just("0"), Just("1"), Just("2"), Just("3")],
            1..5
        )
        .prop_map(|parts| parts.join("/")),
    ];
    prop_oneof![
        place().prop_map(Made::Directory),
        (place(), target).prop_map(|(at, to)| Made::Link(at, to)),
    ]
}

fn named(parts: &[u8]) -> PathBuf {
    parts.iter().map(u8::to_string).collect()
}

/// False if an entry at this path would lie outside of `top`, behind a link of the tree.
fn is_below(top: &Path, at: &Path) -> bool {
    let existing = at
        .ancestors()
        .skip(1)
        .find(|path| path.symlink_metadata().is_ok());
    existing
        .and_then(|path| path.canonicalize().ok())
        .is_some_and(|path| path.starts_with(top.canonicalize().unwrap()))
}

#[test]
fn entry_behind_a_link_is_not_below() {
    let (_dir, top) = tree();
    std::fs::create_dir(top.join("inner")).unwrap();
    symlink("..", top.join("inner/0")).unwrap();
    symlink("..", top.join("1")).unwrap();
    assert!(is_below(&top, &top.join("inner/0/2")));
    assert!(!is_below(&top, &top.join("1/2")));
    assert!(!is_below(&top, &top.join("inner/0/1/2/3")));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever links a project holds, what is accepted lies in an allowed directory, as the kernel resolves it.
    #[test]
    fn accepted_source_never_resolves_outside(
        made in proptest::collection::vec(entry(), 1..14),
        requested in proptest::collection::vec(
            proptest::collection::vec(prop_oneof![Just(".."), Just("."), Just("0"), Just("1"), Just("2"), Just("3")], 1..6),
            1..8,
        ),
    ) {
        let (_dir, top) = tree();
        let (root, allowed, out) = (top.join("project"), top.join("allowed"), top.join("out"));
        for directory in [&root, &allowed, &out] {
            std::fs::create_dir_all(directory).unwrap();
        }
        for entry in &made {
            let (Made::Directory(at) | Made::Link(at, _)) = entry;
            let at = root.join(named(at));
            if !is_below(&top, &at) {
                continue;
            }
            match entry {
                Made::Directory(_) => drop(std::fs::create_dir_all(at)),
                Made::Link(_, to) => {
                    let to = to.replace("OUT", out.to_str().unwrap()).replace("ROOT", allowed.to_str().unwrap());
                    drop(std::fs::create_dir_all(at.parent().unwrap()));
                    drop(symlink(to, at));
                }
            }
        }
        let roots = Roots::new([root.as_path(), allowed.as_path()]);
        for parts in &requested {
            let path = root.join(parts.join("/"));
            let Ok(resolved) = roots.resolve(&path) else { continue };
            prop_assert!(resolved.path.starts_with(&root) || resolved.path.starts_with(&allowed));
            match path.canonicalize() {
                Ok(kernel) => prop_assert_eq!(&resolved.path, &kernel),
                Err(_) => prop_assert!(resolved.identity.is_none()),
            }
            if resolved.identity.is_some() {
                // What is mounted is the resolved path: it has no link left that the engine could follow.
                prop_assert!(resolve_without_links(&resolved.path).is_ok());
            }
        }
    }
}
