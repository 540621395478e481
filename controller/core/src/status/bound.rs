//! Bound of the size of a status. Every reader loads the whole file.

use argus_crds::diagnostic::Diagnostic;
use argus_crds::error::StructuredError;
use argus_crds::status::EnvironmentStatus;

/// Maximum size of a status file in bytes.
pub(super) const MAX_BYTES: usize = 4 * 1024 * 1024;
/// Number of errors, and of services with an error, that keep their details.
const MAX_DETAILED: usize = 20;
/// Maximum length of a text in a diagnostic, in characters.
const MAX_CHARS: usize = 1_000;

/// Shortens a part of a status. Returns the number of parts that are left out.
type Shortening = fn(&mut EnvironmentStatus) -> usize;

/// Cuts a status that exceeds the limit; its notes count the parts that are left out.
pub(super) fn cut(status: &mut EnvironmentStatus, limit: usize) {
    let steps: [(&str, Shortening); 7] = [
        ("diagnostics", |status| {
            status.diagnostics.iter_mut().for_each(shorten);
            truncate(&mut status.diagnostics, 100)
        }),
        ("details of errors", |status| {
            let services = status
                .services
                .iter_mut()
                .filter_map(|row| row.last_error.as_mut());
            let errors = status.errors.iter_mut().skip(MAX_DETAILED);
            errors.chain(services.skip(MAX_DETAILED)).map(strip).count()
        }),
        ("labels", |status| {
            let of_services = status.services.iter_mut();
            of_services.map(|row| std::mem::take(&mut row.labels).len()).sum()
        }),
        ("ports", |status| {
            let of_services = status.services.iter_mut().map(|row| truncate(&mut row.ports, 4));
            of_services.sum::<usize>() + truncate(&mut status.port_mappings, 1_000)
        }),
        ("errors", |status| truncate(&mut status.errors, 100)),
        ("connections and orphans", |status| {
            let links = status
                .connectivity
                .iter_mut()
                .map(|checked| truncate(&mut checked.links, 1_000));
            links.sum::<usize>() + truncate(&mut status.orphans, 1_000)
        }),
        ("details of the other errors, and notes", |status| {
            let services = status
                .services
                .iter_mut()
                .filter_map(|row| row.last_error.as_mut());
            let stripped = status.errors.iter_mut().chain(services).map(strip).count();
            stripped + truncate(&mut status.notes, 100)
        }),
    ];
    for (parts, step) in steps {
        if size(status) <= limit {
            return;
        }
        let count = step(status);
        if count > 0 {
            let note = format!(
                "the status exceeds {} MiB, {count} {parts} are left out",
                limit >> 20
            );
            status.notes.push(note);
        }
    }
}

/// Size of the file, with its indentation.
fn size(status: &EnvironmentStatus) -> usize {
    serde_json::to_string_pretty(status).map_or(0, |text| text.len())
}

/// Removes the surplus; returns its number.
fn truncate<T>(items: &mut Vec<T>, most: usize) -> usize {
    let surplus = items.len().saturating_sub(most);
    items.truncate(most);
    surplus
}

fn strip(error: &mut StructuredError) {
    error.details.clear();
    error.stdout_tail = None;
    error.stderr_tail = None;
}

fn shorten(diagnostic: &mut Diagnostic) {
    for text in [&mut diagnostic.path, &mut diagnostic.message] {
        if let Some((end, _)) = text.char_indices().nth(MAX_CHARS) {
            text.truncate(end);
        }
    }
}
