//! Images: pulled only after a create said that one is missing, built once per digest.

use std::collections::BTreeSet;

use super::{Act, Cause, Decision, Plan, PlanInput, Subject, WaitingOn};
use crate::desired::{Desired, Image};
use crate::memory::ImageMemory;

/// The key of an image's subject: its reference, with the digest of the build where it is built.
pub fn key(image: &Image) -> String {
    match image {
        Image::Named(reference) => key_of(reference, ""),
        Image::Built(build) => key_of(&build.tag, build.digest.as_str()),
    }
}

/// The same from a rendered container.
pub fn key_of(reference: &str, build: &str) -> String {
    if build.is_empty() {
        reference.to_owned()
    } else {
        format!("{reference}@build:{build}")
    }
}

/// Whether a container may be created from this image now.
///
/// A named image is taken to be present until a create says otherwise, which saves asking for each.
pub(super) fn may_create(input: &PlanInput<'_>, image: &Image) -> Result<(), WaitingOn> {
    let key = key(image);
    let known = input.memory.images.get(&key);
    let there = match image {
        Image::Named(_) => known != Some(&ImageMemory::Missing),
        Image::Built(_) => known == Some(&ImageMemory::Present),
    };
    let subject = Subject::Image { key };
    if there && input.barred(&subject).is_none() {
        return Ok(());
    }
    Err(WaitingOn::Image {
        reference: image.reference().to_owned(),
    })
}

/// Plans the pulls and builds that some service of this environment waits for.
pub(super) fn plan(input: &PlanInput<'_>, desired: &Desired, plan: &mut Plan) {
    let wanted: BTreeSet<String> = plan
        .waits
        .iter()
        .filter_map(|wait| match (&wait.subject, &wait.on) {
            (Subject::Service { service, .. }, WaitingOn::Image { .. }) => desired.services.get(service),
            _ => None,
        })
        .map(|service| key(&service.image))
        .collect();
    let mut planned = BTreeSet::new();
    for service in desired.services.values() {
        let key = key(&service.image);
        if !wanted.contains(&key) || !planned.insert(key.clone()) {
            continue;
        }
        let subject = Subject::Image { key };
        let act = match &service.image {
            Image::Named(reference) => Act::PullImage {
                reference: reference.clone(),
            },
            Image::Built(build) => Act::BuildImage(build.clone()),
        };
        let decision = match input.barred(&subject) {
            Some(wait) => Decision::Wait(wait),
            None => Decision::Do(act, input.cause(&subject, Cause::Missing)),
        };
        plan.take(subject, decision);
    }
}
