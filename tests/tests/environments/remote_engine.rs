//! An engine on another host: clients reach published ports at its address, or learn why not.
#![allow(clippy::expect_used, reason = "a failed step ends the test with a message")]

use std::fs;

use argus_tests::fixture::{LIMIT, images, singles};
use argus_tests::{Controller, Options, PrivateEngine, RunOptions};

const SUITE: &str = "name: Pages
setup:
  - waitForPort: { port: 18770, timeout: 30s }
cases:
  - { name: path, request: { path: /healthz }, expect: { status: 200 } }
  - { name: local, request: { url: 'http://localhost:18770/healthz' }, expect: { status: 200 } }
";

#[test]
fn ports_of_a_remote_engine_are_reached_at_its_host() {
    let engine = PrivateEngine::start_with(Options {
        args: ["-H", "tcp://0.0.0.0:2375", "--tls=false"]
            .map(str::to_owned)
            .to_vec(),
        ..Options::default()
    });
    images(&engine);
    let home = engine.scratch("remote");
    let options = |args: &[&str]| RunOptions {
        specs: Some(home.join("specs")),
        state: Some(home.join("state")),
        host: Some(format!("tcp://{}:2375", engine.address())),
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        // Argus runs in the network of this test, not in that of the engine.
        launcher: [
            "nsenter".to_owned(),
            format!("--net=/proc/{}/ns/net", std::process::id()),
            "--".to_owned(),
        ]
        .into(),
        ..RunOptions::default()
    };
    let argus = Controller::prepare(&engine, options(&[]));
    let suites = "tests: { suites: [{ name: Pages, id: pages, file: pages.yaml, runner: yaml }] }\n";
    argus.write_spec("e2e.yaml", &singles("far", &[18770], suites));
    fs::write(argus.specs.join("pages.yaml"), SUITE).expect("a suite");
    argus.start_again();
    let status = argus.wait_status("far", LIMIT, "has a port and a warning", |status| {
        let message = status["diagnostics"][0]["message"].as_str().unwrap_or_default();
        message.contains("clients cannot reach `s0` at port 8080")
            && status["portMappings"][0]["actualPort"] == 18770
    });
    let hint = status["diagnostics"][0]["hint"].as_str().unwrap_or_default();
    assert!(hint.contains("--publish-address 0.0.0.0"), "{status:#}");
    let opened = argus.cli(&["open", "far/s0", "--print"]);
    let error = String::from_utf8_lossy(&opened.stderr);
    assert!(
        !opened.status.success() && error.contains("--publish-address"),
        "{opened:?}"
    );
    assert!(argus.stop().success());

    let argus = Controller::start(&engine, options(&["--publish-address", "0.0.0.0"]));
    let status = argus.wait_ready("far", LIMIT);
    let host = engine.address();
    assert_eq!(status["portMappings"][0]["host"], host.as_str(), "{status:#}");
    let opened = argus.cli(&["open", "far/s0", "--print"]);
    let url = format!("http://{host}:18770\n");
    assert_eq!(String::from_utf8_lossy(&opened.stdout), url, "{opened:?}");
    let file = fs::read_to_string(argus.state.join("environments/far.env")).expect("the addresses");
    assert!(file.contains(&format!("ARGUS_S0_URL={url}")), "{file}");
    let ran = argus.cli(&["test", "run", "far"]);
    assert!(ran.status.success(), "{ran:?}");
}
