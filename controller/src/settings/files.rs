//! Settings files: that of the project or of `--config`, and that of the user.

use std::path::{Path, PathBuf};

use argus_core::quoting::PathText as _;
use argus_crds::error::Reason;

use super::{File, paths, trust};
use crate::process::exit::{Exit, Failure};

/// Content of the settings files.
pub(super) struct Found {
    pub(super) file: File,
    /// Folder of the allowed project.
    pub(super) allowed: Option<PathBuf>,
    /// Keys of the project that do not count.
    pub(super) ignored_keys: Vec<&'static str>,
}

/// Reads the file of `--config`, else that of the project, and that of the user.
pub(super) fn read(config: Option<&Path>, allowed: bool) -> Result<Found, Failure> {
    let project = trust::read_settings(Path::new("."));
    let of_project = project.as_ref().ok().map(Option::as_deref);
    let allowed = if allowed {
        // What a person names with the flag can be anywhere.
        Some(PathBuf::from("/"))
    } else {
        of_project.and_then(|settings| trust::find_allowed(Path::new("."), settings))
    };
    let (mut file, mut ignored_keys) = (File::default(), Vec::new());
    if let Some(path) = config {
        let text = trust::read_named(path).map_err(|error| unreadable_settings(path, &error))?;
        file = parse(path, &text)?;
    } else {
        let path = Path::new(trust::SETTINGS_FILE);
        if let Some(text) = project.map_err(|error| unreadable_settings(path, &error))? {
            file = parse(path, &text)?;
        }
        if allowed.is_none() {
            ignored_keys = file.remove_widening(Path::new("."));
        }
    }
    // The variable `HOME` can be that of another user, or name the checkout, as in some CI systems.
    if let Some(path) = paths::user_settings_file()
        && !trust::is_in_worktree(&path)
        && let Some(text) = trust::read_own(&path)
    {
        file = file.over(parse(&path, &text)?);
    }
    Ok(Found {
        file,
        allowed,
        ignored_keys,
    })
}

pub(super) fn parse(path: &Path, text: &str) -> Result<File, Failure> {
    let file: File =
        toml::from_str(text).map_err(|error| invalid_settings(path, error.to_string().trim_end()))?;
    let checked = file.times().and_then(|_| file.namespace());
    checked.map_err(|cause| invalid_settings(path, &cause))?;
    Ok(file)
}

fn unreadable_settings(path: &Path, error: &std::io::Error) -> Failure {
    let message = format!("cannot read settings `{}`: {error}", path.shown());
    Failure::with_reason(Reason::Settings, message)
        .with_exit(Exit::Usage)
        .with_hint("set the settings file with `--config` or `ARGUS_CONFIG`")
}

pub(super) fn invalid_settings(path: &Path, cause: &str) -> Failure {
    let message = format!("cannot use settings `{}`: {cause}", path.shown());
    Failure::with_reason(Reason::Settings, message)
        .with_exit(Exit::Usage)
        .with_hint("fix the settings file; docs/cli.md lists all settings")
}
