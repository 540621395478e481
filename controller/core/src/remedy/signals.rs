//! Signals: programs that an invalid instruction or memory access ended.

use argus_crds::error::SpecEdit;

use super::case::Case;
use crate::desired::Image;
use crate::failed_run::signal;

/// Image whose program an invalid instruction or memory access ended. A retry would end in the same way.
pub(super) fn crash(case: &Case<'_>) -> SpecEdit {
    let by = signal(case.run.exit_code).map_or_else(String::new, |name| format!(" ({name})"));
    let reason = format!("its program crashed{by}; no setting of this file causes that");
    let Image::Built(build) = &case.context.service.image else {
        let hint = "use another version of the image, or one for the platform of the engine";
        return case.context.edit("image", reason).hint(hint);
    };
    let hint = "fix the program, or build it for the platform of the engine";
    Case::host_edit(build.context.clone(), reason, hint)
}
