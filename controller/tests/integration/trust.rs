//! Trust in a project: its files contain no private state, and its settings give it nothing more.

#![allow(clippy::unwrap_used, reason = "a test may panic, and so may its helpers")]

use std::os::unix::fs::{PermissionsExt as _, symlink};
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
fn shipped_status_files_are_not_read() {
    let home = Home::new();
    std::fs::create_dir(home.path("other")).unwrap();
    std::fs::write(home.path("other/v.e2e.yaml"), GOOD).unwrap();
    std::fs::create_dir_all(home.path(".argus/environments")).unwrap();
    let at = "2026-11-28T21:00:00Z";
    let controller = serde_json::json!({
        "schemaVersion": 1, "controller": SHIPPED, "version": "0.1.0", "pid": 1, "startedAt": at, "stoppedAt": at,
        "mode": "Full", "specs": home.path("other"), "asOf": at,
    });
    let remedy = serde_json::json!({
        "action": "fix_spec", "summary": "use it", "file": "v.e2e.yaml", "key": "services.web.image",
        "now": "web:1", "suggest": "evil:1", "reason": "it is better",
    });
    let status = serde_json::json!({
        "schemaVersion": 1, "environment": "v", "project": "v", "specPath": "v.e2e.yaml", "phase": "Failed", "asOf": at,
        "errors": [{
            "code": "BAD_MOUNT", "category": "infrastructure", "severity": "fatal", "class": "permanent",
            "message": "forged", "remedies": [remedy], "suggestedActions": ["fix_spec"], "retryable": false,
        }],
    });
    std::fs::write(home.path(".argus/controller.json"), controller.to_string()).unwrap();
    std::fs::write(home.path(".argus/environments/v.json"), status.to_string()).unwrap();
    for words in [
        &["fix", "v", "-y"][..],
        &["fix", "-y"],
        &["why", "v"],
        &["get"],
        &["logs", "v"],
    ] {
        let output = run(&home, words);
        let shown = out(&output) + &err(&output);
        assert!(
            !shown.contains("forged") && !shown.contains("evil"),
            "{words:?}: {shown}"
        );
        assert!(!shown.contains("environments: v"), "{words:?}: {shown}");
    }
    assert_eq!(
        std::fs::read_to_string(home.path("other/v.e2e.yaml")).unwrap(),
        GOOD
    );
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
            let shown = err(&output);
            let remedy = format!("hint: remove `{}`, or set `XDG_STATE_HOME`", private.display());
            assert!(
                shown.contains(why) && shown.contains(&remedy),
                "{words:?}: {shown}"
            );
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
fn given_state_that_others_can_exchange_is_refused() {
    let home = Home::new();
    std::fs::write(home.path("e2e.yaml"), GOOD).unwrap();
    let shared = home.path("shared");
    std::fs::create_dir(&shared).unwrap();
    std::fs::set_permissions(&shared, std::fs::Permissions::from_mode(0o777)).unwrap();
    let refused = run(&home, &["run", "--state", "shared/state"]);
    assert_ne!(code(&refused), 0);
    let shown = err(&refused);
    for part in ["shared` is writable for other users", "hint: ", "`--state`"] {
        assert!(shown.contains(part), "{shown}");
    }
    assert_eq!(std::fs::read_dir(&shared).unwrap().count(), 0);
}

#[test]
fn mounts_of_private_folders_are_refused() {
    let home = Home::new();
    let accepts = |args: &[&str], source: &str| {
        let volumes = format!("volumes: ['{source}:/x:ro']");
        let file = GOOD.replace("ports: ['8080:80']", &volumes);
        std::fs::write(home.path("e2e.yaml"), file).unwrap();
        let output = run(&home, &[&["validate", "e2e.yaml"], args].concat());
        (code(&output) == 0, err(&output) + &out(&output))
    };
    for folder in [
        "xdg/argus/shop-2",
        "xdg/other",
        "xdg-config/argus",
        "data",
        "run/state",
    ] {
        std::fs::create_dir_all(home.path(folder)).unwrap();
    }
    let private = [
        ".",
        "./xdg",
        "./xdg/argus",
        "./xdg/argus/shop-2",
        "./xdg-config",
        "./xdg-config/argus",
    ];
    for args in [&[][..], &["--state", "run/state"]] {
        for source in private {
            let (accepted, shown) = accepts(args, source);
            assert!(
                !accepted && shown.contains("a private folder of Argus"),
                "{source}: {shown}"
            );
        }
        for source in ["./xdg/other", "./data"] {
            let (accepted, shown) = accepts(args, source);
            assert!(accepted, "{source}: {shown}");
        }
    }
    // With `--state`, the state is private wherever it is.
    for source in ["./run", "./run/state", "./run/state/private"] {
        let (accepted, shown) = accepts(&["--state", "run/state"], source);
        assert!(
            !accepted && shown.contains("the state directory"),
            "{source}: {shown}"
        );
    }
    assert!(accepts(&[], "./run").0);
    let (_, shown) = accepts(&[], ".");
    assert!(
        shown.contains("`XDG_STATE_HOME` and `XDG_CONFIG_HOME`"),
        "{shown}"
    );
    let (_, shown) = accepts(&["--state", "run/state"], "./run");
    assert!(
        shown.contains("a state directory outside of it with `--state`"),
        "{shown}"
    );
}

#[test]
fn build_of_a_folder_with_private_state_is_accepted() {
    let home = Home::new();
    std::fs::write(home.path("Dockerfile"), "FROM scratch\n").unwrap();
    std::fs::write(
        home.path("e2e.yaml"),
        GOOD.replace("image: web:1", "build: {context: .}"),
    )
    .unwrap();
    for args in [&[][..], &["--state", "run/state"]] {
        let output = run(&home, &[&["validate", "e2e.yaml"], args].concat());
        assert_eq!(code(&output), 0, "{}", err(&output));
    }
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
        ("git-writable = true", "gitWritable", "true"),
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
fn git_directory_is_writable_only_with_a_permission() {
    let home = Home::new();
    std::fs::create_dir_all(home.path(".git/hooks")).unwrap();
    let file = GOOD.replace("ports: ['8080:80']", "volumes: ['./.git/hooks:/hooks']");
    std::fs::write(home.path("e2e.yaml"), file).unwrap();
    std::fs::write(home.path("argus.toml"), "git-writable = true\n").unwrap();
    let refused = run(&home, &["validate"]);
    let shown = out(&refused) + &err(&refused);
    assert_eq!(code(&refused), 3, "{shown}");
    for named in ["./.git/hooks", "--git-writable", "argus allow"] {
        assert!(shown.contains(named), "{named} in {shown}");
    }
    assert_eq!(code(&run(&home, &["validate", "--git-writable"])), 0);
    assert!(run(&home, &["allow"]).status.success());
    assert_eq!(code(&run(&home, &["validate"])), 0);
    assert!(run(&home, &["allow", "--revoke"]).status.success());
    assert_eq!(code(&run(&home, &["validate"])), 3);
}

#[test]
fn privileges_need_an_allowed_project_and_a_flag() {
    let home = Home::new();
    for (name, text) in [
        (
            "e2e.yaml",
            GOOD.replace("  image:", "  privileged: true\n  image:"),
        ),
        (
            "compose.yaml",
            "services:\n  web: { image: 'web:1', cap_add: [NET_ADMIN] }\n".to_owned(),
        ),
    ] {
        std::fs::write(home.path(name), text).unwrap();
        for allowed in [false, true] {
            let refused = run(&home, &["validate", name]);
            let shown = out(&refused) + &err(&refused);
            assert_eq!(code(&refused), 3, "{shown}");
            for named in ["argus allow", "--allow-privileged", &format!("{name}:")] {
                assert!(shown.contains(named), "{named} in {shown}");
            }
            let permitted = run(&home, &["validate", name, "--allow-privileged"]);
            let expected = if allowed { 0 } else { 3 };
            assert_eq!(
                code(&permitted),
                expected,
                "{}{}",
                out(&permitted),
                err(&permitted)
            );
            assert!(run(&home, &["allow"]).status.success());
        }
        assert!(run(&home, &["allow", "--revoke"]).status.success());
    }
    for text in [
        "allow-privileged = true\n",
        "ceiling = { allow-privileged = true }\n",
    ] {
        std::fs::write(home.path("own.toml"), text).unwrap();
        let refused = run(&home, &["validate", "--config", "own.toml"]);
        assert!(
            !refused.status.success() && err(&refused).contains("allow-privileged"),
            "{text}"
        );
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
fn settings_of_the_user_in_a_checkout_do_not_count() {
    let home = Home::new();
    std::fs::create_dir_all(home.path("xdg-config/argus")).unwrap();
    std::fs::write(
        home.path("xdg-config/argus/argus.toml"),
        "allow-mount = [\"/mine\"]\n",
    )
    .unwrap();
    let mounts = || settings(&home, &[])["allowMount"].clone();
    assert_eq!(mounts(), serde_json::json!(["/mine"]));
    // As a job of a CI system that sets `HOME` to its checkout.
    std::fs::create_dir(home.path(".git")).unwrap();
    assert_eq!(mounts(), serde_json::json!([]));
}

#[test]
fn error_in_a_settings_file_names_that_file() {
    let home = Home::new();
    let user = home.path("xdg-config/argus/argus.toml");
    std::fs::create_dir_all(user.parent().unwrap()).unwrap();
    std::fs::write(home.path("argus.toml"), "strict = true\n").unwrap();
    let values = ["timeout-short = \"2h\"", "namespace-from = \"x\"", "spec = 1"];
    for value in values {
        std::fs::write(&user, value).unwrap();
        let shown = err(&run(&home, &["get"]));
        let named = format!("cannot use settings `{}`", user.display());
        assert!(shown.contains(&named), "{value}: {shown}");
    }
    std::fs::write(&user, "").unwrap();
    for value in values {
        std::fs::write(home.path("argus.toml"), value).unwrap();
        let shown = err(&run(&home, &["get"]));
        assert!(
            shown.contains("cannot use settings `argus.toml`"),
            "{value}: {shown}"
        );
    }
}

/// Returns true if a text names what a permission includes.
fn names_reach(text: &str) -> bool {
    let parts = [
        "external volumes and networks",
        "SSH agent",
        "push caches",
        "`--allow-privileged`",
    ];
    parts.iter().all(|part| text.contains(part))
}

#[test]
fn variables_and_other_folders_count_only_after_an_allow() {
    let home = Home::new();
    std::fs::create_dir_all(home.path("mine/environments")).unwrap();
    std::fs::create_dir_all(home.path("other")).unwrap();
    std::fs::write(home.path("mine/environments/e2e.yaml"), GOOD).unwrap();
    std::fs::write(
        home.path("other/e2e.yaml"),
        GOOD.replace("name: shop\n", "name: planted\n"),
    )
    .unwrap();
    let at = |args: &[&str]| {
        let mut command = command(&home, args);
        command.current_dir(home.path("mine")).env_remove("ARGUS_SPECS");
        let output = command.env("SECRET", "planted").output().unwrap();
        (code(&output), out(&output) + &err(&output))
    };
    for (key, value) in [("namespace-from", "env:SECRET"), ("specs", "../other")] {
        let text = format!("{key} = \"{value}\"\n");
        std::fs::write(home.path("mine/argus.toml"), text).unwrap();
        let (status, shown) = at(&["validate"]);
        assert!(status == 0 && !shown.contains("planted"), "{key}: {shown}");
        assert!(
            shown.contains(&format!("`{key}`, which a repository cannot set")),
            "{shown}"
        );
        let (status, allowed) = at(&["allow"]);
        assert!(status == 0 && allowed.contains(key), "{allowed}");
        assert!(names_reach(&allowed), "{allowed}");
        let (_, shown) = at(&["validate"]);
        assert!(shown.contains("planted"), "{key}: {shown}");
    }
}

#[test]
fn init_allows_only_a_project_without_files_of_argus() {
    let home = Home::new();
    let is_allowed = || private(&home).join("allowed").exists();
    let init = |args: &[&str]| {
        let output = run(&home, &[&["init"], args].concat());
        assert_eq!(code(&output), 0, "{}", err(&output));
        let is_announced = err(&output).contains("`argus allow --revoke` ends that");
        assert_eq!(err(&output).contains("this folder is allowed"), is_announced);
        assert_eq!(names_reach(&err(&output)), is_announced);
        is_announced
    };
    std::fs::write(home.path("argus.toml"), "allow-mount = [\"/etc\"]\n").unwrap();
    assert!(!init(&[]) && !is_allowed(), "no person has read these settings");
    std::fs::remove_file(home.path("argus.toml")).unwrap();
    assert!(!init(&["--force"]) && !is_allowed(), "the file was there before");
    std::fs::remove_file(home.path("e2e.yaml")).unwrap();
    std::fs::write(home.path("specs/other.e2e.yaml"), GOOD).unwrap();
    assert!(!init(&[]) && !is_allowed(), "another file was there before");
    std::fs::remove_file(home.path("e2e.yaml")).unwrap();
    std::fs::remove_file(home.path("specs/other.e2e.yaml")).unwrap();
    for deep in ["a/b/c/e2e.yaml", "a/b/compose.yaml"] {
        std::fs::create_dir_all(home.path("a/b/c")).unwrap();
        std::fs::write(home.path(deep), GOOD).unwrap();
        assert!(!init(&[]) && !is_allowed(), "{deep} was there before");
        std::fs::remove_file(home.path("e2e.yaml")).unwrap();
        std::fs::remove_dir_all(home.path("a")).unwrap();
    }
    std::fs::write(home.path("compose.yaml"), "services: { web: { image: nginx } }\n").unwrap();
    git(&home, &["init", "-q"]);
    git(&home, &["add", "compose.yaml"]);
    assert!(!init(&[]) && !is_allowed(), "a checkout can contain it");
    // Git tracks a file of another name.
    git(&home, &["mv", "-f", "compose.yaml", "compose.ci.yaml"]);
    std::fs::remove_file(home.path("e2e.yaml")).unwrap();
    assert!(!init(&[]) && !is_allowed(), "`argus up -f` would read it");
    git(&home, &["mv", "-f", "compose.ci.yaml", "stack.yml"]);
    std::fs::write(home.path("compose.yaml"), "services: { web: { image: nginx } }\n").unwrap();
    std::fs::write(home.path(".env"), "COMPOSE_FILE=compose.yaml:./stack.yml\n").unwrap();
    std::fs::remove_file(home.path("e2e.yaml")).unwrap();
    assert!(!init(&[]) && !is_allowed(), "`COMPOSE_FILE` names it");
    for file in ["e2e.yaml", "compose.yaml", "stack.yml", ".env"] {
        std::fs::remove_file(home.path(file)).unwrap();
    }
    let elsewhere = tempfile::tempdir().unwrap();
    let outside = elsewhere.path().display().to_string();
    assert!(!init(&["--specs", &outside]) && !is_allowed());
    assert!(init(&[]) && is_allowed());
    // The record of before stays.
    assert!(!init(&["--force"]) && is_allowed());
    // Settings that appear later do not count.
    std::fs::write(home.path("argus.toml"), "allow-mount = [\"/etc\"]\n").unwrap();
    assert_eq!(settings(&home, &[])["allowMount"], serde_json::json!([]));
}

fn git(home: &Home, args: &[&str]) {
    let mut command = Command::new("git");
    let status = command.args(args).current_dir(home.path(".")).status();
    assert!(status.unwrap().success(), "git {args:?}");
}

#[test]
fn link_of_a_checkout_shows_no_other_file() {
    let home = Home::new();
    let elsewhere = tempfile::tempdir().unwrap();
    let secret = elsewhere.path().join("config.json");
    std::fs::write(&secret, "{ auths: { registry: { auth: c2VjcmV0 } } }\n").unwrap();
    for name in ["compose.yaml", "e2e.yaml"] {
        symlink(&secret, home.path(name)).unwrap();
        for args in [
            &["validate"][..],
            &["config"],
            &["plan"],
            &["ci"],
            &["up"],
            &["pull"],
        ] {
            let mut command = command(&home, args);
            command.current_dir(home.path(".")).env_remove("ARGUS_SPECS");
            let shown = |output: &Output| out(output) + &err(output);
            let before = shown(&command.output().unwrap());
            let is_quoted = before.contains("auth") || name == "e2e.yaml";
            assert!(is_quoted, "{args:?} reads {name}: {before}");
            std::fs::create_dir(home.path(".git")).unwrap();
            let output = command.output().unwrap();
            assert_ne!(code(&output), 0, "{args:?}");
            let shown = shown(&output);
            assert!(
                shown.contains("leads out of its git worktree"),
                "{args:?} {name}: {shown}"
            );
            assert!(shown.contains("`argus allow`"), "{args:?} {name}: {shown}");
            assert!(!shown.contains("auth"), "{args:?} {name}: {shown}");
            std::fs::remove_dir(home.path(".git")).unwrap();
        }
        std::fs::remove_file(home.path(name)).unwrap();
    }
}

#[test]
fn revoke_names_the_parent_that_still_allows() {
    let home = Home::new();
    std::fs::create_dir_all(home.path("mine/sub")).unwrap();
    let at = |folder: &str, args: &[&str]| {
        let output = command(&home, args)
            .current_dir(home.path(folder))
            .output()
            .unwrap();
        assert_eq!(code(&output), 0, "{}", err(&output));
        out(&output) + &err(&output)
    };
    let shown = at("mine", &["allow"]);
    assert!(shown.contains("pull request"), "{shown}");
    let shown = at("mine/sub", &["allow", "--revoke"]);
    let parent = home.path("mine").canonicalize().unwrap();
    let command = format!("`argus allow --revoke {}`", parent.display());
    assert!(
        shown.contains("still allowed") && shown.contains(&command),
        "{shown}"
    );
    let shown = at("mine/sub", &["allow", "--revoke", ".."]);
    assert!(shown.contains("is not allowed"), "{shown}");
}

#[test]
fn permission_of_a_parent_excludes_settings_below() {
    let home = Home::new();
    std::fs::create_dir_all(home.path("mine/sub")).unwrap();
    let at = |folder: &str, args: &[&str]| {
        let output = command(&home, args)
            .current_dir(home.path(folder))
            .output()
            .unwrap();
        assert_eq!(code(&output), 0, "{}", err(&output));
        err(&output)
    };
    at("mine", &["allow"]);
    std::fs::write(home.path("mine/sub/argus.toml"), "allow-mount = [\"/etc\"]\n").unwrap();
    let warned = at("mine/sub", &["get"]);
    assert!(
        warned.contains("`allow-mount`, which a repository cannot set"),
        "{warned}"
    );
}

#[test]
fn doctor_lists_the_state_of_a_removed_project() {
    let home = Home::new();
    std::fs::create_dir(home.path("mine")).unwrap();
    let mut allow = command(&home, &["allow"]);
    let allowed = allow.current_dir(home.path("mine")).output().unwrap();
    assert_eq!(code(&allowed), 0, "{}", err(&allowed));
    let lists = || out(&run(&home, &["doctor", "-o", "json"])).contains("which is removed or replaced");
    assert!(!lists());
    std::fs::remove_dir(home.path("mine")).unwrap();
    assert!(lists());
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
fn refusal_names_both_lines_and_the_permission() {
    let home = Home::new();
    let text = "services:\n  web:\n    image: web:1\n    volumes:\n      - ./web.conf:/etc/web.conf:ro\n  app:\n    image: app:1\n    \
                volumes:\n      - .:/app\n    environment: { DB_PASSWORD: hunter2 }\n";
    std::fs::create_dir(home.path("mine")).unwrap();
    std::fs::write(home.path("mine/web.conf"), "").unwrap();
    let at = |text: &str, args: &[&str]| {
        std::fs::write(home.path("mine/compose.yaml"), text).unwrap();
        let mut command = command(&home, args);
        let output = command
            .current_dir(home.path("mine"))
            .env_remove("ARGUS_SPECS")
            .output()
            .unwrap();
        (code(&output), out(&output) + &err(&output))
    };
    let validate = ["validate", "compose.yaml"];
    let (status, shown) = at(text, &validate);
    assert_eq!(status, 3, "{shown}");
    for named in ["compose.yaml:5:9", "`.:/app` is in line 9", "argus allow"] {
        assert!(shown.contains(named), "{named} in {shown}");
    }
    assert_eq!(at(text, &["allow"]).0, 0);
    let (status, shown) = at(text, &validate);
    assert_eq!(status, 0, "{shown}");
    // A line with a mistake is shown without the password next to it.
    let wrong = text.replace("hunter2 }", "hunter2, PORT: [1] }");
    let (_, shown) = at(&wrong, &validate);
    assert!(
        shown.contains("PORT: [1]") && !shown.contains("hunter2"),
        "{shown}"
    );
}

#[test]
fn unread_variable_of_the_shell_is_named_once() {
    let home = Home::new();
    let text = "services:\n  web:\n    image: nginx:${TAG:-1}\n    command: echo ${TAG:-1} ${NOTHING:-1}\n";
    std::fs::write(home.path("compose.yaml"), text).unwrap();
    let shown = |args: &[&str]| {
        let mut command = command(&home, args);
        let output = command.env("TAG", "hunter2").output().unwrap();
        assert_eq!(code(&output), 0, "{}", err(&output));
        err(&output)
    };
    let warning = "`TAG` of the shell is not read, because the project is not allowed";
    for args in [
        &["validate", "compose.yaml"][..],
        &["validate", "compose.yaml", "--strict"],
        &["config", "compose.yaml"],
    ] {
        let shown = shown(args);
        assert_eq!(shown.matches(warning).count(), 1, "{shown}");
        assert!(shown.contains("compose.yaml:3:"), "{shown}");
        assert!(
            !shown.contains("hunter2") && !shown.contains("NOTHING"),
            "{shown}"
        );
    }
    let permitted = shown(&["validate", "compose.yaml", "--env-allow", "TAG"]);
    assert!(!permitted.contains("of the shell"), "{permitted}");
    std::fs::write(home.path(".env"), "TAG=2\n").unwrap();
    let written = shown(&["validate", "compose.yaml"]);
    assert!(!written.contains("of the shell"), "{written}");
    std::fs::remove_file(home.path(".env")).unwrap();
    assert_eq!(code(&run(&home, &["allow"])), 0);
    let allowed = shown(&["validate", "compose.yaml"]);
    assert!(!allowed.contains("of the shell"), "{allowed}");
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
