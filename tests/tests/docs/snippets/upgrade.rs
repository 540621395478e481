//! An upgrade and a downgrade, as the operations page describes them: with another program on the same state directory.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use argus_reconciler::journal::checksum;
use argus_tests::fixture::{LIMIT, container_runs, text};
use argus_tests::{Controller, PrivateEngine, wait};
use serde_json::Value;

use super::pages::engine;
use super::shell::{Background, Shell};
use super::tour;

const SPEC: &str = r#"version: "1"
project: { name: shop }
services:
  store:
    image: busybox:1
    container: { name: shop-store }
  web:
    image: busybox:1
    dependsOn: [store, payments]
    command: ["httpd", "-f", "-p", "8080"]
    container:
      name: shop-web
      ports: ["18240:8080"]
      healthcheck: { type: tcp, port: 8080, interval: 500ms, timeout: 2s, retries: 20 }
mocks:
  payments: { port: 18241, containerPort: 8080, routes: [{ method: GET, path: /, response: { body: paid } }] }
"#;
/// A test runs in this environment, before and after.
const TESTED: &str = "version: \"1\"\nproject: { name: tested }\nservices:\n  app: { image: \"busybox:1\", container: { name: tested-app } }\n";

/// Starts of the commands that set up the service.
const SETUP: [&str; 4] = [
    "useradd ",
    "install -D ",
    "mkdir -p /etc/argus",
    "systemctl enable ",
];

/// A machine that runs Argus as a service.
struct Host<'e> {
    engine: &'e PrivateEngine,
    shell: Shell<'e>,
    service: RefCell<Option<Background>>,
}

type Runs = BTreeMap<String, (String, String)>;

impl<'e> Host<'e> {
    fn start(engine: &'e PrivateEngine) -> Self {
        let mut shell = Shell::at(engine, "host");
        let specs = shell.home.join("etc");
        let state = shell.home.join("state");
        for (name, spec) in [("shop", SPEC), ("tested", TESTED)] {
            let file = specs.join(format!("{name}.e2e.yaml"));
            fs::create_dir_all(&specs).expect("a directory");
            fs::write(file, spec).expect("a file");
        }
        shell.exported = vec![("ARGUS_SPECS", specs), ("ARGUS_STATE", state)];
        let host = Self {
            engine,
            shell,
            service: RefCell::new(None),
        };
        host.restart();
        host.shell.run("argus wait shop tested --for ready --timeout 5m");
        host.shell.run("argus test begin tested --case long --ttl 10m");
        host
    }

    fn stop(&self) {
        if let Some(service) = self.service.take() {
            service.stop();
        }
    }

    /// `systemctl restart argus`.
    fn restart(&self) {
        self.stop();
        self.service
            .replace(Some(self.shell.start_in_background("argus run")));
    }

    fn state(&self, name: &str) -> PathBuf {
        self.shell.home.join("state").join(name)
    }

    fn status(&self, environment: &str) -> Value {
        json(&self.state(&format!("environments/{environment}.json")))
    }

    /// Container and start time of each service.
    fn runs(&self) -> Runs {
        let mut all = container_runs(self.engine, "shop");
        all.extend(container_runs(self.engine, "tested"));
        all
    }

    /// The number of the last record of the journal.
    fn records(&self) -> u64 {
        let journal = fs::read_to_string(self.state("private/journal.jsonl")).expect("a journal");
        let last: Value = serde_json::from_str(journal.lines().last().expect("records")).expect("a record");
        last["seq"].as_u64().expect("a number")
    }

    /// Waits until everything is Ready again, with the mock under the current program.
    fn settled(&self, what: &str, mock: impl Fn(&str) -> bool) {
        wait::until(LIMIT, what, || {
            let status = self.status("shop");
            let image = text(&Controller::service(&status, "payments")["image"]);
            (status["phase"] == "Ready" && mock(&image)).then_some(())
        });
    }

    fn mock(&self) -> String {
        text(&Controller::service(&self.status("shop"), "payments")["image"])
    }
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).expect("a document")).expect("a complete document")
}

/// All services except the mock, which runs the replaced program.
fn services(runs: &Runs) -> Vec<&(String, String)> {
    let services = ["shop-store", "shop-web", "tested-app"];
    services.iter().map(|name| &runs[*name]).collect()
}

#[test]
fn upgrade_and_downgrade_keep_services_running() {
    let engine = engine();
    let host = Host::start(&engine);
    let (before, revision, mock) = (host.runs(), host.status("shop")["revision"].clone(), host.mock());
    let name = || json(&host.state("controller.json"))["controller"].clone();
    let token = || fs::read(host.state("private/token")).expect("a token");
    let (controller, secret, records) = (name(), token(), host.records());

    tour::go(&host.shell, "docs/operations.md", &mut |line| {
        match line {
            // A user, a unit and systemd: too much for a machine that only runs tests.
            setup if SETUP.iter().any(|start| setup.starts_with(start)) => {}
            // A different version: the same program with an appended line. `cp` writes it, because a file that this
            // process has open for writing cannot be executed.
            install if install.starts_with("install ") => {
                host.shell
                    .run("mkdir bin && cp \"$(command -v argus)\" bin/new && echo newer >> bin/new && mv bin/new bin/argus");
            }
            "systemctl restart argus" => host.restart(),
            "argus plan" => {
                // The plan does not show the later restart of the mocks, either.
                let output = host.shell.run(line);
                assert!(
                    output.contains("shop: nothing to do") && output.contains("tested: nothing to do"),
                    "{output}"
                );
            }
            _ => return false,
        }
        true
    });
    host.settled("the mock runs the new program", |image| image != mock);
    assert_eq!(
        services(&before),
        services(&host.runs()),
        "services are the same processes"
    );
    assert_ne!(before["shop-mock-payments"], host.runs()["shop-mock-payments"]);
    assert_eq!(
        revision,
        host.status("shop")["revision"],
        "the revision is unchanged"
    );
    assert_eq!(
        (controller.clone(), secret.clone()),
        (name(), token()),
        "the controller is the same"
    );
    assert!(host.records() > records, "the journal continues");
    assert_eq!(host.shell.run("argus incidents -o name"), "", "no incident");
    host.shell.run("argus test end tested --case long");

    // Back again: the newer program wrote formats that the older one does not know.
    host.shell.run("argus test begin tested --case later --ttl 10m");
    host.shell.run("argus fork tested spare");
    host.shell.run("argus wait spare --for ready --timeout 5m");
    assert!(engine.inspect("spare-app").is_some(), "the fork runs");
    host.stop();
    fs::remove_file(host.shell.home.join("bin/argus")).expect("the newer program");
    let memory = checksum::with_checksum("{\"schemaVersion\":2,\"shape\":\"another\"}");
    fs::write(host.state("private/state.json"), &memory).expect("a file");
    let record = checksum::with_checksum(&format!(
        "{{\"v\":2,\"seq\":{},\"kind\":\"another\"}}",
        host.records() + 1
    ));
    let journal = host.state("private/journal.jsonl");
    let whole = fs::read_to_string(&journal).expect("a journal") + &record + "\n";
    fs::write(&journal, whole).expect("a journal");
    host.restart();
    host.settled("the mock runs the old program", |image| image == mock);
    wait::until(LIMIT, "the fork, which no file defines, is removed", || {
        engine.inspect("spare-app").is_none().then_some(())
    });
    assert_eq!(
        services(&before),
        services(&host.runs()),
        "services are the same processes"
    );
    assert_eq!(
        (controller, secret),
        (name(), token()),
        "the controller is the same"
    );
    let aside = fs::read_dir(host.state("private"))
        .expect("a directory")
        .flatten();
    let aside: Vec<PathBuf> = aside
        .map(|entry| entry.path())
        .filter(|path| path.to_string_lossy().contains("state.json.corrupt-"))
        .collect();
    let [aside] = &aside[..] else {
        panic!("one corrupt file: {aside:?}")
    };
    assert_eq!(fs::read_to_string(aside).expect("a file"), memory, "unchanged");
    assert_ne!(
        host.shell.run("argus incidents -o name"),
        "",
        "the incident is reported"
    );
    host.shell.run_to("argus test end tested --case later", 1);
    host.stop();
}
