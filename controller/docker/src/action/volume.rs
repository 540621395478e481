//! Actions on named volumes.

use std::collections::BTreeMap;

use argus_core::ident::ResourceName;
use argus_core::labels::{CONTROLLER, ENVIRONMENT, FOLDER, ObjectLabels};
use argus_core::outcome::{ActionError, Done};
use bollard::models::{Volume, VolumeCreateRequest};
use bollard::query_parameters::RemoveVolumeOptionsBuilder;

use crate::Shared;
use crate::call::{self, CallError};
use crate::create::to_hash_map;
use crate::error::Op;

/// Checks that an external volume exists. A create of a container would make an empty one.
pub(super) async fn find(shared: &Shared, name: &ResourceName) -> Result<Done, ActionError> {
    match inspect(shared, name).await? {
        Some(_) => Ok(Done::Applied),
        None => Err(ActionError::VolumeNotFound(name.to_string())),
    }
}

/// Inspects a volume; `None` when it does not exist.
async fn inspect(shared: &Shared, name: &ResourceName) -> Result<Option<Volume>, ActionError> {
    let client = shared.connection.client()?;
    let call = client.inspect_volume(name.as_str());
    call::run_accepting(Op::Inspect, shared.times.read, call, |error| {
        error.has_status(404)
    })
    .await
}

/// Creates a volume. The engine returns an existing volume of the same name, so the labels decide the owner.
pub(super) async fn create(
    shared: &Shared,
    name: &ResourceName,
    labels: &BTreeMap<String, String>,
) -> Result<Done, ActionError> {
    let client = shared.connection.client()?;
    let request = VolumeCreateRequest {
        name: Some(name.as_str().to_owned()),
        driver: Some("local".to_owned()),
        labels: Some(to_hash_map(labels)),
        ..Default::default()
    };
    let made = call::run(
        Op::CreateVolume,
        shared.times.write,
        client.create_volume(request),
    )
    .await?;
    let same = |key: &str| made.labels.get(key) == labels.get(key);
    if [ENVIRONMENT, CONTROLLER].into_iter().all(same) {
        return Ok(Done::Applied);
    }
    let owner = match ObjectLabels::read(&made.labels.into_iter().collect()) {
        Some(owner) => owner.describe_volume_holder(labels.get(FOLDER).map(String::as_str)),
        None => "a volume that Argus did not create".to_owned(),
    };
    Err(ActionError::NameTaken {
        holder: format!("`{name}`: {owner}"),
    })
}

/// Removes a volume.
pub(super) async fn remove(shared: &Shared, name: &ResourceName) -> Result<Done, ActionError> {
    let client = shared.connection.client()?;
    let Some(found) = inspect(shared, name).await? else {
        return Ok(Done::Applied);
    };
    if ObjectLabels::read(&found.labels.into_iter().collect()).is_none() {
        return Err(ActionError::NotOwned(format!("volume `{name}`")));
    }
    let options = RemoveVolumeOptionsBuilder::default().build();
    let call = client.remove_volume(name.as_str(), Some(options));
    call::run_accepting(Op::RemoveVolume, shared.times.write, call, CallError::is_gone).await?;
    Ok(Done::Applied)
}
