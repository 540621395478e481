//! `argus probe`: what a helper container sees from where it is; a person has no use for it.

use argus_core::preflight::Disk;
use clap::{Args, Subcommand};

use super::output;
use crate::exit::{Exit, Failure};

mod links;

#[derive(Debug, Args)]
pub(crate) struct Probe {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// The file system under a path: in a container's root that is the engine's data root
    Disk {
        /// The path
        #[arg(default_value = "/")]
        path: String,
    },
    /// Whether names resolve and ports take connections, all at once
    Links {
        /// `HOST` or `HOST:PORT`
        #[arg(required = true)]
        targets: Vec<String>,
    },
}

impl Probe {
    pub(crate) fn carry_out(self) -> Result<Exit, Failure> {
        match self.verb {
            Verb::Disk { path } => {
                let found = rustix::fs::statvfs(path.as_str())
                    .map_err(|error| Failure::fault(&format!("cannot look at `{path}`"), &error))?;
                output::json(&Disk {
                    free: found.f_bavail * found.f_frsize,
                    total: found.f_blocks * found.f_frsize,
                    files_free: (found.f_files > 0).then_some(found.f_favail),
                    path,
                    reclaimable: None,
                })?;
            }
            Verb::Links { targets } => output::json(&links::look(&targets)?)?,
        }
        Ok(Exit::Done)
    }
}
