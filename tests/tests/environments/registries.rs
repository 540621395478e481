//! Pulls and builds from a registry with a login, with the credential helpers of Docker's configuration file.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use argus_tests::fixture::{LIMIT, engine};
use argus_tests::registry::{PASSWORD, USER};
use argus_tests::{Controller, Registry, RunOptions};
use serde_json::json;

const PROXY: &str = "http://proxy.test:3128";

#[test]
fn pulls_and_builds_use_the_credential_helper() {
    let engine = engine();
    let registry = Registry::start_with_login(engine, 5061);
    engine.make_busybox_image("private:1", &[]);
    let image = registry.push(engine, "private:1");
    let home = engine.scratch("credential-helpers");
    let helper = |name: &str, script: &str| {
        let program = home.join(format!("docker-credential-{name}"));
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).expect("a program");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("its mode");
    };
    helper("locked", "echo hunter2; echo hunter2 >&2; exit 1");
    helper("stuck", "exec sleep 600");
    helper(
        "kept",
        &format!(r#"echo '{{"Username":"{USER}","Secret":"{PASSWORD}"}}'"#),
    );
    let configure = |name: &str| {
        let config = json!({
            "credsStore": "missing",
            "credHelpers": { &registry.address: name },
            "proxies": { "default": { "httpProxy": PROXY } },
        });
        fs::write(home.join("config.json"), config.to_string()).expect("a configuration file");
    };
    configure("locked");
    let path = std::env::var("PATH").unwrap_or_default();
    let options = RunOptions {
        env: vec![
            ("DOCKER_CONFIG".to_owned(), home.display().to_string()),
            ("PATH".to_owned(), format!("{}:{path}", home.display())),
        ],
        ..RunOptions::default()
    };
    let argus = Controller::start(engine, options);
    argus.write_spec(
        "e2e.yaml",
        &format!(
            "version: \"1\"\nproject: {{ name: private }}\nservices:\n  web:\n    image: {image}\n    command: [\"sleep\", \"3600\"]\n    \
             container: {{ name: private-web }}\n"
        ),
    );
    let status = argus.wait_status("private", LIMIT, "requires a login", |now| {
        now.to_string().contains("AUTH_REQUIRED")
    });
    let text = status.to_string();
    assert!(
        text.contains("`docker-credential-locked` failed with exit status: 1"),
        "{text}"
    );
    let journal = argus.cli(&["events", "private", "-o", "json"]);
    let surfaces = format!(
        "{text}{}{}",
        String::from_utf8_lossy(&journal.stdout),
        argus.logs()
    );
    assert!(!surfaces.contains("hunter2"), "{surfaces}");
    configure("stuck");
    assert!(argus.cli(&["retry", "private"]).status.success());
    argus.wait_status("private", LIMIT, "names the helper that hangs", |now| {
        now.to_string()
            .contains("`docker-credential-stuck` did not end within 10 s")
    });
    configure("kept");
    assert!(argus.cli(&["retry", "private"]).status.success());
    argus.wait_ready("private", LIMIT);

    // The base image of a build comes from the same registry, with the same login. Its steps have the proxy of the same file.
    engine.make_busybox_image("base:1", &[]);
    let base = registry.push(engine, "base:1");
    fs::write(
        argus.specs.join("Dockerfile"),
        format!("FROM {base}\nRUN echo $http_proxy > /proxy\n"),
    )
    .expect("a file");
    argus.write_spec(
        "e2e.yaml",
        "version: \"1\"\nproject: { name: private }\nservices:\n  web:\n    build: { context: . }\n    command: [\"sleep\", \"3600\"]\n    \
         container: { name: private-web }\n",
    );
    argus.wait_status("private", LIMIT, "runs the build", |now| {
        let proxy = engine.docker(&["exec", "private-web", "cat", "/proxy"]);
        now["phase"] == "Ready" && String::from_utf8_lossy(&proxy.stdout).trim() == PROXY
    });
    let status = argus.status("private").to_string();
    assert!(
        !format!("{status}{}", argus.logs()).contains(PASSWORD),
        "{status}"
    );
}
