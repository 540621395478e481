//! Trust in a project: its files contain no private state, and its settings give it nothing more.

#![allow(clippy::unwrap_used, reason = "a test may panic, and so may its helpers")]

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use super::cli::{GOOD, Home, Running, code, err, out};

/// Identity of a controller that a repository ships.
const SHIPPED: &str = "01J0000000000000000000DEAD";

/// A command in the project without a state directory.
fn command(home: &Home, args: &[&str]) -> Command {
    let mut command = home.command(args);
    command.env_remove("ARGUS_STATE").env("ARGUS_SPECS", ".");
    command
}

fn run(home: &Home, args: &[&str]) -> Output {
    command(home, args).output().unwrap()
}

fn private(home: &Home) -> PathBuf {
    PathBuf::from(out(&run(home, &["state", "-o", "name"])).trim())
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// Settings of a command, as the bundle of `argus doctor` contains them.
fn settings(home: &Home, args: &[&str]) -> Value {
    let bundle = home.path("bundle.tar");
    let path = bundle.display().to_string();
    let all = [&["doctor", "--out", &path], args].concat();
    let output = run(home, &all);
    assert!(bundle.exists(), "{}", err(&output));
    let read = Command::new("tar")
        .args(["-xOf", &path, "argus-doctor/about.json"])
        .output()
        .unwrap();
    std::fs::remove_file(&bundle).unwrap();
    let document: Value = serde_json::from_slice(&read.stdout).unwrap();
    document["settings"].clone()
}

#[test]
fn shipped_private_state_is_not_read() {
    let home = Home::new();
    std::fs::write(home.path("e2e.yaml"), GOOD).unwrap();
    // The repository ships what a controller accepted, with an identity and a token that its author knows.
    let (running, mut lines) =
        Running::spawn(command(&home, &["run", "--state", "made"]).env("ARGUS_LISTEN", "off"));
    assert!(lines.any(|line| line.contains("shop/web")));
    assert_eq!(running.stop(), Some(0));
    std::fs::create_dir(home.path(".argus")).unwrap();
    std::fs::rename(home.path("made/private"), home.path(".argus/private")).unwrap();
    std::fs::remove_dir_all(home.path("made")).unwrap();
    std::fs::write(home.path(".argus/private/identity"), SHIPPED).unwrap();
    std::fs::write(home.path(".argus/private/token"), "known\n").unwrap();
    let shipped = std::fs::read_to_string(home.path(".argus/private/specs.json")).unwrap();
    assert!(shipped.contains("web:1"), "{shipped}");
    // Only the accepted revision defines the environment now.
    std::fs::write(home.path("e2e.yaml"), "version: [").unwrap();

    let (running, mut lines) = Running::spawn(&mut command(&home, &["run"]));
    assert!(lines.any(|line| line.contains("SPEC_INVALID")));
    let sync = run(&home, &["wait", "shop", "--timeout", "10s"]);
    assert!(!sync.status.success(), "{}", out(&sync));
    let status = json(&home.path(".argus/controller.json"));
    assert_ne!(status["controller"], SHIPPED);
    let private = private(&home);
    assert!(
        private.starts_with(home.path("xdg/argus")),
        "{}",
        private.display()
    );
    assert_ne!(std::fs::read_to_string(private.join("token")).unwrap(), "known\n");
    assert!(private.join("argus.sock").exists());
    assert!(!home.path(".argus/private/argus.sock").exists());
    let listed = run(&home, &["get", "-o", "json"]);
    assert!(!out(&listed).contains("web:1"), "{}", out(&listed));
    assert_eq!(running.stop(), Some(0));
    let accepted = std::fs::read_to_string(private.join("specs.json")).unwrap_or_default();
    assert!(!accepted.contains("web:1"), "{accepted}");
    let left = std::fs::read_to_string(home.path(".argus/private/specs.json")).unwrap();
    assert_eq!(left, shipped, "it is not touched, either");
}

#[test]
fn linked_or_foreign_private_folder_is_refused() {
    let home = Home::new();
    std::fs::write(home.path("e2e.yaml"), GOOD).unwrap();
    let private = private(&home);
    let refused = |why: &str| {
        for words in [&["run"][..], &["get"], &["down", "shop"], &["allow"]] {
            let output = run(&home, words);
            assert_ne!(code(&output), 0, "{words:?}");
            assert!(err(&output).contains(why), "{words:?}: {}", err(&output));
        }
    };
    std::fs::create_dir_all(private.parent().unwrap()).unwrap();
    let elsewhere = home.path("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    symlink(&elsewhere, &private).unwrap();
    refused("is a link");
    assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0);
    std::fs::remove_file(&private).unwrap();
    // Only root can give a folder to another user.
    if rustix::process::geteuid().is_root() {
        std::fs::create_dir(&private).unwrap();
        std::os::unix::fs::chown(&private, Some(1234), None).unwrap();
        refused("belongs to another user");
        std::os::unix::fs::chown(&private, Some(0), None).unwrap();
    }
    assert_eq!(code(&run(&home, &["get"])), 0);
}

#[test]
fn commands_find_the_controller_from_every_folder_below() {
    let home = Home::new();
    std::fs::create_dir_all(home.path("environments")).unwrap();
    std::fs::create_dir_all(home.path("src/deep")).unwrap();
    std::fs::write(home.path("environments/e2e.yaml"), GOOD).unwrap();
    let at = |folder: &str, args: &[&str]| {
        let mut command = command(&home, args);
        command.current_dir(home.path(folder)).env_remove("ARGUS_SPECS");
        command
    };
    let private = |folder: &str| out(&at(folder, &["state", "-o", "name"]).output().unwrap());
    let own = private("src/deep");
    let (running, mut lines) = Running::spawn(&mut at(".", &["run"]));
    assert!(lines.any(|line| line.contains("shop/web")));
    let listed = (0..500).map(|_| out(&at("src/deep", &["get", "-o", "name"]).output().unwrap()));
    assert!(listed.into_iter().any(|listed| listed == "shop\n"));
    assert_eq!(private("src/deep"), private("."));
    let all = at("src", &["down", "--all"]).output().unwrap();
    assert_eq!(code(&all), 2, "{}", err(&all));
    assert_eq!(running.stop(), Some(0));
    assert_eq!(private("src/deep"), own, "a folder has its own state");
}

#[test]
fn keys_of_a_project_count_only_after_an_allow() {
    let home = Home::new();
    std::fs::write(home.path("e2e.yaml"), GOOD).unwrap();
    let keys = [
        ("allow-mount = [\"/etc\"]", "allowMount", "/etc"),
        ("env-allow = [\"SECRET\"]", "envAllow", "SECRET"),
        ("docker-host = \"unix:///planted.sock\"", "dockerHost", "planted"),
        ("listen = \"0.0.0.0:9999\"", "listen", "9999"),
        ("state = \"planted\"", "state", "planted"),
        ("publish-address = \"0.0.0.0\"", "publishAddress", "0.0.0.0"),
        ("allow-test-commands = true", "allowTestCommands", "true"),
    ];
    for (line, field, value) in keys {
        let key = line.split(' ').next().unwrap();
        std::fs::write(home.path("argus.toml"), format!("{line}\n")).unwrap();
        let counts = |args: &[&str]| settings(&home, args)[field].to_string().contains(value);
        assert!(!counts(&[]), "{key}");
        let warned = err(&run(&home, &["get"]));
        assert!(
            warned.contains(&format!("`{key}`, which a repository cannot set"))
                && warned.contains(&format!("--{key}"))
                && warned.contains("argus allow"),
            "{warned}"
        );
        assert!(counts(&["--config", "argus.toml"]), "{key}");

        let allowed = run(&home, &["allow"]);
        assert!(
            allowed.status.success() && out(&allowed).contains(key),
            "{}",
            err(&allowed)
        );
        assert!(counts(&[]), "{key}");
        assert!(!err(&run(&home, &["get"])).contains("warning"), "{key}");

        std::fs::write(home.path("argus.toml"), format!("{line}\n# edited\n")).unwrap();
        assert!(!counts(&[]), "an edit ends the permission: {key}");
        assert!(run(&home, &["allow", "."]).status.success());
        assert!(counts(&[]), "{key}");
        assert!(run(&home, &["allow", "--revoke"]).status.success());
        assert!(!counts(&[]), "{key}");
    }
}

#[test]
fn settings_of_the_user_count_below_those_of_the_project() {
    let home = Home::new();
    std::fs::create_dir_all(home.path("xdg-config/argus")).unwrap();
    std::fs::write(
        home.path("xdg-config/argus/argus.toml"),
        "allow-mount = [\"/mine\"]\nstrict = true\n",
    )
    .unwrap();
    std::fs::write(
        home.path("argus.toml"),
        "allow-mount = [\"/planted\"]\nstrict = false\n",
    )
    .unwrap();
    let found = settings(&home, &[]);
    assert_eq!(found["allowMount"], serde_json::json!(["/mine"]));
    assert_eq!(found["strict"], false);
}

#[test]
fn init_allows_only_a_project_without_settings() {
    let home = Home::new();
    let is_allowed = |home: &Home| private(home).join("allowed").exists();
    std::fs::write(home.path("argus.toml"), "allow-mount = [\"/etc\"]\n").unwrap();
    assert_eq!(code(&run(&home, &["init"])), 0);
    assert!(!is_allowed(&home), "no person has read these settings");
    std::fs::remove_file(home.path("argus.toml")).unwrap();
    assert_eq!(code(&run(&home, &["init", "--force"])), 0);
    assert!(is_allowed(&home));
    // Settings that appear later do not count.
    std::fs::write(home.path("argus.toml"), "allow-mount = [\"/etc\"]\n").unwrap();
    assert_eq!(settings(&home, &[])["allowMount"], serde_json::json!([]));
}

#[test]
fn permission_does_not_reach_files_of_another_project() {
    let home = Home::new();
    let file = GOOD.replace("ports: ['8080:80']", "volumes: ['.:/app', './a:/a:ro']");
    for folder in ["mine/environments", "other/environments"] {
        std::fs::create_dir_all(home.path(folder)).unwrap();
        std::fs::write(home.path(folder).join("e2e.yaml"), &file).unwrap();
    }
    symlink("../other/environments", home.path("mine/linked")).unwrap();
    let at = |args: &[&str]| {
        let mut command = command(&home, args);
        command.current_dir(home.path("mine")).env_remove("ARGUS_SPECS");
        command.output().unwrap()
    };
    let accepts = |folder: &str| code(&at(&["validate", "--specs", folder])) == 0;
    assert!(!accepts("environments"));
    assert_eq!(code(&at(&["allow"])), 0);
    assert!(accepts("environments"));
    assert!(accepts("../mine/environments"));
    for other in ["../other/environments", "linked"] {
        assert!(!accepts(other), "{other}");
    }
}

#[test]
fn ci_allows_a_project_for_one_run() {
    let home = Home::new();
    let file = GOOD.replace("ports: ['8080:80']", "volumes: ['/etc:/host:ro']");
    std::fs::write(home.path("e2e.yaml"), file).unwrap();
    std::fs::write(home.path("argus.toml"), "allow-mount = [\"/etc\"]\n").unwrap();
    let refused = run(&home, &["ci", "e2e.yaml"]);
    assert_eq!(code(&refused), 3, "{}", err(&refused));
    // The engine is unreachable, but the file is accepted.
    let accepted = run(&home, &["ci", "e2e.yaml", "--allow"]);
    assert_eq!(code(&accepted), 8, "{}", err(&accepted));
    assert!(!err(&accepted).contains("warning"), "{}", err(&accepted));
    assert_eq!(code(&run(&home, &["ci", "e2e.yaml"])), 3, "nothing is recorded");
}
