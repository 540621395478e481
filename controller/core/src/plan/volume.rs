//! Named volumes: created when missing, kept until told otherwise.

use super::{Act, Cause, Decision, Plan, PlanInput, Subject, render};
use crate::desired::Desired;
use crate::ident::ResourceName;

pub(super) fn is_there(input: &PlanInput<'_>, name: &ResourceName) -> bool {
    input.observed.volumes.contains_key(name.as_str())
        || input.memory.volumes.contains(&(input.env.clone(), name.clone()))
}

pub(super) fn plan(input: &PlanInput<'_>, desired: &Desired, plan: &mut Plan) {
    for name in desired.volumes.iter().filter(|name| !is_there(input, name)) {
        let subject = Subject::Volume {
            environment: input.env.clone(),
            name: name.clone(),
        };
        let decision = match input.barred(&subject).or_else(|| input.may_make(desired).err()) {
            Some(wait) => Decision::Wait(wait),
            None => Decision::Do(
                Act::CreateVolume {
                    name: name.clone(),
                    labels: render::labels_of(desired, "volume", input.site, input.now),
                },
                input.cause(&subject, Cause::Missing),
            ),
        };
        plan.take(subject, decision);
    }
}
