//! The page of all error codes is what the table of codes says.

use std::fmt::Write as _;
use std::path::Path;

use super::*;

const BEGIN: &str = "<!-- begin: all codes; `UPDATE=1 cargo test -p argus errors` writes this -->\n";
const END: &str = "<!-- end -->\n";

fn word(value: impl Serialize) -> String {
    json!(value).as_str().unwrap().to_owned()
}

fn table() -> String {
    let mut text =
        "\n| code | means | category | severity | class | retryable | exit code |\n|---|---|---|---|---|---|---|\n".to_owned();
    for code in Code::ALL {
        let is = meaning(*code);
        writeln!(
            text,
            "| [`{code}`](#{}) | {} | {} | {} | {} | {} | {} |",
            code.to_string().to_lowercase(),
            is.summary,
            word(is.category),
            word(is.severity),
            word(is.class),
            if is.retryable { "yes" } else { "no" },
            is.exit_code
        )
        .unwrap();
    }
    text
}

fn section(code: Code) -> String {
    let is = meaning(code);
    let mut text = format!("\n## {code}\n\n{}. {}\n", capital(is.summary), is.explanation);
    for (index, action) in code.about().actions.iter().enumerate() {
        let remedy = action.remedy(Some("ENV"), Some("SERVICE"));
        let command = remedy
            .command
            .map_or_else(String::new, |command| format!(": `{command}`"));
        let gap = if index == 0 { "\n" } else { "" };
        writeln!(text, "{gap}- {}{command}", remedy.summary).unwrap();
    }
    text
}

fn capital(text: &str) -> String {
    let (first, rest) = text.split_at(1);
    first.to_uppercase() + rest
}

#[test]
fn the_documentation_has_all_errors() {
    let sections: String = Code::ALL.iter().map(|code| section(*code)).collect();
    let wanted = format!("{}{sections}\n", table());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/errors.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (head, rest) = text.split_once(BEGIN).unwrap();
    let (found, tail) = rest.split_once(END).unwrap();
    if found == wanted {
        return;
    }
    assert!(
        std::env::var_os("UPDATE").is_some(),
        "docs/errors.md is not what the table says; hint: UPDATE=1 cargo test -p argus errors"
    );
    std::fs::write(path, format!("{head}{BEGIN}{wanted}{END}{tail}")).unwrap();
}
