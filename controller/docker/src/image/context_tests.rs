//! Tests of contexts with links, ignored files and Dockerfiles in unusual locations.

use std::fs;
use std::os::unix::fs::symlink;

use super::*;

fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    dir
}

fn sent(root: &Path, dockerfile: &str) -> Vec<String> {
    let context = Context::open(root, dockerfile, None, &Excluded::default()).unwrap();
    let mut bytes = Vec::new();
    context.write(&mut bytes).unwrap();
    let mut archive = tar::Archive::new(bytes.as_slice());
    let describe = |entry: io::Result<tar::Entry<'_, &[u8]>>| {
        let entry = entry.unwrap();
        let path = entry.path().unwrap().display().to_string();
        match entry.link_name().unwrap() {
            Some(target) => format!("{path} -> {}", target.display()),
            None => path,
        }
    };
    archive.entries().unwrap().map(describe).collect()
}

#[test]
fn a_context_omits_ignored_files_and_keeps_links() {
    let dir = tree(&[
        ("Dockerfile", "FROM scratch"),
        (".dockerignore", "secret\nDockerfile\n*.log"),
        ("secret/key", "x"),
        ("a.log", "x"),
        ("src/main", "x"),
    ]);
    symlink("/etc/passwd", dir.path().join("out")).unwrap();
    let paths = sent(dir.path(), "Dockerfile");
    assert_eq!(
        paths,
        [
            ".dockerignore",
            "Dockerfile",
            "out -> /etc/passwd",
            "src",
            "src/main"
        ]
    );
}

#[test]
fn text_of_a_dockerfile_is_sent_instead_of_a_file() {
    let dir = tree(&[("Dockerfile", "FROM file"), (".argus.dockerfile", "FROM other")]);
    let context = Context::open(dir.path(), "none", Some("FROM text"), &Excluded::default()).unwrap();
    let mut bytes = Vec::new();
    context.write(&mut bytes).unwrap();
    let mut archive = tar::Archive::new(bytes.as_slice());
    let mut texts = std::collections::BTreeMap::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().display().to_string();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        texts.insert(name, text);
    }
    assert_eq!(texts[&context.dockerfile], "FROM text");
    assert_eq!(texts["Dockerfile"], "FROM file");
}

#[test]
fn file_that_grows_above_the_maximum_is_not_sent() {
    let dir = tree(&[("Dockerfile", "FROM scratch"), ("a", ""), ("b", "")]);
    let context = Context::open(dir.path(), "Dockerfile", None, &Excluded::default()).unwrap();
    let write = |max: u64| context.write_within(io::sink(), &mut Budget::new(u64::MAX, max));
    write(12).unwrap();
    fs::write(dir.path().join("a"), "12345").unwrap();
    fs::write(dir.path().join("b"), "12345").unwrap();
    write(22).unwrap();
    assert_eq!(write(21).unwrap_err().to_string(), CONTEXT_TOO_LARGE);
    // A sparse file needs no space.
    let grown = fs::File::create(dir.path().join("a")).unwrap();
    grown.set_len(6 << 30).unwrap();
    assert_eq!(
        context.write(io::sink()).unwrap_err().to_string(),
        CONTEXT_TOO_LARGE
    );
}

#[test]
fn held_dockerfile_is_sent_as_it_was_read() {
    let dir = tree(&[("Dockerfile", "FROM first")]);
    let open = || Context::open(dir.path(), "Dockerfile", None, &Excluded::default()).unwrap();
    let mut context = open();
    assert_eq!(context.hold_dockerfile().unwrap(), "FROM first");
    fs::write(dir.path().join("Dockerfile"), "FROM other").unwrap();
    let mut bytes = Vec::new();
    context.write(&mut bytes).unwrap();
    assert!(String::from_utf8_lossy(&bytes).contains("FROM first"));
    let limit = usize::try_from(MAX_BYTES).unwrap();
    fs::write(dir.path().join("Dockerfile"), "#".repeat(limit + 1)).unwrap();
    let error = open().hold_dockerfile().unwrap_err().to_string();
    assert_eq!(error, "`Dockerfile` is longer than 262144 bytes");
}

#[test]
fn rules_of_the_dockerfile_replace_those_of_the_context() {
    let dir = tree(&[
        ("web.Dockerfile", ""),
        ("web.Dockerfile.dockerignore", "web.Dockerfile.dockerignore\na"),
        ("Dockerfile", ""),
        (".dockerignore", "b"),
        ("a", ""),
        ("b", ""),
    ]);
    assert_eq!(
        sent(dir.path(), "web.Dockerfile"),
        [".dockerignore", "Dockerfile", "b", "web.Dockerfile"]
    );
    assert!(sent(dir.path(), "Dockerfile").contains(&"a".to_owned()));
}

#[test]
fn long_file_of_rules_is_an_error() {
    let long = "#".repeat(1024 * 1024 + 1);
    let wildcards = "*?".repeat(200);
    for (rules, is_accepted) in [
        (&long[1..], true),
        (long.as_str(), false),
        (&wildcards[..200], true),
        (wildcards.as_str(), false),
    ] {
        let dir = tree(&[("Dockerfile", "FROM scratch"), (".dockerignore", rules)]);
        let opened = Context::open(dir.path(), "Dockerfile", None, &Excluded::default());
        assert_eq!(opened.is_ok(), is_accepted, "{opened:?}");
    }
}

#[test]
fn an_exception_below_an_ignored_folder_is_sent() {
    let dir = tree(&[
        ("Dockerfile", ""),
        (".dockerignore", "*\n!src/keep"),
        ("src/keep", ""),
        ("src/drop", ""),
    ]);
    assert_eq!(
        sent(dir.path(), "./Dockerfile"),
        ["Dockerfile", "src/keep"],
        "an ignored file with rules is not sent"
    );
}

#[test]
fn an_outside_dockerfile_must_be_named_by_absolute_path() {
    let outside = tree(&[("Other", "FROM scratch")]);
    let dir = tree(&[("sub/Dockerfile", "")]);
    let other = outside.path().join("Other");
    symlink(&other, dir.path().join("Link")).unwrap();
    assert!(sent(dir.path(), other.to_str().unwrap()).contains(&SENT_DOCKERFILE.to_owned()));
    let refused = |dockerfile: &str| {
        let opened = Context::open(dir.path(), dockerfile, None, &Excluded::default());
        opened.unwrap_err().to_string()
    };
    assert!(refused("Link").contains("leads out of the build context"));
    let up = format!(
        "../{}/Other",
        outside.path().file_name().unwrap().to_str().unwrap()
    );
    assert!(refused(&up).contains("leads out of the build context"));
    assert!(refused("nope").contains("nope"));
    assert!(refused("sub").contains("is not a file"));
    assert_eq!(
        Context::open(dir.path(), "sub/Dockerfile", None, &Excluded::default())
            .unwrap()
            .dockerfile,
        "sub/Dockerfile"
    );
    let absolute = dir.path().join("sub/Dockerfile");
    assert_eq!(
        Context::open(dir.path(), absolute.to_str().unwrap(), None, &Excluded::default())
            .unwrap()
            .dockerfile,
        "sub/Dockerfile"
    );
}

#[test]
fn the_digest_depends_on_the_sent_files() {
    let dir = tree(&[
        ("Dockerfile", "FROM scratch"),
        (".dockerignore", "drop"),
        ("keep", "1"),
        ("drop", "1"),
    ]);
    let args = BTreeMap::new();
    let digest = |args: &BTreeMap<String, String>| super::digest(dir.path(), "Dockerfile", args).unwrap();
    let first = digest(&args);
    fs::write(dir.path().join("drop"), "2").unwrap();
    assert_eq!(digest(&args), first);
    assert_ne!(digest(&BTreeMap::from([("A".into(), "1".into())])), first);
    fs::write(dir.path().join("keep"), "2").unwrap();
    assert_ne!(digest(&args), first);
}

#[test]
fn controller_state_is_never_sent() {
    let dir = tree(&[
        ("Dockerfile", "FROM scratch"),
        (".dockerignore", "none\n!.git\n!var/state\n!**/e2e.yaml"),
        ("var/state/private/state.json", "{}"),
        (".git/HEAD", "x"),
        (".argus/private/token", "x"),
        ("e2e.yaml", "x"),
        ("environments/shop.e2e.yml", "x"),
        ("data/written", "x"),
        ("one-file", "x"),
        ("src/main", "x"),
    ]);
    let root = dir.path().to_str().unwrap();
    let paths = ["var/state", "data", "one-file"].map(|path| format!("{root}/{path}"));
    let excluded = Excluded::new(root, &paths[0], [paths[1].as_str(), paths[2].as_str()]);
    let context = Context::open(dir.path(), "Dockerfile", None, &excluded).unwrap();
    let sent: Vec<_> = context
        .entries
        .keys()
        .map(|path| path.to_str().unwrap())
        .collect();
    assert_eq!(
        sent,
        [
            ".dockerignore",
            "Dockerfile",
            "data",
            "environments",
            "src",
            "src/main",
            "var"
        ]
    );
}

#[test]
fn link_swapped_in_while_a_context_is_read_is_not_followed() {
    let dir = tree(&[
        ("Dockerfile", "FROM scratch"),
        ("sub/file", "inside"),
        ("top", "inside"),
    ]);
    let outside = tree(&[("file", "outside")]);
    for swapped in ["sub", "top"] {
        let context = Context::open(dir.path(), "Dockerfile", None, &Excluded::default()).unwrap();
        fs::rename(dir.path().join(swapped), dir.path().join("moved")).unwrap();
        let target = if swapped == "sub" {
            outside.path().to_owned()
        } else {
            outside.path().join("file")
        };
        symlink(target, dir.path().join(swapped)).unwrap();
        assert!(context.write(io::sink()).is_err(), "{swapped}");
        fs::remove_file(dir.path().join(swapped)).unwrap();
        fs::rename(dir.path().join("moved"), dir.path().join(swapped)).unwrap();
    }
    symlink(outside.path().join("file"), dir.path().join(".dockerignore")).unwrap();
    assert!(Context::open(dir.path(), "Dockerfile", None, &Excluded::default()).is_err());
    let linked = outside.path().join("context");
    symlink(dir.path(), &linked).unwrap();
    assert!(Context::open(&linked, "Dockerfile", None, &Excluded::default()).is_err());
}

#[test]
fn reports_and_the_log_of_this_process_are_not_sent() {
    let dir = tree(&[
        ("Dockerfile", ""),
        ("argus-report/.argus-report", ""),
        ("argus-report/summary.md", "x"),
        ("mine/.argus-report", ""),
        ("mine/junit.xml", "x"),
        ("mine/note", "x"),
        ("argus.log", "x"),
    ]);
    assert_eq!(
        sent(dir.path(), "Dockerfile"),
        ["Dockerfile", "argus.log", "mine", "mine/note"]
    );
    let log = rustix::fs::stat(dir.path().join("argus.log")).unwrap();
    let exclusions = Exclusions {
        ignored: DockerIgnore::read(""),
        excluded: &Excluded::default(),
        path: dir.path(),
        own: OwnFiles::from_stats([&log]),
    };
    let (root, mut entries) = (Folder::open(dir.path()).unwrap(), BTreeMap::new());
    walk(&root, Path::new(""), &exclusions, &mut entries).unwrap();
    assert!(!entries.contains_key(Path::new("argus.log")), "{entries:?}");
    assert!(entries.contains_key(Path::new("mine/note")), "{entries:?}");
}
