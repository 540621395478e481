//! Whose something is, made sure of before it is changed.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use argus_core::ident::{ContainerId, NetworkId};
use argus_core::labels::{MANAGED, Owner};
use argus_core::observed::Container;
use argus_core::outcome::ActionError;
use bollard::models;

use crate::Shared;
use crate::call::{self, READ, Refusal};
use crate::error::Op;
use crate::inspect;

/// More images than an environment has; what is forgotten is asked again.
const IMAGES_KEPT: usize = 256;

/// Far more containers than an engine runs; what is forgotten is asked again.
const OWN_KEPT: usize = 16 * 1024;

/// Our labels begin with this.
const PREFIX: &str = "argusai.";

/// Labels of images by image id; an id stands for its content, so they never change.
#[derive(Debug, Default)]
pub(crate) struct ImageLabels {
    known: Mutex<HashMap<String, Arc<BTreeMap<String, String>>>>,
}

/// Containers that were made here, or looked at and found ours. An engine never gives an id twice and never changes a
/// label, so what was found once stays true.
#[derive(Debug, Default)]
pub(crate) struct OwnedIds {
    ids: Mutex<HashSet<ContainerId>>,
    /// Looked at, and found to have our labels from their images only.
    inherited: Mutex<HashSet<ContainerId>>,
}

impl OwnedIds {
    /// It is ours.
    pub(crate) fn learn(&self, id: &ContainerId) {
        let mut ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
        if ids.len() >= OWN_KEPT {
            ids.clear();
        }
        ids.insert(id.clone());
    }

    fn knows(&self, id: &ContainerId) -> bool {
        self.ids
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(id)
    }

    /// Its labels came with its image: whatever they say, it is not ours.
    pub(crate) fn labels_inherited(&self, id: &ContainerId) -> bool {
        let inherited = self.inherited.lock().unwrap_or_else(PoisonError::into_inner);
        inherited.contains(id)
    }

    fn learn_inherited(&self, id: &ContainerId) {
        let mut ids = self.inherited.lock().unwrap_or_else(PoisonError::into_inner);
        if ids.len() >= OWN_KEPT {
            ids.clear();
        }
        ids.insert(id.clone());
    }
}

/// A container that was just looked at, and its image's id.
#[derive(Debug)]
pub(crate) struct Inspected {
    pub(crate) container: Container,
    pub(crate) image_id: String,
}

/// Looks at a container by id or name; `None` when there is none.
pub(crate) async fn inspect(shared: &Shared, name_or_id: &str) -> Result<Option<Inspected>, ActionError> {
    let client = shared.connection.client()?;
    let call = client.inspect_container(name_or_id, None);
    let found = match call::raw(Op::Inspect, READ, call).await {
        Ok(found) => found,
        Err(refusal) if refusal.is_gone() => return Ok(None),
        Err(refusal) => return Err(nothing_done(refusal)),
    };
    let image_id = found.image.clone().unwrap_or_default();
    Ok(inspect::inspected(found).map(|container| Inspected { container, image_id }))
}

/// Makes sure that a container may be changed; one that was made sure of before is not looked at again.
///
/// [`ActError::Gone`] when a look was needed and found nothing.
pub(crate) async fn ensure_owned(shared: &Shared, id: &ContainerId) -> Result<(), ActionError> {
    if shared.owned_ids.knows(id) {
        return Ok(());
    }
    own_container(shared, id)
        .await?
        .map(drop)
        .ok_or(ActionError::Gone)
}

/// Looks at a container that may be changed: it carries our labels, and not only because its image does.
///
/// `None` when it is gone, [`ActError::NotOurs`] when it is not ours.
pub(crate) async fn own_container(
    shared: &Shared,
    id: &ContainerId,
) -> Result<Option<Inspected>, ActionError> {
    let Some(held) = inspect(shared, id.as_str()).await? else {
        return Ok(None);
    };
    match owner_of(shared, &held).await? {
        Some(_) => {
            shared.owned_ids.learn(id);
            Ok(Some(held))
        }
        None => Err(ActionError::NotOurs(format!(
            "container `{}`",
            held.container.name
        ))),
    }
}

/// Whether a container that was looked at has our labels from its image only. What cannot be told now reads as ours, and
/// is told before anything is done to it.
pub(crate) async fn labels_inherited(shared: &Shared, container: &Container, image_id: &str) -> bool {
    if shared.owned_ids.knows(&container.id) || !container.labels.contains_key(MANAGED) {
        return false;
    }
    let Ok(image) = image_labels(shared, image_id).await else {
        return false;
    };
    let inherits = is_inherited(&container.labels, &image);
    if inherits {
        shared.owned_ids.learn_inherited(&container.id);
    }
    inherits
}

/// Who owns a container that was looked at; `None` for one that Argus did not make.
pub(crate) async fn owner_of(shared: &Shared, held: &Inspected) -> Result<Option<Owner>, ActionError> {
    let Some(owner) = held.container.owner() else {
        return Ok(None);
    };
    let image = image_labels(shared, &held.image_id).await?;
    Ok((!is_inherited(&held.container.labels, &image)).then_some(owner))
}

/// A network that may be changed; `None` when it is gone.
pub(crate) async fn own_network(
    shared: &Shared,
    id: &NetworkId,
) -> Result<Option<models::NetworkInspect>, ActionError> {
    let Some(found) = inspect_network(shared, id.as_str()).await? else {
        return Ok(None);
    };
    match Owner::read(&inspect::sorted(found.labels.clone())) {
        Some(_) => Ok(Some(found)),
        None => Err(ActionError::NotOurs(format!(
            "network `{}`",
            found.name.as_deref().unwrap_or_default()
        ))),
    }
}

/// Looks at a network by id or name; `None` when there is none.
pub(crate) async fn inspect_network(
    shared: &Shared,
    name_or_id: &str,
) -> Result<Option<models::NetworkInspect>, ActionError> {
    let client = shared.connection.client()?;
    match call::raw(Op::Inspect, READ, client.inspect_network(name_or_id, None)).await {
        Ok(found) => Ok(Some(found)),
        Err(refusal) if refusal.is_gone() => Ok(None),
        Err(refusal) => Err(nothing_done(refusal)),
    }
}

/// The labels that an image carries itself; none for an image that is gone.
pub(crate) async fn image_labels(
    shared: &Shared,
    id: &str,
) -> Result<Arc<BTreeMap<String, String>>, ActionError> {
    if id.is_empty() {
        return Ok(Arc::default());
    }
    let known = |labels: &ImageLabels| {
        labels
            .known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(id)
            .cloned()
    };
    if let Some(labels) = known(&shared.image_labels) {
        return Ok(labels);
    }
    let Some(labels) = inspect_image(shared, id).await? else {
        return Ok(Arc::default());
    };
    let labels = Arc::new(labels);
    let mut known = shared
        .image_labels
        .known
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    if known.len() >= IMAGES_KEPT {
        known.clear();
    }
    known.insert(id.to_owned(), labels.clone());
    Ok(labels)
}

/// The labels of an image by reference or id; `None` when the engine does not have it.
pub(crate) async fn inspect_image(
    shared: &Shared,
    reference: &str,
) -> Result<Option<BTreeMap<String, String>>, ActionError> {
    safe_reference(reference)?;
    let client = shared.connection.client()?;
    match call::raw(Op::Inspect, READ, client.inspect_image(reference)).await {
        Ok(found) => Ok(Some(inspect::sorted(
            found.config.and_then(|config| config.labels),
        ))),
        Err(refusal) if refusal.is(404) => Ok(None),
        Err(refusal) => Err(nothing_done(refusal)),
    }
}

/// The client puts names into the URL as they are: only what an image reference may hold gets there.
pub(crate) fn safe_reference(reference: &str) -> Result<(), ActionError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/' | ':' | '@' | '+');
    let begins = reference.starts_with(|c: char| c.is_ascii_alphanumeric());
    if begins && reference.len() <= 512 && reference.chars().all(allowed) && !reference.contains("..") {
        return Ok(());
    }
    Err(ActionError::Rejected(format!(
        "`{}` is no image reference",
        reference.chars().take(80).collect::<String>()
    )))
}

/// Every label of ours is there only because the image has it, as after `docker commit` of one of our containers.
///
/// What Argus creates differs from its image at least in `argusai.created-at`.
fn is_inherited(labels: &BTreeMap<String, String>, image: &BTreeMap<String, String>) -> bool {
    let ours = labels.iter().filter(|(key, _)| key.starts_with(PREFIX));
    image.contains_key(MANAGED) && ours.into_iter().all(|(key, value)| image.get(key) == Some(value))
}

/// A look that fails has changed nothing, so its outcome is not unknown.
fn nothing_done(refusal: Refusal) -> ActionError {
    match refusal.into_error(Op::Inspect) {
        ActionError::Unknown(why) | ActionError::TimedOut(why) | ActionError::ConnectionLost(why) => {
            ActionError::Unreachable(why)
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn labels_that_only_the_image_gave_do_not_count() {
        let image = labels(&[
            ("argusai.managed", "true"),
            ("argusai.created-at", "1"),
            ("x", "y"),
        ]);
        assert!(is_inherited(&image, &image));
        let mut by_hand = image.clone();
        by_hand.insert("mine".into(), "z".into());
        assert!(is_inherited(&by_hand, &image));
        let ours = labels(&[("argusai.managed", "true"), ("argusai.created-at", "2")]);
        assert!(!is_inherited(&ours, &image));
        assert!(!is_inherited(&ours, &BTreeMap::new()));
    }

    #[test]
    fn a_reference_never_leaves_its_place_in_the_url() {
        for good in [
            "busybox",
            "r.example:5000/a/b:1.0",
            "a@sha256:00ff",
            "sha256:00ff",
        ] {
            assert!(safe_reference(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "../containers/x",
            "a/../b",
            "a?b",
            "a b",
            "a#b",
            "/a",
            "a%2fb",
            "a\n",
        ] {
            assert!(safe_reference(bad).is_err(), "{bad}");
        }
    }
}
