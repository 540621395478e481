//! Ownership checks before a change.
//!
//! An object belongs to Argus when it carries the `argusai.*` labels. A container does not belong to Argus if
//! all of these labels come from its image, for example after `docker commit` of a managed container. If the image is gone, the time in the
//! labels decides: inherited labels have the time of another container. The controller's clock wrote that time, so the offset of the
//! engine's clock counts too.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use argus_core::ident::{ContainerId, NetworkId};
use argus_core::labels::{BUILD_DIGEST, CREATED_AT, MANAGED, ObjectLabels};
use argus_core::observed::Container;
use argus_core::outcome::ActionError;
use argus_core::time::Timestamp;
use bollard::models;

use crate::Shared;
use crate::call::{self, CallError};
use crate::error::Op;
use crate::inspect;
use crate::lease;

/// Capacity of the cache of image labels. A full cache is cleared and filled again on demand.
const IMAGE_LABELS_CAPACITY: usize = 256;

/// Capacity of each cache of container ids. A full cache is cleared and filled again on demand.
const CONTAINER_IDS_CAPACITY: usize = 16 * 1024;

/// Maximum time between the label of a container and its creation, in milliseconds: the deadline of the action, and changes of a clock
/// since then.
const MAX_CREATION_DELAY: u64 = 3_600_000;

/// Prefix of all labels of Argus.
const LABEL_PREFIX: &str = "argusai.";

/// Cache of image labels by image id. An id is a hash of the content, so its labels never change.
#[derive(Debug, Default)]
pub(crate) struct ImageLabels {
    known: Mutex<HashMap<String, Arc<BTreeMap<String, String>>>>,
}

/// Cache of ownership checks. An engine never reuses an id and never changes a label, so a result stays true.
#[derive(Debug, Default)]
pub(crate) struct OwnedIds {
    /// Containers that this backend created, or that a check found to be owned.
    ids: Mutex<HashSet<ContainerId>>,
    /// Containers that have the labels of Argus only from their images.
    inherited: Mutex<HashSet<ContainerId>>,
}

impl OwnedIds {
    /// Records an owned container.
    pub(crate) fn insert(&self, id: &ContainerId) {
        let mut ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
        if ids.len() >= CONTAINER_IDS_CAPACITY {
            ids.clear();
        }
        ids.insert(id.clone());
    }

    fn contains(&self, id: &ContainerId) -> bool {
        self.ids
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(id)
    }

    /// True for a container that inherited its labels from its image and therefore is not owned.
    pub(crate) fn has_inherited_labels(&self, id: &ContainerId) -> bool {
        let inherited = self.inherited.lock().unwrap_or_else(PoisonError::into_inner);
        inherited.contains(id)
    }

    fn insert_inherited(&self, id: &ContainerId) {
        let mut ids = self.inherited.lock().unwrap_or_else(PoisonError::into_inner);
        if ids.len() >= CONTAINER_IDS_CAPACITY {
            ids.clear();
        }
        ids.insert(id.clone());
    }
}

/// An inspected container with the id of its image.
#[derive(Debug)]
pub(crate) struct Inspected {
    pub(crate) container: Container,
    pub(crate) image_id: String,
}

/// Inspects a container by id or name; `None` when it does not exist.
pub(crate) async fn inspect_container(
    shared: &Shared,
    name_or_id: &str,
) -> Result<Option<Inspected>, ActionError> {
    let client = shared.connection.client()?;
    let call = client.inspect_container(name_or_id, None);
    let found = match call::run_raw(Op::Inspect, shared.times.read, call).await {
        Ok(found) => found,
        Err(error) if error.is_gone() => return Ok(None),
        Err(error) => return Err(classify_read(error)),
    };
    let image_id = found.image.clone().unwrap_or_default();
    Ok(inspect::convert_inspect(found).map(|container| Inspected { container, image_id }))
}

/// Checks that a container is owned by Argus. A container that passed before is not inspected again.
///
/// # Errors
/// [`ActionError::Gone`] when an inspect was needed and found no container; else as [`inspect_owned_container`].
pub(crate) async fn ensure_owned(shared: &Shared, id: &ContainerId) -> Result<(), ActionError> {
    if shared.owned_ids.contains(id) {
        return Ok(());
    }
    inspect_owned_container(shared, id)
        .await?
        .map(drop)
        .ok_or(ActionError::Gone)
}

/// Inspects a container and checks its owner: it must carry our labels, and not only because its image does.
///
/// Returns `None` when the container is gone.
///
/// # Errors
/// [`ActionError::NotOwned`] when the container is not owned by Argus.
pub(crate) async fn inspect_owned_container(
    shared: &Shared,
    id: &ContainerId,
) -> Result<Option<Inspected>, ActionError> {
    let Some(inspected) = inspect_container(shared, id.as_str()).await? else {
        return Ok(None);
    };
    match find_owner(shared, &inspected).await? {
        Some(_) => {
            shared.owned_ids.insert(id);
            Ok(Some(inspected))
        }
        None => Err(ActionError::NotOwned(format!(
            "container `{}`",
            inspected.container.name
        ))),
    }
}

/// True when an inspected container has our labels from its image only.
///
/// Returns false when the engine does not answer; every action checks the owner again.
pub(crate) async fn has_inherited_labels(shared: &Shared, container: &Container, image_id: &str) -> bool {
    if shared.owned_ids.contains(&container.id) || !container.labels.contains_key(MANAGED) {
        return false;
    }
    let inherited = is_inherited(shared, container, image_id).await.unwrap_or(false);
    if inherited {
        shared.owned_ids.insert_inherited(&container.id);
    }
    inherited
}

/// Owner of an inspected container; `None` for one that Argus did not create.
pub(crate) async fn find_owner(
    shared: &Shared,
    inspected: &Inspected,
) -> Result<Option<ObjectLabels>, ActionError> {
    let Some(owner) = inspected.container.owner() else {
        return Ok(None);
    };
    let inherited = is_inherited(shared, &inspected.container, &inspected.image_id).await?;
    Ok((!inherited).then_some(owner))
}

/// Inspects a network and checks its owner; `None` when the network is gone.
pub(crate) async fn inspect_owned_network(
    shared: &Shared,
    id: &NetworkId,
) -> Result<Option<models::NetworkInspect>, ActionError> {
    let Some(found) = inspect_network(shared, id.as_str()).await? else {
        return Ok(None);
    };
    match ObjectLabels::read(&inspect::to_btree_map(found.labels.clone())) {
        Some(_) => Ok(Some(found)),
        None => Err(ActionError::NotOwned(format!(
            "network `{}`",
            found.name.as_deref().unwrap_or_default()
        ))),
    }
}

/// Inspects a network by id or name; `None` when it does not exist.
pub(crate) async fn inspect_network(
    shared: &Shared,
    name_or_id: &str,
) -> Result<Option<models::NetworkInspect>, ActionError> {
    let client = shared.connection.client()?;
    let call = client.inspect_network(name_or_id, None);
    match call::run_raw(Op::Inspect, shared.times.read, call).await {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.is_gone() => Ok(None),
        Err(error) => Err(classify_read(error)),
    }
}

/// Replaces the digest of the build by that of the image itself. A label of the container can be copied from another one.
///
/// The inherited label stays if the image no longer exists, or if the engine does not answer.
pub(crate) async fn read_build(shared: &Shared, container: &mut Container, image_id: &str) {
    if let Some(info) = &mut container.inspect
        && !info.config.build.is_empty()
        && !image_id.is_empty()
        && let Ok(Some(image)) = image_labels(shared, image_id).await
    {
        info.config.build = image.get(BUILD_DIGEST).cloned().unwrap_or_default();
    }
}

/// The labels of an image; `None` for an image that no longer exists.
async fn image_labels(
    shared: &Shared,
    id: &str,
) -> Result<Option<Arc<BTreeMap<String, String>>>, ActionError> {
    if id.is_empty() {
        return Ok(Some(Arc::default()));
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
        return Ok(Some(labels));
    }
    let Some(labels) = inspect_image(shared, id).await? else {
        return Ok(None);
    };
    let labels = Arc::new(labels);
    let mut known = shared
        .image_labels
        .known
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    if known.len() >= IMAGE_LABELS_CAPACITY {
        known.clear();
    }
    known.insert(id.to_owned(), labels.clone());
    Ok(Some(labels))
}

/// The labels of an image by reference or id; `None` when the engine does not have it.
pub(crate) async fn inspect_image(
    shared: &Shared,
    reference: &str,
) -> Result<Option<BTreeMap<String, String>>, ActionError> {
    check_reference(reference)?;
    let client = shared.connection.client()?;
    match call::run_raw(Op::Inspect, shared.times.read, client.inspect_image(reference)).await {
        Ok(found) => Ok(Some(inspect::to_btree_map(
            found.config.and_then(|config| config.labels),
        ))),
        Err(error) if error.has_status(404) => Ok(None),
        Err(error) => Err(classify_read(error)),
    }
}

/// Checks the characters of an image reference, because the client puts it into a URL without escaping.
pub(crate) fn check_reference(reference: &str) -> Result<(), ActionError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/' | ':' | '@' | '+');
    let starts_valid = reference.starts_with(|c: char| c.is_ascii_alphanumeric());
    if starts_valid && reference.len() <= 512 && reference.chars().all(allowed) && !reference.contains("..") {
        return Ok(());
    }
    Err(ActionError::Rejected(format!(
        "`{}` is not a valid image reference",
        reference.chars().take(80).collect::<String>()
    )))
}

/// True when every label of Argus comes from the image, as after `docker commit` of a managed container.
async fn is_inherited(shared: &Shared, container: &Container, image_id: &str) -> Result<bool, ActionError> {
    Ok(match image_labels(shared, image_id).await? {
        Some(image) => are_of_image(container, &image),
        // The clocks may agree, or may have been set since the creation. Only a difference needs a measurement.
        None => {
            !is_creation_time(container, 0)
                && !is_creation_time(container, lease::recent_clock_offset(shared).await?)
        }
    })
}

/// True when the image has all labels of Argus that the container has.
///
/// A container that Argus created differs from its image at least in `argusai.created-at`.
fn are_of_image(container: &Container, image: &BTreeMap<String, String>) -> bool {
    let labels = container.labels.iter();
    let mut ours = labels.filter(|(key, _)| key.starts_with(LABEL_PREFIX));
    image.contains_key(MANAGED) && ours.all(|(key, value)| image.get(key) == Some(value))
}

/// True when the label has the time at which the engine created the container. The clock of the engine is `offset` milliseconds ahead of
/// the one that wrote the label.
fn is_creation_time(container: &Container, offset: i64) -> bool {
    let at = container
        .labels
        .get(CREATED_AT)
        .and_then(|at| Timestamp::parse(at));
    at.is_some_and(|at| at.0.saturating_add(offset).abs_diff(container.created_at.0) <= MAX_CREATION_DELAY)
}

/// Classifies the error of a failed inspect, which has changed nothing, so its outcome is never unknown.
fn classify_read(error: CallError) -> ActionError {
    match error.classify(Op::Inspect) {
        ActionError::Unknown(why) | ActionError::TimedOut(why) | ActionError::ConnectionLost(why) => {
            ActionError::Unreachable(why)
        }
        other => other,
    }
}

#[cfg(test)]
#[path = "ownership_tests.rs"]
mod tests;
