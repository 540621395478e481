//! Settings of a build that have a default.

use argus_crds::{Build as BuildSpec, Diagnostic};

use super::{REFERENCE, ValueKind, fill_checked, sources};
use crate::desired::BuildOptions;
use crate::desired::admit::SpecContext;
use crate::desired::container_labels::resolve_labels;
use crate::desired::template::{PortReferences, TemplateResolver};

/// Maximum size of a Dockerfile in a spec file, in bytes.
const MAX_INLINE: usize = 64 * 1024;

const PLATFORM: ValueKind = ValueKind {
    name: "platform",
    is_valid: is_platform,
    hint: "write the operating system and the architecture, such as `linux/arm64`, or omit it for the platform of the engine",
};
const NETWORK: ValueKind = ValueKind {
    name: "network of a build",
    is_valid: |text| matches!(text, "default" | "none"),
    hint: "write `default` or `none`; Argus gives no build the network of the host or of an environment",
};

pub(super) fn resolve(
    build: &BuildSpec,
    path: &str,
    context: &SpecContext,
    resolver: &TemplateResolver<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<BuildOptions> {
    let mut fill = |text: &str, key: &str, kind: &ValueKind| {
        fill_checked(text, &format!("{path}.{key}"), kind, resolver, diagnostics)
    };
    let mut fill_optional = |text: &Option<String>, key: &str, kind: &ValueKind| match text {
        None => Some(None),
        Some(text) => fill(text, key, kind).map(Some),
    };
    let platform = fill_optional(&build.platform, "platform", &PLATFORM);
    let network = fill_optional(&build.network, "network", &NETWORK);
    let cache_from: Vec<_> = build
        .cache_from
        .iter()
        .enumerate()
        .map(|(index, text)| fill(text, &format!("cacheFrom[{index}]"), &REFERENCE))
        .collect();
    if let Some((place, what, hint)) = inline_mistake(build) {
        diagnostics.push(Diagnostic::error(format!("{path}.{place}"), what).hint(hint));
        return None;
    }
    let (labels_path, references) = (format!("{path}.labels"), PortReferences::Final);
    let labels = resolve_labels(&build.labels, &labels_path, resolver, references, diagnostics);
    let secrets = sources::secrets(build, path, context, diagnostics);
    let contexts = sources::contexts(build, path, context, resolver, diagnostics);
    let ssh = sources::agent(build, path, context, diagnostics);
    let cache_to = sources::cache_targets(build, path, context, resolver, diagnostics);
    // All mistakes are reported before the first one rejects the build.
    Some(BuildOptions {
        platform: platform?,
        network: network?,
        labels,
        cache_from: cache_from.into_iter().collect::<Option<_>>()?,
        inline: build.dockerfile_inline.clone(),
        secrets: secrets?,
        contexts: contexts?,
        ssh: ssh?,
        cache_to: cache_to?,
    })
}

/// Key, description and fix of a mistake in the text of a Dockerfile.
fn inline_mistake(build: &BuildSpec) -> Option<(&'static str, String, &'static str)> {
    let text = build.dockerfile_inline.as_ref()?;
    if build.dockerfile.is_some() {
        let what = "`dockerfile` is used with `dockerfileInline`, which contains the Dockerfile";
        return Some(("dockerfile", what.to_owned(), "keep one of them"));
    }
    if text.trim().is_empty() {
        let what = "`dockerfileInline` is empty".to_owned();
        return Some((
            "dockerfileInline",
            what,
            "write its instructions, such as `FROM busybox`",
        ));
    }
    if text.len() > MAX_INLINE {
        let what = format!("`dockerfileInline` has more than {MAX_INLINE} bytes");
        return Some(("dockerfileInline", what, "write a Dockerfile"));
    }
    None
}

/// Returns true for an operating system, an architecture and an optional variant.
fn is_platform(text: &str) -> bool {
    let is_part = |part: &str| {
        let is_valid = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        !part.is_empty() && part.chars().all(is_valid)
    };
    (2..=3).contains(&text.split('/').count()) && text.split('/').all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn platform_is_system_architecture_and_variant() {
        for valid in ["linux/amd64", "linux/arm/v7", "linux/x86_64"] {
            assert!(is_platform(valid), "{valid}");
        }
        for invalid in [
            "",
            "linux",
            "linux/",
            "/amd64",
            "Linux/amd64",
            "a/b/c/d",
            "linux/arm64,linux/amd64",
        ] {
            assert!(!is_platform(invalid), "{invalid}");
        }
    }
}
