//! The CI system that runs this process, and the texts that it understands: sections, annotations, variables and results. Everything else
//! in its log is data: [`CiSystem::protect`].
//!
//! Everything here is pure: the variables of the process, the time and random text are arguments.

mod github;
mod gitlab;
mod log;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use argus_core::time::Timestamp;

use crate::render::foreign_text;

pub(crate) use github::cut_rows;

/// CI system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CiSystem {
    /// GitHub Actions, or a system with the same workflow commands.
    GitHub(github::Workflow),
    GitLab(gitlab::Source),
    /// Another system. Its output is plain text without the commands of any system.
    Unknown,
    /// None. The output is plain text.
    Other,
}

/// Part of the output that a CI system can fold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Section {
    /// Identifier of letters and `_`.
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
}

/// Severity of an annotation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Level {
    #[default]
    Error,
    Warning,
}

/// Message about a line of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Annotation {
    pub(crate) level: Level,
    /// Path of the file, absolute or relative to the current folder.
    pub(crate) file: Option<PathBuf>,
    /// Line, from 1.
    pub(crate) line: Option<usize>,
    /// Column, from 1.
    pub(crate) column: Option<usize>,
    pub(crate) title: String,
    pub(crate) message: String,
}

/// Text for the end of a file that the CI system reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Appended {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
    /// Maximum length of the complete file in bytes.
    pub(crate) max: usize,
}

impl Appended {
    /// Returns the text for a file that already has `used` bytes. Text above the limit of the file loses its last rows.
    pub(crate) fn fit(&self, used: u64) -> String {
        let used = usize::try_from(used).unwrap_or(usize::MAX);
        cut_rows(&self.text, self.max.saturating_sub(used))
    }
}

impl CiSystem {
    /// Finds the CI system in the variables of the process.
    pub(crate) fn detect(variables: &BTreeMap<String, String>) -> Self {
        let is_true = |name| variables.get(name).is_some_and(|value| value == "true");
        let is_set = |name| {
            let value = variables.get(name).map_or("", String::as_str);
            !matches!(value, "" | "0" | "false")
        };
        if is_true("GITHUB_ACTIONS") {
            Self::GitHub(github::Workflow::new(variables))
        } else if is_true("GITLAB_CI") {
            Self::GitLab(gitlab::Source::new(variables))
        } else if ["CI", "TF_BUILD", "TEAMCITY_VERSION"].into_iter().any(is_set) {
            Self::Unknown
        } else {
            Self::Other
        }
    }

    /// Returns a text for the log, in which nothing is a command of the system. The text has whole lines.
    pub(crate) fn protect(&self, text: &str) -> String {
        match self {
            Self::GitHub(_) => log::without_commands(text),
            // The marks of sections contain control characters.
            Self::GitLab(_) => foreign_text::to_plain(text),
            Self::Unknown => log::without_old_commands(text),
            Self::Other => text.to_owned(),
        }
    }

    /// Text that begins a section.
    pub(crate) fn begin(&self, section: Section, now: Timestamp) -> String {
        match self {
            Self::GitHub(_) => github::begin(section.title),
            Self::GitLab(_) => gitlab::begin(section, now),
            Self::Unknown | Self::Other => format!("--- {}\n", section.title),
        }
    }

    /// Text that ends a section.
    pub(crate) fn end(&self, section: Section, now: Timestamp) -> String {
        match self {
            Self::GitHub(_) => github::end(),
            Self::GitLab(_) => gitlab::end(section, now),
            Self::Unknown | Self::Other => String::new(),
        }
    }

    /// Text of the annotations of a step; empty where the system has none. `current` is the current folder.
    pub(crate) fn annotate(&self, annotations: Vec<Annotation>, current: &Path) -> String {
        match self {
            Self::GitHub(workflow) => {
                let shown = github::limit_annotations(annotations);
                let one = |annotation| workflow.annotate(annotation, current);
                shown.iter().map(one).collect()
            }
            Self::GitLab(source) => {
                let link = |annotation| source.link(annotation, current);
                annotations.iter().filter_map(link).collect()
            }
            // These show the messages that every command prints.
            Self::Unknown | Self::Other => String::new(),
        }
    }

    /// Texts that give the addresses of an environment to later steps. `delimiter` is in none of the values.
    pub(crate) fn publish_variables(
        &self,
        variables: &BTreeMap<String, String>,
        delimiter: &str,
    ) -> Option<Appended> {
        match self {
            Self::GitHub(workflow) => workflow.publish_variables(variables, delimiter),
            // The file of the report is an artifact.
            Self::GitLab(_) | Self::Unknown | Self::Other => None,
        }
    }

    /// Texts that give the results of this step to the workflow, and show the summary.
    pub(crate) fn publish_results(
        &self,
        results: &BTreeMap<String, String>,
        summary: &str,
        delimiter: &str,
    ) -> Vec<Appended> {
        match self {
            Self::GitHub(workflow) => workflow.publish_results(results, summary, delimiter),
            Self::GitLab(_) | Self::Unknown | Self::Other => Vec::new(),
        }
    }
}

/// File of variables, one `NAME=value` per line, as GitLab reads it. Values have one line.
pub(crate) fn format_dotenv(variables: &BTreeMap<String, String>) -> String {
    let one = |(name, value): (&String, &String)| format!("{name}={}\n", value.replace(['\n', '\r'], " "));
    variables.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        pairs.iter().map(owned).collect()
    }

    const TESTS: Section = Section {
        id: "tests",
        title: "Run the suites",
    };

    #[test]
    fn variables_of_the_process_name_the_system() {
        let name = |variables: &[(&str, &str)]| match CiSystem::detect(&map(variables)) {
            CiSystem::GitHub(_) => "GitHub",
            CiSystem::GitLab(_) => "GitLab",
            CiSystem::Unknown => "unknown",
            CiSystem::Other => "other",
        };
        assert_eq!(name(&[("GITHUB_ACTIONS", "true")]), "GitHub");
        assert_eq!(name(&[("GITLAB_CI", "true")]), "GitLab");
        assert_eq!(name(&[("CI", "true"), ("GITHUB_ACTIONS", "false")]), "unknown");
        assert_eq!(name(&[("TF_BUILD", "True")]), "unknown");
        assert_eq!(name(&[("CI", "false")]), "other");
        assert_eq!(name(&[]), "other");
    }

    #[test]
    fn sections_have_the_form_of_their_system() {
        let both = |system: &CiSystem| {
            let now = Timestamp(1_700_000_000_500);
            system.begin(TESTS, now) + &system.end(TESTS, now)
        };
        let github = CiSystem::detect(&map(&[("GITHUB_ACTIONS", "true")]));
        assert_eq!(both(&github), "::group::Run the suites\n::endgroup::\n");
        assert_eq!(
            both(&gitlab()),
            "\u{1b}[0Ksection_start:1700000000:argus_tests[collapsed=true]\r\u{1b}[0KRun the suites\n\
             \u{1b}[0Ksection_end:1700000000:argus_tests\r\u{1b}[0K\n"
        );
        assert_eq!(both(&CiSystem::Other), "--- Run the suites\n");
    }

    #[test]
    fn annotation_names_the_line_and_is_escaped() {
        let system = CiSystem::detect(&map(&[
            ("GITHUB_ACTIONS", "true"),
            ("GITHUB_WORKSPACE", "/src/shop"),
        ]));
        let annotation = Annotation {
            level: Level::Error,
            file: Some("api/e2e.yaml".into()),
            line: Some(7),
            column: Some(3),
            title: "web: crash, 100%".to_owned(),
            message: "first: 100%\nsecond\r::warning::x".to_owned(),
        };
        assert_eq!(
            system.annotate(vec![annotation], Path::new("/src/shop/team")),
            "::error file=team/api/e2e.yaml,line=7,col=3,title=web%3A crash%2C 100%25::first: 100%25%0Asecond%0A::warning::x\n"
        );
        let whole = Annotation {
            level: Level::Warning,
            file: Some("/elsewhere/e2e.yaml".into()),
            line: None,
            column: None,
            title: String::new(),
            message: "a".to_owned(),
        };
        assert_eq!(
            system.annotate(vec![whole.clone()], Path::new("/src/shop")),
            "::warning file=/elsewhere/e2e.yaml::a\n"
        );
        let nowhere = Annotation { file: None, ..whole };
        assert_eq!(
            system.annotate(vec![nowhere.clone()], Path::new("/")),
            "::warning::a\n"
        );
        assert_eq!(gitlab().annotate(vec![nowhere], Path::new("/")), "");
    }

    fn gitlab() -> CiSystem {
        CiSystem::detect(&map(&[
            ("GITLAB_CI", "true"),
            ("CI_PROJECT_URL", "https://gitlab.example/team/shop"),
            ("CI_COMMIT_SHA", "0123abcd"),
            ("CI_PROJECT_DIR", "/builds/team/shop"),
        ]))
    }

    #[test]
    fn failed_case_on_gitlab_has_a_link_to_its_line() {
        let failed = Annotation {
            file: Some("e2e tests/checks.yaml".into()),
            line: Some(4),
            title: "checks: teapot".to_owned(),
            message: "expected 418\n\u{1b}[31mattribution: test".to_owned(),
            ..Annotation::default()
        };
        let elsewhere = Annotation {
            file: Some("/elsewhere/checks.yaml".into()),
            ..failed.clone()
        };
        assert_eq!(
            gitlab().annotate(vec![failed, elsewhere], Path::new("/builds/team/shop/api")),
            "checks: teapot: expected 418  \
             https://gitlab.example/team/shop/-/blob/0123abcd/api/e2e%20tests/checks.yaml#L4\n"
        );
    }

    #[test]
    fn values_of_any_content_stay_values() {
        let system = CiSystem::detect(&map(&[
            ("GITHUB_ACTIONS", "true"),
            ("GITHUB_ENV", "/run/env"),
            ("GITHUB_OUTPUT", "/run/output"),
            ("GITHUB_STEP_SUMMARY", "/run/summary"),
        ]));
        let variables = map(&[("ARGUS_WEB_8080", "127.0.0.1:80"), ("X", "a\nB=c")]);
        let appended = system.publish_variables(&variables, "end1").unwrap();
        assert_eq!(appended.path, Path::new("/run/env"));
        assert_eq!(
            appended.text,
            "ARGUS_WEB_8080<<end1\n127.0.0.1:80\nend1\nX<<end1\na\nB=c\nend1\n"
        );
        let results = system.publish_results(&map(&[("result", "passed")]), "## Tests", "end1");
        let texts: Vec<_> = results
            .iter()
            .map(|it| format!("{} {}", it.path.display(), it.text))
            .collect();
        assert_eq!(
            texts,
            [
                "/run/output result<<end1\npassed\nend1\n",
                "/run/summary ## Tests\n"
            ]
        );
        assert_eq!(
            format_dotenv(&variables),
            "ARGUS_WEB_8080=127.0.0.1:80\nX=a B=c\n"
        );
        assert_eq!(CiSystem::Other.publish_variables(&variables, "end1"), None);
    }

    #[test]
    fn annotation_stays_within_the_limits_of_the_runner() {
        let system = CiSystem::detect(&map(&[("GITHUB_ACTIONS", "true")]));
        let annotation = Annotation {
            level: Level::Error,
            file: Some("a##[b.yaml".into()),
            line: None,
            column: None,
            title: "é".repeat(300),
            message: "##[error]\u{1b}[31mx\u{0}\u{fffe}".repeat(1_000),
        };
        let line = system.annotate(vec![annotation], Path::new("/"));
        let (title, message) = line
            .strip_prefix("::error file=/a## [b.yaml,title=")
            .unwrap()
            .split_once("::")
            .unwrap();
        assert!(title.len() <= 255 && title.ends_with("é …"), "{title}");
        assert!(message.len() <= 4_096 + 1, "{}", message.len());
        assert!(
            message.ends_with(" … (cut; the report contains all of it)\n"),
            "{message}"
        );
        assert!(
            message.starts_with("## [error]x\\u{0}\\u{fffe}## [error]"),
            "{message}"
        );
    }

    #[test]
    fn forged_section_of_gitlab_is_text() {
        let begin = gitlab().begin(TESTS, Timestamp(0));
        let forged = gitlab().protect(&format!("{begin}::error::x\n"));
        assert_eq!(
            forged,
            "section_start:0:argus_tests[collapsed=true]\nRun the suites\n::error::x\n"
        );
        assert_eq!(CiSystem::Other.protect(&begin), begin);
        assert_eq!(
            CiSystem::Unknown.protect("##vso[a]\r\u{202e}"),
            "## vso[a]\n\\u{202e}"
        );
    }
}
