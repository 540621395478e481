//! MCP without a controller: the server still works read-only, and names what it needs.

use std::process::Command;

use argus_tests::binary;
use serde_json::json;

use super::agent::{data, drive, error, python};

#[test]
fn stdio_server_without_controller_reads_and_writes_files() {
    let dir = tempfile::tempdir().expect("a directory");
    let (state, specs) = (dir.path().join("state"), dir.path().join("specs"));
    std::fs::create_dir_all(&specs).expect("a directory");
    let file = "version: \"1\"\nproject: { name: shop }\nservices: { web: { image: \"x:1\", container: { name: web } } }\n";
    for mode in ["auto", "legacy"] {
        let mut command = Command::new(python());
        command
            .env("ARGUS_STATE", &state)
            .env("ARGUS_SPECS", &specs)
            .env("DOCKER_HOST", "unix:///nowhere.sock");
        let script = json!({ "stdio": [binary::argus(), "mcp"], "mode": mode, "steps": [
            { "call": "argus_status" },
            { "call": "argus_apply", "arguments": { "content": file } },
            { "call": "argus_validate" },
            { "call": "argus_explain", "arguments": { "code": "PORT_CONFLICT" } },
            { "call": "argus_preflight_check" },
            { "call": "argus_retry", "arguments": { "environment": "shop" } },
            { "call": "argus_evidence", "arguments": { "environment": "shop", "service": "web" } },
            { "call": "argus_nothing" },
            { "read": "argus://environments/../../etc" },
        ] });
        let all = drive(command, &script);
        assert_eq!(all["about"]["server"]["name"], "argus", "{all:#}");
        let answers = &all["answers"];
        let result = |index: usize| &answers[index]["result"];
        assert_eq!(data(result(0))["controller"]["alive"], false);
        assert_eq!(data(result(1))["environment"], "shop");
        assert_eq!(data(result(1))["accepted"], false, "no controller reads it yet");
        assert_eq!(data(result(2))["files"][0]["environment"], "shop");
        assert_eq!(data(result(3))["code"], "PORT_CONFLICT");
        assert_eq!(data(result(4))["overall"], "unhealthy");
        let hint = &error(result(5))["details"]["hint"];
        assert!(
            hint.as_str()
                .is_some_and(|hint| hint.contains("argus run --specs")),
            "{hint}"
        );
        assert_eq!(error(result(6))["code"], "PREREQ_MISSING");
        for (index, text) in [(7, "argus_status"), (8, "environment name")] {
            let words = answers[index]["error"].to_string();
            assert!(words.contains(text), "{words}");
        }
        let written = std::fs::read_to_string(specs.join("shop.e2e.yaml")).expect("the file is written");
        assert_eq!(written, file);
    }
}
