//! Redactor: the secrets that the log of an action may contain. It keeps the secrets of each environment until the
//! controller ends.

use std::collections::BTreeMap;

use argus_core::action::Subject;
use argus_core::ident::EnvName;
use argus_core::secrets::Secrets;

use crate::overrides::DesiredState;

/// Secrets of every environment that was ever desired. Running containers may belong to an earlier revision.
#[derive(Debug, Default)]
pub(super) struct Redactor(BTreeMap<EnvName, Secrets>);

impl Redactor {
    pub(super) fn update_secrets(&mut self, desired: &DesiredState) {
        for (env, accepted) in desired {
            let known = self.0.entry(env.clone()).or_default();
            known.join(&accepted.desired.secret_values());
        }
    }

    /// Secrets of the subject's environment. For a subject without an environment: the secrets of all environments.
    pub(super) fn of(&self, subject: &Subject) -> Secrets {
        if let Some(environment) = subject.environment() {
            return self.0.get(environment).cloned().unwrap_or_default();
        }
        let mut all = Secrets::default();
        self.0.values().for_each(|known| all.join(known));
        all
    }
}
