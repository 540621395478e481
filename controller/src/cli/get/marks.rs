//! Marks of a state in a table: holds, and the age of the last known state.

use argus_core::time::Timestamp;
use argus_crds::status::{EnvironmentStatus, Phase, ROLLED_BACK};
use argus_reconciler::clock;

use crate::render::output;

/// Formats the marks of a state, such as ` (held, stale 2h)`.
pub(super) fn format_marks(marks: impl IntoIterator<Item = Option<String>>) -> String {
    let marks: Vec<String> = marks.into_iter().flatten().collect();
    if marks.is_empty() {
        return String::new();
    }
    format!(" ({})", marks.join(", "))
}

/// Age of the last known state. `None` for the current one.
pub(super) fn format_age(status: &EnvironmentStatus) -> Option<String> {
    let age = |at| format!("stale {}", output::format_age(clock::now().since(at)));
    let marked = || Timestamp::parse(&status.as_of).map_or_else(|| "stale".to_owned(), age);
    status.stale.then(marked)
}

/// Note about a rollback: the environment runs an earlier revision than that of its file.
pub(super) fn find_rollback(status: &EnvironmentStatus) -> Option<&String> {
    status.notes.iter().find(|note| note.starts_with(ROLLED_BACK))
}

/// Phase with marks of a rollback, of held services and of a last known state.
pub(super) fn format_phase(status: &EnvironmentStatus) -> String {
    let holds = status.holds.iter().filter(|_| status.phase != Phase::Held);
    let held: Vec<&str> = holds.filter_map(|hold| hold.service.as_deref()).collect();
    let held = (!held.is_empty()).then(|| format!("{} held", held.join(", ")));
    let rolled_back = find_rollback(status).map(|_| "rolled back".to_owned());
    output::format_phase(status.phase) + &format_marks([rolled_back, held, format_age(status)])
}

#[cfg(test)]
mod tests {
    use argus_crds::status::ActiveHold;

    use super::*;

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn phase_shows_held_services_and_the_age_of_a_stale_state() {
        let hold = ActiveHold {
            service: Some("web".to_owned()),
            ..ActiveHold::default()
        };
        let two_hours = std::time::Duration::from_secs(7_230);
        let mut status = EnvironmentStatus {
            phase: Phase::Ready,
            as_of: (clock::now() - two_hours).to_string(),
            ..EnvironmentStatus::default()
        };
        assert_eq!(plain(&format_phase(&status)), "Ready");
        status.holds.push(hold);
        assert_eq!(plain(&format_phase(&status)), "Ready (web held)");
        status.stale = true;
        assert_eq!(plain(&format_phase(&status)), "Ready (web held, stale 2h)");
        status.notes.push("rolled back from revision 3f2a".to_owned());
        assert_eq!(
            plain(&format_phase(&status)),
            "Ready (rolled back, web held, stale 2h)"
        );
        status.notes.clear();
        status.holds.clear();
        status.as_of.clear();
        assert_eq!(plain(&format_phase(&status)), "Ready (stale)");
    }
}
