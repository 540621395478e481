//! Image of a service: a reference to pull, or a build.

use argus_crds::{Build as BuildSpec, Diagnostic};

use crate::desired::admit::SpecContext;
use crate::desired::container::is_variable_name;
use crate::desired::excluded::Excluded;
use crate::desired::hash::hash_of;
use crate::desired::host::{self, HostPaths};
use crate::desired::identity::{EnvIdentity, shown};
use crate::desired::mounts::is_allowed;
use crate::desired::template::{PortReferences, TemplateResolver};
use crate::desired::{Build, Image, SENT_DOCKERFILE, is_default, paths};
use crate::ident::{Hash, ServiceName};

mod content;
mod options;
mod reference;
mod sources;

pub use reference::{is_reserved_tag, short_reference};

/// Image settings of a service.
#[derive(Debug, Clone, Copy)]
pub(super) struct ImageRequest<'a> {
    /// Path of the service in the file.
    pub(super) path: &'a str,
    /// Name of the service.
    pub(super) service: &'a ServiceName,
    /// Value of `image`.
    pub(super) image: Option<&'a str>,
    /// Value of `build`.
    pub(super) build: Option<&'a BuildSpec>,
}

/// Returns the key of an image: the reference, with the digest of its build if there is one.
pub(crate) fn image_key_of(reference: &str, build: &str) -> String {
    if build.is_empty() {
        reference.to_owned()
    } else {
        format!("{reference}@build:{build}")
    }
}

/// Returns the image to run: a build if there is a `build` section (`image` is then its tag), else a reference.
pub(super) fn resolve_image(
    request: ImageRequest<'_>,
    identity: &EnvIdentity,
    context: &SpecContext,
    resolver: &TemplateResolver<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Image> {
    let ImageRequest {
        path,
        service,
        image,
        build,
    } = request;
    match (build, image) {
        (None, None) => {
            let message = format!("service `{service}` has neither `image` nor `build`");
            let hint = "add `image: name:tag` or `build: {context: .}`";
            diagnostics.push(Diagnostic::error(path, message).hint(hint));
            None
        }
        (None, Some(image)) => {
            resolve_reference(image, &format!("{path}.image"), resolver, diagnostics).map(Image::Named)
        }
        (Some(build), image) => {
            if let (Some(tag), Some(image)) = (&build.image, image)
                && tag != image
            {
                let message = format!(
                    "`image` is ignored, because `build.image` sets the tag `{}`",
                    shown(tag)
                );
                diagnostics
                    .push(Diagnostic::warning(format!("{path}.image"), message).hint("keep one of them"));
            }
            let tag = match (&build.image, image) {
                (Some(tag), _) => resolve_tag(tag, &format!("{path}.build.image"), resolver, diagnostics),
                (None, Some(tag)) => resolve_tag(tag, &format!("{path}.image"), resolver, diagnostics),
                (None, None) => Some(default_tag(identity, service)),
            };
            resolve_build(
                build,
                tag,
                &format!("{path}.build"),
                context,
                resolver,
                diagnostics,
            )
            .map(Image::Built)
        }
    }
}

fn resolve_build(
    build: &BuildSpec,
    tag: Option<String>,
    path: &str,
    spec_context: &SpecContext,
    resolver: &TemplateResolver<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Build> {
    let context = content::resolve(
        &content::CONTEXT,
        &build.context,
        &format!("{path}.context"),
        spec_context,
        diagnostics,
    );
    let mut args = std::collections::BTreeMap::new();
    for (name, value) in &build.args {
        let path = format!("{path}.args.{name}");
        if is_variable_name(name, &path, diagnostics) {
            let value = resolver.fill(value, &path, PortReferences::Final, diagnostics);
            args.insert(name.clone(), value);
        }
    }
    let target = match &build.target {
        None => None,
        Some(target) => {
            let path = format!("{path}.target");
            Some(fill_checked(target, &path, &STAGE, resolver, diagnostics)?)
        }
    };
    let options = options::resolve(build, path, spec_context, resolver, diagnostics);
    let context = context?;
    let dockerfile = resolve_dockerfile(
        build,
        &context,
        &format!("{path}.dockerfile"),
        spec_context,
        diagnostics,
    )?;
    let build_hash = hash_of(build);
    let mut build = Build {
        tag: tag?,
        context,
        dockerfile,
        target,
        args,
        options: Box::new(options?),
        digest: build_hash.clone(),
        // Set after the mounts of all services are resolved.
        excluded: Excluded::default(),
        allowed: spec_context.host.allowed,
    };
    build.digest = build_digest(&build_hash, &build);
    Some(build)
}

/// Digest of a build. Other arguments, another Dockerfile, another target or other options produce another image from the same
/// contents.
pub(super) fn build_digest(contents: &Hash, build: &Build) -> Hash {
    let options = build.options.of_contents();
    let (dockerfile, args) = (&build.dockerfile, &build.args);
    match (&build.target, is_default(&options)) {
        (None, true) => hash_of(&(contents, dockerfile, args)),
        (Some(target), true) => hash_of(&(contents, dockerfile, args, target)),
        (target, false) => hash_of(&(contents, dockerfile, args, target, &options)),
    }
}

/// Returns true for a stage of a Dockerfile: a name, or a number from 0.
fn is_stage(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(is_part)
}

/// Returns the path of the Dockerfile: relative to the context if it is inside, else absolute.
fn resolve_dockerfile(
    build: &BuildSpec,
    context: &str,
    path: &str,
    spec_context: &SpecContext,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<String> {
    if build.dockerfile_inline.is_some() {
        return Some(SENT_DOCKERFILE.to_owned());
    }
    let text = build.dockerfile.as_deref();
    if text.is_some_and(|text| !paths::is_sane(text)) {
        let hint = "omit it for `Dockerfile` in the context";
        diagnostics.push(Diagnostic::error(path, "`dockerfile` is not a valid path").hint(hint));
        return None;
    }
    let shown_as = text.unwrap_or("Dockerfile");
    let host = &spec_context.host;
    let tried = host::dockerfile_candidates(build, &spec_context.directory, &host.project);
    let may_exist = |path: &&String| !host.missing.contains_key(*path);
    let is_refused = |path: &String| host.resolved.get(path).is_some_and(Result::is_err);
    let usable = tried.iter().find(|path| may_exist(path) && !is_refused(path));
    let Some(found) = usable.or_else(|| tried.iter().find(may_exist)) else {
        let bases = [spec_context.directory.as_str(), context, host.project.as_str()];
        diagnostics.push(missing_dockerfile(text, &tried, bases, host, path));
        return None;
    };
    let absolute = host::resolve_host_path(
        host::PathUse::Content,
        found.clone(),
        shown_as,
        path,
        spec_context,
        diagnostics,
    )?;
    match paths::relative_to(&absolute, context) {
        Some("") => {
            let message = format!("`{}` is the build context itself", shown(shown_as));
            let hint = "write the path of the file, such as `./Dockerfile`";
            diagnostics.push(Diagnostic::error(path, message).hint(hint));
            None
        }
        Some(inside) => Some(inside.to_owned()),
        None if is_allowed(&absolute, spec_context) => Some(absolute),
        None => {
            let message = format!(
                "`{}` is outside the build context and the project",
                shown(shown_as)
            );
            let hint = "POLICY_VIOLATION: move it into one of them";
            diagnostics.push(Diagnostic::error(path, message).hint(hint));
            None
        }
    }
}

fn missing_dockerfile(
    text: Option<&str>,
    tried: &[String],
    bases: [&str; 3],
    host: &HostPaths,
    path: &str,
) -> Diagnostic {
    const HINT: &str = "create it, or write its path relative to the folder of this file";
    let shown_as = text.unwrap_or("Dockerfile");
    let name = text.map_or_else(String::new, |text| format!(" `{}`", shown(text)));
    let shown_paths: Vec<_> = tried.iter().map(|path| format!("`{path}`")).collect();
    let message = format!(
        "the Dockerfile{name} does not exist; Argus tried {}",
        shown_paths.join(", ")
    );
    let has_similar = |base: &&str| {
        let candidate = paths::to_absolute(base, shown_as);
        tried.contains(&candidate) && host.missing.get(&candidate).is_some_and(Option::is_some)
    };
    let base = bases.into_iter().find(has_similar).unwrap_or_default();
    let mut diagnostic = host.with_similar(Diagnostic::error(path, message), base, shown_as, HINT);
    if let (None, Some(correction)) = (text, &mut diagnostic.correction) {
        // The file does not contain the default name.
        correction.now = None;
    }
    diagnostic
}

/// Repository name of the images of this program.
pub const OWN_IMAGE: &str = "argus/mock";

/// Returns the reference of the image of this program, with a tag per program version.
pub fn own_image_tag(digest: &Hash) -> String {
    let short: String = digest.as_str().chars().take(12).collect();
    format!("{OWN_IMAGE}:{short}")
}

/// Returns the reference of a built image without a tag in the file; every service name yields a valid one.
pub(super) fn default_tag(identity: &EnvIdentity, service: &ServiceName) -> String {
    let slug =
        crate::ident::EnvName::slug(service.as_str()).map_or_else(|_| "service".to_owned(), String::from);
    format!("argus/{}-{slug}:latest", identity.env)
}

/// Resolves the tag of a build. Argus reserves the repositories of its own images.
fn resolve_tag(
    text: &str,
    path: &str,
    resolver: &TemplateResolver<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<String> {
    let tag = resolve_reference(text, path, resolver, diagnostics)?;
    if !is_reserved_tag(&tag) {
        return Some(tag);
    }
    let message = format!("the tag `{}` is reserved for images of Argus", shown(&tag));
    let hint = "use another repository name, or omit the tag for the default one";
    diagnostics.push(Diagnostic::error(path, message).hint(hint));
    None
}

/// Resolves the templates of an image reference and checks the result.
pub(super) fn resolve_reference(
    text: &str,
    path: &str,
    resolver: &TemplateResolver<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<String> {
    fill_checked(text.trim(), path, &REFERENCE, resolver, diagnostics)
}

/// Kind of a value that is checked after its templates are resolved.
struct ValueKind {
    name: &'static str,
    is_valid: fn(&str) -> bool,
    hint: &'static str,
}

/// Image reference.
const REFERENCE: ValueKind = ValueKind {
    name: "image reference",
    is_valid: reference::is_reference,
    hint: "write `name:tag` in lower case, such as `postgres:16`",
};
/// Stage of a Dockerfile.
const STAGE: ValueKind = ValueKind {
    name: "name of a stage",
    is_valid: is_stage,
    hint: "write the name of a stage, such as `prod` in `FROM base AS prod`, or omit it for the last stage",
};

/// Resolves the templates of a value and checks the result.
fn fill_checked(
    text: &str,
    path: &str,
    kind: &ValueKind,
    resolver: &TemplateResolver<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<String> {
    let before = diagnostics.len();
    let value = resolver.fill(text, path, PortReferences::Final, diagnostics);
    if (kind.is_valid)(&value) {
        return Some(value);
    }
    // An unresolved template is the cause, and now rejects the file.
    let reason = diagnostics
        .drain(before..)
        .next()
        .and_then(|diagnostic| diagnostic.hint);
    let message = format!("`{}` is not a valid {}", shown(&value), kind.name);
    let hint = reason.unwrap_or_else(|| kind.hint.to_owned());
    diagnostics.push(Diagnostic::error(path, message).hint(hint));
    None
}
