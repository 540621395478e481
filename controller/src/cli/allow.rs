//! `argus allow`: lets the settings and the mounts of a project count as if this user had written them.

use std::path::PathBuf;

use argus_core::quoting::{PathText as _, escape_line, shell_path};
use clap::Args;
use serde_json::json;

use crate::process::exit::{Exit, Failure, state_failure};
use crate::render::output::{self, OutputArgs};
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
        let shown = self.dir.shown();
        let folder = self
            .dir
            .canonicalize()
            .map_err(|error| Failure::operation_failed(&format!("cannot open `{shown}`"), &error))?;
        let failed = |error| state_failure(&error);
        let (keys, parent) = if self.revoke {
            (Vec::new(), trust::revoke(&folder).map_err(failed)?)
        } else {
            (trust::allow(&folder).map_err(failed)?, None)
        };
        let folder = folder.display().to_string();
        let parent = parent.map(|parent| parent.display().to_string());
        let is_allowed = !self.revoke || parent.is_some();
        let document = json!({ "folder": folder, "allowed": is_allowed, "parent": parent, "keys": keys });
        self.output.print(&document, std::slice::from_ref(&folder), || {
            if let Some(parent) = &parent {
                return format!(
                    "`{}` is still allowed with its parent; end that with `argus allow --revoke {}`\n",
                    escape_line(&folder),
                    shell_path(parent)
                );
            }
            if self.revoke {
                return format!("`{}` is not allowed\n", escape_line(&folder));
            }
            let keys = match &*keys {
                [] => String::new(),
                keys => format!(
                    "; these keys count until an edit of the file: {}",
                    format_keys(keys)
                ),
            };
            format!("`{}` is allowed{keys}\n", escape_line(&folder))
        })?;
        if !self.revoke && self.output.is_text() {
            print_reach();
        }
        Ok(Exit::Done)
    }
}

/// Prints what a permission includes.
fn print_reach() {
    for note in [
        trust::REACH,
        "later spec files of the folder count, too, such as those of a pull request or of a container that writes to it",
        "a running controller reads this at its next start",
    ] {
        output::print_note(&format!("{} {note}", output::cyan("note:")));
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
