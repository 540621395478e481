//! Paths of the host whose content a build reads: its contexts, and the files of its secrets.

use argus_crds::Diagnostic;

use crate::desired::admit::SpecContext;
use crate::desired::host;
use crate::desired::identity::shown;
use crate::desired::mounts::is_allowed;
use crate::desired::paths;
use crate::quoting::shell_path;

/// Kind of a path, for messages.
pub(super) struct Content {
    name: &'static str,
    object: &'static str,
    /// Fix of a text that is not a path.
    example: &'static str,
}

/// Build context.
pub(super) const CONTEXT: Content = Content {
    name: "the build context",
    object: "folder",
    example: "write `.` for the folder of this file",
};
/// File of a secret.
pub(super) const SECRET: Content = Content {
    name: "the file of the secret",
    object: "file",
    example: "write its path relative to the folder of this file",
};

/// Returns the absolute path, which is inside the project like every path of the host.
pub(super) fn resolve(
    content: &Content,
    text: &str,
    path: &str,
    spec_context: &SpecContext,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<String> {
    let Content {
        name,
        object,
        example,
    } = content;
    if !paths::is_sane(text) {
        let message = format!("{name} is not a valid path");
        diagnostics.push(Diagnostic::error(path, message).hint(*example));
        return None;
    }
    let absolute = paths::to_absolute(&spec_context.directory, text);
    if absolute == "/" || !is_allowed(&absolute, spec_context) {
        let message = format!("{name} `{}` is outside the project", shown(text));
        let hint = match absolute.as_str() {
            "/" => format!("POLICY_VIOLATION: name a {object} of the project"),
            _ => format!(
                "POLICY_VIOLATION: name a {object} of the project, or start the controller with `--allow-mount {}`",
                shell_path(&absolute)
            ),
        };
        diagnostics.push(Diagnostic::error(path, message).hint(hint));
        return None;
    }
    if spec_context.host.missing.contains_key(&absolute) {
        let message = format!(
            "{name} `{}` does not exist; Argus tried `{absolute}`",
            shown(text)
        );
        let hint = format!("create the {object}, or write its path relative to the folder of this file");
        diagnostics.push(spec_context.host.with_similar(
            Diagnostic::error(path, message),
            &spec_context.directory,
            text,
            &hint,
        ));
        return None;
    }
    host::resolve_host_path(
        host::PathUse::Content,
        absolute,
        text,
        path,
        spec_context,
        diagnostics,
    )
}
