//! An engine over TLS: with its certificates, and with those of another authority.
#![allow(clippy::expect_used, reason = "a failed step ends the test with a message")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use argus_tests::fixture::{LIMIT, images};
use argus_tests::{Controller, Options, PrivateEngine, RunOptions};
use serde_json::Value;

const HOST: &str = "tcp://127.0.0.1:2376";

/// Runs openssl in a folder.
fn openssl(folder: &Path, args: &str) {
    let mut command = Command::new("openssl");
    let output = command.args(args.split(' ')).current_dir(folder).output();
    let output = output.expect("openssl runs; hint: ./scripts/setup");
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "openssl {args}: {err}");
}

/// Writes an authority, and the certificates of a server at this address and of a client that it signs.
pub(super) fn make_certificates(folder: &Path, address: &str) {
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    openssl(
        folder,
        &format!("req -x509 {key} -days 2 -subj /CN=authority -keyout authority.key -out ca.pem"),
    );
    for (prefix, name, usage) in [
        ("server-", format!("IP:{address}"), "serverAuth"),
        ("", "DNS:client".to_owned(), "clientAuth"),
    ] {
        let extensions = format!("subjectAltName={name}\nextendedKeyUsage={usage}\n");
        fs::write(folder.join("extensions"), extensions).expect("a file");
        openssl(
            folder,
            &format!("req {key} -subj /CN=argus -keyout {prefix}key.pem -out request"),
        );
        openssl(
            folder,
            &format!(
                "x509 -req -in request -CA ca.pem -CAkey authority.key -CAcreateserial -days 2 -extfile extensions -out {prefix}cert.pem"
            ),
        );
    }
}

/// Writes a Docker context `lab` with the certificates of a folder. Returns the configuration folder.
fn make_context(certificates: &Path) -> PathBuf {
    let config = certificates.join("config");
    let write = |path: &str, bytes: &[u8]| {
        let path = config.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, bytes).expect("a file");
    };
    let meta =
        format!(r#"{{"Name":"lab","Endpoints":{{"docker":{{"Host":"{HOST}","SkipTLSVerify":false}}}}}}"#);
    write("contexts/meta/id/meta.json", meta.as_bytes());
    for name in ["ca.pem", "cert.pem", "key.pem"] {
        let bytes = fs::read(certificates.join(name)).expect("a file");
        write(&format!("contexts/tls/id/docker/{name}"), &bytes);
    }
    config
}

/// Runs `argus preflight`. Returns the check of the engine.
fn check_engine(command: &mut Command) -> Value {
    let output = command.args(["preflight", "-o", "json"]).output();
    let report: Value = serde_json::from_slice(&output.expect("argus runs").stdout).expect("a report");
    let mut checks = report["checks"].as_array().expect("checks").iter();
    let check = checks.find(|check| check["name"] == "engine");
    check.expect("the check of the engine").clone()
}

#[test]
fn engine_over_tls_is_used_with_its_certificates_only() {
    let own = tempfile::tempdir().expect("a folder");
    let other = tempfile::tempdir().expect("a folder");
    make_certificates(own.path(), "127.0.0.1");
    make_certificates(other.path(), "127.0.0.1");
    let file = |name: &str| own.path().join(name).display().to_string();
    let engine = PrivateEngine::start_with(Options {
        args: vec![
            format!("--host={HOST}"),
            "--tlsverify".to_owned(),
            format!("--tlscacert={}", file("ca.pem")),
            format!("--tlscert={}", file("server-cert.pem")),
            format!("--tlskey={}", file("server-key.pem")),
        ],
        ..Options::default()
    });
    images(&engine);
    let argus = Controller::start(
        &engine,
        RunOptions {
            host: Some(HOST.to_owned()),
            env: vec![
                ("DOCKER_TLS_VERIFY".to_owned(), "1".to_owned()),
                ("DOCKER_CERT_PATH".to_owned(), own.path().display().to_string()),
            ],
            ..RunOptions::default()
        },
    );
    fs::write(
        argus.specs.join("Dockerfile"),
        "FROM busybox:local\nRUN touch /built\n",
    )
    .expect("a file");
    argus.write_spec(
        "e2e.yaml",
        "version: \"1\"\nproject: { name: remote }\nservices:\n  app:\n    build: { context: . }\n    command: [\"sh\", \"-c\", \"exec sleep 3600\"]\n    container:\n      name: remote-app\n      healthcheck: { type: exec, command: [\"test\", \"-e\", \"/built\"], interval: 1s, timeout: 2s, retries: 5 }\n",
    );
    argus.wait_ready("remote", LIMIT);
    let ran = argus.cli(&["exec", "remote/app", "--", "echo", "over TLS"]);
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "over TLS\n", "{ran:?}");
    let pruned = argus.cli(&["prune", "--dry-run", "-o", "json"]);
    assert!(pruned.status.success(), "{pruned:?}");
    let check = check_engine(argus.command().env("DOCKER_CERT_PATH", own.path()));
    assert_eq!(check["result"], "pass", "{check}");
    let mut with_context = argus.command();
    with_context
        .env_remove("DOCKER_HOST")
        .env_remove("DOCKER_TLS_VERIFY")
        .env("DOCKER_CONFIG", make_context(own.path()))
        .env("DOCKER_CONTEXT", "lab");
    let check = check_engine(&mut with_context);
    assert_eq!(check["result"], "pass", "{check}");

    // A client that trusts another authority, and one that the engine does not trust.
    let mixed = tempfile::tempdir().expect("a folder");
    for (name, from) in [
        ("ca.pem", own.path()),
        ("key.pem", other.path()),
        ("cert.pem", other.path()),
    ] {
        fs::copy(from.join(name), mixed.path().join(name)).expect("a file");
    }
    // The alert of an engine that refuses a client can get lost when it closes the connection.
    for (folder, reason) in [
        (other.path(), "invalid peer certificate"),
        (mixed.path(), "connection lost: "),
        (Path::new("/nowhere"), "TLS file `/nowhere/ca.pem`: No such file"),
    ] {
        let check = check_engine(argus.command().env("DOCKER_CERT_PATH", folder));
        assert_eq!(check["code"], "DOCKER_UNAVAILABLE", "{check}");
        let message = check["message"].as_str().unwrap_or_default();
        assert!(message.contains(reason), "{check}");
    }
}
