//! Files that `argus ci` adds to the report: logs and evidence of failures, addresses, and the services in the summary.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use argus_backend::LogQuery;
use argus_core::quoting::PathText as _;
use argus_core::time::Timestamp;
use argus_crds::status::{EnvironmentStatus, ServiceStatus};
use argus_reconciler::executor::evidence_store::FACTS_FILE;

use crate::api::evidence_store;
use crate::api::logs::sources::read_lines;
use crate::api::logs::time_range::TimeRange;
use crate::client::ControllerClient;
use crate::process::exit::Failure;
use crate::render::output;
use crate::render::status_text::format_ports;
use crate::test_runner::report::{Report, ReportFolder, cannot_write, cell};

/// Maximum number of stored lines per container.
const MAX_LINES: u32 = 10_000;
/// Folders of the report that a run replaces.
const EVIDENCE: &str = "evidence";
const LOGS: &str = "logs";

impl ReportFolder {
    /// Creates the folder, without logs and evidence of earlier runs.
    pub(crate) fn create(root: &Path) -> Result<Self, Failure> {
        let folder = Self::at(root);
        folder.mark()?;
        folder.remove([EVIDENCE, LOGS])?;
        Ok(folder)
    }

    /// Ends the report. Links that stay are a note, because an upload follows them.
    pub(crate) fn complete(&self) {
        if let Err(error) = self.remove_links() {
            let path = self.path().shown();
            output::print_note(&format!(
                "note: cannot remove the links in `{path}`, so do not upload it: {error}"
            ));
        }
    }

    /// Stores the logs of all services, and the evidence of the runs that failed since `started`. Parts that cannot be read
    /// are notes.
    pub(crate) async fn add_failures(&self, client: &ControllerClient, env: &str, started: Timestamp) {
        let query = LogQuery {
            tail: Some(MAX_LINES),
            ..LogQuery::default()
        };
        let logs = match Box::pin(read_lines(
            client.settings(),
            env,
            None,
            query,
            TimeRange::default(),
        ))
        .await
        {
            Ok(logs) => logs.items,
            Err(failure) => return note("logs", &failure),
        };
        let mut by_service: BTreeMap<String, String> = BTreeMap::new();
        for line in logs {
            let text = by_service.entry(line.service).or_default();
            text.push_str(&line.text);
            text.push('\n');
        }
        let (folder, env) = (self.clone(), env.to_owned());
        let stored = client.run_blocking(move |client| {
            for (service, text) in by_service {
                folder.write(log_path(&service), &text)?;
            }
            folder.copy_evidence(client, &env, started)
        });
        if let Err(failure) = stored.await {
            note("logs", &failure);
        }
    }

    /// Stores the end of the output of each failed command.
    pub(crate) fn add_suite_logs(&self, report: &Report) -> Result<(), Failure> {
        for suite in &report.suites {
            let failed = suite.attempts.iter().filter(|attempt| !attempt.has_passed());
            let texts = failed.map(|attempt| [attempt.tails.0.as_str(), &attempt.tails.1].concat());
            let text = texts.collect::<String>();
            if !text.is_empty() {
                self.write(log_path(&format!("suite-{}", suite.name)), &text)?;
            }
        }
        Ok(())
    }

    fn copy_evidence(&self, client: &ControllerClient, env: &str, started: Timestamp) -> Result<(), Failure> {
        let state = client.state();
        for service in evidence_store::list_services(state, env)? {
            for number in evidence_store::list_run_numbers(state, env, &service)? {
                let from = state.evidence_run(env, &service, number);
                let to = Path::new(EVIDENCE).join(&service).join(number.to_string());
                if is_newer(&from.join(FACTS_FILE), started) {
                    self.copy_files(&from, &to)?;
                }
            }
        }
        Ok(())
    }

    /// Copies the texts of a folder.
    fn copy_files(&self, from: &Path, to: &Path) -> Result<(), Failure> {
        for (name, bytes) in read_files(from).map_err(|error| cannot_write(to, &error))? {
            self.write(to.join(name), &String::from_utf8_lossy(&bytes))?;
        }
        Ok(())
    }
}

/// Path of a log. Names of suites can contain any characters.
fn log_path(name: &str) -> PathBuf {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || "-_.".contains(c) {
            c
        } else {
            '_'
        }
    };
    Path::new(LOGS).join(format!("{}.log", name.chars().map(plain).collect::<String>()))
}

fn is_newer(path: &Path, than: Timestamp) -> bool {
    let modified = std::fs::metadata(path).and_then(|meta| meta.modified());
    let since = Duration::from_millis(u64::try_from(than.0).unwrap_or(0));
    modified.is_ok_and(|modified| modified >= SystemTime::UNIX_EPOCH + since)
}

fn read_files(folder: &Path) -> io::Result<Vec<(OsString, Vec<u8>)>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            files.push((entry.file_name(), std::fs::read(entry.path())?));
        }
    }
    Ok(files)
}

fn note(what: &str, failure: &Failure) {
    output::print_note(&format!(
        "note: the report does not contain all {what}: {}",
        failure.message()
    ));
}

/// Table of the services in Markdown.
pub(crate) fn format_services(status: &EnvironmentStatus) -> String {
    let mut text = format!(
        "## Services of `{}`\n\n| service | state | reason | restarts | address |\n|---|---|---|---|---|\n",
        status.environment
    );
    for row in &status.services {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "| {} | {:?} | {} | {} | {} |",
            cell(&row.name),
            row.state,
            cell(&reason(row)),
            row.restarts,
            cell(&format_ports(&row.ports)),
        );
    }
    text
}

/// Reason of a state: the error, else the wait.
fn reason(row: &ServiceStatus) -> String {
    match (&row.last_error, &row.waiting_on) {
        (Some(error), _) => format!("{}: {}", error.code, error.message),
        (None, Some(on)) => on.message.clone(),
        (None, None) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use argus_crds::error::{Code, StructuredError};
    use argus_crds::status::{ServiceState, WaitingOn};

    use super::*;

    #[test]
    fn services_are_a_table_with_their_reasons() {
        let row = |name: &str, state, restarts| ServiceStatus {
            name: name.to_owned(),
            state,
            restarts,
            ..ServiceStatus::default()
        };
        let crashed = ServiceStatus {
            last_error: Some(StructuredError::new(Code::ContainerCrash, "exit code 1 | done")),
            ..row("db", ServiceState::Failed, 3)
        };
        let waiting = ServiceStatus {
            waiting_on: Some(WaitingOn {
                message: "`db` is not ready".to_owned(),
                ..WaitingOn::default()
            }),
            ..row("web", ServiceState::Waiting, 0)
        };
        let status = EnvironmentStatus {
            environment: "shop".to_owned(),
            services: vec![crashed, waiting],
            ..EnvironmentStatus::default()
        };
        let text = format_services(&status);
        assert!(
            text.contains("| db | Failed | CONTAINER_CRASH: exit code 1 \\| done | 3 |"),
            "{text}"
        );
        assert!(
            text.contains("| web | Waiting | `db` is not ready | 0 |"),
            "{text}"
        );
    }

    #[test]
    fn files_of_the_report_have_no_control_characters() {
        let dir = tempfile::tempdir().unwrap();
        let (from, root) = (dir.path().join("run"), dir.path().join("report"));
        std::fs::create_dir(&from).unwrap();
        let hostile = "\u{1b}[31ma\u{1b}[0m\u{0}\u{fffe}\u{2028}\r\nb\n";
        let facts = serde_json::json!({ "missing": [hostile] });
        std::fs::write(from.join("stdout.log"), [hostile.as_bytes(), b"\xff"].concat()).unwrap();
        std::fs::write(from.join("evidence.json"), facts.to_string()).unwrap();
        let folder = ReportFolder::create(&root).unwrap();
        folder.copy_files(&from, Path::new("evidence/api/1")).unwrap();
        let read = |name: &str| std::fs::read_to_string(root.join("evidence/api/1").join(name)).unwrap();
        assert_eq!(read("stdout.log"), "a\\u{0}\\u{fffe}\\u{2028}\nb\n\u{fffd}");
        let copied = read("evidence.json");
        assert!(
            !copied.contains(crate::render::foreign_text::is_deceptive),
            "{copied:?}"
        );
        assert_eq!(serde_json::from_str::<serde_json::Value>(&copied).unwrap(), facts);
    }

    #[test]
    fn new_report_has_no_logs_of_an_earlier_run() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("report");
        let folder = ReportFolder::create(&root).unwrap();
        folder.write(log_path("suite-a/b"), "x").unwrap();
        assert!(root.join("logs/suite-a_b.log").exists());
        std::fs::write(root.join("own.txt"), "").unwrap();
        ReportFolder::create(&root).unwrap();
        assert!(!root.join("logs").exists() && root.join("own.txt").exists());
        // A checkout can contain links in the place of the report.
        let elsewhere = dir.path().join("elsewhere");
        std::fs::create_dir(&elsewhere).unwrap();
        std::fs::write(elsewhere.join("own.txt"), "own").unwrap();
        std::os::unix::fs::symlink(&elsewhere, root.join("logs")).unwrap();
        std::os::unix::fs::symlink(elsewhere.join("own.txt"), root.join("summary.md")).unwrap();
        let folder = ReportFolder::create(&root).unwrap();
        folder.write("summary.md", "x").unwrap();
        std::os::unix::fs::symlink(&elsewhere, root.join("logs")).unwrap();
        assert!(folder.write(log_path("api"), "x").is_err());
        assert_eq!(std::fs::read_to_string(elsewhere.join("own.txt")).unwrap(), "own");
        assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 1);
    }
}
