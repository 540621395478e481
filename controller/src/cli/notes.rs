//! Notes on stderr about a controller that does not run, or performs no actions.

use argus_crds::status::{ControllerStatus, Mode};
use argus_reconciler::state_dir::StateDir;

use crate::client::http;
use crate::output::print_note;
use crate::runtime;
use crate::status::{is_alive, read_controller};

/// Prints a note if no controller runs, because then the files are not updated, or if it is in safe mode.
pub(crate) fn note_if_not_running(state: &StateDir) {
    if is_alive(state) {
        note_if_safe(state);
        return;
    }
    match read_controller(state) {
        Ok(Some(status)) if !status.as_of.is_empty() => {
            print_note(&format!(
                "note: controller is not running since {}",
                last_seen(&status)
            ));
        }
        _ => print_note("note: controller is not running"),
    }
}

/// Prints a note if the controller is in safe mode. It asks the controller over HTTP, because a full disk may prevent the
/// update of its status file.
fn note_if_safe(state: &StateDir) {
    let health = runtime::block_on(async {
        let response = http::get(&state.socket(), crate::http::HEALTH).await;
        Ok(response.ok())
    });
    let Ok(Some(response)) = health else { return };
    let Ok(health) = serde_json::from_slice::<crate::http::Health>(&response) else {
        return;
    };
    if health.mode == Mode::Safe {
        let reason = health.mode_reason.unwrap_or_default();
        print_note(&format!(
            "note: controller is in safe mode and performs no actions: {reason}"
        ));
        print_note("hint: fix the cause, then run `argus resume`");
    }
}

/// Time of the stop. For a killed controller, the time of its last status.
fn last_seen(status: &ControllerStatus) -> &str {
    status.stopped_at.as_deref().unwrap_or(&status.as_of)
}
