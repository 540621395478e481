//! Notes on stderr about a controller that does not run, or performs no actions.

use argus_crds::error::Code;
use argus_crds::status::{ControllerStatus, Mode};
use argus_reconciler::state_dir::StateDir;

use crate::client::http;
use crate::output::print_note;
use crate::runtime;
use crate::status::{is_alive, read_controller};

/// Prints a note if no controller runs, because then the files are not updated, or if it is in mode `Safe`. Returns true in
/// mode `Safe`.
pub(crate) fn note_if_not_running(state: &StateDir) -> bool {
    if is_alive(state) {
        let reason = reason_of_safe_mode(state);
        if let Some(reason) = &reason {
            print_note(&format!(
                "note: {}: the controller is in mode `Safe` and performs no actions: {reason}",
                Code::JournalUnwritable
            ));
            print_note("note: the output may be stale, because the controller cannot write its status files");
            print_note("hint: fix the cause, then run `argus resume`");
        }
        return reason.is_some();
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
    false
}

/// Reason of mode `Safe`; `None` in all other modes. It asks the controller over HTTP, because a full disk may prevent the
/// update of the status files.
fn reason_of_safe_mode(state: &StateDir) -> Option<String> {
    let health = runtime::block_on(async {
        let response = http::get(&state.socket(), crate::http::HEALTH).await;
        Ok(response.ok())
    });
    let health: crate::http::Health = serde_json::from_slice(&health.ok()??).ok()?;
    (health.mode == Mode::Safe).then(|| health.mode_reason.unwrap_or_default())
}

/// Time of the stop. For a killed controller, the time of its last status.
fn last_seen(status: &ControllerStatus) -> &str {
    status.stopped_at.as_deref().unwrap_or(&status.as_of)
}
