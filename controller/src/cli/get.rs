//! `argus get`: a table of environments, or of the services of one.

mod columns;
pub(super) mod format;
mod json_path;
mod marks;
mod selector;

use argus_crds::error::{Code, StructuredError};
use argus_crds::status::{EnvironmentStatus, ServiceStatus};
use argus_reconciler::state_dir::StateDir;
use clap::Args;
use serde::Serialize;

use super::{call, notes};
use crate::api::environments::{Detail, EnvironmentList, Environments, GetEnvironment};
use crate::api::target::{parse_target, retain_services, select_service};
use crate::api::{Context, Operation as _};
use crate::local_state::status;
use crate::process::exit::{Exit, Failure};
use crate::process::runtime;
use crate::render::output;
use crate::render::output::{Format, OutputArgs};
use crate::render::status_text::format_running_warnings;
use crate::render::table;
use crate::render::table::{Column, Rows};
use crate::settings::{Options, SpecOptions};
pub(super) use columns::SERVICES;
use columns::{ENVIRONMENTS, STATE, TESTS};
use format::{GetFormat, GetFormatParser};
use marks::{find_rollback, format_age, format_marks};
use selector::LabelSelector;

#[derive(Debug, Args)]
pub(crate) struct Get {
    /// Environment, or ENVIRONMENT/SERVICE [default: all]
    target: Option<String>,
    /// List the services of all environments
    #[arg(long, conflicts_with = "target")]
    all_services: bool,
    /// Output format, or `jsonpath=TEMPLATE` for single fields [default: table]
    #[arg(id = "output", short, long = "output", value_name = "OUTPUT", value_parser = GetFormatParser)]
    output: Option<GetFormat>,
    /// Select services by labels, such as `team=a,!legacy` [default: all]
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    selector: Vec<LabelSelector>,
    /// Omit the header line
    #[arg(long)]
    no_headers: bool,
    /// Watch for changes
    #[arg(short, long)]
    watch: bool,
}

/// A service, an environment, or all.
#[derive(Debug, PartialEq, Serialize)]
#[serde(untagged)]
enum Found {
    Service(Box<ServiceRow>),
    One(Box<EnvironmentStatus>),
    All(EnvironmentList),
}

/// A row of one service.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct ServiceRow {
    #[serde(flatten)]
    status: ServiceStatus,
    /// True for the last known state of this time.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    stale: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    as_of: Option<String>,
    /// The part of its environment that the table shows.
    #[serde(skip)]
    environment: EnvironmentStatus,
}

impl ServiceRow {
    fn new(environment: EnvironmentStatus, service: &str) -> Result<Self, Failure> {
        let EnvironmentStatus {
            services,
            holds,
            stale,
            as_of,
            ..
        } = select_service(environment, Some(service))?;
        let as_of = stale.then_some(as_of);
        Ok(Self {
            status: services.first().cloned().unwrap_or_default(),
            stale,
            as_of: as_of.clone(),
            environment: EnvironmentStatus {
                services,
                holds,
                stale,
                as_of: as_of.unwrap_or_default(),
                ..EnvironmentStatus::default()
            },
        })
    }
}

impl Found {
    /// Marks the statuses as the last known state.
    fn mark_stale(&mut self) {
        match self {
            Self::Service(row) => {
                row.stale = true;
                row.environment.stale = true;
            }
            Self::One(status) => status.stale = true,
            Self::All(list) => list.statuses_mut().for_each(|status| status.stale = true),
        }
    }
}

impl Get {
    /// Creates the table of an environment or of a service.
    pub(super) fn of_target(target: String) -> Self {
        Self {
            target: Some(target),
            all_services: false,
            output: None,
            selector: Vec::new(),
            no_headers: false,
            watch: false,
        }
    }

    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let context = call::create_context(options, &SpecOptions::default())?;
        let is_stale = notes::note_if_not_running(context.client.state());
        let read = async || {
            let mut found = self.read(&context).await?;
            if is_stale {
                found.mark_stale();
            }
            Ok(found)
        };
        runtime::block_on(async {
            if self.watch {
                call::show_changes(&context, read, |found| self.print(&context, found)).await
            } else {
                self.print(&context, &read().await?)
            }
        })?;
        Ok(Exit::Done)
    }

    async fn read(&self, context: &Context) -> Result<Found, Failure> {
        if let Some(target) = &self.target {
            let (environment, service) = parse_target(target, None)?;
            if service.is_some() && !self.selector.is_empty() {
                let message =
                    "`--selector` selects services of an environment, but the target is one service";
                return Err(
                    Failure::usage(message).with_hint("remove the option, or the service of the target")
                );
            }
            let mut status = GetEnvironment { environment }.run(context).await?;
            self.select(&mut status);
            return Ok(match service {
                Some(service) => Found::Service(Box::new(ServiceRow::new(status, &service)?)),
                None => Found::One(Box::new(status)),
            });
        }
        let all = Environments {
            detail: Detail::Full,
            phase: None,
        };
        let mut all = all.run(context).await?;
        all.retain(|status| self.select(status));
        Ok(Found::All(all))
    }

    /// Restricts a status to the selected services. Returns false if it has none of them.
    fn select(&self, status: &mut EnvironmentStatus) -> bool {
        if self.selector.is_empty() {
            return true;
        }
        let is_selected = |row: &ServiceStatus| self.selector.iter().all(|it| it.matches(&row.labels));
        retain_services(status, is_selected);
        !status.services.is_empty()
    }

    fn print(&self, context: &Context, found: &Found) -> Result<(), Failure> {
        let format = match &self.output {
            Some(GetFormat::JsonPath(template)) => {
                let value = serde_json::to_value(found)
                    .map_err(|error| Failure::operation_failed("cannot write JSON", &error))?;
                return output::print(&template.format(&value));
            }
            Some(GetFormat::Common(format)) => Some(*format),
            None => None,
        };
        let args = OutputArgs { format };
        let wide = args.is_wide();
        let columns = &SERVICES[..if wide { 8 } else { 6 }];
        match found {
            Found::Service(row) => args.print(found, &self.target, || {
                self.format_services(columns, &row.environment)
            }),
            Found::One(status) => args.print(found, name_services(status), || {
                print_file_errors(status);
                for warning in format_running_warnings(status) {
                    output::print_note(&format!("warning: {warning}"));
                }
                self.format_services(columns, status)
            }),
            Found::All(list) if self.all_services => {
                let names = list.statuses().flat_map(name_services);
                args.print(found, names, || {
                    print_removed(context.client.state(), list);
                    list.statuses().for_each(print_file_errors);
                    self.format_all_services(columns, list)
                })
            }
            Found::All(list) => {
                let names = list.statuses().map(|status| &status.environment);
                let columns = if wide { ENVIRONMENTS } else { &ENVIRONMENTS[..7] };
                let has_results = list.statuses().any(|status| !status.test_results.is_empty());
                let is_shown = |column: &&Column<_>| has_results || column.0 != TESTS;
                let columns: Vec<_> = columns.iter().filter(is_shown).copied().collect();
                args.print(found, names, || {
                    print_removed(context.client.state(), list);
                    if list.statuses().next().is_none() {
                        output::print_note("no environments");
                        return String::new();
                    }
                    self.format_table(&table::create_rows(&columns, list.statuses()))
                })
            }
        }
    }

    fn format_services(&self, columns: &[Column<ServiceStatus>], status: &EnvironmentStatus) -> String {
        self.format_table(&create_service_rows(columns, status))
    }

    /// Table of all services, with the environment in the first column.
    fn format_all_services(&self, columns: &[Column<ServiceStatus>], list: &EnvironmentList) -> String {
        let mut table = Rows {
            heads: columns.iter().map(|(head, _)| *head).collect(),
            rows: Vec::new(),
        };
        table.heads.insert(0, "ENVIRONMENT");
        for status in list.statuses() {
            let with_environment = |mut cells: Vec<String>| {
                cells.insert(0, status.environment.clone());
                cells
            };
            let services = create_service_rows(columns, status).rows;
            table.rows.extend(services.into_iter().map(with_environment));
        }
        if table.rows.is_empty() {
            output::print_note("no services");
            return String::new();
        }
        self.format_table(&table)
    }

    fn format_table(&self, table: &Rows) -> String {
        // Wide tables are not wrapped, as in `kubectl`.
        let is_wide = matches!(self.output, Some(GetFormat::Common(Format::Wide)));
        let width = output::terminal_width().filter(|_| !is_wide);
        let text = table::format_table(&table.heads, &table.rows, width);
        let skipped = usize::from(self.no_headers);
        text.split_inclusive('\n').skip(skipped).collect()
    }
}

/// Names of the services with their environment.
fn name_services(status: &EnvironmentStatus) -> impl Iterator<Item = String> {
    let env = &status.environment;
    status
        .services
        .iter()
        .map(move |row| format!("{env}/{}", row.name))
}

/// One row per service; the state has marks.
fn create_service_rows(columns: &[Column<ServiceStatus>], status: &EnvironmentStatus) -> Rows {
    let mut table = table::create_rows(columns, &status.services);
    let state = columns.iter().position(|column| column.0 == STATE);
    for (row, cells) in status.services.iter().zip(&mut table.rows) {
        let is_held = |service: Option<&String>| service.is_none_or(|name| *name == row.name);
        let held = status.holds.iter().any(|hold| is_held(hold.service.as_ref()));
        let marks = [held.then(|| "held".to_owned()), format_age(status)];
        if let Some(cell) = state.and_then(|at| cells.get_mut(at)) {
            cell.push_str(&format_marks(marks));
        }
    }
    table
}

/// Prints a note about each error of the file, and about a rollback: the environment does not run what the file says.
fn print_file_errors(status: &EnvironmentStatus) {
    let is_of_file = |error: &&StructuredError| matches!(error.code, Code::SpecInvalid | Code::SpecConflict);
    let errors = status.errors.iter().filter(is_of_file);
    for note in errors.map(|error| &error.message).chain(find_rollback(status)) {
        output::print_note(&format!("note: {note}"));
    }
}

/// Prints a note about each environment that a person removed, or that has expired.
fn print_removed(state: &StateDir, list: &EnvironmentList) {
    let is_listed = |name: &str| list.statuses().any(|status| status.environment == name);
    for (name, message) in status::list_removed(state) {
        if !is_listed(&name) {
            output::print_note(&status::format_removal(&name, &message));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_row_of_a_service_is_marked_in_json() {
        let status = |stale| EnvironmentStatus {
            services: vec![ServiceStatus {
                name: "web".to_owned(),
                ..ServiceStatus::default()
            }],
            as_of: "2026-01-01T00:00:00Z".to_owned(),
            stale,
            ..EnvironmentStatus::default()
        };
        let json = |stale| {
            let row = ServiceRow::new(status(stale), "web").ok();
            serde_json::to_value(row.expect("the service exists")).expect("JSON")
        };
        assert_eq!(
            json(false),
            serde_json::to_value(&status(false).services[0]).expect("JSON")
        );
        assert_eq!(json(true)["stale"], true);
        assert_eq!(json(true)["asOf"], "2026-01-01T00:00:00Z");
    }
}
