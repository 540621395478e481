//! `argus get`: a table of environments, or of the services of one.

use std::path::Path;
use std::time::Duration;

use argus_crds::status::{EnvironmentStatus, ServiceState};
use argus_reconciler::state_dir::StateDir;
use clap::Args;
use serde_json::json;

use crate::cli::notes;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::output::Format;
use crate::runtime;
use crate::settings::{Options, Settings, SpecOptions};
use crate::status;
use crate::status_text::{format_ports, format_waits};
use crate::table;

/// Interval of checks for changed status files with `--watch`.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Debug, Args)]
pub(crate) struct Get {
    /// Environment name [default: all]
    environment: Option<String>,
    /// Output format [default: table]
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<Format>,
    /// Omit the header line
    #[arg(long)]
    no_headers: bool,
    /// Watch for changes
    #[arg(short, long)]
    watch: bool,
}

impl Get {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let settings = Settings::resolve(options, &SpecOptions::default())?;
        let state = StateDir::at(settings.state);
        notes::note_if_not_running(&state);
        self.show(&state)?;
        if self.watch {
            runtime::block_on(self.follow(&state))?;
        }
        Ok(Exit::Done)
    }

    async fn follow(&self, state: &StateDir) -> Result<(), Failure> {
        let mut previous = status_file_stamps(state);
        loop {
            tokio::time::sleep(POLL_INTERVAL).await;
            let now = status_file_stamps(state);
            if now != previous {
                previous = now;
                self.show(state)?;
            }
        }
    }

    fn show(&self, state: &StateDir) -> Result<(), Failure> {
        let format = self.output.unwrap_or(Format::Table);
        match &self.environment {
            Some(env) => self.show_one(&status::find_environment(state, env)?, format),
            None => self.show_all(&status::read_environments(state)?, format),
        }
    }

    fn show_one(&self, status: &EnvironmentStatus, format: Format) -> Result<(), Failure> {
        match format {
            Format::Json => output::print_json(status),
            Format::Yaml => output::print_yaml(status),
            Format::Name => {
                let names = status
                    .services
                    .iter()
                    .map(|row| format!("{}/{}", status.environment, row.name));
                output::print(&output::join_lines(names))
            }
            Format::Table => self.print(SERVICES, &service_rows(status, false)),
            Format::Wide => self.print(SERVICES_WIDE, &service_rows(status, true)),
        }
    }

    fn show_all(&self, all: &[EnvironmentStatus], format: Format) -> Result<(), Failure> {
        match format {
            Format::Json => output::print_json(&json!({ "items": all })),
            Format::Yaml => output::print_yaml(&json!({ "items": all })),
            Format::Name => output::print(&output::join_lines(all.iter().map(|status| &status.environment))),
            Format::Table | Format::Wide if all.is_empty() => {
                output::print_note("no environments");
                Ok(())
            }
            Format::Table => self.print(ENVIRONMENTS, &environment_rows(all, false)),
            Format::Wide => self.print(ENVIRONMENTS_WIDE, &environment_rows(all, true)),
        }
    }

    fn print(&self, head: &[&str], rows: &[Vec<String>]) -> Result<(), Failure> {
        let skip = usize::from(self.no_headers);
        // Wide tables are not wrapped, as in `kubectl`.
        let width = output::terminal_width().filter(|_| self.output != Some(Format::Wide));
        output::print(&output::join_lines(
            table::format_fitted(head, rows, width).iter().skip(skip),
        ))
    }
}

const ENVIRONMENTS: &[&str] = &["NAME", "PHASE", "READY", "RESTARTS", "PORTS", "WAITS FOR"];
const ENVIRONMENTS_WIDE: &[&str] = &[
    "NAME",
    "PHASE",
    "READY",
    "RESTARTS",
    "PORTS",
    "WAITS FOR",
    "USED BY",
    "REVISION",
    "SPEC",
    "AS OF",
];
const SERVICES: &[&str] = &["SERVICE", "STATE", "HEALTH", "RESTARTS", "PORTS", "WAITS FOR"];
const SERVICES_WIDE: &[&str] = &[
    "SERVICE",
    "STATE",
    "HEALTH",
    "RESTARTS",
    "PORTS",
    "WAITS FOR",
    "IMAGE",
    "CONTAINER",
];

fn environment_rows(all: &[EnvironmentStatus], wide: bool) -> Vec<Vec<String>> {
    let row = |status: &EnvironmentStatus| {
        let good = |state| matches!(state, ServiceState::Ready | ServiceState::Completed);
        let ready = status.services.iter().filter(|row| good(row.state)).count();
        let restarts: u32 = status.services.iter().map(|row| row.restarts).sum();
        let mut cells = vec![
            status.environment.clone(),
            output::format_phase(status.phase),
            format!("{ready}/{}", status.services.len()),
            restarts.to_string(),
            format_ports(&status.port_mappings),
            format_waits(status),
        ];
        if wide {
            let revision = status.revision.as_deref().unwrap_or_default();
            cells.push(format_users(status));
            cells.push(revision.chars().take(12).collect());
            cells.push(status.spec_path.clone());
            cells.push(status.as_of.clone());
        }
        cells
    };
    all.iter().map(row).collect()
}

fn service_rows(status: &EnvironmentStatus, wide: bool) -> Vec<Vec<String>> {
    let row = |row: &argus_crds::status::ServiceStatus| {
        let mut cells = vec![
            row.name.clone(),
            output::format_state(row.state),
            output::format_health(row.health),
            row.restarts.to_string(),
            format_ports(&row.ports),
            row.waiting_on
                .as_ref()
                .map(|on| on.message.clone())
                .unwrap_or_default(),
        ];
        if wide {
            cells.push(row.image.clone().unwrap_or_default());
            cells.push(
                row.container_id
                    .as_deref()
                    .unwrap_or_default()
                    .chars()
                    .take(12)
                    .collect(),
            );
        }
        cells
    };
    status.services.iter().map(row).collect()
}

/// Holders of running tests and holds. Without a holder, the test case or the reason of the hold.
fn format_users(status: &EnvironmentStatus) -> String {
    let tests = status
        .tests
        .iter()
        .map(|test| test.holder.as_ref().unwrap_or(&test.case));
    let holds = status
        .holds
        .iter()
        .map(|hold| hold.holder.as_ref().unwrap_or(&hold.reason));
    let named: Vec<&str> = tests
        .chain(holds)
        .map(String::as_str)
        .filter(|name| !name.is_empty())
        .collect();
    named.join(", ")
}

/// Name, modification time and inode of each status file. A change of the result means a changed status.
pub(crate) fn status_file_stamps(state: &StateDir) -> Vec<(String, Option<std::time::SystemTime>, u64)> {
    let of = |path: &Path| std::fs::metadata(path).ok();
    let names = status::list_names(state).unwrap_or_default();
    let one = |name: String| {
        let meta = of(&state.environments().join(format!("{name}.json")));
        let inode = meta.as_ref().map_or(0, std::os::unix::fs::MetadataExt::ino);
        (name, meta.and_then(|meta| meta.modified().ok()), inode)
    };
    names.into_iter().map(one).collect()
}
