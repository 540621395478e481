//! A short-lived container of our own image: it looks where nobody else can, says what it saw, and is gone.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use argus_core::desired::Build;
use argus_core::ident::ContainerId;
use argus_core::outcome::ActionError;
use bollard::models::{ContainerCreateBody, HostConfig};
use bollard::query_parameters::{
    AttachContainerOptionsBuilder, CreateContainerOptions, ListContainersOptionsBuilder,
    RemoveContainerOptionsBuilder, WaitContainerOptionsBuilder,
};
use futures::StreamExt as _;
use tokio::sync::Mutex;

use crate::Shared;
use crate::call::{self, REMOVE, WRITE};
use crate::error::{self, Op};
use crate::image::build::{BUILD_DIGEST, build};
use crate::ownership;

/// Makes the folder that our own image is built from, and says how to build it; blocks.
pub type OwnImage = Arc<dyn Fn() -> io::Result<Build> + Send + Sync>;

/// Tells a helper from what a file asks for: nobody desires it, and the collector does not look at it.
const LABEL: &str = "argusai.helper";
/// What a look needs, with room.
const MEMORY: i64 = 64 * 1024 * 1024;
/// A helper that is still there after this was left by a run that died.
const OLD: Duration = Duration::from_secs(60);
/// The engine clears away what has ended within this.
const GOING: Duration = Duration::from_secs(5);

/// The way to helpers: one at a time.
pub(crate) struct Helpers {
    own_image: Option<OwnImage>,
    /// What was built, as long as this process runs.
    made: Mutex<Option<Build>>,
}

impl Helpers {
    pub(crate) fn new(own_image: Option<OwnImage>) -> Self {
        Self {
            own_image,
            made: Mutex::default(),
        }
    }
}

/// Where a helper looks from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum From<'a> {
    /// Its own root, without any network.
    Nowhere,
    /// The network of a running container, with that one's resolver and hosts.
    Container(&'a ContainerId),
}

/// What a command of our own image says on stdout.
pub(crate) async fn run(
    shared: &Shared,
    from: From<'_>,
    command: Vec<String>,
) -> Result<String, ActionError> {
    let mut made = shared.helpers.made.lock().await;
    let image = image(shared, &mut made).await?;
    sweep(shared).await?;
    let client = shared.connection.client()?;
    let network = match from {
        From::Nowhere => "none".to_owned(),
        From::Container(id) => format!("container:{id}"),
    };
    let body = ContainerCreateBody {
        image: Some(image.tag.clone()),
        cmd: Some(command),
        labels: Some(HashMap::from([(LABEL.to_owned(), "true".to_owned())])),
        host_config: Some(HostConfig {
            network_mode: Some(network),
            memory: Some(MEMORY),
            readonly_rootfs: Some(true),
            cap_drop: Some(vec!["ALL".to_owned()]),
            security_opt: Some(vec!["no-new-privileges".to_owned()]),
            // It ends by itself: whatever becomes of us, the engine clears it away.
            auto_remove: Some(true),
            ..HostConfig::default()
        }),
        ..ContainerCreateBody::default()
    };
    let create = client.create_container(None::<CreateContainerOptions>, body);
    let id = call::within(Op::CreateContainer, WRITE, create).await?.id;
    let said = said(shared, &id).await;
    if said.is_ok() {
        // On its way out by itself, which a removal would only get in the way of.
        let options = WaitContainerOptionsBuilder::default()
            .condition("removed")
            .build();
        let mut gone = client.wait_container(&id, Some(options));
        drop(tokio::time::timeout(GOING, gone.next()).await);
    }
    // Whatever came of it, nothing stays; what cannot be removed now is swept later.
    drop(remove(shared, &id).await);
    said
}

/// What it says from its start to its end. It is listened to before it is started, for its log goes with it.
async fn said(shared: &Shared, id: &str) -> Result<String, ActionError> {
    let client = shared.connection.client()?;
    let options = AttachContainerOptionsBuilder::default()
        .stream(true)
        .stdout(true)
        .build();
    let attach = client.attach_container(id, Some(options));
    let mut heard = call::within(Op::Logs, WRITE, attach).await?.output;
    call::within(Op::StartContainer, WRITE, client.start_container(id, None)).await?;
    let mut said = Vec::new();
    let all = async {
        while let Some(part) = heard.next().await {
            said.extend_from_slice(&part.map_err(|failure| error::transport(&failure))?.into_bytes());
        }
        Ok(())
    };
    tokio::time::timeout(WRITE, all).await.unwrap_or_else(|_| {
        Err(ActionError::TimedOut(format!(
            "no end within {} s",
            WRITE.as_secs()
        )))
    })?;
    Ok(String::from_utf8_lossy(&said).into_owned())
}

/// Our own image on this engine, built where it is not there.
async fn image(shared: &Shared, made: &mut Option<Build>) -> Result<Build, ActionError> {
    if let Some(built) = made.as_ref()
        && is_there(shared, built).await?
    {
        return Ok(built.clone());
    }
    let own = shared.helpers.own_image.clone();
    let own = own.ok_or_else(|| ActionError::Rejected("helpers are disabled".to_owned()))?;
    let how = tokio::task::spawn_blocking(move || own()).await;
    let how = how.map_err(|error| ActionError::Unknown(error.to_string()))?;
    let how = how.map_err(|error| ActionError::Rejected(format!("the image to look with: {error}")))?;
    if !is_there(shared, &how).await? {
        build(shared, &how, &()).await?;
    }
    Ok(made.insert(how).clone())
}

async fn is_there(shared: &Shared, image: &Build) -> Result<bool, ActionError> {
    let labels = ownership::inspect_image(shared, &image.tag).await?;
    let digest = labels.as_ref().and_then(|labels| labels.get(BUILD_DIGEST));
    Ok(digest.is_some_and(|digest| digest == image.digest.as_str()))
}

/// Removes helpers that a dead run left.
async fn sweep(shared: &Shared) -> Result<(), ActionError> {
    let client = shared.connection.client()?;
    let ours = HashMap::from([("label", vec![LABEL])]);
    let options = ListContainersOptionsBuilder::default()
        .all(true)
        .filters(&ours)
        .build();
    let there = call::within(Op::List, WRITE, client.list_containers(Some(options))).await?;
    let now = (shared.now)();
    for helper in there {
        let made = argus_core::time::Timestamp(helper.created.unwrap_or_default() * 1000);
        if let Some(id) = helper.id.filter(|_| now.since(made) > OLD) {
            remove(shared, &id).await?;
        }
    }
    Ok(())
}

async fn remove(shared: &Shared, id: &str) -> Result<(), ActionError> {
    let client = shared.connection.client()?;
    let options = RemoveContainerOptionsBuilder::default()
        .force(true)
        .v(true)
        .build();
    call::within(
        Op::RemoveContainer,
        REMOVE,
        client.remove_container(id, Some(options)),
    )
    .await
}
