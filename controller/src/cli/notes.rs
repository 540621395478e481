//! Notes on stderr about a controller that does not run, or performs no actions.

use std::convert::Infallible;
use std::time::Duration;

use argus_crds::error::Code;
use argus_crds::status::Mode;
use argus_reconciler::state_dir::StateDir;

use crate::client::{ControllerClient, http};
use crate::local_state::liveness::Liveness;
use crate::process::runtime;
use crate::render::output::print_note;

/// Time without a controller until a wait reports it.
const NOTE_DELAY: Duration = Duration::from_secs(1);

/// Prints a note if no controller updates the files, or if it is in mode `Safe`. Returns true in mode `Safe`.
pub(crate) fn note_if_not_running(state: &StateDir) -> bool {
    match Liveness::read(state) {
        Liveness::Running => {}
        Liveness::Starting(_) => {
            print_note(
                "note: the controller has not read its specs folder and the engine yet; the output is the last known state",
            );
        }
        Liveness::NotRunning(last_seen) => {
            let since = last_seen.map_or_else(String::new, |at| format!(" since {at}"));
            print_note(&format!("note: controller is not running{since}"));
            return false;
        }
    }
    note_if_safe(state)
}

/// Prints a note if the controller is in mode `Safe`. Returns true in this mode.
pub(crate) fn note_if_safe(state: &StateDir) -> bool {
    let reason = reason_of_safe_mode(state);
    if let Some(reason) = &reason {
        print_note(&format!(
            "note: {}: the controller is in mode `Safe` and performs no actions: {reason}",
            Code::JournalUnwritable
        ));
        print_note("note: the output may be stale, because the controller cannot write its status files");
        print_note("hint: fix the cause, then run `argus resume`");
    }
    reason.is_some()
}

/// Prints a note once no controller has run for a second, with the command that starts one. Never returns.
pub(crate) async fn note_missing_controller(client: &ControllerClient) -> Infallible {
    let mut is_noted = false;
    loop {
        tokio::time::sleep(NOTE_DELAY).await;
        let missing = client.missing_controller().await.unwrap_or_default();
        if let Some(start) = missing.as_ref().filter(|_| !is_noted) {
            print_note("note: no controller is running, so the state is not known; waiting until one runs");
            print_note(&format!("hint: start a controller with `{start}`"));
        }
        is_noted = missing.is_some();
    }
}

/// Reason of mode `Safe`; `None` in all other modes, and without a controller. It asks the controller over HTTP, because a full disk
/// may prevent the update of the status files.
fn reason_of_safe_mode(state: &StateDir) -> Option<String> {
    let health = runtime::block_on(async {
        let response = http::get(&state.socket(), crate::http::HEALTH).await;
        Ok(response.ok())
    });
    let health: crate::http::Health = serde_json::from_slice(&health.ok()??).ok()?;
    (health.mode == Mode::Safe).then(|| health.mode_reason.unwrap_or_default())
}
