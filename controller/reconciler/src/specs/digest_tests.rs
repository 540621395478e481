//! Digests of build contexts: their inputs, their budget, and reads in parts.

use super::super::context_rules::RULE_STEPS;
use super::super::inputs::SpecInputs;
use super::*;

#[test]
fn only_included_files_change_the_digest() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("Dockerfile", "FROM scratch");
    write("src/main.rs", "fn main() {}");
    write(".dockerignore", "target\n*.log\n!keep.log\n");
    let mut digests = Digests::default();
    let mut digest = || {
        digests
            .of(dir.path(), Path::new("Dockerfile"), &Excluded::default())
            .unwrap()
    };
    let first = digest();
    assert_eq!(first.digest.len(), 64);
    write("target/debug/argus", "binary");
    write("noise.log", "noise");
    assert_eq!(digest(), first, "ignored");
    write("keep.log", "kept");
    let second = digest();
    assert_ne!(second, first, "included again");
    write("src/main.rs", "fn main() { loop {} }");
    let third = digest();
    assert_ne!(third, second);
    write("Dockerfile", "FROM alpine");
    assert_ne!(digest(), third);
}

#[test]
fn further_context_changes_the_digest_with_its_name() {
    let context = |digest: &str| ContextDigest {
        digest: digest.to_owned(),
        entries: [(PathBuf::from("a"), vec![1])].into(),
        ..ContextDigest::default()
    };
    let with = |name: &str, digest: &str| {
        let mut all = context("main");
        all.add(name, context(digest));
        all
    };
    let base = with("libs", "1");
    assert_eq!(base, with("libs", "1"));
    for other in [with("libs", "2"), with("base", "1"), context("main")] {
        assert_ne!(other.digest, base.digest);
    }
    let entries: Vec<_> = base.entries.keys().collect();
    assert_eq!(entries, [Path::new("a"), Path::new("libs/a")]);
}

#[test]
fn rules_of_the_dockerfile_precede_those_of_the_context() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    write("web.Dockerfile", "FROM scratch");
    write("web.Dockerfile.dockerignore", "*.log\n");
    write(".dockerignore", "*.rs\n");
    let mut digests = Digests::default();
    let mut digest = || {
        digests
            .of(dir.path(), Path::new("web.Dockerfile"), &Excluded::default())
            .unwrap()
    };
    let first = digest();
    write("noise.log", "noise");
    assert_eq!(digest(), first);
    write("main.rs", "fn main() {}");
    assert_ne!(digest(), first);
}

#[test]
fn missing_dockerfile_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    assert!(
        Digests::default()
            .of(dir.path(), Path::new("Dockerfile"), &Excluded::default())
            .is_err()
    );
}

#[test]
fn controller_state_never_changes_the_digest() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str| std::fs::write(dir.path().join(name), name).unwrap();
    for folder in ["state/private", "data", ".git", "environments", "src"] {
        std::fs::create_dir_all(dir.path().join(folder)).unwrap();
    }
    write("Dockerfile");
    // An exception of `.dockerignore` lets none of it in again.
    let exceptions = "x\n!.git\n!state\n!data\n!**/e2e.yaml\n";
    std::fs::write(dir.path().join(".dockerignore"), exceptions).unwrap();
    let root = dir.path().to_str().unwrap();
    let (state, data) = (format!("{root}/state"), format!("{root}/data"));
    let excluded = Excluded::new(root, &state, [data.as_str()]);
    let mut digests = Digests::default();
    let mut digest = || {
        digests
            .of(dir.path(), Path::new("Dockerfile"), &excluded)
            .unwrap()
    };
    let first = digest();
    for name in [
        "state/private/state.json",
        ".git/HEAD",
        "e2e.yaml",
        "environments/a.e2e.yml",
        "data/new",
    ] {
        write(name);
        assert_eq!(digest(), first, "{name}");
    }
    write("src/main");
    assert_ne!(digest(), first);
}

#[test]
fn log_and_reports_of_argus_never_change_the_digest() {
    let dir = context(&[("src/main", "x"), ("mine/note", "x"), ("mine/logs/own", "x")]);
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("argus.log", "");
    let log = std::fs::File::open(dir.path().join("argus.log")).unwrap();
    let mut digests = Digests {
        own: OwnFiles::from_stats([&rustix::fs::fstat(&log).unwrap()]),
        ..Digests::default()
    };
    let first = digest_of(&dir, &mut digests).unwrap();
    assert!(!first.entries.contains_key(Path::new("argus.log")));
    write("argus.log", "a line");
    std::fs::rename(dir.path().join("argus.log"), dir.path().join("src/renamed")).unwrap();
    write("argus-report/.argus-report", "");
    write("argus-report/logs/web.log", "a");
    write("argus-report/summary.md", "a");
    assert_eq!(digest_of(&dir, &mut digests).unwrap(), first);
    // Next to other files, only the files of the report are left out.
    write("mine/.argus-report", "");
    let second = digest_of(&dir, &mut digests).unwrap();
    assert_ne!(second, first, "the folder `logs` belongs to the report now");
    write("mine/junit.xml", "a");
    assert_eq!(digest_of(&dir, &mut digests).unwrap(), second);
    write("mine/note", "y");
    assert_ne!(digest_of(&dir, &mut digests).unwrap(), second);
}

#[test]
fn error_names_the_path_in_the_context() {
    let denied = || io::Error::from(io::ErrorKind::PermissionDenied);
    let error = at(Path::new("data/pg"), &denied());
    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    assert!(error.to_string().starts_with("`data/pg`: "), "{error}");
    assert_eq!(at(Path::new(""), &denied()).to_string(), denied().to_string());
}

/// Writes a context with a Dockerfile and these files.
fn context(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in [("Dockerfile", "FROM scratch")].iter().chain(files) {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    dir
}

fn digest_of(dir: &tempfile::TempDir, digests: &mut Digests) -> io::Result<ContextDigest> {
    digests.of(dir.path(), Path::new("Dockerfile"), &Excluded::default())
}

#[test]
fn too_many_rules_and_entries_are_an_error() {
    let rules = |count: usize| (0..count).fold(String::new(), |text, number| text + &format!("*.{number}\n"));
    let error = |rules: &str| {
        let dir = context(&[(".dockerignore", rules), ("a/b", "")]);
        digest_of(&dir, &mut Digests::default())
            .err()
            .map(|error| error.to_string())
    };
    assert_eq!(error(&rules(500)), None);
    assert!(error(&rules(3_000)).unwrap().contains("more than 50000000 steps"));
    let excess = error(&format!("a\n{}\n", "*?".repeat(200))).unwrap();
    assert_eq!(
        excess,
        "`.dockerignore`, line 2: more than 200 wildcards in one rule"
    );
    // An ignored folder is listed because of the rule with `!`.
    let dir = context(&[(".dockerignore", "a\n!a/keep"), ("a/b", ""), ("a/c", "")]);
    let budget = Budget::new(4 * RULE_STEPS + 5 * (ENTRY_STEPS + 4), MAX_CONTEXT_BYTES);
    let mut digests = Digests::default();
    let mut within = |budget: &mut Budget| {
        digests.within(dir.path(), Path::new("Dockerfile"), &Excluded::default(), budget)
    };
    assert!(within(&mut budget.clone()).is_ok());
    let (steps, bytes) = {
        let mut budget = budget.clone();
        drop(within(&mut budget));
        budget.used()
    };
    assert!(
        bytes > 0 && steps == 4 * RULE_STEPS + 5 * (ENTRY_STEPS + 4),
        "{steps} {bytes}"
    );
    assert!(within(&mut Budget::new(steps - 1, bytes)).is_err());
    assert!(within(&mut Budget::new(steps, bytes - 1)).is_err());
}

#[test]
fn large_file_is_read_in_parts() {
    let dir = context(&[
        ("a", &"x".repeat(300_000)),
        ("b", &"y".repeat(300_000)),
        ("c", "z"),
    ]);
    let whole = digest_of(&dir, &mut Digests::default()).unwrap();
    let mut digests = Digests::new(100_000, CancellationToken::new());
    let mut parts = 0;
    let digest = loop {
        digests.begin_part(false);
        parts += 1;
        match digest_of(&dir, &mut digests) {
            Ok(digest) => break digest,
            Err(error) => assert!(
                digests.is_part() && error.kind() == io::ErrorKind::Interrupted,
                "{error}"
            ),
        }
        assert!(parts < 10);
    };
    assert_eq!((digest, parts >= 4), (whole.clone(), true), "{parts} parts");
    // The hashes are kept: no further part is needed.
    digests.sweep();
    digests.begin_part(false);
    assert_eq!(digest_of(&dir, &mut digests).unwrap(), whole);
    // A change during the read is noticed by the next digest.
    let mut digests = Digests::new(100_000, CancellationToken::new());
    assert!(digest_of(&dir, &mut digests).is_err());
    std::fs::write(dir.path().join("a"), "new").unwrap();
    let changed = digest_of(&dir, &mut Digests::default()).unwrap();
    let mut found = None;
    for _ in 0..20 {
        digests.begin_part(false);
        found = digest_of(&dir, &mut digests).ok();
    }
    assert_eq!(found, Some(changed));
}

#[test]
fn cancelled_read_ends() {
    let dir = context(&[("a", "x")]);
    let stop = CancellationToken::new();
    let mut digests = Digests::new(u64::MAX, stop.clone());
    assert!(digest_of(&dir, &mut digests).is_ok());
    stop.cancel();
    assert!(digest_of(&dir, &mut digests).is_ok(), "every hash is known");
    std::fs::write(dir.path().join("a"), "new").unwrap();
    assert!(digests.is_stopped() && digest_of(&dir, &mut digests).is_err());
}

#[test]
fn only_folders_that_the_context_includes_are_watched() {
    let dir = tempfile::tempdir().unwrap();
    for folder in [
        "src/app",
        "node_modules/left-pad",
        "vendor/keep",
        "vendor/other",
        ".git/objects",
        ".argus/environments",
        "data/pg",
    ] {
        std::fs::create_dir_all(dir.path().join(folder)).unwrap();
    }
    std::fs::write(dir.path().join("Dockerfile"), "FROM scratch").unwrap();
    let rules = "node_modules\nvendor\n!vendor/keep/*.txt\n";
    std::fs::write(dir.path().join(".dockerignore"), rules).unwrap();
    let root = dir.path().display().to_string();
    let data = format!("{root}/data");
    let excluded = Excluded::new(&root, "", [data.as_str()]);
    let mut digests = Digests::default();
    digests
        .of(dir.path(), Path::new("Dockerfile"), &excluded)
        .unwrap();
    let mut inputs = SpecInputs::default();
    inputs.add_context(digests.take_folders().pop().unwrap());
    let folders: Vec<_> = inputs
        .folders()
        .keys()
        .map(|folder| folder.strip_prefix(dir.path()).unwrap().display().to_string())
        .collect();
    assert_eq!(folders, ["", "src", "src/app", "vendor", "vendor/keep"]);
}

#[test]
fn socket_or_pipe_is_left_out_with_its_name() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("Dockerfile"), "FROM scratch").unwrap();
    std::fs::create_dir(dir.path().join("run")).unwrap();
    let mut digests = Digests::default();
    let before = digest_of(&dir, &mut digests).unwrap();
    assert_eq!(before.describe_left_out(), None);
    let socket = std::os::unix::net::UnixListener::bind(dir.path().join("run/web.sock")).unwrap();
    let one = digest_of(&dir, &mut digests).unwrap();
    let text = "the build context leaves out `run/web.sock`, which is a pipe, a socket or a device";
    assert_eq!(one.describe_left_out().as_deref(), Some(text));
    assert_eq!(one.digest, before.digest, "it starts no build");
    let pipe = rustix::fs::CWD;
    let mode = rustix::fs::Mode::RUSR;
    rustix::fs::mknodat(pipe, dir.path().join("a"), rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let both = digest_of(&dir, &mut digests).unwrap();
    let text = "the build context leaves out `a`, which is a pipe, a socket or a device, and 1 more";
    assert_eq!(both.describe_left_out().as_deref(), Some(text));
    drop(socket);
    std::fs::write(dir.path().join(".dockerignore"), "run\na\n").unwrap();
    assert_eq!(digest_of(&dir, &mut digests).unwrap().describe_left_out(), None);
}
