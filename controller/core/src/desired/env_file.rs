//! File in the project that contains the addresses of an environment.

use argus_crds::{Diagnostic, E2eSpec};

use crate::desired::admit::SpecContext;
use crate::desired::excluded::is_spec_name;
use crate::desired::host::{PathUse, resolve_host_path};
use crate::desired::identity::shown;
use crate::desired::paths;
use crate::ident::EnvName;

/// Path of the key in a spec file.
const KEY: &str = "argus.envFile";
/// Beginning of the first line of each file that Argus wrote.
const MARKER: &str = "# written by Argus for the environment ";
/// Name of the file with variables of the user.
const DOTENV: &str = ".env";

/// Returns true for a name that only files with variables have. Programs read files of many other names, such as `Makefile`, and a spec file
/// could let Argus create one.
fn is_env_name(name: &str) -> bool {
    let rest = name.strip_prefix(DOTENV);
    // Shells run a `.envrc`.
    let is_prefixed = rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric()));
    is_prefixed || name.ends_with(DOTENV)
}

/// Returns the absolute path of the file that a spec file names, before links are resolved.
pub fn env_file_in(spec: &E2eSpec, directory: &str) -> Option<String> {
    let text = spec.argus.env_file.as_deref()?;
    paths::is_sane(text).then(|| paths::to_absolute(directory, text))
}

/// Formats the content of the file: the marker, and the lines of the addresses.
pub fn format_env_file(env: &EnvName, addresses: &str) -> String {
    format!("{MARKER}`{env}`; do not edit\n{addresses}")
}

/// Returns true if Argus wrote a file with this content.
pub fn is_env_file(content: &[u8]) -> bool {
    content.starts_with(MARKER.as_bytes())
}

/// Returns true if Argus wrote a file with this content for this environment.
pub fn is_env_file_of(env: &EnvName, content: &[u8]) -> bool {
    content.starts_with(format!("{MARKER}`{env}`").as_bytes())
}

/// Returns the path of the file without links. Reports a path that Argus must not write.
pub(super) fn resolve(
    spec: &E2eSpec,
    context: &SpecContext,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<String> {
    let text = spec.argus.env_file.as_deref()?;
    let mut reject = |message: String, hint: &str| {
        diagnostics.push(Diagnostic::error(KEY, message).hint(hint));
    };
    let hint = "name a file in the project, such as `.env.argus`";
    let absolute = env_file_in(spec, &context.directory);
    let name = text.rsplit('/').next().unwrap_or_default();
    let Some(absolute) = absolute.filter(|_| !matches!(name, "" | "." | "..")) else {
        reject(format!("`{}` is not the path of a file", shown(text)), hint);
        return None;
    };
    if name == DOTENV || is_spec_name(name) {
        reject(
            format!("`{}` is a file of the user, which Argus reads", shown(text)),
            hint,
        );
        return None;
    }
    if !context.host.allowed && !is_env_name(name) {
        let message = format!("`{}` is not the name of a file with variables", shown(text));
        reject(
            message,
            "choose a name such as `.env.argus` or `shop.env`; `argus allow` permits other names",
        );
        return None;
    }
    let real = resolve_host_path(PathUse::Content, absolute, text, KEY, context, diagnostics)?;
    let project = &context.host.project;
    let project = if project.is_empty() {
        &context.directory
    } else {
        project
    };
    if !paths::is_inside(&real, project) {
        let message = format!("`{}` is outside the project `{}`", shown(text), shown(project));
        diagnostics.push(Diagnostic::error(KEY, message).hint(hint));
        return None;
    }
    if context.host.has_foreign_env_file {
        let message = format!("`{}` exists, and Argus did not write it", shown(text));
        let hint = format!("remove the file, or choose another name for `{KEY}`");
        diagnostics.push(Diagnostic::error(KEY, message).hint(hint));
        return None;
    }
    Some(real)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desired::admit::admit;
    use crate::desired::conflict::{Candidate, conflicts};
    use crate::desired::key_lines::KeyLines;
    use crate::desired::nested_mounts::MountPlaces;
    use crate::desired::{Accepted, Image};
    use crate::time::Timestamp;

    #[test]
    fn env_file_is_in_the_project_and_written_by_argus() {
        let spec = |path: &str| {
            let text = format!(
                "project: {{ name: shop }}\nargus: {{ envFile: '{path}' }}\nservice: {{ image: x, container: {{ name: a }} }}\n"
            );
            argus_crds::yaml::read("e2e.yaml", text.as_bytes()).spec.unwrap()
        };
        let mut context = SpecContext {
            directory: "/p/env".to_owned(),
            ..SpecContext::default()
        };
        context.host.project = "/p".to_owned();
        let found = |path: &str, context: &SpecContext| {
            let admission = admit(&spec(path), context);
            let desired = admission.desired.and_then(|desired| desired.env_file);
            desired.ok_or_else(|| admission.diagnostics[0].message.clone())
        };
        assert_eq!(found(".env.argus", &context), Ok("/p/env/.env.argus".to_owned()));
        assert_eq!(found("../.env.argus", &context), Ok("/p/.env.argus".to_owned()));
        for (path, why) in [
            ("", "is not the path of a file"),
            ("x/", "is not the path of a file"),
            ("..", "is not the path of a file"),
            (".env", "is a file of the user"),
            ("shop.e2e.yaml", "is a file of the user"),
            ("../../out.env", "outside the project"),
            ("/etc/out.env", "outside the project"),
            ("argus.toml", "is not the name of a file with variables"),
            ("compose.yaml", "is not the name of a file with variables"),
            (".gitmodules", "is not the name of a file with variables"),
            (".envrc", "is not the name of a file with variables"),
            ("x/Makefile", "is not the name of a file with variables"),
        ] {
            let refused = found(path, &context).unwrap_err();
            assert!(refused.contains(why), "{path}: {refused}");
        }
        let revision =
            |context: &SpecContext, path: &str| admit(&spec(path), context).desired.unwrap().revision;
        assert_eq!(
            revision(&context, "a.env"),
            revision(&context, "b.env"),
            "no container depends on it"
        );
        context.host.allowed = true;
        assert_eq!(found("addresses", &context), Ok("/p/env/addresses".to_owned()));
        context.host.has_foreign_env_file = true;
        assert!(
            found("mine", &context)
                .unwrap_err()
                .contains("Argus did not write it")
        );
    }

    #[test]
    fn env_file_is_in_no_build_context_and_in_one_environment() {
        let text = |name: &str| {
            format!(
                "project: {{ name: {name} }}\nargus: {{ envFile: .out.env }}\nservice: {{ build: {{ context: . }}, container: {{ name: {name} }} }}\n"
            )
        };
        let context = SpecContext {
            directory: "/p".to_owned(),
            ..SpecContext::default()
        };
        let desired = |name: &str| {
            let read = argus_crds::yaml::read("e2e.yaml", text(name).as_bytes());
            admit(&read.spec.unwrap(), &context).desired.unwrap()
        };
        let (one, other) = (desired("one"), desired("other"));
        let Image::Built(build) = &one.services.values().next().unwrap().image else {
            panic!("{one:#?}")
        };
        assert!(build.excluded.writable.contains(".out.env"), "{build:?}");
        assert_eq!(one.forked(&EnvName::new("copy").unwrap()).env_file, None);
        let accepted = Accepted {
            desired: one,
            spec_path: "one.e2e.yaml".to_owned(),
            lines: KeyLines::default(),
            accepted_at: Timestamp::default(),
            has_pending_edit: false,
            allowed: false,
            is_ending: false,
            file_hash: None,
            mounted_files: std::collections::BTreeMap::new(),
        };
        let mounts = MountPlaces::default();
        let candidate = Candidate::new(&other, "other.e2e.yaml", &mounts, false);
        let found = conflicts(&accepted, &candidate);
        let paths: Vec<_> = found.iter().map(|conflict| conflict.path.as_str()).collect();
        assert_eq!(paths, ["argus.envFile"]);
    }

    #[test]
    fn marker_names_the_environment() {
        let (shop, other) = (EnvName::new("shop").unwrap(), EnvName::new("shop-2").unwrap());
        let text = format_env_file(&shop, "A=1\n");
        assert_eq!(
            text,
            "# written by Argus for the environment `shop`; do not edit\nA=1\n"
        );
        assert!(is_env_file(text.as_bytes()) && is_env_file_of(&shop, text.as_bytes()));
        assert!(!is_env_file_of(&other, text.as_bytes()) && !is_env_file(b"A=1\n"));
    }
}
