//! Every piece of YAML on the page about mocks is read, admitted and served without a complaint.
#![allow(clippy::expect_used, reason = "a test that cannot look ends with a message")]

use argus_crds::{MockMode, yaml};
use argus_mock::{CompiledMock, MockConfig};

const DOCUMENT: &str = "openapi: 3.1.0\ninfo: { title: t, version: '1' }\npaths: {}\n";

#[test]
fn every_snippet_of_the_page_about_mocks_is_served() {
    let page = include_str!("../../../docs/mocks.md");
    let snippets = page
        .split("```yaml\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next());
    let mut modes = Vec::new();
    for snippet in snippets {
        let text = format!("version: \"1\"\nproject: {{ name: docs }}\n{snippet}");
        let reading = yaml::read("mocks.md", text.as_bytes());
        assert!(
            reading.diagnostics.is_empty(),
            "{snippet}\n{:#?}",
            reading.diagnostics
        );
        for (name, mock) in reading.spec.expect("a spec").mocks {
            modes.push(mock.mode);
            let document = mock.openapi.is_some().then(|| DOCUMENT.to_owned());
            let (served, diagnostics) =
                CompiledMock::new(&MockConfig::new(&name, mock, document), Vec::new());
            assert!(
                served.is_some() && diagnostics.is_empty(),
                "{name}: {diagnostics:#?}"
            );
        }
    }
    assert_eq!(modes, [MockMode::Auto, MockMode::Smart, MockMode::Record]);
}
