//! Scans of folders on a real file system.

use super::*;

fn scanner(root: &Path) -> Scanner {
    Scanner::new(
        SpecSource::new(root, Path::new("/nowhere")),
        HostAccess::default(),
    )
}

fn names(scan: &Scan) -> Vec<String> {
    scan.files.keys().map(|path| path.display().to_string()).collect()
}

#[test]
fn spec_names_are_recognized() {
    for (name, counts) in [
        ("e2e.yaml", true),
        ("e2e.yml", true),
        ("shop.e2e.yaml", true),
        ("shop.e2e.yml", true),
        (".e2e.yaml", false),
        (".hidden.e2e.yaml", false),
        ("note2e.yaml", false),
        ("e2e.yaml.swp", false),
        ("e2e.json", false),
        ("compose.yaml", false),
    ] {
        assert_eq!(is_spec_name(name), counts, "{name}");
    }
}

#[test]
fn symlink_of_another_owner_is_not_followed() {
    // Only root can create a symlink of another owner. Other users of this test are covered by the test below.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let specs = dir.path().join("specs");
    std::fs::create_dir(&specs).unwrap();
    std::fs::write(dir.path().join("secret"), "root: x").unwrap();
    for (name, owner) in [("own.e2e.yaml", 0), ("other.e2e.yaml", 4321)] {
        std::os::unix::fs::symlink("../secret", specs.join(name)).unwrap();
        std::os::unix::fs::lchown(specs.join(name), Some(owner), None).unwrap();
    }
    let scan = scanner(&specs).scan(|_| false).unwrap();
    let contents = |name: &str| &scan.files[Path::new(name)];
    assert!(matches!(contents("own.e2e.yaml"), Contents::Text(_)));
    assert_eq!(
        contents("other.e2e.yaml"),
        &Contents::Link(RefusedLink::OtherOwner)
    );
}

#[test]
fn files_one_level_below_count_and_deeper_ones_do_not() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    for folder in ["one", "one/two", ".hidden", "odd.e2e.yaml"] {
        std::fs::create_dir(root.join(folder)).unwrap();
        std::fs::write(root.join(folder).join("e2e.yaml"), "a").unwrap();
    }
    std::fs::write(root.join("e2e.yml"), "b").unwrap();
    std::os::unix::fs::symlink("one/e2e.yaml", root.join("link.e2e.yaml")).unwrap();
    std::os::unix::fs::symlink("nowhere", root.join("lost.e2e.yaml")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", root.join("device.e2e.yaml")).unwrap();
    let fifo = root.join("pipe.e2e.yaml");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    let scan = scanner(root).scan(|_| false).unwrap();
    assert_eq!(
        names(&scan),
        [
            "device.e2e.yaml",
            "e2e.yml",
            "link.e2e.yaml",
            "lost.e2e.yaml",
            "odd.e2e.yaml",
            "one/e2e.yaml",
            "pipe.e2e.yaml"
        ]
    );
    for (name, kind) in [
        ("device.e2e.yaml", "device"),
        ("odd.e2e.yaml", "directory"),
        ("pipe.e2e.yaml", "FIFO"),
    ] {
        assert_eq!(scan.files[Path::new(name)], Contents::NotFile(kind));
    }
    assert!(matches!(
        scan.files[Path::new("lost.e2e.yaml")],
        Contents::Unreadable(_)
    ));
}

#[test]
fn long_file_is_skipped_and_only_changes_are_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let long = File::create(dir.path().join("long.e2e.yaml")).unwrap();
    long.set_len(10 * MAX_FILE_BYTES).unwrap();
    let path = dir.path().join("e2e.yaml");
    std::fs::write(&path, "one").unwrap();
    let mut scanner = scanner(dir.path());
    let first = scanner.scan(|_| false).unwrap();
    assert_eq!(
        first.files[Path::new("long.e2e.yaml")],
        Contents::TooLong(10 * MAX_FILE_BYTES)
    );
    let bytes = |scan: &Scan| match &scan.files[Path::new("e2e.yaml")] {
        Contents::Text(text) => text.bytes.clone(),
        other => panic!("{other:?}"),
    };
    let second = scanner.scan(|_| false).unwrap();
    assert!(Arc::ptr_eq(&bytes(&first), &bytes(&second)));
    assert!(!Arc::ptr_eq(
        &bytes(&first),
        &bytes(&scanner.scan(|_| true).unwrap())
    ));
    std::fs::write(&path, "two, longer").unwrap();
    assert_eq!(&*bytes(&scanner.scan(|_| false).unwrap()), b"two, longer");
    std::fs::remove_file(&path).unwrap();
    assert_eq!(names(&scanner.scan(|_| false).unwrap()), ["long.e2e.yaml"]);
    // The size of such a file is 0, as that of one that grows during its read.
    let growing = File::open("/proc/self/status").unwrap();
    assert_eq!(bounded(growing, 10).unwrap(), None);
}

#[test]
fn excess_files_are_reported_and_not_read() {
    let dir = tempfile::tempdir().unwrap();
    for n in 0..=MAX_FILES {
        File::create(dir.path().join(format!("{n}.e2e.yaml"))).unwrap();
    }
    let scan = scanner(dir.path()).scan(|_| false).unwrap();
    assert!(scan.too_many);
    assert_eq!(scan.files.len(), MAX_FILES);
}

#[test]
fn environment_with_another_name_is_noted() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    std::fs::create_dir(root.join("app.yaml")).unwrap();
    let environment = "project: { name: shop }\nservices: {}\n";
    for (name, text) in [
        ("shop.yaml", environment),
        ("my cart.yml", environment),
        ("copy.yaml", environment),
        ("copy.e2e.yaml", environment),
        (".hidden.yaml", environment),
        ("app.yaml/below.yaml", environment),
        ("compose.yaml", "services: {}\n"),
        ("broken.yaml", "project: ["),
    ] {
        std::fs::write(root.join(name), text).unwrap();
    }
    let long = File::create(root.join("long.yaml")).unwrap();
    long.set_len(10 * MAX_FILE_BYTES).unwrap();
    let mut scanner = scanner(root);
    let note = |name: &str, renamed: &str| {
        let (from, to) = (shell_path(root.join(name)), shell_path(root.join(renamed)));
        format!(
            "`{name}` is ignored, because a spec file is named `e2e.yaml` or `NAME.e2e.yaml`; rename it with `mv -n -- {from} {to}`"
        )
    };
    let cart = note("my cart.yml", "my cart.e2e.yml");
    let shop = note("shop.yaml", "shop.e2e.yaml");
    for _ in 0..2 {
        let scan = scanner.scan(|_| false).unwrap();
        assert_eq!(scan.notes(root), [cart.clone(), shop.clone()]);
    }
    std::fs::rename(root.join("shop.yaml"), root.join("shop.e2e.yaml")).unwrap();
    std::fs::write(root.join("my cart.yml"), "services: {}\n").unwrap();
    assert_eq!(scanner.scan(|_| false).unwrap().notes(root), [""; 0]);
}

#[test]
fn control_character_in_a_name_adds_no_line() {
    let dir = tempfile::tempdir().unwrap();
    for path in ["a\nshop.e2e.yaml: ok.e2e.yaml", "x\r/e2e.yaml", "plain.e2e.yaml"] {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "a").unwrap();
    }
    let scan = scanner(dir.path()).scan(|_| false).unwrap();
    let bad = ["a\\u{a}shop.e2e.yaml: ok.e2e.yaml", "x\\u{d}/e2e.yaml"];
    assert_eq!(names(&scan), [bad[0], "plain.e2e.yaml", bad[1]]);
    for name in bad {
        assert_eq!(scan.files[Path::new(name)], Contents::BadName);
    }
}

#[test]
fn missing_folder_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    assert!(scanner(&dir.path().join("gone")).scan(|_| false).is_err());
}
