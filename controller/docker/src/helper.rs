//! Helper containers: short-lived containers of this program's own image that measure from inside the engine's host.
//!
//! A helper runs one `probe` command in a given network namespace and prints the result. It has no capabilities, a
//! read-only root and 64 MiB of memory, and the engine removes it when it ends. A helper of another image is never started.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use argus_core::desired::Build;
use argus_core::ident::{ContainerId, NetworkId};
use argus_core::journal::{ChangedObject, EngineChange};
use argus_core::labels::BUILD_DIGEST;
use argus_core::outcome::ActionError;
use bollard::models::{ContainerCreateBody, HostConfig, Mount, MountType};
use bollard::query_parameters::{
    AttachContainerOptionsBuilder, CreateContainerOptions, ListContainersOptionsBuilder,
    RemoveContainerOptionsBuilder, WaitContainerOptionsBuilder,
};
use futures::StreamExt as _;
use tokio::sync::Mutex;

use crate::Shared;
use crate::call;
use crate::connect::MAX_ANSWER_BYTES;
use crate::error::{self, Op};
use crate::image::build::build;
use crate::ownership;

/// Creates the build context of this program's own image and returns its build. The function blocks.
pub type OwnImageBuilder = Arc<dyn Fn() -> io::Result<Build> + Send + Sync>;

/// Label of helpers. They do not carry the label of managed containers, so plans and garbage collection ignore them.
const LABEL: &str = "argusai.helper";
/// Memory limit of a helper, in bytes; several times what it needs.
const MEMORY_LIMIT: i64 = 64 * 1024 * 1024;
/// Age after which a helper counts as left behind by a run that has ended.
const STALE_AGE: Duration = Duration::from_secs(60);
/// Maximum length of the recorded command of a helper, in characters.
const MAX_PURPOSE: usize = 200;
/// Maximum time for the engine to remove a helper that has ended.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(5);

/// Shared state of helpers; its lock allows one helper at a time.
pub(crate) struct Helpers {
    own_image: Option<OwnImageBuilder>,
    /// The build of this program's image; `None` before the first helper.
    built: Mutex<Option<Build>>,
}

impl Helpers {
    pub(crate) fn new(own_image: Option<OwnImageBuilder>) -> Self {
        Self {
            own_image,
            built: Mutex::default(),
        }
    }
}

/// Network namespace of a helper.
#[derive(Debug, Clone, Copy)]
pub(crate) enum HelperNetwork<'a> {
    /// No network; for measurements of the file system.
    None,
    /// The network namespace of a running container, with its resolver and its hosts file.
    Container(&'a ContainerId),
    /// A new endpoint on this network, without an alias, and with these host entries.
    Endpoint {
        network: &'a NetworkId,
        extra_hosts: &'a [String],
    },
}

/// Creates a container of an image that never starts, for a check of the files of the image. An empty mount, which the engine makes at a start
/// only, replaces each of the volumes that the image declares.
pub(crate) async fn create_unmounted(
    shared: &Shared,
    image: &str,
    volumes: Vec<String>,
) -> Result<ContainerId, ActionError> {
    remove_stale(shared).await?;
    let client = shared.connection.client()?;
    let empty = |path: String| Mount {
        typ: Some(MountType::TMPFS),
        target: Some(path),
        ..Mount::default()
    };
    let body = ContainerCreateBody {
        image: Some(image.to_owned()),
        // The engine requires a command.
        cmd: Some(vec!["-".to_owned()]),
        labels: Some(HashMap::from([(LABEL.to_owned(), "true".to_owned())])),
        host_config: Some(HostConfig {
            network_mode: Some("none".to_owned()),
            mounts: Some(volumes.into_iter().map(empty).collect()),
            ..HostConfig::default()
        }),
        ..ContainerCreateBody::default()
    };
    let create = client.create_container(None::<CreateContainerOptions>, body);
    let id = call::run(Op::CreateContainer, shared.times.write, create)
        .await?
        .id;
    shared.record_change(EngineChange::created(ChangedObject::Helper, &id).purpose("links in an image"));
    ContainerId::new(id).map_err(|bad| ActionError::Unknown(bad.to_string()))
}

/// Runs a command of this program in a helper and returns its standard output.
pub(crate) async fn run(
    shared: &Shared,
    network: HelperNetwork<'_>,
    command: Vec<String>,
) -> Result<String, ActionError> {
    let mut built = shared.helpers.built.lock().await;
    let image = ensure_image(shared, &mut built).await?;
    remove_stale(shared).await?;
    let client = shared.connection.client()?;
    let (network, extra_hosts) = match network {
        HelperNetwork::None => ("none".to_owned(), None),
        HelperNetwork::Container(id) => (format!("container:{id}"), None),
        HelperNetwork::Endpoint { network, extra_hosts } => (network.to_string(), Some(extra_hosts.to_vec())),
    };
    let purpose: String = command.join(" ").chars().take(MAX_PURPOSE).collect();
    let body = ContainerCreateBody {
        image: Some(image.tag.clone()),
        cmd: Some(command),
        labels: Some(HashMap::from([(LABEL.to_owned(), "true".to_owned())])),
        host_config: Some(HostConfig {
            network_mode: Some(network),
            extra_hosts,
            memory: Some(MEMORY_LIMIT),
            readonly_rootfs: Some(true),
            cap_drop: Some(vec!["ALL".to_owned()]),
            security_opt: Some(vec!["no-new-privileges".to_owned()]),
            // The engine removes the helper when it ends, even if this process has died.
            auto_remove: Some(true),
            ..HostConfig::default()
        }),
        ..ContainerCreateBody::default()
    };
    let create = client.create_container(None::<CreateContainerOptions>, body);
    let id = call::run(Op::CreateContainer, shared.times.write, create)
        .await?
        .id;
    shared.record_change(EngineChange::created(ChangedObject::Helper, &id).purpose(purpose));
    let output = run_attached(shared, &id).await;
    if output.is_ok() {
        // The engine is about to remove the helper, and an explicit removal would interfere.
        let options = WaitContainerOptionsBuilder::default()
            .condition("removed")
            .build();
        let mut gone = client.wait_container(&id, Some(options));
        drop(tokio::time::timeout(REMOVAL_TIMEOUT, gone.next()).await);
    }
    // No helper stays, whatever the result is. A later call removes one that cannot be removed now.
    drop(remove(shared, &id).await);
    output
}

/// Starts a helper and returns its output. It attaches before the start, because the log is removed with the container.
async fn run_attached(shared: &Shared, id: &str) -> Result<String, ActionError> {
    let client = shared.connection.client()?;
    let options = AttachContainerOptionsBuilder::default()
        .stream(true)
        .stdout(true)
        .build();
    let attach = client.attach_container(id, Some(options));
    let mut stream = call::run(Op::Logs, shared.times.write, attach).await?.output;
    let start = client.start_container(id, None);
    call::run(Op::StartContainer, shared.times.write, start).await?;
    let mut output = Vec::new();
    let all = async {
        while let Some(part) = stream.next().await {
            let part = part.map_err(|failure| error::classify_transport(&failure))?;
            output.extend_from_slice(&part.into_bytes());
            if output.len() > MAX_ANSWER_BYTES {
                let message = "the output of the helper container is too large";
                return Err(ActionError::Unknown(message.to_owned()));
            }
        }
        Ok(())
    };
    tokio::time::timeout(shared.times.write, all)
        .await
        .unwrap_or_else(|_| {
            Err(ActionError::TimedOut(format!(
                "the helper container did not end within {} s",
                shared.times.write.as_secs()
            )))
        })?;
    Ok(String::from_utf8_lossy(&output).into_owned())
}

/// Returns this program's image on the engine, and builds it when it is missing.
async fn ensure_image(shared: &Shared, built: &mut Option<Build>) -> Result<Build, ActionError> {
    if let Some(image) = built.as_ref()
        && has_image(shared, image).await?
    {
        return Ok(image.clone());
    }
    let own = shared.helpers.own_image.clone();
    let own = own.ok_or_else(|| ActionError::Rejected("helpers are disabled".to_owned()))?;
    let image = tokio::task::spawn_blocking(move || own()).await;
    let image = image.map_err(|error| ActionError::Unknown(error.to_string()))?;
    let image = image.map_err(|error| ActionError::Rejected(format!("helper image: {error}")))?;
    if !has_image(shared, &image).await? {
        let built = build(shared, &image, &()).await;
        let change = EngineChange::created(ChangedObject::OwnImage, &image.tag);
        shared.record_change(change.failed(built.is_err()));
        built?;
    }
    Ok(built.insert(image).clone())
}

async fn has_image(shared: &Shared, image: &Build) -> Result<bool, ActionError> {
    let labels = ownership::inspect_image(shared, &image.tag).await?;
    let digest = labels.as_ref().and_then(|labels| labels.get(BUILD_DIGEST));
    Ok(digest.is_some_and(|digest| digest == image.digest.as_str()))
}

/// Removes helpers of runs that have ended.
async fn remove_stale(shared: &Shared) -> Result<(), ActionError> {
    let client = shared.connection.client()?;
    let ours = HashMap::from([("label", vec![LABEL])]);
    let options = ListContainersOptionsBuilder::default()
        .all(true)
        .filters(&ours)
        .build();
    let helpers = call::run(
        Op::List,
        shared.times.write,
        client.list_containers(Some(options)),
    )
    .await?;
    let now = (shared.now)();
    for helper in helpers {
        let created_at = argus_core::time::Timestamp(helper.created.unwrap_or_default() * 1000);
        if let Some(id) = helper.id.filter(|_| now.since(created_at) > STALE_AGE) {
            remove(shared, &id).await?;
            shared.record_change(EngineChange::removed(ChangedObject::Helper, id));
        }
    }
    Ok(())
}

/// Removes a helper.
pub(crate) async fn remove(shared: &Shared, id: &str) -> Result<(), ActionError> {
    let client = shared.connection.client()?;
    let options = RemoveContainerOptionsBuilder::default()
        .force(true)
        .v(true)
        .build();
    let call = client.remove_container(id, Some(options));
    call::run(Op::RemoveContainer, shared.times.remove, call).await
}

#[cfg(test)]
mod tests {
    use argus_core::time::Timestamp;
    use serde_json::json;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::UnixListener;

    use super::*;
    use crate::{Docker, Endpoint};

    /// An engine with one helper of a run that has ended.
    async fn serve(listener: UnixListener) {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = [0; 4096];
            let read = stream.read(&mut head).await.unwrap();
            let head = String::from_utf8_lossy(&head[..read]).into_owned();
            let body = match head.split(' ').next() {
                Some("GET") => json!([{ "Id": "old", "Created": 0 }]).to_string(),
                Some("POST") => json!({ "Id": "new", "Warnings": [] }).to_string(),
                _ => String::new(),
            };
            let length = body.len();
            let answer =
                format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}");
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    }

    #[tokio::test]
    async fn created_and_removed_helpers_are_recorded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("engine.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let docker = Docker::new(Endpoint::Unix(path), Arc::new(|| Timestamp(120_000)));
        let recorded = Arc::new(std::sync::Mutex::new(Vec::new()));
        let into = recorded.clone();
        docker.record_changes(Box::new(move |change| into.lock().unwrap().push(change)));
        tokio::select! {
            made = create_unmounted(&docker.shared, "web:1", Vec::new()) => assert_eq!(made.unwrap().as_str(), "new"),
            () = serve(listener) => panic!("the engine ended"),
        }
        let expected = [
            EngineChange::removed(ChangedObject::Helper, "old"),
            EngineChange::created(ChangedObject::Helper, "new").purpose("links in an image"),
        ];
        assert_eq!(*recorded.lock().unwrap(), expected);
    }
}
