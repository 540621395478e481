//! The script of `action.yml` that posts the comment of a run, with a `gh` of its own.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use super::read;

/// Records its arguments. It knows the comment `FOUND`, and refuses every call with `REFUSED`.
const GH: &str = r#"#!/usr/bin/env bash
printf '%s\n' "$*" >> calls
[ -z "${REFUSED:-}" ] || exit 1
case "$*" in
    *graphql*) printf '%s' "$FOUND" ;;
esac
"#;

/// Runs the step, and returns its output and the calls of `gh`.
fn post(folder: &Path, token: &str, variables: &[(&str, &str)]) -> (String, String) {
    let action =
        argus_crds::yaml::document("action.yml", read("action.yml").as_bytes()).expect("it is valid");
    let steps = action.value["runs"]["steps"].as_array().expect("steps");
    let step = steps
        .iter()
        .find(|step| step["id"] == "comment")
        .expect("the step");
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").expect("a path"));
    let ended = Command::new("bash")
        .args(["--noprofile", "--norc", "-e", "-o", "pipefail", "-c"])
        .arg(step["run"].as_str().expect("a script"))
        .current_dir(folder)
        .env("PATH", path)
        .env("RUNNER_TEMP", folder)
        .env("GH_TOKEN", token)
        .env("PULL_REQUEST", "7")
        .env("GITHUB_REPOSITORY", "team/shop")
        .envs(variables.iter().copied())
        .output()
        .expect("bash runs");
    let output = String::from_utf8_lossy(&[ended.stdout, ended.stderr].concat()).into_owned();
    assert!(ended.status.success(), "{output}");
    let calls = fs::read_to_string(folder.join("calls")).unwrap_or_default();
    let _absent = fs::remove_file(folder.join("calls"));
    (output, calls)
}

#[test]
fn action_posts_or_updates_one_comment() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let gh = folder.join("gh");
    fs::write(&gh, GH).expect("a program");
    fs::set_permissions(&gh, fs::Permissions::from_mode(0o755)).expect("its mode");
    assert_eq!(
        post(folder, "t", &[]),
        (String::new(), String::new()),
        "without a comment"
    );
    fs::write(
        folder.join("argus-comment.md"),
        "<!-- argus ci: e2e.yaml -->\n## $(touch made)\n",
    )
    .expect("a comment");
    assert_eq!(
        post(folder, "", &[]),
        (String::new(), String::new()),
        "without a token"
    );
    let body = format!("body=@{}/argus-comment.md", folder.display());
    let (_, created) = post(folder, "t", &[("FOUND", "")]);
    let last = created.lines().last().expect("a call");
    assert_eq!(
        last,
        format!("api --silent repos/team/shop/issues/7/comments -F {body}")
    );
    assert!(
        created.contains("-f owner=team -f name=shop -F number=7"),
        "{created}"
    );
    let (_, updated) = post(folder, "t", &[("FOUND", "42")]);
    let last = updated.lines().last().expect("a call");
    assert_eq!(
        last,
        format!("api --silent --method PATCH repos/team/shop/issues/comments/42 -F {body}")
    );
    // A token of a fork may write nothing.
    let (warned, refused) = post(folder, "t", &[("REFUSED", "1")]);
    assert!(
        warned.contains("::warning title=Argus::the comment is not posted"),
        "{warned}"
    );
    assert!(!refused.contains("comments -F"), "{refused}");
    assert!(!folder.join("made").exists());
}
