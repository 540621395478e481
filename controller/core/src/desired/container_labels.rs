//! Labels of a container or an image from the spec file.

use std::collections::BTreeMap;

use argus_crds::Diagnostic;

use crate::desired::identity::shown;
use crate::desired::template::{PortReferences, TemplateResolver};
use crate::labels;

/// Maximum size of all labels of a container in bytes. Each list of the engine contains them.
const MAX_LABELS: usize = 64 * 1024;

/// Returns the labels with resolved templates. Those of a container get the ports later.
pub(super) fn resolve_labels(
    texts: &BTreeMap<String, String>,
    path: &str,
    resolver: &TemplateResolver<'_>,
    references: PortReferences,
    diagnostics: &mut Vec<Diagnostic>,
) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let mut size = 0;
    for (name, value) in texts {
        let path = format!("{path}.{name}");
        if name.starts_with(labels::PREFIX) {
            let message = format!("the label `{}` is reserved for Argus", shown(name));
            let hint = format!("choose a name that does not begin with `{}`", labels::PREFIX);
            diagnostics.push(Diagnostic::error(path, message).hint(hint));
            continue;
        }
        if name.is_empty() || name.contains(char::is_control) {
            let message = format!("`{}` is not a valid name of a label", shown(name));
            let hint = "write a name without line breaks and zero bytes, such as `com.example.team`";
            diagnostics.push(Diagnostic::error(path, message).hint(hint));
            continue;
        }
        let value = resolver.fill(value, &path, references, diagnostics);
        size += name.len() + value.len();
        if size > MAX_LABELS {
            let message = "the labels exceed 64 KiB";
            diagnostics.push(Diagnostic::error(path, message).hint("mount a file instead"));
            break;
        }
        all.insert(name.clone(), value);
    }
    all
}
