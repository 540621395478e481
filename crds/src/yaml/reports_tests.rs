//! Reports about mistakes that the parser sees in another place than their author.

use super::*;

fn lines(text: &str) -> Vec<String> {
    let diagnostics = read("e2e.yaml", text.as_bytes()).diagnostics;
    let line = |diagnostic: &Diagnostic| {
        let place = diagnostic.location.map_or((0, 0), |it| (it.line, it.column));
        format!("{}:{} {}", place.0, place.1, diagnostic.message)
    };
    diagnostics.iter().map(line).collect()
}

#[test]
fn tab_is_reported_at_its_place() {
    let tab = "the indentation contains a tab";
    for (text, place) in [
        (
            "project: { name: a }\nservice:\n  image: b\n\tcommand: c\n",
            "4:1",
        ),
        (
            "project: { name: a }\nservice:\n  image: b\n   more\n\tcommand: c\n",
            "5:1",
        ),
        ("project: { name: a }\nservice:\n  image:\n\t  b\n", "4:1"),
        (
            "project: { name: a }\nservice:\n  command:\n    - a\n\t- b\n",
            "5:1",
        ),
        ("project:\n\tname: a\n", "2:1"),
        (
            "project: { name: a }\nservice:\n  image: \"b\"\n  \tcommand: c\n",
            "4:3",
        ),
    ] {
        assert_eq!(lines(text), [format!("{place} {tab}")], "{text}");
    }
    // A tab within a value is no indentation.
    assert_eq!(
        lines("project: { name: a }\nservice: { image: b, command: \"x\ty\" }\n"),
        [""; 0]
    );
}
