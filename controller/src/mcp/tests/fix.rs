//! Changes of the first remedy: a certain one is written, a likely one only on request.

use argus_crds::SpecEdit;

use super::*;

const SPEC: &str = "version: \"1\"\nproject: { name: shop }\nservices:\n  api: { image: \"api:1\", memory: 64m, container: { name: api } }\n";

/// An environment whose first remedy is this change.
fn failed(edit: SpecEdit) -> Fixture {
    let edit = edit.line(4).now("64m").suggest("128MiB");
    let error = StructuredError::new(Code::ContainerOom, "out of memory")
        .environment("shop")
        .service("api")
        .edit(edit);
    let fixture = Fixture::new(&[EnvironmentStatus {
        spec_path: "shop.e2e.yaml".to_owned(),
        errors: vec![error],
        ..environment(Phase::Failed, vec![row("api", ServiceState::Failed)])
    }]);
    std::fs::write(spec_file(&fixture), SPEC).unwrap();
    fixture
}

fn spec_file(fixture: &Fixture) -> std::path::PathBuf {
    fixture.dir.path().join("specs/shop.e2e.yaml")
}

fn written(fixture: &Fixture) -> bool {
    let text = std::fs::read_to_string(spec_file(fixture)).unwrap();
    assert!(text == SPEC || text == SPEC.replace("64m", "128MiB"), "{text}");
    text != SPEC
}

fn edit() -> SpecEdit {
    SpecEdit::new("shop.e2e.yaml", "services.api.memory", "it used 90MiB")
}

#[tokio::test]
async fn likely_change_is_named_and_written_on_request() {
    let fixture = failed(edit().likely());
    let shown = fixture
        .call("argus_fix", json!({ "environment": "shop", "dryRun": true }))
        .await;
    assert_eq!(shown.structured_content.unwrap()["confidence"], "likely");

    let result = fixture.call("argus_fix", json!({ "environment": "shop" })).await;
    assert_eq!((result.is_error, written(&fixture)), (Some(true), false));
    let words = text(&result);
    assert!(words.contains("from `64m` to `128MiB`"), "{words}");
    let error = result.structured_content.unwrap();
    assert_eq!(error["details"]["reason"], "notPossible", "{error:#}");
    let remedy = &error["remedies"][0];
    assert_eq!(remedy["confidence"], "likely", "{error:#}");
    assert_eq!(remedy["suggest"], "128MiB", "{error:#}");
    assert_eq!(remedy["command"], "argus fix shop --yes --likely", "{error:#}");

    let tool = remedy["mcp"]["tool"].as_str().unwrap();
    let result = fixture.call(tool, remedy["mcp"]["arguments"].clone()).await;
    assert_eq!(
        (result.is_error, written(&fixture)),
        (Some(false), true),
        "{result:?}"
    );
}

#[tokio::test]
async fn certain_change_is_written() {
    let fixture = failed(edit());
    let result = fixture.call("argus_fix", json!({ "environment": "shop" })).await;
    assert_eq!((result.is_error, written(&fixture)), (Some(false), true));
    let content = result.structured_content.as_ref().unwrap();
    assert_eq!(content["confidence"], "certain");
    assert!(text(&result).contains("(certain: it used 90MiB)"), "{result:?}");
}
