//! `argus allow`: lets the settings and the mounts of a project count as if this user had written them.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use crate::exit::{Exit, Failure, state_failure};
use crate::output::{self, OutputArgs};
use crate::settings::{Options, trust};

#[derive(Debug, Args)]
pub(crate) struct Allow {
    /// Folder with the `argus.toml` of the project [default: the current folder]
    #[arg(default_value = ".", hide_default_value = true)]
    dir: PathBuf,
    /// End the permission of the folder
    #[arg(long)]
    revoke: bool,
    #[command(flatten)]
    output: OutputArgs,
}

impl Allow {
    pub(crate) fn execute(self, _options: &Options) -> Result<Exit, Failure> {
        let shown = self.dir.display();
        let folder = self
            .dir
            .canonicalize()
            .map_err(|error| Failure::operation_failed(&format!("cannot open `{shown}`"), &error))?;
        let changed = if self.revoke {
            trust::revoke(&folder)
        } else {
            trust::allow(&folder)
        };
        changed.map_err(|error| state_failure(&error))?;
        let folder = folder.display().to_string();
        let settings = trust::read_settings(&self.dir).ok().flatten();
        let keys = settings.map_or_else(Vec::new, |text| trust::list_widening(&text));
        let document = json!({ "folder": folder, "allowed": !self.revoke, "keys": keys });
        self.output.print(&document, std::slice::from_ref(&folder), || {
            if self.revoke {
                return format!("`{folder}` is not allowed\n");
            }
            let keys = match &*keys {
                [] => String::new(),
                keys => format!(
                    "; these keys count until an edit of the file: {}",
                    format_keys(keys)
                ),
            };
            format!("`{folder}` is allowed{keys}\n")
        })?;
        if !self.revoke && self.output.is_text() {
            output::print_note(&format!(
                "{} a running controller reads this at its next start",
                output::cyan("note:")
            ));
        }
        Ok(Exit::Done)
    }
}

/// Prints which keys of the settings file of a project do not count.
pub(super) fn warn_of_ignored(keys: &[&str]) {
    if keys.is_empty() {
        return;
    }
    let flags: Vec<String> = keys.iter().map(|key| format!("`--{key}`")).collect();
    output::print_note(&format!(
        "{} `{}` sets {}, which a repository cannot set",
        output::yellow("warning:"),
        trust::SETTINGS_FILE,
        format_keys(keys)
    ));
    output::print_note(&format!(
        "{} pass {}, or trust the project with `argus allow`",
        output::cyan("hint:"),
        flags.join(", ")
    ));
}

fn format_keys(keys: &[&str]) -> String {
    let keys: Vec<String> = keys.iter().map(|key| format!("`{key}`")).collect();
    keys.join(", ")
}
