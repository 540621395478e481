//! Actions on containers.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use argus_core::action::ContainerSpec;
use argus_core::desired::{InjectedFile, substitute_tag};
use argus_core::ident::{ContainerId, Protocol, ProtocolPort, ResourceName};
use argus_core::labels::{self, BUILD_DIGEST, CONTROLLER, ENVIRONMENT, FOLDER, SERVICE, SPEC_HASH};
use argus_core::observed::{Container, ContainerState, Object};
use argus_core::outcome::{ActionError, Done, PortOwner, PortRefusal};
use argus_core::time::Timestamp;
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, RemoveContainerOptionsBuilder, RenameContainerOptionsBuilder,
    StopContainerOptionsBuilder, UploadToContainerOptionsBuilder,
};

use super::mounts;
use crate::Shared;
use crate::call::{self, CallError};
use crate::create;
use crate::error::Op;
use crate::image::build::label::is_own;
use crate::listeners;
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
    match call::run(Op::CreateContainer, shared.times.write, call).await {
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
    let created_at = Timestamp(now - now.rem_euclid(1000));
    // Before its first start a container has no network id.
    let mut container = spec.created(id.clone(), name, None, created_at);
    container.inspect = None;
    for attachment in container.networks.values_mut() {
        attachment.aliases.clear();
    }
    container
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
        None => labels::compose_project(&container.labels).map_or_else(
            || "a container that Argus did not create".to_owned(),
            |project| labels::describe_compose_project(project),
        ),
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
    match call::run(Op::CopyFile, shared.times.write, call).await {
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
    match call::run_raw(Op::StartContainer, shared.times.write, call).await {
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
                    Err(describe_refused_port(shared, &inspected, refusal.port, &text).await)
                }
                other => Err(other),
            }
        }
    }
}

/// The error of a start that failed on a port, with the port's owner and all busy ports.
async fn describe_refused_port(
    shared: &Shared,
    inspected: &Inspected,
    named: ProtocolPort,
    text: &str,
) -> ActionError {
    let port = as_published(inspected, named);
    let snapshot = listeners::take_snapshot(shared, Some(&inspected.container.id)).await;
    let owner = match snapshot.owner(port) {
        Some(owner) => owner,
        // The engine has allocated the port, but no socket uses it.
        None if text.contains("port is already allocated") && snapshot.is_complete() => {
            PortOwner::StaleAllocation
        }
        None => PortOwner::Unknown,
    };
    let busy = snapshot.owners();
    let free_now = snapshot.is_complete() && !snapshot.busy().contains(&port);
    ActionError::PortTaken(Box::new(PortRefusal {
        port,
        free_now,
        owner,
        busy,
    }))
}

/// Corrects the protocol of the port from the container's bindings; some messages do not name it.
fn as_published(inspected: &Inspected, named: ProtocolPort) -> ProtocolPort {
    let bindings = inspected
        .container
        .inspect
        .as_ref()
        .map(|info| info.config.bindings.as_slice());
    let published = |protocol| {
        let port = ProtocolPort { protocol, ..named };
        bindings.unwrap_or_default().iter().any(|(_, host)| *host == port)
    };
    match (published(Protocol::Tcp), published(Protocol::Udp)) {
        (false, true) => ProtocolPort {
            protocol: Protocol::Udp,
            ..named
        },
        _ => named,
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
    let limit = grace + KILL_TIMEOUT;
    call::run_accepting(Op::StopContainer, limit, call, CallError::is_gone).await?;
    stopping.finish((shared.now)());
    Ok(Done::Applied)
}

/// Pauses a container that Argus owns.
pub(crate) async fn pause(shared: &Shared, id: &ContainerId) -> Result<Done, ActionError> {
    ownership::ensure_owned(shared, id).await?;
    let client = shared.connection.client()?;
    let call = client.pause_container(id.as_str());
    let is_paused = |error: &CallError| error.lowercase_message().contains("is already paused");
    call::run_accepting(Op::PauseContainer, shared.times.write, call, is_paused).await?;
    Ok(Done::Applied)
}

/// Unpauses a container.
pub(super) async fn unpause(shared: &Shared, id: &ContainerId) -> Result<Done, ActionError> {
    ownership::ensure_owned(shared, id).await?;
    let client = shared.connection.client()?;
    let _call = shared.in_flight.start(id);
    let call = client.unpause_container(id.as_str());
    let is_running = |error: &CallError| error.lowercase_message().contains("is not paused");
    call::run_accepting(Op::UnpauseContainer, shared.times.write, call, is_running).await?;
    Ok(Done::Applied)
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
    let call = client.rename_container(id.as_str(), options);
    match call::run(Op::RenameContainer, shared.times.write, call).await {
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
    let stopping = shared.own_stops.begin(id, shared.times.remove, (shared.now)());
    let call = client.remove_container(id.as_str(), Some(options));
    call::run_accepting(Op::RemoveContainer, shared.times.remove, call, CallError::is_gone).await?;
    stopping.finish((shared.now)());
    Ok(Done::Applied)
}
