//! Identifiers that connect an error with the action that caused it, in the form of a ULID.

use sha2::{Digest, Sha256};

use crate::action::{Action, Step};
use crate::time::Timestamp;

/// Identifier of a submitted action: its time, then a hash of its content.
pub fn action_id(step: &Step, at: Timestamp) -> String {
    identifier(&[&step.subject.to_string(), step.action.verb()], at)
}

/// True for an action that begins a run, or creates its container: it is the cause of what happens to that run.
pub(crate) fn begins_run(action: &Action) -> bool {
    matches!(
        action,
        Action::CreateContainer { .. } | Action::StartContainer { .. }
    )
}

/// Text in the form of a ULID: a time, then a hash of the parts and of the time.
pub(crate) fn identifier(parts: &[&str], at: Timestamp) -> String {
    const CROCKFORD: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    let text = format!("{}\0{}", parts.join("\0"), at.0);
    let hash = Sha256::digest(text.as_bytes());
    let tail = hash
        .iter()
        .take(10)
        .fold(0_u128, |bits, byte| (bits << 8) | u128::from(*byte));
    let time = u128::try_from(at.0).unwrap_or(0) % (1 << 48);
    let bits = (time << 80) | tail;
    let digit = |position: u32| CROCKFORD[usize::try_from((bits >> (5 * position)) & 31).unwrap_or(0)];
    (0..26)
        .rev()
        .map(|position| char::from(digit(position)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::{Cause, Deadlines, Subject};
    use crate::ident::{ContainerId, EnvName, ServiceName};
    use crate::observed::{Observed, Store};
    use crate::outcome::ActionError;
    use crate::state::PlannerState;

    #[test]
    fn failure_and_service_keep_the_id_of_the_last_start() {
        let env = EnvName::new("shop").unwrap();
        let service = ServiceName::new("web").unwrap();
        let subject = Subject::of_service(&env, &service);
        let step = Step {
            subject: subject.clone(),
            action: Action::StartContainer {
                id: ContainerId::new("c").unwrap(),
            },
            cause: Cause::Missing,
        };
        let mut state = PlannerState::default();
        let mut ids = Vec::new();
        for at in [Timestamp(1_000), Timestamp(2_000)] {
            state.on_started(&env, &step, &Observed::default(), at);
            let id = state.in_flight[&subject].id.clone();
            assert_eq!((id.len(), &id), (26, &action_id(&step, at)));
            let refusal = Err(ActionError::StartFailed("no".to_owned()));
            state.on_finished(&step, &refusal, &Deadlines::default(), &Store::default(), at);
            assert_eq!(state.action_failures[&subject].call.id, id);
            let history = &state.environments[&env].services[&service];
            assert_eq!(history.last_start.as_ref(), Some(&id));
            ids.push(id);
        }
        assert_ne!(ids[0], ids[1], "each attempt has its own id");
    }
}
