//! Images: pulled only after a create reported a missing image, and built once per digest.

use std::collections::{BTreeMap, BTreeSet};

use argus_crds::PullPolicy;

use super::{Decision, Plan, PlanInput};
use crate::action::{Action, ActionFailure, Cause, Subject};
use crate::desired::{Build, Desired, Image, Service, short_reference};
use crate::outcome::ActionError;
use crate::state::ImageState;
use crate::wait::WaitReason;

/// Checks that a container may be created from this image now.
///
/// A named image counts as present until a create fails, which saves a query per image. One that is always pulled counts as
/// missing until its pull.
pub(super) fn check_image(input: &PlanInput<'_>, service: &Service) -> Result<(), WaitReason> {
    let image = &service.image;
    let key = image.key();
    let known = input.state.images.get(&key);
    let is_present = match (image, service.pull_policy) {
        (Image::Named(_), PullPolicy::Missing | PullPolicy::Never) => known != Some(&ImageState::Missing),
        (Image::Named(_), PullPolicy::Always) | (Image::Built(_), _) => known == Some(&ImageState::Present),
    };
    let subject = Subject::Image { key };
    if is_present && input.blocked_by(&subject).is_none() {
        return Ok(());
    }
    Err(WaitReason::Image {
        reference: image.reference().to_owned(),
    })
}

/// Plans the pulls and builds that a service of this environment waits for.
pub(super) fn plan(input: &PlanInput<'_>, desired: &Desired, plan: &mut Plan) {
    let waiting = plan
        .waits
        .iter()
        .filter_map(|wait| match (&wait.subject, &wait.on) {
            (Subject::Service { service, .. }, WaitReason::Image { .. }) => desired.services.get(service),
            _ => None,
        });
    // A pull for one service serves the others.
    let mut wanted: BTreeMap<String, &Service> = BTreeMap::new();
    for service in waiting {
        let known = wanted.entry(service.image.key()).or_insert(service);
        if known.pull_policy == PullPolicy::Never {
            *known = service;
        }
    }
    let mut planned = BTreeSet::new();
    for service in desired.services.values() {
        let key = service.image.key();
        let Some(service) = wanted.get(&key).filter(|_| planned.insert(key.clone())) else {
            continue;
        };
        let subject = Subject::Image { key };
        let action = match &service.image {
            Image::Named(reference) => Action::PullImage {
                reference: reference.clone(),
                policy: service.pull_policy,
            },
            Image::Built(build) => Action::BuildImage(build.clone()),
        };
        let blocked = input.blocked_by(&subject).or_else(|| match &action {
            Action::BuildImage(build) => {
                earlier_build(input, build).or_else(|| input.check_preflight(desired, true).err())
            }
            _ => registry_wait(input, &action),
        });
        let decision = match blocked {
            Some(wait) => Decision::Wait(wait),
            None => Decision::Do(action, input.cause(&subject, Cause::Missing)),
        };
        plan.add(subject, decision);
    }
}

/// Wait for a build of the same tag in flight, from earlier contents. The next build contains all changes until its start.
fn earlier_build(input: &PlanInput<'_>, build: &Build) -> Option<WaitReason> {
    let any_contents = format!("{}@build:", build.tag);
    let is_of_tag = |subject: &Subject| {
        subject
            .image_key()
            .is_some_and(|key| key.starts_with(&any_contents))
    };
    let mut calls = input.state.in_flight.iter();
    let (_, call) = calls.find(|(subject, _)| is_of_tag(subject))?;
    Some(WaitReason::InFlight { verb: call.verb })
}

/// Wait reason of a rate-limited registry: all pulls from it wait.
fn registry_wait(input: &PlanInput<'_>, action: &Action) -> Option<WaitReason> {
    let Action::PullImage { reference, policy } = action else {
        return None;
    };
    if *policy == PullPolicy::Never {
        return None;
    }
    let rate_limit = |(subject, failure): (&Subject, &ActionFailure)| {
        let Subject::Image { key } = subject else {
            return None;
        };
        let limited = matches!(failure.error, ActionError::RateLimited { .. });
        let until = failure.retry_at(&subject.to_string())?;
        let same = limited && until > input.now && registry_of(key) == registry_of(reference);
        same.then(|| (until, failure.clone()))
    };
    let all = input.state.action_failures.iter().filter_map(rate_limit);
    let (until, failure) = all.max_by_key(|(until, _)| *until)?;
    Some(WaitReason::Retry { until, failure })
}

/// Registry of a reference; Docker Hub without an explicit one.
pub(crate) fn registry_of(reference: &str) -> &str {
    match short_reference(reference).split_once('/') {
        Some((first, _)) if first.contains(['.', ':']) || first == "localhost" => first,
        _ => "docker.io",
    }
}

#[cfg(test)]
mod tests {
    use super::registry_of;

    #[test]
    fn reference_without_registry_means_docker_hub() {
        for (reference, expected) in [
            ("busybox", "docker.io"),
            ("library/busybox:1", "docker.io"),
            ("index.docker.io/a/b", "docker.io"),
            ("ghcr.io/a/b@sha256:0", "ghcr.io"),
            ("localhost/a", "localhost"),
            ("host:5000/a:1", "host:5000"),
        ] {
            assert_eq!(registry_of(reference), expected, "{reference}");
        }
    }
}
