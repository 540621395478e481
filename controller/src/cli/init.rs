//! `argus init`: a first file for a project, from what lies in its folder.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use argus_core::ident::EnvName;
use argus_crds::diagnostic::{self, Diagnostic};
use argus_crds::error::Reason;
use clap::Args;
use serde_json::{Value, json};

use super::output::{self, Format};
use super::spec_files;
use crate::exit::{Exit, Failure};
use crate::settings::{Options, Settings, SpecOptions};

mod compose;
mod dockerfile;
mod project;
mod variables;

/// What the file is called.
const NAME: &str = "e2e.yaml";
const COMPOSE: &[&str] = &[
    "compose.yaml",
    "compose.yml",
    "docker-compose.yaml",
    "docker-compose.yml",
];

#[derive(Debug, Args)]
pub(crate) struct Init {
    /// Folder of the project
    #[arg(default_value = ".")]
    dir: PathBuf,
    /// Write over a file that is there
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    specs: SpecOptions,
    /// Format
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<Format>,
}

/// A project, as the translators see it.
struct Place<'a> {
    /// Its folder.
    dir: &'a Path,
    /// How its folder is reached from the file's.
    back: PathBuf,
    /// What names are made of.
    slug: &'a str,
}

/// What a file will say.
#[derive(Debug, Default)]
struct Draft {
    services: Vec<Value>,
    /// What was found, and what could not be translated.
    from: Option<String>,
    notes: Vec<String>,
}

impl Init {
    pub(crate) fn carry_out(self, options: &Options) -> Result<Exit, Failure> {
        let settings = Settings::resolve(options, &self.specs)?;
        let target = settings.specs.join(NAME);
        if !self.force && fs::symlink_metadata(&target).is_ok() {
            return Err(already(&target));
        }
        let dir = folder(&self.dir)?;
        fs::create_dir_all(&settings.specs).map_err(|error| {
            Failure::fault(&format!("cannot make `{}`", settings.specs.display()), &error)
        })?;
        let (name, draft) = draft(&dir, &folder(&settings.specs)?)?;
        let text = written(&name, &draft)?;
        self.write(&target, &text)?;
        let looked = spec_files::file(&settings, &target);
        let refused = looked.desired.is_none() || looked.diagnostics.iter().any(Diagnostic::is_error);
        let services: Vec<&Value> = draft.services.iter().map(|service| &service["name"]).collect();
        let told = json!({
            "path": target,
            "project": name,
            "from": draft.from,
            "environment": looked.desired.as_ref().map(|desired| &desired.env),
            "services": services,
            "notes": draft.notes,
            "accepted": !refused,
            "diagnostics": looked.diagnostics,
        });
        match self.output.unwrap_or(Format::Table) {
            Format::Json => output::json(&told)?,
            Format::Yaml => output::yaml(&told)?,
            Format::Name => output::data(&format!("{}\n", target.display()))?,
            Format::Table | Format::Wide => {
                let from = draft.from.as_ref().map(|from| format!(" from `{from}`"));
                let services = output::count(services.len(), "service");
                let from = from.unwrap_or_default();
                output::data(&format!("wrote `{}`{from}: {services}\n", target.display()))?;
            }
        }
        for note in &draft.notes {
            output::note(&format!("note: {note}"));
        }
        if !looked.diagnostics.is_empty() {
            let name = target.display().to_string();
            output::note(&diagnostic::render(&name, &looked.text, &looked.diagnostics));
        }
        let specs = match &self.specs.specs {
            Some(specs) => format!(" --specs {}", specs.display()),
            None => String::new(),
        };
        let next = if refused {
            vec![format!("mend it, then `argus validate {}`", target.display())]
        } else {
            vec![
                format!("`argus plan{specs}` shows what would be done"),
                format!("`argus run{specs}` does it, and keeps it so"),
            ]
        };
        for next in next {
            output::note(&format!("{} {next}", output::cyan("hint:")));
        }
        Ok(if refused { Exit::Refused } else { Exit::Done })
    }

    fn write(&self, target: &Path, text: &str) -> Result<(), Failure> {
        let mut options = OpenOptions::new();
        options.write(true);
        if self.force {
            options.create(true).truncate(true);
        } else {
            options.create_new(true);
        }
        let written = options
            .open(target)
            .and_then(|mut file| file.write_all(text.as_bytes()));
        written.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => already(target),
            _ => Failure::fault(&format!("cannot write `{}`", target.display()), &error),
        })
    }
}

fn already(target: &Path) -> Failure {
    Failure::missing(Reason::Exists, format!("`{}` is there already", target.display()))
        .exit(Exit::Usage)
        .hint("`--force` writes over it, and `--specs` names another folder")
}

fn folder(path: &Path) -> Result<PathBuf, Failure> {
    let found = fs::canonicalize(path).and_then(|path| {
        fs::read_dir(&path)?;
        Ok(path)
    });
    found.map_err(|error| {
        let message = format!("cannot read the folder `{}`: {error}", path.display());
        Failure::missing(Reason::Unreadable, message)
            .exit(Exit::Usage)
            .hint("name the folder of the project")
    })
}

/// The name of the project and what its file says, from the best that is found.
fn draft(dir: &Path, specs: &Path) -> Result<(String, Draft), Failure> {
    let compose = COMPOSE
        .iter()
        .map(|name| dir.join(name))
        .find(|path| path.is_file());
    let document = compose.as_deref().map(compose::read).transpose()?;
    let named = document.as_ref().and_then(|document| document["name"].as_str());
    let name = named.map_or_else(|| project::name(dir), str::to_owned);
    let slug = EnvName::slug(&name).map_or_else(|_| "project".to_owned(), String::from);
    let place = Place {
        dir,
        back: relative(specs, dir),
        slug: &slug,
    };
    let mut draft = match (&document, compose) {
        (Some(document), Some(path)) => {
            let mut draft = compose::draft(document, &place);
            draft.from = path.file_name().map(|name| name.to_string_lossy().into_owned());
            draft
        }
        _ if dir.join("Dockerfile").is_file() => dockerfile::draft(&place)?,
        _ => nothing(&place),
    };
    let state_inside = draft
        .services
        .iter()
        .any(|service| service.get("build").is_some())
        && specs.starts_with(dir);
    if state_inside && !ignores_us(dir) {
        draft.notes.push(
            "whatever changes in a build context is a new image: `.dockerignore` should name `.argus`"
                .to_owned(),
        );
    }
    // Of a name that cannot be one, what it becomes.
    let name = if EnvName::slug(&name).is_ok() { name } else { slug };
    Ok((name, draft))
}

fn ignores_us(dir: &Path) -> bool {
    let ignored = fs::read_to_string(dir.join(".dockerignore")).unwrap_or_default();
    let ours = |line: &str| {
        matches!(
            line.trim().trim_start_matches('/').trim_end_matches('/'),
            ".argus" | ".*" | "*" | "**"
        )
    };
    ignored.lines().any(ours)
}

/// A file that works, to be changed by whoever knows what is wanted.
fn nothing(place: &Place<'_>) -> Draft {
    let service = json!({
        "name": "web",
        "image": "nginx:1-alpine",
        "container": {
            "name": format!("{}-web", place.slug),
            "ports": ["8080:80"],
            "healthcheck": { "type": "http", "path": "/", "port": 80 },
        },
    });
    let note =
        "neither a compose file nor a Dockerfile is here: the service is an example, put yours in its place";
    Draft {
        services: vec![service],
        from: None,
        notes: vec![note.to_owned()],
    }
}

fn written(name: &str, draft: &Draft) -> Result<String, Failure> {
    let value = json!({ "version": "1", "project": { "name": name }, "services": draft.services });
    let yaml =
        argus_crds::yaml::to_yaml(&value).map_err(|error| Failure::fault("cannot write YAML", &error))?;
    let from = draft
        .from
        .as_ref()
        .map(|from| format!(" from {from}"))
        .unwrap_or_default();
    let mut text = format!("# Written by `argus init`{from}. What else can stand here: `argus schema`.\n");
    for note in &draft.notes {
        // A note is one line of a comment whatever it quotes.
        text.extend(["# ", &note.replace(char::is_control, " "), "\n"]);
    }
    Ok(text + &yaml)
}

/// How a folder is reached from another; both are canonical.
fn relative(from: &Path, to: &Path) -> PathBuf {
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
    fn a_folder_is_reached_from_another() {
        for (from, to, path) in [
            ("/a/environments", "/a", ".."),
            ("/a", "/a", "."),
            ("/a", "/a/b/c", "b/c"),
            ("/specs/x", "/src/app", "../../src/app"),
        ] {
            assert_eq!(relative(Path::new(from), Path::new(to)), Path::new(path));
        }
    }
}
