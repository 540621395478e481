//! Links, FIFOs and devices in a checkout: commands neither read nor change what lies behind them, and never wait.

#![allow(clippy::unwrap_used, reason = "a test may panic, and so may its helpers")]

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Output};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::json;

use super::breaker::call_tool;
use super::cli::{GOOD, Home, Running, code, err, out};

/// A line of a file that no command may quote.
const SECRET: &str = "root:$6$c0ffee:19000:0:99999:7:::";

/// A command in the project without a state directory.
fn command(home: &Home, args: &[&str]) -> Command {
    let mut command = home.command(args);
    command
        .env_remove("ARGUS_STATE")
        .env("ARGUS_SPECS", "specs")
        .env("ARGUS_LISTEN", "off");
    command
}

fn run(home: &Home, args: &[&str]) -> Output {
    command(home, args).output().unwrap()
}

/// A folder outside of the project, with names that Argus uses itself.
fn create_keys(home: &Home) {
    std::fs::create_dir(home.path("keys")).unwrap();
    for name in ["id_rsa", "gone.json", "shop.env", "shop.json"] {
        std::fs::write(home.path("keys").join(name), SECRET).unwrap();
        set_mode(&home.path("keys").join(name), 0o600);
    }
    set_mode(&home.path("keys"), 0o700);
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn check_keys(home: &Home) {
    let keys = home.path("keys");
    assert_eq!(mode(&keys), 0o700);
    assert_eq!(std::fs::read_dir(&keys).unwrap().count(), 4);
    for name in ["id_rsa", "gone.json", "shop.env", "shop.json"] {
        assert_eq!(
            std::fs::read_to_string(keys.join(name)).unwrap(),
            SECRET,
            "{name}"
        );
        assert_eq!(mode(&keys.join(name)), 0o600, "{name}");
    }
}

fn make_fifo(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

#[test]
fn linked_folders_of_the_state_change_nothing_elsewhere() {
    let home = Home::new();
    home.spec("e2e.yaml", GOOD);
    create_keys(&home);
    std::fs::create_dir(home.path(".argus")).unwrap();
    for name in ["environments", "controller.json"] {
        symlink(home.path("keys"), home.path(".argus").join(name)).unwrap();
    }
    // No command passes the links without a controller.
    for words in [&["get"][..], &["wait", "shop", "--timeout", "1s"], &["incidents"]] {
        let output = run(&home, words);
        assert!(!out(&output).contains("c0ffee") && !err(&output).contains("c0ffee"));
    }
    check_keys(&home);
    let (running, mut lines) = Running::spawn(&mut command(&home, &["run"]));
    assert!(lines.any(|line| line.contains("shop/web")));
    let mut attempts = (0..500).map(|_| run(&home, &["get", "shop", "-o", "json"]));
    assert!(attempts.any(|status| status.status.success()));
    assert_eq!(running.stop(), Some(0));
    check_keys(&home);
    // The links were moved out of the way, and the state is where it belongs.
    let found = home.path(".argus/environments").symlink_metadata();
    assert!(found.unwrap().is_dir());
    assert!(home.path(".argus/environments/shop.json").exists());
    let names = std::fs::read_dir(home.path(".argus")).unwrap();
    let moved = names.filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        name.to_str().unwrap().contains(".corrupt-")
    });
    assert_eq!(moved.count(), 2);
}

#[test]
fn fifo_among_the_incidents_is_skipped() {
    let home = Home::new();
    std::fs::create_dir(home.path("state/incidents")).unwrap();
    make_fifo(&home.path("state/incidents/01J0000000000000000000TEST.json"));
    make_fifo(&home.path("state/environments/shop.json"));
    let incidents = home.run(&["incidents"]);
    assert_eq!(code(&incidents), 0, "{}", err(&incidents));
    let status = home.run(&["get", "shop"]);
    assert_ne!(code(&status), 0);
    assert!(err(&status).contains("it is not a file"), "{}", err(&status));
    let completion = home
        .command(&["--", "argus", "get", ""])
        .env("COMPLETE", "bash")
        .output();
    assert!(completion.unwrap().status.code().is_some());
}

#[test]
fn linked_state_directory_is_refused() {
    let home = Home::new();
    home.spec("e2e.yaml", GOOD);
    create_keys(&home);
    symlink("keys", home.path(".argus")).unwrap();
    for words in [&["run"][..], &["get"], &["get", "shop"]] {
        let output = run(&home, words);
        assert_ne!(code(&output), 0, "{words:?} {}", out(&output));
        let shown = err(&output);
        assert!(
            shown.contains("`.argus` is a link or not a folder"),
            "{words:?} {shown}"
        );
        assert!(
            shown.contains("hint: remove the link or the file"),
            "{words:?} {shown}"
        );
        assert!(!shown.contains("c0ffee"), "{shown}");
    }
    check_keys(&home);
    // A person may name a link.
    let check_named = || {
        let mut command = home.command(&["get"]);
        let named = command
            .env("ARGUS_STATE", home.path("elsewhere"))
            .output()
            .unwrap();
        assert_eq!(code(&named), 0, "{}", err(&named));
    };
    check_named();
    symlink(home.path("state"), home.path("elsewhere")).unwrap();
    check_named();
}

#[test]
fn suite_outside_of_the_project_is_not_read() {
    let home = Home::new();
    std::fs::write(home.path("shadow"), format!("{SECRET}\n")).unwrap();
    symlink("../shadow", home.path("specs/linked.yaml")).unwrap();
    make_fifo(&home.path("specs/fifo.yaml"));
    std::fs::create_dir(home.path("specs/folder.yaml")).unwrap();
    let absolute = home.path("shadow").display().to_string();
    let outside = "it is outside the project of the spec file";
    for (file, why) in [
        (absolute.as_str(), outside),
        ("../shadow", outside),
        ("shadow", outside),
        ("linked.yaml", outside),
        ("/dev/zero", outside),
        ("fifo.yaml", "it is not a file"),
        ("folder.yaml", "it is not a file"),
    ] {
        let file = json!(file);
        home.spec(
            "e2e.yaml",
            &format!("{GOOD}tests:\n  suites:\n    - {{ name: Checks, id: checks, file: {file} }}\n"),
        );
        for target in [&["validate"][..], &["validate", "specs/e2e.yaml"]] {
            let output = home.run(target);
            let shown = out(&output) + &err(&output);
            assert!(shown.contains(why), "{file}: {shown}");
            assert!(!shown.contains("c0ffee"), "{file}: {shown}");
        }
    }
    // A file of the project may be a link to another one.
    symlink("real.yaml", home.path("specs/own.yaml")).unwrap();
    std::fs::write(home.path("specs/real.yaml"), "name: Own\ncases: []\n").unwrap();
    home.spec(
        "e2e.yaml",
        &format!("{GOOD}tests:\n  suites:\n    - {{ name: Own, id: own, file: own.yaml }}\n"),
    );
    let shown = out(&home.run(&["validate"])) + &err(&home.run(&["validate"]));
    assert!(!shown.contains("cannot read the suite file"), "{shown}");
}

#[test]
fn special_settings_file_is_an_error_at_once() {
    let home = Home::new();
    home.spec("e2e.yaml", GOOD);
    let path = home.path("argus.toml");
    let check = |what: &str| {
        for args in [
            &["validate"][..],
            &["get"],
            &["validate", "--config", "argus.toml"],
        ] {
            let output = home.run(args);
            assert_eq!(code(&output), 2, "{what} {args:?}: {}", err(&output));
            let shown = err(&output);
            assert!(
                shown.contains("cannot read settings `argus.toml`"),
                "{what}: {shown}"
            );
        }
    };
    make_fifo(&path);
    check("a FIFO");
    std::fs::remove_file(&path).unwrap();
    symlink("/dev/zero", &path).unwrap();
    check("a device");
    std::fs::remove_file(&path).unwrap();
    std::fs::File::create(&path).unwrap().set_len(8 << 30).unwrap();
    check("8 GiB of zeros");
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    check("a folder");
}

#[test]
fn special_inputs_of_a_spec_file_are_errors_at_once() {
    let home = Home::new();
    let api = "mocks:\n  api: { port: 9000, openapi: api.yaml }\n";
    home.spec("e2e.yaml", &format!("{GOOD}{api}"));
    for (name, why) in [(".env", "it is not a file"), ("api.yaml", "it is not a file")] {
        let path = home.path("specs").join(name);
        make_fifo(&path);
        let output = home.run(&["validate"]);
        let shown = out(&output) + &err(&output);
        assert!(shown.contains(why) && shown.contains(name), "{name}: {shown}");
        std::fs::remove_file(&path).unwrap();
        symlink("/dev/zero", &path).unwrap();
        let output = home.run(&["validate"]);
        let shown = out(&output) + &err(&output);
        assert!(shown.contains("outside the directories"), "{name}: {shown}");
        std::fs::remove_file(&path).unwrap();
    }
}

/// The author of a repository chooses where `environments` leads.
#[test]
fn init_writes_no_spec_file_through_a_linked_folder() {
    let home = Home::new();
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(home.path("compose.yaml"), "services: { db: { image: 'db:1' } }\n").unwrap();
    symlink(outside.path(), home.path("environments")).unwrap();
    let init = |specs: Option<&str>| {
        let mut command = command(&home, &["init"]);
        command
            .env_remove("ARGUS_SPECS")
            .envs(specs.map(|specs| ("ARGUS_SPECS", specs)));
        command.output().unwrap()
    };
    let refused = init(None);
    assert_ne!(code(&refused), 0);
    assert!(
        err(&refused).contains("is a link, so Argus writes no file there"),
        "{}",
        err(&refused)
    );
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
    let git = home.path(".git/refs");
    std::fs::create_dir_all(&git).unwrap();
    std::fs::remove_file(home.path("environments")).unwrap();
    symlink(".git/refs", home.path("environments")).unwrap();
    assert_ne!(code(&init(None)), 0);
    assert_eq!(std::fs::read_dir(&git).unwrap().count(), 0);
    std::fs::remove_file(home.path("environments")).unwrap();
    symlink(outside.path(), home.path("environments")).unwrap();
    // A folder that a person names can be a link.
    let named = init(Some("environments"));
    assert!(outside.path().join("e2e.yaml").exists(), "{}", err(&named));
}

#[test]
fn init_reads_and_writes_nothing_through_links() {
    let compose = "services: { db: { image: 'db:1', environment: { DB_PASSWORD: '${DB_PASSWORD}' } } }\n";
    let home = Home::new();
    let init = |args: &[&str]| {
        let mut command = home.command(&[&["init"], args].concat());
        command.env("ARGUS_SPECS", "environments");
        command.output().unwrap()
    };
    std::fs::create_dir_all(home.path("environments")).unwrap();
    std::fs::write(home.path("compose.yaml"), compose).unwrap();
    std::fs::write(home.path(".env"), "DB_PASSWORD=hunter2hunter2\n").unwrap();
    std::fs::write(home.path("profile"), "export A=1\n").unwrap();
    let profile = || std::fs::read_to_string(home.path("profile")).unwrap();
    symlink(home.path("profile"), home.path("environments/.env")).unwrap();
    let refused = init(&[]);
    assert_ne!(code(&refused), 0);
    assert!(err(&refused).contains("it is a link"), "{}", err(&refused));
    assert_eq!(profile(), "export A=1\n");
    std::fs::remove_file(home.path("environments/.env")).unwrap();

    symlink(home.path("profile"), home.path("environments/e2e.yaml")).unwrap();
    let forced = init(&["--force"]);
    assert_eq!(code(&forced), 0, "{}", err(&forced));
    assert_eq!(profile(), "export A=1\n");
    let written = home.path("environments/e2e.yaml").symlink_metadata().unwrap();
    assert!(written.is_file(), "the link was replaced");
    assert_eq!(mode(&home.path("environments/.env")), 0o600);

    // Neither the Compose file nor a file that it names leads out of the project.
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "TOKEN=c0ffee\n").unwrap();
    let named = outside.path().join("secret").display().to_string();
    for env_file in [json!(named), json!("linked.env")] {
        let linked = home.path("linked.env");
        if !linked.exists() {
            symlink(&named, &linked).unwrap();
        }
        let text = format!("services: {{ db: {{ image: 'db:1', env_file: {env_file} }} }}\n");
        std::fs::write(home.path("compose.yaml"), text).unwrap();
        let output = init(&["--force"]);
        let written = std::fs::read_to_string(home.path("environments/e2e.yaml")).unwrap();
        let values = std::fs::read_to_string(home.path("environments/.env")).unwrap();
        assert!(!(written + &values).contains("c0ffee"), "{}", err(&output));
    }
    std::fs::remove_file(home.path("compose.yaml")).unwrap();
    symlink(&named, home.path("compose.yaml")).unwrap();
    let output = init(&["--force"]);
    assert_ne!(code(&output), 0);
    assert!(
        err(&output).contains("outside the directories"),
        "{}",
        err(&output)
    );
}

#[test]
fn apply_writes_through_no_link() {
    let home = Home::new();
    create_keys(&home);
    for (link, target) in [
        ("team", "keys"),
        (".shop.e2e.yaml.new", "keys/id_rsa"),
        ("taken.e2e.yaml", "keys/id_rsa"),
    ] {
        symlink(home.path(target), home.path("specs").join(link)).unwrap();
    }
    for name in ["team/shop.e2e.yaml", "taken.e2e.yaml"] {
        let text = call_tool(&home, "argus_apply", &json!({ "content": GOOD, "name": name }));
        assert!(text.contains("link"), "{name}: {text}");
        check_keys(&home);
    }
    let text = call_tool(&home, "argus_apply", &json!({ "content": GOOD }));
    check_keys(&home);
    let written = home.path("specs/shop.e2e.yaml").symlink_metadata();
    assert!(written.is_ok_and(|meta| meta.is_file()), "{text}");
}
