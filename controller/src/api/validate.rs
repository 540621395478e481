//! Validation of spec files.

pub(crate) mod report;
mod suites;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use argus_core::quoting::escape_line;
use argus_crds::diagnostic::Diagnostic;
use argus_crds::error::Code;
use argus_reconciler::specs::scan::MAX_FILE_BYTES;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::{Context, Effect, Operation, Route, Summary, Tool};
use crate::process::blocking_io;
use crate::process::exit::Failure;
use crate::spec_files;
use report::ValidationReport;

/// Maximum size of a body with a spec file, in bytes.
const MAX_BODY: usize = 4 << 20;
const _: () = assert!(MAX_BODY as u64 >= 2 * MAX_FILE_BYTES);

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Validate {
    /// Text of an e2e.yaml [default: all files of the specs folder]
    content: Option<String>,
    /// Spec files or folders of a command [default: the specs folder]
    #[serde(skip)]
    pub(crate) paths: Vec<PathBuf>,
}

impl Validate {
    /// Creates the validation of files and folders.
    pub(crate) fn of_paths(paths: Vec<PathBuf>) -> Self {
        Self { content: None, paths }
    }
}

/// Maximum time that a validation waits for another one.
const QUEUE_LIMIT: Duration = Duration::from_secs(30);

/// Permit of the only validation at a time in this process: its work is chosen by files that are not trusted.
static VALIDATION: Semaphore = Semaphore::const_new(1);

impl Operation for Validate {
    const EFFECT: Effect = Effect::ReadOnly;
    const IS_PRIVATE: bool = true;
    const ROUTES: &'static [Route] = &[
        Route::get("/api/v1/validate", "mistakes in the files of the specs folder").without(&["content"]),
        Route::post("/api/v1/validate", "mistakes in a text, given as `content`")
            .requires(&["content"])
            .max_body(MAX_BODY),
    ];
    type Output = ValidationReport;

    async fn run(&self, context: &Context) -> Result<ValidationReport, Failure> {
        let (given, paths) = (self.content.clone(), self.paths.clone());
        let client = context.client.clone();
        let read = run_alone(move |stop| {
            let (settings, mut notes) = (client.query_settings(), Vec::new());
            let paths = if paths.is_empty() {
                vec![settings.specs.clone()]
            } else {
                paths
            };
            let mut files = match &given {
                Some(text) => {
                    let path = settings.spec_source().path_of("e2e.yaml");
                    vec![spec_files::parse_text(&settings, &path, text.as_bytes(), stop)]
                }
                None => report::check_paths(&settings, &paths, &mut notes, stop)?,
            };
            let suites = match given {
                Some(_) => Vec::new(),
                None => suites::check_suites(&mut files, &settings, stop),
            };
            Ok((report::create_report(files, suites), notes))
        });
        let (report, notes) = read.await?;
        for note in notes {
            context.report(format!("note: {note}"));
        }
        Ok(report)
    }
}

/// Runs one validation at a time. The end of the caller, such as its request, ends the work.
async fn run_alone<T: Send + 'static>(
    work: impl FnOnce(&CancellationToken) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let Ok(permit) = tokio::time::timeout(QUEUE_LIMIT, VALIDATION.acquire()).await else {
        let details =
            json!({ "operation": "waiting for another validation", "deadlineMs": QUEUE_LIMIT.as_millis() });
        let failure = Failure::with_code(Code::Timeout, "another validation has not ended");
        return Err(failure.with_details(details));
    };
    let read = blocking_io::read_until(move |stop| {
        let _permit = permit;
        work(stop)
    });
    read.await
}

impl Tool for Validate {
    const NAME: &'static str = "argus_validate";
    const TITLE: &'static str = "Validate spec files";
    const ABOUT: &'static str = "Validates an e2e.yaml given as `content`, or all files of the specs folder. Returns all mistakes together, each \
with line, column and hint. Needs no engine and changes nothing.";
    type Data = ValidationReport;

    async fn summarize(&self, report: ValidationReport, _context: &Context) -> Summary<ValidationReport> {
        let mut text = String::new();
        for file in &report.files {
            let label = self.content.as_ref().map(|_| "content");
            let name = label.unwrap_or(&file.spec_path);
            let word = if file.accepted { "ok" } else { "rejected" };
            let env = file.environment.as_deref();
            let env = env
                .map(|env| format!(", environment `{env}`"))
                .unwrap_or_default();
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name}: {word}{env}");
            text.extend(file.diagnostics.iter().map(format_diagnostic));
        }
        if report.files.is_empty() {
            text.push_str("no spec files; argus_apply writes one\n");
        }
        Summary::new(report, text)
    }
}

/// Formats a diagnostic as one line.
pub(super) fn format_diagnostic(diagnostic: &Diagnostic) -> String {
    let place = diagnostic
        .location
        .map(|place| format!("{}:{}: ", place.line, place.column));
    let hint = diagnostic.hint.as_ref().map(|hint| format!(" (hint: {hint})"));
    format!(
        "  {}{}{}\n",
        place.unwrap_or_default(),
        escape_line(&diagnostic.message),
        escape_line(&hint.unwrap_or_default())
    )
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn abandoned_validation_ends_and_the_next_one_runs() {
        let (started, starts) = tokio::sync::oneshot::channel();
        let (end, ended) = mpsc::channel();
        // Its drop ends the work of a failed test.
        let (_test, test) = mpsc::channel::<()>();
        let abandoned = run_alone(move |stop| {
            started.send(()).unwrap();
            while !stop.is_cancelled() && test.try_recv() == Err(mpsc::TryRecvError::Empty) {
                std::thread::yield_now();
            }
            end.send(stop.is_cancelled()).unwrap();
            Ok(())
        });
        tokio::select! {
            _never = abandoned => panic!("the work ends only after its caller"),
            started = starts => started.unwrap(),
        }
        assert_eq!(run_alone(|_| Ok(7)).await.unwrap(), 7);
        assert_eq!(ended.recv(), Ok(true));
    }

    #[tokio::test]
    async fn validations_run_one_after_the_other() {
        let (started, starts) = tokio::sync::oneshot::channel();
        let (end, ended) = mpsc::channel();
        let mut first = pin!(run_alone(move |_| {
            started.send(()).unwrap();
            Ok(ended.recv())
        }));
        tokio::select! {
            _early = &mut first => panic!("it ends only after the message"),
            started = starts => started.unwrap(),
        }
        let mut second = pin!(run_alone(|_| Ok(7)));
        for _ in 0..50 {
            tokio::select! {
                biased;
                _early = &mut second => panic!("it runs next to the first one"),
                other = blocking_io::read(|| Ok(())) => other.unwrap(),
            }
        }
        end.send(()).unwrap();
        let (first, second) = tokio::join!(first, second);
        assert_eq!((first.unwrap(), second.unwrap()), (Ok(()), 7));
    }
}
