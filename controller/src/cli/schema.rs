//! `argus schema`: prints schemas for editors and programs.

use argus_crds::schema;
use clap::{Args, ValueEnum};

use crate::process::exit::{Exit, Failure};
use crate::render::output;
use crate::settings::Options;

#[derive(Debug, Args)]
pub(crate) struct Schema {
    /// Schema to print
    #[arg(value_enum, default_value = "e2e")]
    which: Which,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Which {
    /// JSON Schema of e2e.yaml
    E2e,
    /// JSON Schema of the status files
    Status,
    /// JSON Schema of errors
    Error,
    /// JSON Schema of incident files
    Incident,
    /// JSON Schema of preflight reports
    Preflight,
    /// JSON Schema of YAML suites
    Suite,
    /// Kubernetes CRD as YAML
    Crd,
}

impl Schema {
    pub(crate) fn execute(self, _: &Options) -> Result<Exit, Failure> {
        match self.which {
            Which::E2e => output::print_json(&schema::e2e_schema())?,
            Which::Status => output::print_json(&schema::status_schema())?,
            Which::Error => output::print_json(&schema::error_schema())?,
            Which::Incident => output::print_json(&schema::incident_schema())?,
            Which::Preflight => output::print_json(&schema::preflight_schema())?,
            Which::Suite => output::print_json(&schema::suite_schema())?,
            Which::Crd => output::print_yaml(&schema::crd())?,
        }
        Ok(Exit::Done)
    }
}
