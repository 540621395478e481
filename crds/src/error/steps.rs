//! Changes of the suggested actions of an error, with their remedies.

use super::{ActionId, SpecEdit, StructuredError};

impl StructuredError {
    /// Removes these actions with their remedies.
    #[must_use]
    pub fn without(mut self, actions: &[ActionId]) -> Self {
        self.remedies.retain(|remedy| !actions.contains(&remedy.action));
        self.suggested_actions.retain(|action| !actions.contains(action));
        self
    }

    /// Inserts an action after the first one.
    #[must_use]
    pub fn then(mut self, action: ActionId) -> Self {
        let remedy = action.remedy(self.environment.as_deref(), self.service.as_deref());
        let at = self.remedies.len().min(1);
        self.remedies.insert(at, remedy);
        self.suggested_actions.insert(at, action);
        self
    }

    /// Replaces the changes of the spec file.
    #[must_use]
    pub fn map_edits(mut self, change: impl Fn(SpecEdit) -> SpecEdit) -> Self {
        for remedy in &mut self.remedies {
            if let Some(edit) = remedy.edit.take() {
                *remedy = remedy.clone().with_edit(change(edit), &self.message);
            }
        }
        self
    }
}
