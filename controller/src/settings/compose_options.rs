//! Options of `docker compose` for Compose files. They are variables that the controller permits every Compose file to read.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use argus_core::dotenv;
use argus_core::quoting::PathText as _;
use argus_crds::compose::COMPOSE_NAMES;
use argus_reconciler::specs::scan::{MAX_FILE_BYTES, read_bounded};
use clap::Args;

use crate::compose::{FILES, NAME, PROFILES, SERVICES};
use crate::process::exit::Failure;
use crate::settings::Settings;

/// Spec file of a project without a specs folder.
pub(crate) const DEFAULT_FILE: &str = "e2e.yaml";

/// Options of Compose files, with the names and the meaning that Compose gives them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub(crate) struct ComposeOptions {
    /// Compose file; Argus merges several in this order [default: those of the project]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: Vec<PathBuf>,
    /// Profile of a Compose file whose services start [default: none]
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Vec<String>,
    /// File with variables, which override those of `.env` [default: none]
    #[arg(long, value_name = "FILE")]
    pub(crate) env_file: Vec<PathBuf>,
    /// Project name of a Compose file [default: that of the file, else its folder]
    #[arg(short, long, value_name = "NAME")]
    pub(crate) project_name: Option<String>,
    /// Service of a Compose file that starts with its dependencies [default: all]
    #[arg(long = "service", value_name = "NAME")]
    pub(crate) services: Vec<String>,
}

impl ComposeOptions {
    /// Returns the options as variables.
    pub(super) fn variables(&self) -> Result<BTreeMap<String, String>, Failure> {
        let mut variables = BTreeMap::new();
        for path in &self.env_file {
            read_variables(path, &mut variables)?;
        }
        if !self.profile.is_empty() {
            variables.insert(PROFILES.to_owned(), self.profile.join(","));
        }
        if !self.services.is_empty() {
            variables.insert(SERVICES.to_owned(), self.services.join(","));
        }
        if let Some(name) = &self.project_name {
            variables.insert(NAME.to_owned(), name.clone());
        }
        if let Some((first, rest)) = self.file.split_first() {
            let folder = first.parent().unwrap_or(Path::new(""));
            let name = first.file_name().map(PathBuf::from).unwrap_or_default();
            let rest = rest.iter().map(|path| relative(path, folder));
            let names = std::iter::once(Ok(name)).chain(rest).map(|path| shown(&path?));
            variables.insert(FILES.to_owned(), names.collect::<Result<Vec<_>, _>>()?.join(":"));
        }
        Ok(variables)
    }
}

impl Settings {
    /// Takes the file of a project that has no specs folder: its `e2e.yaml`, else its Compose file.
    #[must_use]
    pub(crate) fn with_project_file(mut self) -> Self {
        let names = std::iter::once(DEFAULT_FILE).chain(COMPOSE_NAMES);
        let mut names = names.filter(|_| !self.specs_given && !self.specs.exists());
        if let Some(name) = names.find(|name| Path::new(name).exists()) {
            self.specs = Path::new(".").join(name);
        }
        self
    }
}

/// Adds the variables of a file. They read only each other.
fn read_variables(path: &Path, variables: &mut BTreeMap<String, String>) -> Result<(), Failure> {
    let failed = |why: String| Failure::usage(format!("cannot read `{}`: {why}", path.shown()));
    let bytes = read_bounded(path, MAX_FILE_BYTES).map_err(|error| failed(error.to_string()))?;
    let bytes = bytes.ok_or_else(|| failed(format!("it is longer than {MAX_FILE_BYTES} bytes")))?;
    let found = dotenv::read(&bytes, &|name| variables.get(name).cloned());
    if let Some(problem) = found.problems.first() {
        return Err(Failure::usage(problem.describe(path)).with_hint(&problem.hint));
    }
    variables.extend(found.variables);
    Ok(())
}

/// Path of a file from the folder of the first one.
fn relative(path: &Path, folder: &Path) -> Result<PathBuf, Failure> {
    if folder.as_os_str().is_empty() {
        return Ok(path.to_owned());
    }
    match path.strip_prefix(folder) {
        Ok(inside) => Ok(inside.to_owned()),
        Err(_) => std::path::absolute(path)
            .map_err(|error| Failure::operation_failed("cannot find the current folder", &error)),
    }
}

fn shown(path: &Path) -> Result<String, Failure> {
    let text = path.to_str().filter(|text| !text.contains(':'));
    let refused = || {
        Failure::usage(format!(
            "`{}` is not a valid name of a Compose file",
            path.shown()
        ))
    };
    text.map(str::to_owned)
        .ok_or_else(|| refused().with_hint("rename it: the name is no text, or contains `:`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(files: &[&str]) -> ComposeOptions {
        ComposeOptions {
            file: files.iter().map(PathBuf::from).collect(),
            ..ComposeOptions::default()
        }
    }

    #[test]
    fn files_are_named_from_the_folder_of_the_first() {
        let here = std::path::absolute("other.yaml").unwrap();
        let outside = format!("a.yaml:{}", here.display());
        for (files, expected) in [
            (&["a.yaml"][..], "a.yaml"),
            (&["a.yaml", "ci/b.yaml"][..], "a.yaml:ci/b.yaml"),
            (&["shop/a.yaml", "shop/ci/b.yaml"][..], "a.yaml:ci/b.yaml"),
            (&["shop/a.yaml", "other.yaml"][..], outside.as_str()),
        ] {
            let variables = options(files).variables().unwrap();
            assert_eq!(variables["COMPOSE_FILE"], expected, "{files:?}");
        }
        assert!(options(&["a:b.yaml"]).variables().is_err());
        assert_eq!(options(&[]).variables().unwrap(), BTreeMap::new());
    }

    #[test]
    fn later_file_with_variables_wins_and_reads_no_shell() {
        let dir = tempfile::tempdir().unwrap();
        let (one, two) = (dir.path().join("one.env"), dir.path().join("two.env"));
        std::fs::write(&one, "A=1\nB=${A}\nHOME_COPY=${HOME:-none}\n").unwrap();
        std::fs::write(&two, "A=2\n").unwrap();
        let mut given = ComposeOptions {
            env_file: vec![one, two],
            profile: vec!["debug".to_owned(), "ci".to_owned()],
            project_name: Some("shop".to_owned()),
            services: vec!["web".to_owned(), "db".to_owned()],
            ..ComposeOptions::default()
        };
        let variables = given.variables().unwrap();
        let lines: Vec<_> = variables
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let expected = [
            "A=2",
            "ARGUS_SERVICES=web,db",
            "B=1",
            "COMPOSE_PROFILES=debug,ci",
            "COMPOSE_PROJECT_NAME=shop",
            "HOME_COPY=none",
        ];
        assert_eq!(lines, expected);
        given.env_file.push("missing.env".into());
        assert!(given.variables().is_err());
    }
}
