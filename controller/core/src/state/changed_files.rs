//! Changes of mounted files: a failed service is tried again.

use std::sync::Arc;

use crate::desired::Accepted;
use crate::ident::EnvName;
use crate::state::PlannerState;

impl PlannerState {
    /// Forgets the failures whose cause may be gone: of all services after an edit, and of each service after a change of a file that
    /// it mounts read-only. A file that the service can write is not a reason, because the service could retry itself without end.
    /// Returns true if it forgot the state of an image, which other environments may share.
    pub(super) fn clear_outdated_failures(
        &mut self,
        env: &EnvName,
        accepted: &Accepted,
        is_edited: bool,
    ) -> bool {
        let desired = &accepted.desired;
        let mut is_image_forgotten = is_edited && self.clear_failures(env, Some(desired));
        for service in desired.services.values() {
            let changed_at = accepted.files_changed_at(service);
            let history = self.environments.get(env);
            let Some(known) = history.and_then(|history| history.services.get(&service.name)) else {
                continue;
            };
            if changed_at <= known.files_changed_at {
                continue;
            }
            is_image_forgotten |= self.clear_failures_of(env, Some(&service.name), Some(desired));
            let history = self.environments.get_mut(env).map(Arc::make_mut);
            if let Some(service) = history.and_then(|history| history.services.get_mut(&service.name)) {
                Arc::make_mut(service).files_changed_at = changed_at;
            }
        }
        is_image_forgotten
    }
}
