//! The fenced blocks of the pages, with the comments before them.

use std::path::{Path, PathBuf};

/// One block.
#[derive(Debug, Clone)]
pub(crate) struct Fence {
    /// Page and line, such as `docs/cli.md:12`.
    pub(crate) place: String,
    /// The language of the block.
    pub(crate) language: String,
    pub(crate) of: String,
    pub(crate) body: String,
    /// The reason why the block is not checked, if its page gives one.
    pub(crate) unchecked: Option<String>,
}

/// The root directory of the project.
pub(crate) fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    root.canonicalize().expect("the workspace is above")
}

/// Folders with pages. The decisions have no blocks.
const FOLDERS: [&str; 3] = ["docs", "docs/contributors", "docs/reference"];

/// The pages of a folder.
fn pages_in(folder: &str) -> Vec<String> {
    let entries = std::fs::read_dir(root().join(folder)).expect("a directory");
    let names = entries.map(|entry| {
        entry
            .expect("an entry")
            .file_name()
            .to_string_lossy()
            .into_owned()
    });
    let pages = names.filter(|name| Path::new(name).extension().is_some_and(|ending| ending == "md"));
    pages.map(|name| format!("{folder}/{name}")).collect()
}

/// All pages.
pub(crate) fn pages() -> Vec<String> {
    let mut pages: Vec<String> = FOLDERS.into_iter().flat_map(pages_in).collect();
    pages.sort();
    let above = [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "examples/README.md",
    ];
    above.into_iter().map(str::to_owned).chain(pages).collect()
}

/// The blocks of a page, in order.
pub(crate) fn of(page: &str) -> Vec<Fence> {
    let text = std::fs::read_to_string(root().join(page)).expect("a page");
    let (mut found, mut open) = (Vec::new(), None::<Fence>);
    let mut before = "";
    for (index, line) in text.lines().enumerate() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(head)) => {
                let (language, of) = head.split_once(' ').unwrap_or((head, ""));
                let why = before
                    .strip_prefix("<!-- unchecked: ")
                    .and_then(|why| why.strip_suffix(" -->"));
                open = Some(Fence {
                    place: format!("{page}:{}", index + 1),
                    language: language.to_owned(),
                    of: of.to_owned(),
                    body: String::new(),
                    unchecked: why.map(str::to_owned),
                });
            }
            (Some(_), Some(_)) => found.extend(open.take()),
            (Some(fence), None) => {
                fence.body.push_str(line);
                fence.body.push('\n');
            }
            (None, None) => before = line,
        }
    }
    assert!(open.is_none(), "{page}: a block without an end");
    found
}

/// The blocks of all pages.
pub(crate) fn all() -> Vec<Fence> {
    pages().iter().flat_map(|page| of(page)).collect()
}

/// The commands of a block, without comments.
pub(crate) fn commands(fence: &Fence) -> Vec<String> {
    typed(fence).into_iter().map(|(line, _)| line).collect()
}

/// The commands of a block, each with the exit code in its comment (`# exit code 5: …`), else 0.
pub(crate) fn typed(fence: &Fence) -> Vec<(String, i32)> {
    let lines = fence.body.lines().map(|line| {
        let (line, text) = line.split_once(" #").unwrap_or((line, ""));
        let code = text.split_once("exit code ").map_or(0, |(_, text)| {
            let digits = text.split(|letter: char| !letter.is_ascii_digit()).next();
            digits
                .and_then(|digits| digits.parse().ok())
                .expect("an exit code is a number")
        });
        (line.trim().to_owned(), code)
    });
    lines
        .filter(|(line, _)| !line.is_empty() && !line.starts_with('#'))
        .collect()
}
