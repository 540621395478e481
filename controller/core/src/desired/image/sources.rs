//! Inputs of a build besides its context: secrets, further contexts, the SSH agent, and the target of its cache.

use std::collections::BTreeMap;

use argus_crds::{Build as BuildSpec, BuildSecret, Diagnostic};

use super::{REFERENCE, ValueKind, content, fill_checked};
use crate::desired::admit::SpecContext;
use crate::desired::container::is_variable_name;
use crate::desired::excluded::Excluded;
use crate::desired::identity::shown;
use crate::desired::template::TemplateResolver;
use crate::desired::{CacheTarget, NamedContext, SecretSource};

/// Beginning of a further context that is an image.
const IMAGE: &str = "docker-image://";
/// The only agent of a build, which is that of the controller.
const AGENT: &str = "default";
const ALLOW: &str = "POLICY_VIOLATION: run `argus allow` and restart the controller, or";

const NAME: ValueKind = ValueKind {
    name: "name of a context",
    is_valid: REFERENCE.is_valid,
    hint: "write the name of a stage or of an image in lower case, such as `libs`",
};

/// Resolves the secrets by id. Their values are read at the start of the build.
pub(super) fn secrets(
    build: &BuildSpec,
    path: &str,
    context: &SpecContext,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<BTreeMap<String, SecretSource>> {
    let resolved = build.secrets.iter().map(|(id, secret)| {
        let path = format!("{path}.secrets.{id}");
        let source = secret_source(secret, &path, context, diagnostics);
        if !is_id(id) {
            let message = format!("`{}` is not a valid id of a secret", shown(id));
            let hint = "use letters, digits, `.`, `_` and `-`, such as `npm-token`";
            diagnostics.push(Diagnostic::error(path, message).hint(hint));
            return None;
        }
        Some((id.clone(), source?))
    });
    // All mistakes are reported before the first one rejects the build.
    let resolved: Vec<_> = resolved.collect();
    resolved.into_iter().collect()
}

fn secret_source(
    secret: &BuildSecret,
    path: &str,
    context: &SpecContext,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<SecretSource> {
    match (&secret.file, &secret.environment) {
        (Some(file), None) => {
            let path = format!("{path}.file");
            content::resolve(&content::SECRET, file, &path, context, diagnostics).map(SecretSource::File)
        }
        (None, Some(name)) => {
            let path = format!("{path}.environment");
            if !is_variable_name(name, &path, diagnostics) {
                return None;
            }
            if !context.host.allowed {
                let message = format!(
                    "the secret is the variable `{}` of the controller, which only an allowed project can read",
                    shown(name)
                );
                let hint = format!("{ALLOW} use `file`");
                diagnostics.push(Diagnostic::error(path, message).hint(hint));
                return None;
            }
            Some(SecretSource::Environment(name.clone()))
        }
        (None, None) | (Some(_), Some(_)) => {
            let message = "a secret has either `file` or `environment`";
            let hint = "keep one of both, such as `file: ./npm-token`";
            diagnostics.push(Diagnostic::error(path, message).hint(hint));
            None
        }
    }
}

/// Returns true for an id that a Dockerfile can name.
fn is_id(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    (1..=128).contains(&text.len()) && text.chars().all(is_part)
}

/// Resolves the further contexts by name.
pub(super) fn contexts(
    build: &BuildSpec,
    path: &str,
    context: &SpecContext,
    resolver: &TemplateResolver<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<BTreeMap<String, NamedContext>> {
    let contexts = build.additional_contexts.iter().map(|(name, text)| {
        let path = format!("{path}.additionalContexts.{name}");
        let is_name = (NAME.is_valid)(name);
        if !is_name {
            let message = format!("`{}` is not a valid {}", shown(name), NAME.name);
            diagnostics.push(Diagnostic::error(&path, message).hint(NAME.hint));
        }
        let found = match text.strip_prefix(IMAGE) {
            Some(image) => {
                fill_checked(image, &path, &REFERENCE, resolver, diagnostics).map(NamedContext::Image)
            }
            None if text.contains("://") => {
                let message = format!("the context `{}` is neither a folder nor an image", shown(text));
                let hint = "write a path of the project, or `docker-image://NAME`";
                diagnostics.push(Diagnostic::error(path, message).hint(hint));
                None
            }
            None => {
                let folder = content::resolve(&content::CONTEXT, text, &path, context, diagnostics);
                folder.map(|path| NamedContext::Folder {
                    path,
                    // Set after the mounts of all services are resolved.
                    excluded: Excluded::default(),
                })
            }
        };
        Some((name.clone(), found.filter(|_| is_name)?))
    });
    let contexts: Vec<_> = contexts.collect();
    contexts.into_iter().collect()
}

/// Resolves the SSH agent. Returns whether the build can use it.
pub(super) fn agent(
    build: &BuildSpec,
    path: &str,
    context: &SpecContext,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<bool> {
    let path = format!("{path}.ssh");
    if build.ssh.is_empty() {
        return Some(false);
    }
    if let Some(other) = build.ssh.iter().find(|id| *id != AGENT) {
        let message = format!("`{}` is not an SSH agent that Argus can forward", shown(other));
        let hint =
            "write `ssh: [default]` for the agent of the controller, because Argus reads no private keys";
        diagnostics.push(Diagnostic::error(path, message).hint(hint));
        return None;
    }
    if !context.host.allowed {
        let message = "only an allowed project can use the SSH agent of the controller";
        diagnostics.push(Diagnostic::error(path, message).hint(format!("{ALLOW} omit `ssh`")));
        return None;
    }
    Some(true)
}

/// Resolves the images that receive the build cache. The engine pushes it with the credentials of the controller.
pub(super) fn cache_targets(
    build: &BuildSpec,
    path: &str,
    context: &SpecContext,
    resolver: &TemplateResolver<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Vec<CacheTarget>> {
    let is_refused = !build.cache_to.is_empty() && !context.host.allowed;
    if is_refused {
        let message = "only an allowed project can push a build cache with the credentials of the controller";
        let hint = format!("{ALLOW} omit `cacheTo`");
        diagnostics.push(Diagnostic::error(format!("{path}.cacheTo"), message).hint(hint));
    }
    let targets = build.cache_to.iter().enumerate().map(|(index, text)| {
        let path = format!("{path}.cacheTo[{index}]");
        let Some((reference, all_stages)) = cache_target(text) else {
            let message = format!("`{}` is not a target of a build cache", shown(text));
            let hint = "write `NAME` or `type=registry,ref=NAME,mode=max`; images of Argus contain no cache, and the engine writes no folder";
            diagnostics.push(Diagnostic::error(path, message).hint(hint));
            return None;
        };
        let reference = fill_checked(reference, &path, &REFERENCE, resolver, diagnostics)?;
        Some(CacheTarget {
            reference,
            all_stages,
        })
    });
    // All mistakes are reported before the first one rejects the build.
    let targets: Vec<_> = targets.collect();
    targets
        .into_iter()
        .collect::<Option<Vec<_>>>()
        .filter(|_| !is_refused)
}

/// Reference of a cache in a registry, and whether it contains the layers of all stages.
fn cache_target(text: &str) -> Option<(&str, bool)> {
    if !text.contains('=') {
        return Some((text, false));
    }
    let (mut reference, mut is_registry, mut all_stages) = (None, false, false);
    for part in text.split(',') {
        match part.trim().split_once('=')? {
            ("type", "registry") => is_registry = true,
            ("ref", name) => reference = Some(name),
            ("mode", mode @ ("min" | "max")) => all_stages = mode == "max",
            _ => return None,
        }
    }
    reference.filter(|_| is_registry).map(|name| (name, all_stages))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_registry_receives_the_cache() {
        for (text, expected) in [
            ("host:5000/cache", Some(("host:5000/cache", false))),
            ("type=registry,ref=a:b", Some(("a:b", false))),
            ("type=registry,ref=a,mode=max", Some(("a", true))),
            ("type=inline", None),
            ("type=local,dest=./cache", None),
            ("type=registry", None),
            ("type=registry,ref=a,mode=most", None),
        ] {
            assert_eq!(cache_target(text), expected, "{text}");
        }
    }
}
