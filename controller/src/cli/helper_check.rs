//! `argus probe`: checks of a helper container from inside its network or file system. It is not for users.

use argus_core::preflight::DiskFact;
use clap::{Args, Subcommand};

use crate::process::exit::{Exit, Failure};
use crate::render::output;
use crate::settings::Options;

mod links;

#[derive(Debug, Args)]
pub(crate) struct HelperCheck {
    #[command(subcommand)]
    command: ProbeCommand,
}

#[derive(Debug, Subcommand)]
enum ProbeCommand {
    /// Free space of the file system of a path, such as the engine's data root
    Disk {
        /// Path inside the container
        #[arg(default_value = "/")]
        path: String,
    },
    /// TCP addresses on which the network namespace listens
    Listeners,
    /// Resolve names and connect to ports, in parallel
    Links {
        /// `HOST` or `HOST:PORT`
        #[arg(required = true)]
        targets: Vec<String>,
    },
}

impl HelperCheck {
    pub(crate) fn execute(self, _: &Options) -> Result<Exit, Failure> {
        match self.command {
            ProbeCommand::Disk { path } => {
                let found = rustix::fs::statvfs(path.as_str()).map_err(|error| {
                    Failure::operation_failed(&format!("cannot read the file system of `{path}`"), &error)
                })?;
                output::print_json(&DiskFact {
                    free: found.f_bavail * found.f_frsize,
                    total: found.f_blocks * found.f_frsize,
                    free_inodes: (found.f_files > 0).then_some(found.f_favail),
                    path,
                    reclaimable: None,
                })?;
            }
            ProbeCommand::Listeners => output::print_json(&argus_docker::listening_addresses())?,
            ProbeCommand::Links { targets } => output::print_json(&links::check_targets(&targets)?)?,
        }
        Ok(Exit::Done)
    }
}
