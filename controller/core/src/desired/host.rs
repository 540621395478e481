//! Host paths that a spec file names, and their targets.
//!
//! The caller of admission resolves the paths, because admission performs no I/O. Admission uses only resolved paths.

use std::collections::{BTreeMap, BTreeSet};

use argus_crds::{Build, Diagnostic, E2eSpec, MockMode};

use crate::desired::admit::SpecContext;
use crate::desired::excluded;
use crate::desired::identity::shown;
use crate::desired::paths;
use crate::desired::worktree::Worktree;

const OTHER_PATH: &str = "POLICY_VIOLATION: name another path of the project";
const OUTSIDE_STATE: &str =
    "POLICY_VIOLATION: name a folder in it, or choose a state directory outside of it with `--state`";
const OUTSIDE_PRIVATE: &str = "POLICY_VIOLATION: name a folder in it, or set `XDG_STATE_HOME` and `XDG_CONFIG_HOME` to folders outside of it";

/// Facts about the host paths of a spec file. All paths are absolute.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostPaths {
    /// Directory of the project, which needs no flag. Empty: the directory of the file.
    pub project: String,
    /// Git worktree of the file, if it is in one.
    pub worktree: Option<Worktree>,
    /// True if a person allowed the project of the file: its containers may write above the bind sources of others.
    pub allowed: bool,
    /// Names on the engine of external volumes that the file may mount without the permission.
    pub external_volumes: BTreeSet<String>,
    /// Paths of git in the project. `None` if containers may write them.
    pub git: Option<GitPaths>,
    /// State directory of the controller, without links. Empty: unknown.
    pub state_dir: String,
    /// Folders that no container may have, without links: private state of all controllers of the user, and settings of the user.
    /// They contain the state directory if it contains private state.
    pub private_dirs: Vec<String>,
    /// Target of each path of [`host_paths_in`], or the reason for its rejection. A missing path is used as written.
    pub resolved: BTreeMap<String, Result<String, String>>,
    /// Paths of [`host_paths_in`] at which nothing exists, each with the path of a similar name if there is one.
    pub missing: BTreeMap<String, Option<String>>,
    /// True if something exists at the path of `argus.envFile` that Argus did not write.
    pub has_foreign_env_file: bool,
}

/// Paths of git that no container may change, without links.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GitPaths {
    /// `.git` of the worktree, of its submodules and of other repositories below writable mounts, and git directories of other names. Each
    /// exists, and none contains another one.
    pub paths: BTreeSet<String>,
    /// Link `.git` in a directory of the spec file, above it in the project, in a submodule, or below a writable mount.
    pub link: Option<String>,
    /// `.git` of a repository that `paths` does not contain, because there are too many, or a directory that was not searched.
    pub excess: Option<String>,
}

impl HostPaths {
    /// Returns the folder of the project; `None` without one.
    pub(crate) fn folder(&self) -> Option<String> {
        Some(self.project.clone()).filter(|project| !project.is_empty())
    }

    /// Adds the fix of a missing file or folder: a similar name that exists, else the hint `otherwise`. `text` is its path as
    /// written in a spec file in `directory`.
    #[must_use]
    pub fn with_similar(
        &self,
        diagnostic: Diagnostic,
        directory: &str,
        text: &str,
        otherwise: &str,
    ) -> Diagnostic {
        let Some(Some(similar)) = self.missing.get(&paths::to_absolute(directory, text)) else {
            return diagnostic.hint(otherwise);
        };
        let diagnostic = diagnostic.hint(format!("there is `{}`", printable(similar)));
        let name = |path: &str, index: usize| path.split('/').nth(index).map(str::to_owned);
        let absolute = paths::to_absolute(directory, text);
        let last = similar.split('/').count().saturating_sub(1);
        match (name(&absolute, last), name(&printable(similar), last)) {
            (Some(wrong), Some(right)) if text.split('/').any(|part| part == wrong) => {
                let part = |part| if part == wrong { right.as_str() } else { part };
                let corrected: Vec<&str> = text.split('/').map(part).collect();
                diagnostic.replace(text, corrected.join("/"))
            }
            _ => diagnostic,
        }
    }
}

/// Returns every host path that a file names, absolute and without `..`, before links are resolved.
pub fn host_paths_in(spec: &E2eSpec, directory: &str, project: &str) -> BTreeSet<String> {
    let mut texts: Vec<&str> = Vec::new();
    let mut dockerfiles = Vec::new();
    for declared in spec.declared_services() {
        let volumes = declared.service.container.iter().flat_map(|it| &it.volumes);
        texts.extend(volumes.filter_map(|text| bind_source(text)));
        if let Some(build) = &declared.service.build {
            texts.push(&build.context);
            texts.extend(build.secrets.values().filter_map(|secret| secret.file.as_deref()));
            let contexts = build.additional_contexts.values().map(String::as_str);
            texts.extend(contexts.filter(|text| !text.contains("://")));
            dockerfiles.extend(dockerfile_candidates(build, directory, project));
        }
    }
    for mock in spec.mocks.values() {
        if mock.image.is_some() {
            texts.extend(mock.volumes.iter().filter_map(|text| bind_source(text)));
        } else {
            if matches!(mock.mode, MockMode::Record | MockMode::Replay) {
                texts.push(&mock.recordings_dir);
            }
            texts.extend(mock.openapi.as_deref());
        }
    }
    let absolute = |text: &str| paths::is_sane(text).then(|| paths::to_absolute(directory, text));
    let named = texts.into_iter().filter_map(absolute);
    named.chain(dockerfiles).collect()
}

/// Returns the host paths of [`host_paths_in`] that the containers of a file can write.
pub fn writable_paths_in(spec: &E2eSpec, directory: &str) -> BTreeSet<String> {
    let mut volumes: Vec<&String> = Vec::new();
    let mut texts = Vec::new();
    for declared in spec.declared_services() {
        volumes.extend(declared.service.container.iter().flat_map(|it| &it.volumes));
    }
    for mock in spec.mocks.values() {
        if mock.image.is_some() {
            volumes.extend(&mock.volumes);
        } else if mock.mode == MockMode::Record {
            texts.push(mock.recordings_dir.as_str());
        }
    }
    let is_writable = |text: &&String| {
        let options = text.trim().split(':').nth(2).unwrap_or_default();
        !options.split(',').any(|option| option == "ro")
    };
    texts.extend(
        volumes
            .into_iter()
            .filter(is_writable)
            .filter_map(|text| bind_source(text)),
    );
    let sane = texts.into_iter().filter(|text| paths::is_sane(text));
    sane.map(|text| paths::to_absolute(directory, text)).collect()
}

/// Returns the absolute paths of the Dockerfile of a build in the order of the search: in the directory of the file, in the
/// context, in the project. Empty for a text that is not a path.
pub(super) fn dockerfile_candidates(build: &Build, directory: &str, project: &str) -> Vec<String> {
    let context = paths::to_absolute(directory, &build.context);
    let (text, bases) = match build.dockerfile.as_deref() {
        Some(text) => (text, vec![directory, &context, project]),
        None if build.dockerfile_inline.is_some() => return Vec::new(),
        None => ("Dockerfile", vec![context.as_str()]),
    };
    let mut all = Vec::new();
    if [text, &build.context].into_iter().all(paths::is_sane) {
        let bases = bases.into_iter().filter(|base| !base.is_empty());
        all.extend(bases.map(|base| paths::to_absolute(base, text)));
        let mut seen = BTreeSet::new();
        all.retain(|path| seen.insert(path.clone()));
    }
    all
}

/// Use of a host path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PathUse {
    /// Bind mount. A container may work with a git directory.
    Mount,
    /// Content that Argus reads: a build context, a Dockerfile or an API document. It is never part of a git directory.
    Content,
}

/// Returns the target of a path of [`host_paths_in`]. Reports a rejected path as a diagnostic.
pub(super) fn resolve_host_path(
    path_use: PathUse,
    absolute: String,
    text: &str,
    path: &str,
    context: &SpecContext,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<String> {
    if let Some(Ok(real)) = context.host.resolved.get(&absolute)
        && let Some((message, hint)) = refuse_private(real, path_use, text, context)
    {
        diagnostics.push(Diagnostic::error(path, message).hint(hint));
        return None;
    }
    match context.host.resolved.get(&absolute) {
        None => Some(absolute),
        Some(Ok(real)) if is_in_state_directory(real, context) => {
            let message = format!("`{}` is part of the state directory", shown(text));
            diagnostics.push(Diagnostic::error(path, message).hint(OTHER_PATH));
            None
        }
        Some(Ok(real)) if path_use == PathUse::Content && has_part(real, excluded::GIT) => {
            let message = format!("`{}` is part of a git directory", shown(text));
            diagnostics.push(Diagnostic::error(path, message).hint(OTHER_PATH));
            None
        }
        Some(Ok(real)) if paths::is_sane(real) => Some(real.clone()),
        other => {
            let why = match other {
                Some(Err(why)) => printable(why),
                Some(Ok(_)) | None => "it leads to a name with control characters".to_owned(),
            };
            let hint = "POLICY_VIOLATION: use a path inside the project, or allow the directory with `argus run --allow-mount DIR`";
            let message = format!("`{}` is refused: {why}", shown(text));
            diagnostics.push(Diagnostic::error(path, message).hint(hint));
            None
        }
    }
}

/// Returns true if a path is in the state directory of the controller, or in an `.argus` directory.
fn is_in_state_directory(real: &str, context: &SpecContext) -> bool {
    let state_dir = &context.host.state_dir;
    !state_dir.is_empty() && paths::is_inside(real, state_dir) || has_part(real, excluded::STATE)
}

/// Returns the message and the hint for a path that is or is in a private folder. A mount also must not contain one; a build
/// context is sent without it.
fn refuse_private(
    real: &str,
    path_use: PathUse,
    text: &str,
    context: &SpecContext,
) -> Option<(String, &'static str)> {
    let is_refused = |dir: &&String| {
        paths::is_inside(real, dir) || path_use == PathUse::Mount && paths::is_inside(dir, real)
    };
    let private = context.host.private_dirs.iter().find(is_refused)?;
    let is_part = paths::is_inside(real, private);
    let (what, outside) = if *private == context.host.state_dir {
        ("the state directory", OUTSIDE_STATE)
    } else {
        ("a private folder of Argus", OUTSIDE_PRIVATE)
    };
    let (relation, hint) = if is_part {
        ("is part of", OTHER_PATH)
    } else {
        ("contains", outside)
    };
    Some((format!("`{}` {relation} {what}", shown(text)), hint))
}

fn has_part(path: &str, name: &str) -> bool {
    path.split('/').any(|part| part == name)
}

/// Bounds a reason and removes control characters, because a repository chooses the file names in it.
fn printable(why: &str) -> String {
    let plain = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    why.chars().take(1_000).map(plain).collect()
}

/// Returns the source of a bind mount as written; `None` for a named volume.
fn bind_source(text: &str) -> Option<&str> {
    let source = text.trim().split(':').next()?;
    is_bind(source).then_some(source)
}

/// Returns true if the source of a mount is a host path and not the name of a volume.
pub(super) fn is_bind(source: &str) -> bool {
    source.contains('/') || source.starts_with(['.', '~'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_directory_is_refused_as_content_but_not_as_a_mount() {
        let refusal = |path_use: PathUse, real: &str| {
            let mut context = SpecContext::default();
            context.host.state_dir = "/p/run/state".to_owned();
            context.host.private_dirs = ["/home/me/.local/state/argus", "/p/run/state"]
                .map(str::to_owned)
                .into();
            context.host.resolved = [("/p/x".to_owned(), Ok(real.to_owned()))].into();
            let mut diagnostics = Vec::new();
            let resolved = resolve_host_path(
                path_use,
                "/p/x".to_owned(),
                "./x",
                "here",
                &context,
                &mut diagnostics,
            );
            assert_eq!(resolved.is_none(), !diagnostics.is_empty());
            diagnostics.pop().map(|diagnostic| diagnostic.message)
        };
        let git = Some("`./x` is part of a git directory".to_owned());
        let state = Some("`./x` is part of the state directory".to_owned());
        let private = Some("`./x` is part of a private folder of Argus".to_owned());
        let around_state = Some("`./x` contains the state directory".to_owned());
        let around = Some("`./x` contains a private folder of Argus".to_owned());
        for (real, as_mount, as_content) in [
            ("/p/.git", &None, &git),
            ("/p/lib/.git/hooks", &None, &git),
            ("/p/.argus/tokens", &state, &state),
            ("/p/run/state/specs.json", &state, &state),
            ("/p/run", &around_state, &None),
            ("/p/.gitignore", &None, &None),
            ("/home/me/.local/state/argus", &private, &private),
            ("/home/me/.local/state/argus/shop/token", &private, &private),
            ("/home/me/.local/state", &around, &None),
            ("/home/me", &around, &None),
            ("/", &around, &None),
            ("/p", &around_state, &None),
            ("/home/me/.local/state/argus-2", &None, &None),
            ("/home/me/.local/share", &None, &None),
        ] {
            assert_eq!(refusal(PathUse::Mount, real), *as_mount, "{real}");
            assert_eq!(refusal(PathUse::Content, real), *as_content, "{real}");
        }
    }

    #[test]
    fn every_path_of_a_file_is_named() {
        let text = "project: {name: a}\nservices:\n  b:\n    build: {context: ./src}\n    container: {name: b, volumes: [\"./data:/d\", \"vol:/v\", \"../up:/u:ro\"]}\n  \
                    c:\n    build: {context: ., dockerfile: docker/File, secrets: {a: {file: ./key}, b: {environment: B}}, \
                    additionalContexts: {libs: ../libs, base: \"docker-image://x\"}}\n    container: {name: c}\n\
                    mocks:\n  m: {port: 80, openapi: api.yaml, mode: replay}\n  n: {port: 81, image: x, volumes: [\"/abs/x:/y\"], openapi: no.yaml}\n";
        let spec = argus_crds::yaml::read("e2e.yaml", text.as_bytes()).spec.unwrap();
        let all: Vec<String> = host_paths_in(&spec, "/p/e", "/p").into_iter().collect();
        let recordings = format!("/p/e/{}", spec.mocks["m"].recordings_dir.trim_start_matches("./"));
        let mut expected = vec![
            "/abs/x",
            "/p/docker/File",
            "/p/e",
            "/p/e/api.yaml",
            "/p/e/data",
            "/p/e/docker/File",
            "/p/e/key",
            "/p/libs",
            "/p/e/src",
            "/p/e/src/Dockerfile",
            "/p/up",
            recordings.as_str(),
        ];
        expected.sort_unstable();
        assert_eq!(all, expected);
        let writable: Vec<String> = writable_paths_in(&spec, "/p/e").into_iter().collect();
        assert_eq!(writable, ["/abs/x", "/p/e/data"]);
    }
}
