//! `argus config`: prints a spec file as Argus reads it, as `docker compose config` does, without secrets.

use std::path::PathBuf;

use argus_core::quoting::PathText as _;
use argus_core::secrets::render_diagnostics;
use clap::Args;
use tokio_util::sync::CancellationToken;

use crate::api::validate::report::{check_paths, is_rejected};
use crate::process::exit::{Exit, Failure};
use crate::render::output;
use crate::settings::{Options, Settings, SpecOptions};
use crate::spec_files;

#[derive(Debug, Args)]
pub(crate) struct Config {
    /// Spec file, Compose file or folder [default: the specs folder, else e2e.yaml, else the Compose file]
    path: Option<PathBuf>,
    #[command(flatten)]
    specs: SpecOptions,
}

impl Config {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let settings = Settings::resolve(options, &self.specs)?.with_project_file();
        let path = self.path.unwrap_or_else(|| settings.specs.clone());
        let files = check_paths(&settings, &[path], &mut Vec::new(), &CancellationToken::new())?;
        for file in &files {
            if !file.diagnostics.is_empty() {
                let name = file.path.shown().to_string();
                output::print_note(&render_diagnostics(&name, &file.text, &file.diagnostics));
            }
        }
        if files.iter().any(is_rejected) {
            return Ok(Exit::SpecRejected);
        }
        let texts = files
            .iter()
            .map(|file| spec_files::format_resolved(&settings, file));
        let texts = texts.collect::<Result<Vec<_>, _>>()?;
        output::print(&texts.join("---\n"))?;
        Ok(Exit::Done)
    }
}
