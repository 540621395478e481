//! Where the image of a service comes from.

use argus_crds::{Build as Written, Diagnostic};

use crate::desired::admit::SpecContext;
use crate::desired::excluded::Excluded;
use crate::desired::hash::hash_of;
use crate::desired::host;
use crate::desired::identity::{Identity, shown};
use crate::desired::mounts::is_allowed;
use crate::desired::template::{Deferral, Filler};
use crate::desired::{Build, Image, paths};
use crate::ident::ServiceName;

/// The longest reference that a registry takes, with host, tag and digest.
const LONGEST_REFERENCE: usize = 512;

/// What a service says about its image.
#[derive(Debug, Clone, Copy)]
pub(super) struct ImageRequest<'a> {
    /// Path of the service in the file.
    pub(super) path: &'a str,
    /// Its name.
    pub(super) service: &'a ServiceName,
    /// `image`.
    pub(super) image: Option<&'a str>,
    /// `build`.
    pub(super) build: Option<&'a Written>,
}

/// The image to run: built where there is a `build` (then `image` is only its tag), else pulled.
pub(super) fn of(
    wanted: ImageRequest<'_>,
    identity: &Identity,
    context: &SpecContext,
    filler: &Filler<'_>,
    to: &mut Vec<Diagnostic>,
) -> Option<Image> {
    let ImageRequest {
        path,
        service,
        image,
        build,
    } = wanted;
    match (build, image) {
        (None, None) => {
            let message =
                format!("service `{service}` says neither how its image is built nor where it comes from");
            to.push(Diagnostic::error(path, message).hint("add `image: name:tag`, or `build: {context: .}`"));
            None
        }
        (None, Some(image)) => reference(image, &format!("{path}.image"), filler, to).map(Image::Named),
        (Some(build), image) => {
            if let (Some(tag), Some(image)) = (&build.image, image)
                && tag != image
            {
                let message = format!("`image` is ignored: `build.image` names the tag `{}`", shown(tag));
                to.push(Diagnostic::warning(format!("{path}.image"), message).hint("keep one of them"));
            }
            let tag = match (&build.image, image) {
                (Some(tag), _) => reference(tag, &format!("{path}.build.image"), filler, to),
                (None, Some(tag)) => reference(tag, &format!("{path}.image"), filler, to),
                (None, None) => Some(own_tag(identity, service)),
            };
            self::build(build, tag, &format!("{path}.build"), service, context, filler, to).map(Image::Built)
        }
    }
}

fn build(
    written: &Written,
    tag: Option<String>,
    path: &str,
    service: &ServiceName,
    site: &SpecContext,
    filler: &Filler<'_>,
    to: &mut Vec<Diagnostic>,
) -> Option<Build> {
    let context = context(&written.context, &format!("{path}.context"), site, to);
    let mut args = std::collections::BTreeMap::new();
    for (name, value) in &written.args {
        args.insert(
            name.clone(),
            filler.fill(value, &format!("{path}.args.{name}"), Deferral::Final, to),
        );
    }
    let context = context?;
    let dockerfile = dockerfile(
        written.dockerfile.as_deref(),
        &written.context,
        &context,
        &format!("{path}.dockerfile"),
        site,
        to,
    )?;
    // Arguments and the choice of the Dockerfile make another image out of the same contents.
    let contents = site.build_digests.get(service.as_str()).cloned();
    let digest = hash_of(&(contents.unwrap_or_else(|| hash_of(written)), &dockerfile, &args));
    Some(Build {
        tag: tag?,
        context,
        dockerfile,
        args,
        digest,
        // Known once all services are.
        excluded: Excluded::default(),
    })
}

/// The folder that is sent to the engine, inside the project as every path of the host is.
fn context(written: &str, path: &str, site: &SpecContext, to: &mut Vec<Diagnostic>) -> Option<String> {
    if !paths::is_sane(written) {
        to.push(
            Diagnostic::error(path, "the build context is no path")
                .hint("write `.` for the folder of this file"),
        );
        return None;
    }
    let context = paths::absolute(&site.directory, written);
    if context == "/" || !is_allowed(&context, site) {
        let message = format!("the build context `{}` lies outside the project", shown(written));
        let hint = match context.as_str() {
            "/" => "POLICY_VIOLATION: name a folder of the project".to_owned(),
            _ => format!(
                "POLICY_VIOLATION: name a folder of the project, or start the controller with `--allow-mount {context}`"
            ),
        };
        to.push(Diagnostic::error(path, message).hint(hint));
        return None;
    }
    host::lead(context, written, path, site, to)
}

/// Relative to the context where it lies in it, else absolute. `named` is the context as the file names it.
fn dockerfile(
    written: Option<&str>,
    named: &str,
    context: &str,
    path: &str,
    site: &SpecContext,
    to: &mut Vec<Diagnostic>,
) -> Option<String> {
    if written.is_some_and(|written| !paths::is_sane(written)) {
        to.push(
            Diagnostic::error(path, "`dockerfile` is no path")
                .hint("leave it out for `Dockerfile` in the context"),
        );
        return None;
    }
    let shown_as = written.unwrap_or("Dockerfile");
    let absolute = match written {
        Some(written) => paths::absolute(&site.directory, written),
        None => paths::absolute(&paths::absolute(&site.directory, named), "Dockerfile"),
    };
    let absolute = host::lead(absolute, shown_as, path, site, to)?;
    match paths::below(&absolute, context) {
        Some("") => {
            let message = format!("`{}` is the build context itself", shown(shown_as));
            to.push(Diagnostic::error(path, message).hint("name the file, as in `./Dockerfile`"));
            None
        }
        Some(inside) => Some(inside.to_owned()),
        None if is_allowed(&absolute, site) => Some(absolute),
        None => {
            let message = format!(
                "`{}` lies outside the build context and the project",
                shown(shown_as)
            );
            let hint = "POLICY_VIOLATION: move it into one of them";
            to.push(Diagnostic::error(path, message).hint(hint));
            None
        }
    }
}

/// The tag of an image that the file does not name: safe in a reference, whatever the service is called.
fn own_tag(identity: &Identity, service: &ServiceName) -> String {
    let slug =
        crate::ident::EnvName::slug(service.as_str()).map_or_else(|_| "service".to_owned(), String::from);
    format!("argus/{}-{slug}:latest", identity.env)
}

/// An image reference with its templates filled in, checked.
pub(super) fn reference(
    written: &str,
    path: &str,
    filler: &Filler<'_>,
    to: &mut Vec<Diagnostic>,
) -> Option<String> {
    let before = to.len();
    let reference = filler.fill(written.trim(), path, Deferral::Final, to);
    if is_reference(&reference) {
        return Some(reference);
    }
    // A slot that stayed open is the reason itself, and now refuses the file.
    let reason = to.drain(before..).next().and_then(|diagnostic| diagnostic.hint);
    let message = format!("`{}` is no image reference", shown(&reference));
    let hint = reason.unwrap_or_else(|| "write `name:tag` in lower case, as in `postgres:16`".to_owned());
    to.push(Diagnostic::error(path, message).hint(hint));
    None
}

/// Whether an engine reads the text as `[host[:port]/]name[/name…][:tag][@digest]`.
fn is_reference(text: &str) -> bool {
    if text.is_empty() || text.len() > LONGEST_REFERENCE {
        return false;
    }
    let (text, digest) = text
        .split_once('@')
        .map_or((text, None), |(name, digest)| (name, Some(digest)));
    let (name, tag) = match text.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
        _ => (text, None),
    };
    let names = match name.split_once('/') {
        Some((host, names)) if host.contains(['.', ':']) || host == "localhost" => {
            if !is_host(host) {
                return false;
            }
            names
        }
        _ => name,
    };
    names.split('/').all(is_name) && tag.is_none_or(is_tag) && digest.is_none_or(is_digest)
}

fn is_host(text: &str) -> bool {
    let (name, port) = text
        .split_once(':')
        .map_or((text, None), |(name, port)| (name, Some(port)));
    let is_label = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !part.starts_with('-')
            && !part.ends_with('-')
    };
    name.split('.').all(is_label) && port.is_none_or(|port| port.parse::<u16>().is_ok())
}

fn is_name(text: &str) -> bool {
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    edge(text.chars().next())
        && edge(text.chars().last())
        && text
            .chars()
            .all(|c| edge(Some(c)) || matches!(c, '.' | '_' | '-'))
        && !text.contains("..")
}

fn is_tag(text: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.len() <= 128 && text.starts_with(word) && text.chars().all(|c| word(c) || matches!(c, '.' | '-'))
}

fn is_digest(text: &str) -> bool {
    text.split_once(':').is_some_and(|(kind, hex)| {
        !kind.is_empty()
            && kind
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'.' | b'_' | b'-'))
            && hex.len() >= 32
            && hex.bytes().all(|b| b.is_ascii_hexdigit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_engine_reads_as_a_reference_is_one() {
        let sha = format!("@sha256:{}", "a".repeat(64));
        let good = [
            "redis",
            "postgres:16-alpine",
            "library/redis",
            "localhost/x",
            "localhost:5000/a/b:v1.2_x",
            "ghcr.io/org/img:latest",
            "a__b--c/d",
            "10.0.0.1:80/x",
        ];
        for text in good {
            assert!(
                is_reference(text) && is_reference(&format!("{text}{sha}")),
                "{text}"
            );
        }
        let bad = [
            "",
            "Redis",
            "../x",
            "a/../b",
            "a b",
            "redis:",
            "redis:a b",
            ":tag",
            "redis@",
            "redis@sha256:xyz",
            "/redis",
            "redis/",
            "a//b",
            "-x",
            "x:-tag",
            "ghcr.io:port/x",
            "{{env.IMAGE}}",
            "a?b",
            "a\nb",
        ];
        for text in bad {
            assert!(!is_reference(text), "{text:?}");
        }
    }
}
