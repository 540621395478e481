//! `argus init`: writes a first spec file from the files of a project.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use argus_backend::host_path::Roots;
use argus_backend::host_path::folder::{Folder, read_opened};
use argus_core::dotenv::{self, format_statement};
use argus_core::ident::EnvName;
use argus_core::quoting::{PathText as _, shell_path};
use argus_core::secrets::render_diagnostics;
use argus_crds::compose::COMPOSE_NAMES;
use argus_crds::diagnostic::Diagnostic;
use argus_crds::error::{Code, Reason};
use argus_reconciler::specs::location::worktrees_of;
use argus_reconciler::specs::scan::MAX_FILE_BYTES;
use clap::Args;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::compose;
use crate::compose::Document;
use crate::compose::spec_draft::note::Note;
use crate::compose::spec_draft::{Draft, ProjectInfo, ReadFile, project};
use crate::process::exit::{Exit, Failure};
use crate::render::output;
use crate::render::output::Format;
use crate::settings::{ComposeOptions, Options, Settings, SpecOptions};
use crate::spec_files;

mod dockerfile;
mod permission;
mod repair;

/// Name of the written file.
const NAME: &str = "e2e.yaml";

#[derive(Debug, Args)]
pub(crate) struct Init {
    /// Folder of the project [default: current folder]
    #[arg(default_value = ".", hide_default_value = true)]
    dir: PathBuf,
    /// Overwrite an existing file
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    specs: SpecOptions,
    /// Output format [default: table]
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<Format>,
}

impl Init {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        if self.specs.compose != ComposeOptions::default() {
            let message = "`argus init` translates the Compose files of the project";
            let hint = "write `COMPOSE_FILE`, `COMPOSE_PROFILES` and `COMPOSE_PROJECT_NAME` to the `.env`";
            return Err(Failure::usage(message).with_hint(hint));
        }
        let settings = Settings::resolve(options, &self.specs)?;
        let folder = &settings.specs;
        let target = folder.join(NAME);
        if !self.force && fs::symlink_metadata(&target).is_ok() {
            return Err(already_exists_failure(&target));
        }
        let dir = resolve_folder(&self.dir)?;
        let real = spec_files::resolve_new_folder(&settings, folder)?;
        Folder::create(&real, 0o755).map_err(|error| {
            Failure::operation_failed(&format!("cannot create `{}`", folder.shown()), &error)
        })?;
        let (name, mut draft, document) = create_draft(&dir, &real)?;
        let others = document.iter().flat_map(Document::other_files);
        let sources = draft.from.iter().map(Path::new).chain(others);
        let sources: Vec<PathBuf> = sources.map(|file| dir.join(file)).collect();
        let is_allowed = permission::is_safe([resolve_folder(Path::new("."))?, real.clone()], &sources);
        write_secrets(&real.join(".env"), &draft.secrets)?;
        let text = repair::repair(&name, &mut draft, &settings, &target, |service, key| {
            document.as_ref()?.place(service, key)
        })?;
        self.write(&target, &real, &text)?;
        if is_allowed {
            permission::allow_project(&target);
        }
        let settings = Settings::resolve(options, &self.specs)?;
        let checked = spec_files::read_file(&settings, &target, &CancellationToken::new());
        let rejected = checked.desired.is_none() || checked.diagnostics.iter().any(Diagnostic::is_error);
        let services: Vec<&Value> = draft.services.iter().map(|service| &service["name"]).collect();
        let notes: Vec<String> = draft.notes.iter().map(Note::to_string).collect();
        let report = json!({
            "path": target,
            "project": name,
            "from": draft.from,
            "environment": checked.desired.as_ref().map(|desired| &desired.env),
            "services": services,
            "notes": notes,
            "accepted": !rejected,
            "diagnostics": checked.diagnostics,
        });
        match self.output.unwrap_or(Format::Table) {
            Format::Json => output::print_json(&report)?,
            Format::Yaml => output::print_yaml(&report)?,
            Format::Name => output::print(&format!("{}\n", target.shown()))?,
            Format::Table | Format::Wide => {
                let from = draft.from.as_ref().map(|from| format!(" from `{from}`"));
                let services = output::format_count(services.len(), "service");
                let from = from.unwrap_or_default();
                output::print(&format!("wrote `{}`{from}: {services}\n", target.shown()))?;
            }
        }
        for note in &notes {
            output::print_note(&format!("note: {note}"));
        }
        if !checked.diagnostics.is_empty() {
            let name = target.shown().to_string();
            output::print_note(&render_diagnostics(&name, &checked.text, &checked.diagnostics));
        }
        let specs = match &self.specs.specs {
            Some(specs) => format!(" --specs {}", shell_path(specs)),
            None => String::new(),
        };
        let next = if rejected {
            vec![format!(
                "fix the file, then check it with `argus validate {}`",
                shell_path(target.as_path())
            )]
        } else {
            vec![
                format!("show the planned actions with `argus plan{specs}`"),
                format!("start a controller with `argus run{specs}`"),
            ]
        };
        for next in next {
            output::print_note(&format!("{} {next}", output::cyan("hint:")));
        }
        Ok(if rejected { Exit::SpecRejected } else { Exit::Done })
    }

    fn write(&self, target: &Path, real: &Path, text: &str) -> Result<(), Failure> {
        let written = Folder::open(real).and_then(|folder| {
            if self.force {
                return folder.write(NAME.as_ref(), text.as_bytes(), 0o644);
            }
            folder
                .create_file(NAME.as_ref(), 0o644)?
                .write_all(text.as_bytes())
        });
        written.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => already_exists_failure(target),
            _ => Failure::operation_failed(&format!("cannot write `{}`", target.shown()), &error),
        })
    }
}

/// Adds secret values to the `.env` next to the spec file, so that the spec file itself can be shared.
fn write_secrets(path: &Path, secrets: &BTreeMap<String, String>) -> Result<(), Failure> {
    if secrets.is_empty() {
        return Ok(());
    }
    let Dotenv {
        folder,
        name,
        text,
        variables: known,
    } = read_dotenv(path)?;
    let missing = secrets.iter().filter(|(name, _)| !known.contains_key(*name));
    let mut lines = output::join_lines(missing.map(|(name, value)| format_statement(name, value)));
    if lines.is_empty() {
        return Ok(());
    }
    if !text.is_empty() && !text.ends_with(b"\n") {
        lines.insert(0, '\n');
    }
    let mode = folder.stat(&name).map_or(0o600, |stat| stat.st_mode & 0o777);
    folder
        .write(&name, &[text.as_slice(), lines.as_bytes()].concat(), mode)
        .map_err(|error| dotenv_failure(path, &error))
}

/// The `.env` next to the spec file.
struct Dotenv {
    folder: Folder,
    name: OsString,
    text: Vec<u8>,
    variables: BTreeMap<String, String>,
}

fn read_dotenv(path: &Path) -> Result<Dotenv, Failure> {
    let (folder, name) = Folder::parent_of(path).map_err(|error| dotenv_failure(path, &error))?;
    let text = match folder.open_file(&name) {
        Ok(file) => read_opened(file, MAX_FILE_BYTES).map_err(|error| dotenv_failure(path, &error))?,
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        // For example a link: the values would be written elsewhere.
        Err(error) => return Err(dotenv_failure(path, &error)),
    };
    let variables = parse_dotenv(path, &text)?;
    Ok(Dotenv {
        folder,
        name,
        text,
        variables,
    })
}

fn dotenv_failure(path: &Path, error: &io::Error) -> Failure {
    Failure::operation_failed(&format!("cannot write `{}`", path.shown()), error)
}

/// Variables of a `.env`, whose statements are all understood.
fn parse_dotenv(path: &Path, bytes: &[u8]) -> Result<BTreeMap<String, String>, Failure> {
    let file = dotenv::read(bytes, &|_| None);
    let Some(problem) = file.problems.first() else {
        return Ok(file.variables);
    };
    Err(Failure::with_code(Code::SpecInvalid, problem.describe(path))
        .with_exit(Exit::SpecRejected)
        .with_hint(problem.hint.clone()))
}

fn already_exists_failure(target: &Path) -> Failure {
    Failure::with_reason(Reason::Exists, format!("`{}` already exists", target.shown()))
        .with_exit(Exit::Usage)
        .with_hint("overwrite it with `--force`, or choose another folder with `--specs`")
}

fn resolve_folder(path: &Path) -> Result<PathBuf, Failure> {
    let found = fs::canonicalize(path).and_then(|path| {
        fs::read_dir(&path)?;
        Ok(path)
    });
    found.map_err(|error| {
        let message = format!("cannot read the folder `{}`: {error}", path.shown());
        Failure::with_reason(Reason::Unreadable, message)
            .with_exit(Exit::Usage)
            .with_hint("pass the folder of the project as the argument")
    })
}

/// Name of the project, content of its spec file, and the compose file. A compose file takes precedence over a Dockerfile.
fn create_draft(dir: &Path, specs: &Path) -> Result<(String, Draft, Option<Document>), Failure> {
    let compose = COMPOSE_NAMES
        .iter()
        .map(|name| dir.join(name))
        .find(|path| path.is_file());
    // A file can name others, and be a link. None of them leads out of the project.
    let top = worktrees_of(dir).into_iter().next();
    let roots = Roots::new([dir].into_iter().chain(top.as_deref()));
    let read = |path: &Path| {
        let file = roots.open(path).map_err(|error| error.to_string())?;
        read_opened(file, MAX_FILE_BYTES).map_err(|error| error.to_string())
    };
    let dotenv = dir.join(".env");
    let variables = parse_dotenv(&dotenv, &read(&dotenv).unwrap_or_default())?;
    let document = compose
        .as_deref()
        .map(|path| read_document(path, &variables, &read))
        .transpose()?;
    let written = document
        .as_ref()
        .and_then(|document| document.value["name"].as_str());
    let own = variables.get(compose::NAME).filter(|name| !name.is_empty());
    let named = own.map(String::as_str).or(written);
    let name = named.map_or_else(|| project::find_name(dir, &read), str::to_owned);
    let slug = EnvName::slug(&name).map_or_else(|_| "project".to_owned(), String::from);
    let project = ProjectInfo {
        dir,
        back: relative_path(specs, dir),
        slug: &slug,
        read: &read,
        variables: &variables,
        is_inlined: true,
    };
    // An unreadable file is an error once a secret goes there.
    let known = read_dotenv(&specs.join(".env"))
        .map(|found| found.variables)
        .unwrap_or_default();
    let draft = match (&document, compose) {
        (Some(document), Some(path)) => {
            let mut draft = compose::create_draft_with_dotenv(document, &project, &known);
            draft.from = path.file_name().map(|name| name.to_string_lossy().into_owned());
            draft
        }
        _ if dir.join("Dockerfile").is_file() => dockerfile::create_draft(&project)?,
        _ => example_draft(&project),
    };
    // A name without valid characters is replaced by its slug.
    let name = if EnvName::slug(&name).is_ok() { name } else { slug };
    Ok((name, draft, document))
}

fn read_document(
    path: &Path,
    variables: &BTreeMap<String, String>,
    read: ReadFile<'_>,
) -> Result<Document, Failure> {
    let name = path.shown().to_string();
    let parsed = read(path)
        .map_err(|why| Diagnostic::error("", format!("cannot read the file: {why}")))
        .and_then(|bytes| {
            Document::parse(&name, path, &bytes, variables, read).map_err(|diagnostic| *diagnostic)
        });
    parsed.map_err(|diagnostic| {
        let line = diagnostic
            .location
            .map(|location| format!(":{}", location.line))
            .unwrap_or_default();
        Failure::with_code(
            Code::SpecInvalid,
            format!("`{name}`{line}: {}", diagnostic.message),
        )
        .with_details(json!({ "path": path, "reason": diagnostic.message }))
        .with_exit(Exit::SpecRejected)
        .with_hint("fix the file or move it away")
    })
}

/// A working example for projects without a compose file and a Dockerfile.
fn example_draft(project: &ProjectInfo<'_>) -> Draft {
    let service = json!({
        "name": "web",
        "image": "nginx:1-alpine",
        "container": {
            "name": format!("{}-web", project.slug),
            "ports": ["8080:80"],
            "healthcheck": { "type": "http", "path": "/", "port": 80 },
        },
    });
    let note = "no compose file and no Dockerfile in this folder: replace this example service with your own";
    Draft {
        services: vec![service],
        notes: vec![Note::remark(note)],
        ..Draft::default()
    }
}

/// Relative path between two canonical folders.
fn relative_path(from: &Path, to: &Path) -> PathBuf {
    let (mut from, mut to) = (from.components().peekable(), to.components().peekable());
    while from.peek().is_some() && from.peek() == to.peek() {
        from.next();
        to.next();
    }
    let up = from.map(|_| std::path::Component::ParentDir);
    let path: PathBuf = up.chain(to).collect();
    if path.as_os_str().is_empty() {
        ".".into()
    } else {
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_path_between_folders() {
        for (from, to, path) in [
            ("/a/environments", "/a", ".."),
            ("/a", "/a", "."),
            ("/a", "/a/b/c", "b/c"),
            ("/specs/x", "/src/app", "../../src/app"),
        ] {
            assert_eq!(relative_path(Path::new(from), Path::new(to)), Path::new(path));
        }
    }
}
