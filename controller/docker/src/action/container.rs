//! Actions on containers.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use argus_core::action::ContainerSpec;
use argus_core::desired::{InjectedFile, substitute_tag};
use argus_core::ident::{ContainerId, ResourceName};
use argus_core::labels::{BUILD_DIGEST, CONTROLLER, ENVIRONMENT, FOLDER, SERVICE, SPEC_HASH};
use argus_core::observed::{Attachment, Container, ContainerState, Object};
use argus_core::outcome::{ActionError, Done};
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, RemoveContainerOptionsBuilder, RenameContainerOptionsBuilder,
    StopContainerOptionsBuilder, UploadToContainerOptionsBuilder,
};

use super::{mounts, port};
use crate::Shared;
use crate::call::{self, CallError, REMOVE_TIMEOUT, WRITE_TIMEOUT};
use crate::create;
use crate::error::Op;
use crate::image::build::label::is_own;
use crate::ownership::{self, Inspected};

/// Time after the grace within which the engine must have killed and cleaned up the container.
const KILL_TIMEOUT: Duration = Duration::from_secs(20);

/// Creates a container, or adopts the one that an earlier attempt of the same action created.
pub(super) async fn create(
    shared: &Shared,
    name: &ResourceName,
    spec: &ContainerSpec,
) -> Result<Done, ActionError> {
    let image = match spec.build.as_str() {
        "" => spec.image.clone(),
        _ => find_build(shared, spec).await?,
    };
    let spec = &ContainerSpec {
        image,
        ..spec.clone()
    };
    let client = shared.connection.client()?;
    let options = CreateContainerOptionsBuilder::default()
        .name(name.as_str())
        .build();
    let binds = mounts::before_create(shared, spec).await?;
    let host_gateway = !shared.lacks_host_gateway.load(Ordering::Relaxed);
    let call = client.create_container(Some(options), create::container_body(spec, host_gateway));
    match call::run(Op::CreateContainer, WRITE_TIMEOUT, call).await {
        Ok(created) => match ContainerId::new(created.id) {
            Ok(id) => {
                shared.owned_ids.insert(&id);
                shared.bind_mounts.insert(&id, binds);
                shared
                    .in_flight
                    .on_created(Object::Container(Arc::new(new_container(
                        &id, name, spec, shared,
                    ))));
                Ok(Done::Container(id))
            }
            Err(bad) => Err(ActionError::Unknown(bad.to_string())),
        },
        Err(ActionError::NameTaken { holder }) => adopt(shared, name, spec, holder).await,
        Err(other) => Err(other),
    }
}

/// A container right after its creation. The first inspect adds the details.
fn new_container(id: &ContainerId, name: &ResourceName, spec: &ContainerSpec, shared: &Shared) -> Container {
    let now = (shared.now)().0;
    // Before its first start a container has no network id.
    let attachment = Attachment {
        network: None,
        aliases: Vec::new(),
        address: None,
    };
    Container {
        id: id.clone(),
        name: name.to_string(),
        labels: spec.labels.clone(),
        image: spec.image.clone(),
        state: ContainerState::Created,
        created_at: argus_core::time::Timestamp(now - now.rem_euclid(1000)),
        networks: spec
            .attachments()
            .take(1)
            .map(|(name, _)| (name.to_string(), attachment.clone()))
            .collect(),
        inspect: None,
        stopped_by_other: None,
        oom_at: None,
    }
}

/// Returns the tag that names the build of the spec: its own, or the substitute. Another build may have taken both.
async fn find_build(shared: &Shared, spec: &ContainerSpec) -> Result<String, ActionError> {
    for tag in [spec.image.clone(), substitute_tag(&spec.image)] {
        let labels = ownership::inspect_image(shared, &tag).await?;
        let digest = labels.as_ref().and_then(|labels| labels.get(BUILD_DIGEST));
        // An image that is based on a build inherits its labels.
        if digest.is_some_and(|digest| *digest == spec.build) && is_own(shared, &tag).await? {
            return Ok(tag);
        }
    }
    Err(ActionError::ImageMissing)
}

async fn adopt(
    shared: &Shared,
    name: &ResourceName,
    spec: &ContainerSpec,
    holder: String,
) -> Result<Done, ActionError> {
    let Some(existing) = ownership::inspect_container(shared, name.as_str()).await? else {
        // The holder was removed after the refusal, or its removal is still in progress.
        return Err(ActionError::Busy(format!("the name is still in use by {holder}")));
    };
    let owner = ownership::find_owner(shared, &existing).await?;
    let same = |key: &str| existing.container.labels.get(key) == spec.labels.get(key);
    let ours = owner.is_some()
        && [ENVIRONMENT, SERVICE, SPEC_HASH, CONTROLLER]
            .into_iter()
            .all(same);
    match (ours, existing.container.state) {
        (true, ContainerState::Removing | ContainerState::Dead) => Err(ActionError::Busy(
            "the container of an earlier attempt is still being removed".to_owned(),
        )),
        (true, _) => Ok(Done::Container(existing.container.id)),
        (false, _) => Err(ActionError::NameTaken {
            holder: describe_holder(&existing, owner.is_some(), spec.labels.get(FOLDER)),
        }),
    }
}

/// The holder of a name, for people.
fn describe_holder(holder: &Inspected, is_owned: bool, own_folder: Option<&String>) -> String {
    let container = &holder.container;
    let short: String = container.id.as_str().chars().take(12).collect();
    let owner = match container.owner().filter(|_| is_owned) {
        Some(owner) => owner.describe_holder(own_folder.map(String::as_str)),
        None => "a container that Argus did not create".to_owned(),
    };
    format!("`{}` ({short}): {owner}", container.name)
}

/// Copies files into a container, running or not. The engine writes them into the container's file system, with all mounts in place.
pub(super) async fn copy_files(
    shared: &Shared,
    id: &ContainerId,
    files: &[InjectedFile],
) -> Result<Done, ActionError> {
    ownership::ensure_owned(shared, id).await?;
    mounts::before_copy(shared, id, files).await?;
    let client = shared.connection.client()?;
    let options = UploadToContainerOptionsBuilder::default()
        .path("/")
        // A folder at the path of the file is a mistake of the image; it is not replaced.
        .no_overwrite_dir_non_dir("true")
        .build();
    let archive = pack_files(files).map_err(|error| ActionError::Rejected(error.to_string()))?;
    let call = client.upload_to_container(id.as_str(), Some(options), bollard::body_full(archive.into()));
    match call::run(Op::CopyFile, WRITE_TIMEOUT, call).await {
        Ok(()) => Ok(Done::Applied),
        // The usual cause is a missing mount source, which may reappear.
        Err(ActionError::Rejected(why)) => Err(ActionError::Busy(why)),
        Err(other) => Err(other),
    }
}

/// A tar archive that contains only the files. The engine creates missing folders.
fn pack_files(files: &[InjectedFile]) -> std::io::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    for file in files {
        let mut head = tar::Header::new_gnu();
        head.set_size(file.text.len() as u64);
        head.set_mode(file.access.mode);
        head.set_uid(file.access.uid.into());
        head.set_gid(file.access.gid.into());
        archive.append_data(&mut head, file.path.trim_start_matches('/'), file.text.as_bytes())?;
    }
    archive.into_inner()
}

/// Starts a container. When the engine refuses a port, the error names the port's owner.
pub(super) async fn start(shared: &Shared, id: &ContainerId) -> Result<Done, ActionError> {
    ownership::ensure_owned(shared, id).await?;
    let client = shared.connection.client()?;
    mounts::before_start(shared, id).await?;
    let _call = shared.in_flight.start(id);
    let call = client.start_container(id.as_str(), None);
    match call::run_raw(Op::StartContainer, WRITE_TIMEOUT, call).await {
        Ok(()) => Ok(Done::Applied),
        Err(error) => {
            let text = error.lowercase_message();
            if text.contains("host-gateway") {
                // The next container, which replaces a refused one, does without it.
                shared.lacks_host_gateway.store(true, Ordering::Relaxed);
            }
            match error.classify(Op::StartContainer) {
                ActionError::PortTaken(refusal) => {
                    let inspected = ownership::inspect_container(shared, id.as_str())
                        .await?
                        .ok_or(ActionError::Gone)?;
                    Err(port::describe_refusal(shared, &inspected, refusal.port, &text).await)
                }
                other => Err(other),
            }
        }
    }
}

/// Stops a container: its stop signal, then SIGKILL after the grace.
pub(super) async fn stop(shared: &Shared, id: &ContainerId, grace: Duration) -> Result<Done, ActionError> {
    match ownership::ensure_owned(shared, id).await {
        Err(ActionError::Gone) => return Ok(Done::Applied),
        other => other?,
    }
    let client = shared.connection.client()?;
    let _call = shared.in_flight.start(id);
    let seconds = i32::try_from(create::round_up_to_seconds(grace)).unwrap_or(i32::MAX);
    let options = StopContainerOptionsBuilder::default().t(seconds).build();
    let stopping = shared.own_stops.begin(id, grace, (shared.now)());
    let call = client.stop_container(id.as_str(), Some(options));
    let result = call::run_raw(Op::StopContainer, grace + KILL_TIMEOUT, call).await;
    gone_is_done(result, Op::StopContainer).inspect(|_| stopping.finish((shared.now)()))
}

/// Pauses a container that Argus owns.
pub(crate) async fn pause(shared: &Shared, id: &ContainerId) -> Result<Done, ActionError> {
    ownership::ensure_owned(shared, id).await?;
    let client = shared.connection.client()?;
    match call::run_raw(
        Op::PauseContainer,
        WRITE_TIMEOUT,
        client.pause_container(id.as_str()),
    )
    .await
    {
        Ok(()) => Ok(Done::Applied),
        Err(error) if error.lowercase_message().contains("is already paused") => Ok(Done::Applied),
        Err(error) => Err(error.classify(Op::PauseContainer)),
    }
}

/// Unpauses a container.
pub(super) async fn unpause(shared: &Shared, id: &ContainerId) -> Result<Done, ActionError> {
    ownership::ensure_owned(shared, id).await?;
    let client = shared.connection.client()?;
    let _call = shared.in_flight.start(id);
    match call::run_raw(
        Op::UnpauseContainer,
        WRITE_TIMEOUT,
        client.unpause_container(id.as_str()),
    )
    .await
    {
        Ok(()) => Ok(Done::Applied),
        Err(error) if error.lowercase_message().contains("is not paused") => Ok(Done::Applied),
        Err(error) => Err(error.classify(Op::UnpauseContainer)),
    }
}

/// Renames a container.
pub(super) async fn rename(
    shared: &Shared,
    id: &ContainerId,
    to: &ResourceName,
) -> Result<Done, ActionError> {
    let inspected = ownership::inspect_owned_container(shared, id)
        .await?
        .ok_or(ActionError::Gone)?;
    if inspected.container.name == to.as_str() {
        return Ok(Done::Applied);
    }
    let client = shared.connection.client()?;
    let options = RenameContainerOptionsBuilder::default().name(to.as_str()).build();
    match call::run(
        Op::RenameContainer,
        WRITE_TIMEOUT,
        client.rename_container(id.as_str(), options),
    )
    .await
    {
        Ok(()) => Ok(Done::Applied),
        Err(ActionError::NameTaken { holder }) => {
            Err(match ownership::inspect_container(shared, to.as_str()).await? {
                Some(other) => {
                    let owner = ownership::find_owner(shared, &other).await?;
                    ActionError::NameTaken {
                        holder: describe_holder(
                            &other,
                            owner.is_some(),
                            inspected.container.labels.get(FOLDER),
                        ),
                    }
                }
                None => ActionError::Busy(format!("the name is still in use by {holder}")),
            })
        }
        Err(other) => Err(other),
    }
}

/// Removes a container, running or not, together with its anonymous volumes.
pub(super) async fn remove(shared: &Shared, id: &ContainerId) -> Result<Done, ActionError> {
    if ownership::inspect_owned_container(shared, id).await?.is_none() {
        return Ok(Done::Applied);
    }
    let client = shared.connection.client()?;
    let options = RemoveContainerOptionsBuilder::default()
        .force(true)
        .v(true)
        .build();
    let _call = shared.in_flight.start(id);
    let stopping = shared.own_stops.begin(id, REMOVE_TIMEOUT, (shared.now)());
    let call = client.remove_container(id.as_str(), Some(options));
    let result = call::run_raw(Op::RemoveContainer, REMOVE_TIMEOUT, call).await;
    gone_is_done(result, Op::RemoveContainer).inspect(|_| stopping.finish((shared.now)()))
}

/// Treats a missing container as success.
fn gone_is_done(result: Result<(), CallError>, op: Op) -> Result<Done, ActionError> {
    match result {
        Ok(()) => Ok(Done::Applied),
        Err(error) if error.is_gone() => Ok(Done::Applied),
        Err(error) => Err(error.classify(op)),
    }
}
