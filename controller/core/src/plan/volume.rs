//! Named volumes: created when missing, kept unless the spec or a person requests their removal. External ones only have to exist.

use std::collections::BTreeMap;

use super::{Decision, Plan, PlanInput, render};
use crate::action::{Action, Cause, Subject};
use crate::desired::Desired;
use crate::ident::ResourceName;

pub(super) fn exists(input: &PlanInput<'_>, name: &ResourceName) -> bool {
    input.observed.volumes.contains_key(name.as_str())
        || input.state.volumes.contains(&(input.env.clone(), name.clone()))
}

pub(super) fn plan(input: &PlanInput<'_>, desired: &Desired, plan: &mut Plan) {
    for name in desired.volumes.iter().filter(|name| !exists(input, name)) {
        let subject = Subject::Volume {
            environment: input.env.clone(),
            name: name.clone(),
        };
        let decision = match input
            .blocked_by(&subject)
            .or_else(|| input.check_preflight(desired, false).err())
        {
            Some(wait) => Decision::Wait(wait),
            None => Decision::Do(
                create(input, desired, name),
                input.cause(&subject, Cause::Missing),
            ),
        };
        plan.add(subject, decision);
    }
}

fn create(input: &PlanInput<'_>, desired: &Desired, name: &ResourceName) -> Action {
    let external = desired.external_volumes.contains(name);
    let labels = || render::labels_of(desired, "volume", input.identity, input.now);
    Action::CreateVolume {
        name: name.clone(),
        labels: if external { BTreeMap::new() } else { labels() },
        external,
    }
}
