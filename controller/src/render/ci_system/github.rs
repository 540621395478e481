//! Workflow commands and environment files of GitHub Actions.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::{Annotation, Appended, Level, log};

/// Number of annotations of a level that GitHub shows per step.
const MAX_ANNOTATIONS: usize = 10;
/// Maximum length of a title in bytes.
const MAX_TITLE: usize = 255;
/// Maximum length of a message in bytes: the runner cuts longer ones. The API accepts 64 KiB.
const MAX_MESSAGE: usize = 4_096;
/// Maximum length of the summary of a step in bytes: GitHub drops a longer one.
const MAX_SUMMARY: usize = 1 << 20;
/// Bytes reserved for the note about rows that were cut.
const MAX_NOTE: usize = 200;

/// Files and folders of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Workflow {
    /// Root of the checkout, to which the paths of annotations are relative.
    workspace: Option<PathBuf>,
    env: Option<PathBuf>,
    output: Option<PathBuf>,
    summary: Option<PathBuf>,
}

impl Workflow {
    pub(super) fn new(variables: &BTreeMap<String, String>) -> Self {
        let path = |name| {
            let value: Option<&String> = variables.get(name);
            value.filter(|value| !value.is_empty()).map(PathBuf::from)
        };
        Self {
            workspace: path("GITHUB_WORKSPACE"),
            env: path("GITHUB_ENV"),
            output: path("GITHUB_OUTPUT"),
            summary: path("GITHUB_STEP_SUMMARY"),
        }
    }

    pub(super) fn annotate(&self, annotation: &Annotation, current: &Path) -> String {
        let file = annotation.file.as_ref().map(|file| {
            let absolute = current.join(file);
            let workspace = self.workspace.as_deref();
            let inside = workspace.and_then(|root| absolute.strip_prefix(root).ok());
            log::without_old_commands(&inside.unwrap_or(&absolute).display().to_string())
        });
        let properties = [
            ("file", file),
            ("line", annotation.line.map(|line| line.to_string())),
            ("col", annotation.column.map(|column| column.to_string())),
            (
                "title",
                Some(cut(&annotation.title, MAX_TITLE, " …")).filter(|title| !title.is_empty()),
            ),
        ];
        let properties: Vec<String> = properties
            .into_iter()
            .filter_map(|(name, value)| Some(format!("{name}={}", escape_property(&value?))))
            .collect();
        let command = match annotation.level {
            Level::Error => "error",
            Level::Warning => "warning",
        };
        let space = if properties.is_empty() { "" } else { " " };
        let message = cut(
            &annotation.message,
            MAX_MESSAGE,
            " … (cut; the report contains all of it)",
        );
        let message = escape_data(&message);
        format!("::{command}{space}{}::{message}\n", properties.join(","))
    }

    pub(super) fn publish_variables(
        &self,
        variables: &BTreeMap<String, String>,
        delimiter: &str,
    ) -> Option<Appended> {
        Some(Appended {
            path: self.env.clone()?,
            text: assign(variables, delimiter),
            max: usize::MAX,
        })
    }

    pub(super) fn publish_results(
        &self,
        results: &BTreeMap<String, String>,
        summary: &str,
        delimiter: &str,
    ) -> Vec<Appended> {
        let output = self.output.clone().map(|path| Appended {
            path,
            text: assign(results, delimiter),
            max: usize::MAX,
        });
        let summary = self.summary.clone().map(|path| Appended {
            path,
            text: format!("{}\n", summary.trim_end()),
            max: MAX_SUMMARY,
        });
        output.into_iter().chain(summary).collect()
    }
}

pub(super) fn begin(title: &str) -> String {
    format!("::group::{}\n", escape_data(title))
}

pub(super) fn end() -> String {
    "::endgroup::\n".to_owned()
}

/// Returns the annotations that GitHub shows. The last one of a level has the number of the others, if there are more.
pub(super) fn limit_annotations(all: Vec<Annotation>) -> Vec<Annotation> {
    let is_error = |annotation: &Annotation| annotation.level == Level::Error;
    let (mut errors, mut warnings): (Vec<_>, Vec<_>) = all.into_iter().partition(is_error);
    for level in [&mut errors, &mut warnings] {
        let others = level.split_off(level.len().min(MAX_ANNOTATIONS - 1));
        level.extend(match &others[..] {
            [] | [_] => others,
            [first, ..] => vec![Annotation {
                level: first.level,
                message: format!("{} more; the report contains all of them", others.len()),
                ..Annotation::default()
            }],
        });
    }
    errors.into_iter().chain(warnings).collect()
}

/// Returns the beginning of a text, with a note at its end if it is longer than `limit`.
fn cut(text: &str, limit: usize, note: &str) -> String {
    let text = log::without_old_commands(text);
    if text.len() <= limit {
        return text;
    }
    let mut end = limit - note.len();
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    [&text[..end], note].concat()
}

/// Returns the first rows of a text, and a note about the others if it is longer than `limit`; nothing if there is no space for the note.
pub(crate) fn cut_rows(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let Some(space) = limit.checked_sub(MAX_NOTE) else {
        return String::new();
    };
    let mut end = 0;
    for row in text.split_inclusive('\n') {
        if end + row.len() > space {
            break;
        }
        end += row.len();
    }
    let left_out = text[end..].lines().filter(|row| !row.is_empty());
    let failures = left_out.clone().filter(|row| row.starts_with("- **")).count();
    let note = format!(
        "\n{} rows left out, {failures} of them failures; `summary.md` of the report contains all of them\n",
        left_out.count()
    );
    [&text[..end], &note].concat()
}

/// Assignments of values that can have several lines.
fn assign(variables: &BTreeMap<String, String>, delimiter: &str) -> String {
    let mut text = String::new();
    for (name, value) in variables {
        // Writing to a string cannot fail.
        let _ = write!(text, "{name}<<{delimiter}\n{value}\n{delimiter}\n");
    }
    text
}

/// Escapes the message of a workflow command.
fn escape_data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Escapes a property of a workflow command.
fn escape_property(text: &str) -> String {
    escape_data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_annotation_counts_the_others() {
        for (count, shown, last) in [
            (0, 0, None),
            (9, 9, Some("9")),
            (10, 10, Some("10")),
            (11, 10, Some("2 more; the report contains all of them")),
            (3_000, 10, Some("2991 more; the report contains all of them")),
        ] {
            let one = |number: usize| Annotation {
                message: number.to_string(),
                ..Annotation::default()
            };
            let warning = Annotation {
                level: Level::Warning,
                ..one(0)
            };
            let all = (1..=count).map(one).chain([warning.clone()]);
            let mut limited = limit_annotations(all.collect());
            assert_eq!(limited.pop(), Some(warning), "each level has its own number");
            let messages: Vec<_> = limited.iter().map(|shown| shown.message.as_str()).collect();
            assert_eq!((messages.len(), messages.last().copied()), (shown, last));
        }
    }

    #[test]
    fn summary_above_the_limit_ends_at_a_row() {
        let variables = [("GITHUB_STEP_SUMMARY".to_owned(), "/run/summary".to_owned())];
        let workflow = Workflow::new(&variables.into());
        let row = |number| format!("- **suite: case {number}**: {}\n", "é".repeat(200));
        let summary = format!("## Tests\n\n{}", (0..3_000).map(row).collect::<String>());
        let results = workflow.publish_results(&BTreeMap::new(), &summary, "end1");
        let [appended] = &results[..] else {
            panic!("{results:?}")
        };
        for used in [0, 900_000, 1_048_000, 1_048_576, u64::MAX] {
            let text = appended.fit(used);
            let total = usize::try_from(used)
                .unwrap_or(usize::MAX)
                .saturating_add(text.len());
            assert!(total <= MAX_SUMMARY || text.is_empty(), "{used}: {total}");
            let kept: Vec<_> = text.lines().filter(|line| line.starts_with("- **")).collect();
            let mut numbered = (0..).zip(&kept);
            let are_whole = numbered.all(|(number, kept)| row(number).trim_end() == *kept);
            assert!(are_whole, "{used}");
            let left_out = 3_000 - kept.len();
            let note = format!("\n{left_out} rows left out, {left_out} of them failures");
            let last = text.lines().last();
            assert!(text.is_empty() || text.contains(&note), "{used}: {last:?}");
            assert_eq!(used > 0, kept.len() < 2_000, "{used}: {}", kept.len());
        }
        let small = workflow.publish_results(&BTreeMap::new(), "## Tests\n", "end1");
        assert_eq!(small[0].fit(1_000_000), "## Tests\n");
    }
}
