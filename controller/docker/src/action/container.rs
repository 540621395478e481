//! Acts on containers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use argus_core::desired::File;
use argus_core::ident::{ContainerId, ResourceName};
use argus_core::labels::{CONTROLLER, ENVIRONMENT, SERVICE, SPEC_HASH};
use argus_core::observed::{Attachment, Container, ContainerState, Object};
use argus_core::outcome::{ActionError, Done};
use argus_core::plan::ContainerSpec;
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, RemoveContainerOptionsBuilder, RenameContainerOptionsBuilder,
    StopContainerOptionsBuilder, UploadToContainerOptionsBuilder,
};

use super::port;
use crate::Shared;
use crate::call::{self, REMOVE, WRITE};
use crate::create;
use crate::error::Op;
use crate::image::build::BUILD_DIGEST;
use crate::ownership::{self, Inspected};

/// The engine kills after the grace and then has some work to do.
const AFTER_GRACE: Duration = Duration::from_secs(20);

/// Creates a container, or adopts the one that an earlier try of the same made.
pub(super) async fn create(
    shared: &Shared,
    name: &ResourceName,
    spec: &ContainerSpec,
) -> Result<Done, ActionError> {
    if !spec.build.is_empty() {
        expect_build(shared, spec).await?;
    }
    let client = shared.connection.client()?;
    let options = CreateContainerOptionsBuilder::default()
        .name(name.as_str())
        .build();
    let call = client.create_container(Some(options), create::body(spec));
    match call::within(Op::CreateContainer, WRITE, call).await {
        Ok(created) => match ContainerId::new(created.id) {
            Ok(id) => {
                shared.owned_ids.learn(&id);
                shared
                    .in_flight
                    .on_created(Object::Container(Arc::new(made(&id, name, spec, shared))));
                Ok(Done::Container(id))
            }
            Err(bad) => Err(ActionError::Unknown(bad.to_string())),
        },
        Err(ActionError::NameTaken { holder }) => adopt(shared, name, spec, holder).await,
        Err(other) => Err(other),
    }
}

/// A container as it is right after its creation; all the rest an inspect tells once it has run.
fn made(id: &ContainerId, name: &ResourceName, spec: &ContainerSpec, shared: &Shared) -> Container {
    let now = (shared.now)().0;
    // Before its first start a container has no id of its network.
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
        networks: BTreeMap::from([(spec.network.to_string(), attachment)]),
        inspect: None,
        stopped_by_other: None,
        oom_at: None,
    }
}

/// The tag may have been moved to another image since it was built.
async fn expect_build(shared: &Shared, spec: &ContainerSpec) -> Result<(), ActionError> {
    let labels = ownership::inspect_image(shared, &spec.image).await?;
    match labels.as_ref().and_then(|labels| labels.get(BUILD_DIGEST)) {
        Some(digest) if *digest == spec.build => Ok(()),
        _ => Err(ActionError::ImageMissing),
    }
}

async fn adopt(
    shared: &Shared,
    name: &ResourceName,
    spec: &ContainerSpec,
    holder: String,
) -> Result<Done, ActionError> {
    let Some(held) = ownership::inspect(shared, name.as_str()).await? else {
        // It went between the refusal and the look, or its removal is not finished.
        return Err(ActionError::Busy(format!("the name is still held by {holder}")));
    };
    let owner = ownership::owner_of(shared, &held).await?;
    let same = |key: &str| held.container.labels.get(key) == spec.labels.get(key);
    let ours = owner.is_some()
        && [ENVIRONMENT, SERVICE, SPEC_HASH, CONTROLLER]
            .into_iter()
            .all(same);
    match (ours, held.container.state) {
        (true, ContainerState::Removing | ContainerState::Dead) => Err(ActionError::Busy(
            "the container of an earlier try is being removed".to_owned(),
        )),
        (true, _) => Ok(Done::Container(held.container.id)),
        (false, _) => Err(ActionError::NameTaken {
            holder: describe(&held, owner.is_some()),
        }),
    }
}

/// Who holds a name, for people.
fn describe(held: &Inspected, made_by_argus: bool) -> String {
    let container = &held.container;
    let short: String = container.id.as_str().chars().take(12).collect();
    let whose = match container.owner().filter(|_| made_by_argus) {
        Some(owner) => format!(
            "environment `{}`, controller `{}`",
            owner.environment, owner.controller
        ),
        None => "a container that Argus did not make".to_owned(),
    };
    format!("`{}` ({short}): {whose}", container.name)
}

/// Puts a file where it shall be; the engine writes it beside what reads it, whether the container runs or not.
pub(super) async fn place(shared: &Shared, id: &ContainerId, file: &File) -> Result<Done, ActionError> {
    ownership::ensure_owned(shared, id).await?;
    let client = shared.connection.client()?;
    let options = UploadToContainerOptionsBuilder::default()
        .path("/")
        // A folder that stands where the file shall be is a mistake of the image, and stays.
        .no_overwrite_dir_non_dir("true")
        .build();
    let packed = packed(file).map_err(|error| ActionError::Rejected(error.to_string()))?;
    let call = client.upload_to_container(id.as_str(), Some(options), bollard::body_full(packed.into()));
    match call::within(Op::PlaceFile, WRITE, call).await {
        Ok(()) => Ok(Done::Ok),
        // As a rule something that it mounts is away, and may come back.
        Err(ActionError::Rejected(why)) => Err(ActionError::Busy(why)),
        Err(other) => Err(other),
    }
}

/// An archive with nothing but the file, which everybody may read.
fn packed(file: &File) -> std::io::Result<Vec<u8>> {
    let mut head = tar::Header::new_gnu();
    head.set_size(file.text.len() as u64);
    head.set_mode(0o644);
    let mut archive = tar::Builder::new(Vec::new());
    archive.append_data(&mut head, file.path.trim_start_matches('/'), file.text.as_bytes())?;
    archive.into_inner()
}

/// Starts a container; a refused port is looked at before anybody is told.
pub(super) async fn start(shared: &Shared, id: &ContainerId) -> Result<Done, ActionError> {
    ownership::ensure_owned(shared, id).await?;
    let client = shared.connection.client()?;
    let _hold = shared.in_flight.start(id);
    let call = client.start_container(id.as_str(), None);
    match call::raw(Op::StartContainer, WRITE, call).await {
        Ok(()) => Ok(Done::Ok),
        Err(refusal) => {
            let text = refusal.text();
            match refusal.into_error(Op::StartContainer) {
                ActionError::PortTaken(refused) => {
                    let held = ownership::inspect(shared, id.as_str())
                        .await?
                        .ok_or(ActionError::Gone)?;
                    Err(port::refused(shared, &held, refused.port, &text).await)
                }
                other => Err(other),
            }
        }
    }
}

/// Stops a container: its stop signal, then SIGKILL after the grace.
pub(super) async fn stop(shared: &Shared, id: &ContainerId, grace: Duration) -> Result<Done, ActionError> {
    match ownership::ensure_owned(shared, id).await {
        Err(ActionError::Gone) => return Ok(Done::Ok),
        other => other?,
    }
    let client = shared.connection.client()?;
    let _hold = shared.in_flight.start(id);
    let seconds = i32::try_from(create::whole_seconds(grace)).unwrap_or(i32::MAX);
    let options = StopContainerOptionsBuilder::default().t(seconds).build();
    let stopping = shared.own_stops.begin(id, grace, (shared.now)());
    let call = client.stop_container(id.as_str(), Some(options));
    let came = call::raw(Op::StopContainer, grace + AFTER_GRACE, call).await;
    gone_is_done(came, Op::StopContainer).inspect(|_| stopping.done((shared.now)()))
}

/// Freezes a container of ours.
pub(crate) async fn pause(shared: &Shared, id: &ContainerId) -> Result<Done, ActionError> {
    ownership::ensure_owned(shared, id).await?;
    let client = shared.connection.client()?;
    match call::raw(Op::PauseContainer, WRITE, client.pause_container(id.as_str())).await {
        Ok(()) => Ok(Done::Ok),
        Err(refusal) if refusal.text().contains("is already paused") => Ok(Done::Ok),
        Err(refusal) => Err(refusal.into_error(Op::PauseContainer)),
    }
}

/// Unfreezes a container.
pub(super) async fn unpause(shared: &Shared, id: &ContainerId) -> Result<Done, ActionError> {
    ownership::ensure_owned(shared, id).await?;
    let client = shared.connection.client()?;
    let _hold = shared.in_flight.start(id);
    match call::raw(Op::UnpauseContainer, WRITE, client.unpause_container(id.as_str())).await {
        Ok(()) => Ok(Done::Ok),
        Err(refusal) if refusal.text().contains("is not paused") => Ok(Done::Ok),
        Err(refusal) => Err(refusal.into_error(Op::UnpauseContainer)),
    }
}

/// Gives a container another name.
pub(super) async fn rename(
    shared: &Shared,
    id: &ContainerId,
    to: &ResourceName,
) -> Result<Done, ActionError> {
    let held = ownership::own_container(shared, id)
        .await?
        .ok_or(ActionError::Gone)?;
    if held.container.name == to.as_str() {
        return Ok(Done::Ok);
    }
    let client = shared.connection.client()?;
    let options = RenameContainerOptionsBuilder::default().name(to.as_str()).build();
    match call::within(
        Op::RenameContainer,
        WRITE,
        client.rename_container(id.as_str(), options),
    )
    .await
    {
        Ok(()) => Ok(Done::Ok),
        Err(ActionError::NameTaken { holder }) => {
            Err(match ownership::inspect(shared, to.as_str()).await? {
                Some(other) => {
                    let owner = ownership::owner_of(shared, &other).await?;
                    ActionError::NameTaken {
                        holder: describe(&other, owner.is_some()),
                    }
                }
                None => ActionError::Busy(format!("the name is still held by {holder}")),
            })
        }
        Err(other) => Err(other),
    }
}

/// Removes a container, running or not, with its anonymous volumes.
pub(super) async fn remove(shared: &Shared, id: &ContainerId) -> Result<Done, ActionError> {
    if ownership::own_container(shared, id).await?.is_none() {
        return Ok(Done::Ok);
    }
    let client = shared.connection.client()?;
    let options = RemoveContainerOptionsBuilder::default()
        .force(true)
        .v(true)
        .build();
    let _hold = shared.in_flight.start(id);
    let stopping = shared.own_stops.begin(id, REMOVE, (shared.now)());
    let call = client.remove_container(id.as_str(), Some(options));
    let came = call::raw(Op::RemoveContainer, REMOVE, call).await;
    gone_is_done(came, Op::RemoveContainer).inspect(|_| stopping.done((shared.now)()))
}

fn gone_is_done(came: Result<(), call::Refusal>, op: Op) -> Result<Done, ActionError> {
    match came {
        Ok(()) => Ok(Done::Ok),
        Err(refusal) if refusal.is_gone() => Ok(Done::Ok),
        Err(refusal) => Err(refusal.into_error(op)),
    }
}
