//! YAML snippets in `docs/mocks.md`: each one is valid and compiles without diagnostics.
#![allow(
    clippy::expect_used,
    reason = "a failed setup step ends the test with a message"
)]

use argus_crds::{MockMode, yaml};
use argus_mock::{CompiledMock, MockConfig};

const DOCUMENT: &str = "openapi: 3.1.0\ninfo: { title: t, version: '1' }\npaths: {}\n";

#[test]
fn snippets_of_the_mocks_page_compile() {
    let page = include_str!("../../../../docs/mocks.md");
    let snippets = page
        .split("```yaml\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next());
    let mut modes = Vec::new();
    for snippet in snippets {
        let text = format!("version: \"1\"\nproject: {{ name: docs }}\n{snippet}");
        let parsed = yaml::read("mocks.md", text.as_bytes());
        assert!(
            parsed.diagnostics.is_empty(),
            "{snippet}\n{:#?}",
            parsed.diagnostics
        );
        for (name, mock) in parsed.spec.expect("a spec").mocks {
            modes.push(mock.mode);
            let document = mock.openapi.is_some().then(|| DOCUMENT.to_owned());
            let (compiled, diagnostics) =
                CompiledMock::new(&MockConfig::new(&name, mock, document), Vec::new());
            assert!(
                compiled.is_some() && diagnostics.is_empty(),
                "{name}: {diagnostics:#?}"
            );
        }
    }
    assert_eq!(modes, [MockMode::Auto, MockMode::Smart, MockMode::Record]);
}
