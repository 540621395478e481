//! `argus validate`: checks spec files and reports all errors, without an engine.

use std::path::PathBuf;

use argus_core::quoting::escape_line;
use argus_core::secrets::render_diagnostics;
use clap::Args;

use super::call;
use crate::api::validate;
use crate::api::validate::report::File;
use crate::process::exit::{Exit, Failure};
use crate::render::output;
use crate::render::output::OutputArgs;
use crate::render::table;
use crate::settings::{Options, SpecOptions};

#[derive(Debug, Args)]
pub(crate) struct Validate {
    /// Spec files, Compose files or folders [default: the specs folder, else e2e.yaml, else the Compose file]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    specs: SpecOptions,
    #[command(flatten)]
    output: OutputArgs,
}

impl Validate {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let context = call::create_file_context(options, &self.specs)?;
        let report = call::run(&context, &validate::Validate::of_paths(self.paths))?;
        let environments = report.files.iter().filter_map(|file| file.environment.as_ref());
        if self.output.is_text() {
            report.files.iter().try_for_each(print_file)?;
        } else {
            self.output.print(&report, environments, String::new)?;
        }
        if report.files.is_empty() {
            output::print_note("no spec files; their names are `e2e.yaml` or `NAME.e2e.yaml`");
        }
        Ok(if report.accepted {
            Exit::Done
        } else {
            Exit::SpecRejected
        })
    }
}

/// Prints the diagnostics of a file as notes, and its result.
fn print_file(file: &File) -> Result<(), Failure> {
    print_diagnostics(file);
    output::print(&table::format_prose(
        &format_result(file),
        output::terminal_width(),
    ))
}

/// Prints the diagnostics of a file as notes.
pub(super) fn print_diagnostics(file: &File) {
    if !file.diagnostics.is_empty() {
        output::print_note(&render_diagnostics(
            &file.spec_path,
            &file.text,
            &file.diagnostics,
        ));
    }
}

/// Result of a file in one line.
pub(super) fn format_result(file: &File) -> String {
    let name = &file.spec_path;
    if let (true, Some(cases)) = (file.accepted, file.cases) {
        format!(
            "{name}: {} suite `{}`, {}\n",
            output::green("ok"),
            escape_line(file.suite.as_deref().unwrap_or_default()),
            output::format_count(cases, "case"),
        )
    } else if let Some(environment) = &file.environment {
        let services = file.services.as_ref().map_or(0, Vec::len);
        let revision = file.revision.as_deref().unwrap_or_default();
        format!(
            "{name}: {} environment `{environment}`, {}, revision {revision:.12}\n",
            output::green("ok"),
            output::format_count(services, "service"),
        )
    } else {
        let errors = file.diagnostics.iter().filter(|it| it.is_error()).count();
        format!(
            "{name}: {} ({})\n",
            output::red("rejected"),
            output::format_count(errors, "error")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_a_suite_is_a_part_of_its_line() {
        let file = File {
            text: String::new(),
            spec_path: "a.yaml".to_owned(),
            accepted: true,
            environment: None,
            revision: None,
            services: None,
            suite: Some("a\n##vso[x]\r\u{85}\u{9b}\u{2028}\u{202e}\u{feff}".to_owned()),
            cases: Some(1),
            diagnostics: Vec::new(),
        };
        let line = format_result(&file);
        assert!(
            line.ends_with("`a\\u{a}##vso[x]\\u{d}\\u{85}\\u{9b}\\u{2028}\\u{202e}\\u{feff}`, 1 case\n"),
            "{line}"
        );
    }
}
