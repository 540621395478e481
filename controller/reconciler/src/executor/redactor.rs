//! Which secrets the words of an act may hold: those of its environment, as long as the controller lives.

use std::collections::BTreeMap;

use argus_core::ident::EnvName;
use argus_core::plan::Subject;
use argus_core::secrets::Secrets;

use crate::overrides::DesiredState;

/// The secrets of every environment that was ever desired: what runs may be of a revision before.
#[derive(Debug, Default)]
pub(super) struct Redactor(BTreeMap<EnvName, Secrets>);

impl Redactor {
    pub(super) fn update_secrets(&mut self, desires: &DesiredState) {
        for (env, accepted) in desires {
            let known = self.0.entry(env.clone()).or_default();
            known.join(&accepted.desired.not_to_be_told());
        }
    }

    /// Of what belongs to no environment alone, all that may be in it.
    pub(super) fn of(&self, subject: &Subject) -> Secrets {
        match subject {
            Subject::Service { environment, .. }
            | Subject::Network { environment }
            | Subject::Volume { environment, .. } => self.0.get(environment).cloned().unwrap_or_default(),
            Subject::Image { .. } | Subject::ExtraContainer { .. } | Subject::ExtraNetwork { .. } => {
                let mut all = Secrets::default();
                self.0.values().for_each(|known| all.join(known));
                all
            }
        }
    }
}
