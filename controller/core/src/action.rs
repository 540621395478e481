//! Actions: engine calls as data, with their subjects, causes and failures.
//!
//! One action is one engine call. The planner decides about actions, and the executor carries them out.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use argus_crds::PullPolicy;
use serde::{Deserialize, Serialize};

use crate::connectivity::Target;
use crate::desired::networks::EnvNetwork;
use crate::desired::{Build, Image, InjectedFile};
use crate::failed_run::{FailedRun, host_view::HostView};
use crate::ident::{ContainerId, EnvName, NetworkId, ResourceName, ServiceName};
use crate::secrets::Secrets;
use crate::time::Timestamp;

mod call;
mod cause;
mod container_spec;
mod failure;
mod failure_signs;
mod kind;

pub use argus_crds::status::Amount;
pub use call::Deadlines;
pub use cause::Cause;
pub use container_spec::{Binding, ContainerSpec};
pub use failure::{ActionFailure, CallArgs, FailedAttempt};
pub(crate) use failure_signs::{EngineSign, ObservedStateAfterFailure};
pub use kind::ActionKind;

/// Object of an action. At most one action per subject is planned or in flight.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum Subject {
    /// Containers of a service.
    Service {
        /// Environment of the service.
        environment: EnvName,
        /// Name of the service.
        service: ServiceName,
    },
    /// Network of an environment.
    Network {
        /// Environment of the network.
        environment: EnvName,
        /// Name in the file; `None` for the default network.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<ResourceName>,
    },
    /// A named volume.
    Volume {
        /// Environment of the volume.
        environment: EnvName,
        /// Name on the engine.
        name: ResourceName,
    },
    /// An image; shared by every environment that uses it.
    Image {
        /// Image reference, with the digest of the build for built images.
        key: String,
    },
    /// A container that no environment desires.
    ExtraContainer {
        /// Id of the container.
        id: ContainerId,
    },
    /// A network that no environment desires.
    ExtraNetwork {
        /// Id of the network.
        id: NetworkId,
    },
}

impl Subject {
    /// Returns the subject of a service.
    pub fn of_service(environment: &EnvName, service: &ServiceName) -> Self {
        Self::Service {
            environment: environment.clone(),
            service: service.clone(),
        }
    }

    /// Returns the subject of an image.
    pub fn of_image(image: &Image) -> Self {
        Self::Image { key: image.key() }
    }

    /// Returns the subject of a network.
    pub fn of_network(environment: &EnvName, network: &EnvNetwork<'_>) -> Self {
        Self::Network {
            environment: environment.clone(),
            name: network.key.cloned(),
        }
    }

    /// Returns the environment that the subject names. Other subjects are shared, or no environment desires them.
    pub fn environment(&self) -> Option<&EnvName> {
        match self {
            Self::Service { environment, .. }
            | Self::Network { environment, .. }
            | Self::Volume { environment, .. } => Some(environment),
            Self::Image { .. } | Self::ExtraContainer { .. } | Self::ExtraNetwork { .. } => None,
        }
    }

    /// Returns the service of the subject.
    pub fn service(&self) -> Option<&ServiceName> {
        match self {
            Self::Service { service, .. } => Some(service),
            _ => None,
        }
    }

    /// Returns the key of the image.
    pub fn image_key(&self) -> Option<&str> {
        match self {
            Self::Image { key } => Some(key),
            _ => None,
        }
    }

    /// Returns the id of the object on the engine, or the name of the volume, for a subject that can be an orphan.
    pub fn orphan_id(&self) -> Option<&str> {
        match self {
            Self::ExtraContainer { id } => Some(id.as_str()),
            Self::ExtraNetwork { id } => Some(id.as_str()),
            Self::Volume { name, .. } => Some(name.as_str()),
            Self::Service { .. } | Self::Network { .. } | Self::Image { .. } => None,
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Service { environment, service } => write!(f, "{environment}/{service}"),
            Self::Network {
                environment,
                name: None,
            } => write!(f, "{environment} network"),
            Self::Network {
                environment,
                name: Some(name),
            } => write!(f, "{environment} network {name}"),
            Self::Volume { environment, name } => write!(f, "{environment} volume {name}"),
            Self::Image { key } => write!(f, "image {key}"),
            Self::ExtraContainer { id } => write!(f, "extra container {id}"),
            Self::ExtraNetwork { id } => write!(f, "extra network {id}"),
        }
    }
}

/// An action with its subject and its cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// Object of the action.
    pub subject: Subject,
    /// Engine call.
    pub action: Action,
    /// Reason of the action.
    pub cause: Cause,
}

impl Step {
    /// Returns the step with all secrets redacted in the names of its images, for outputs.
    #[must_use]
    pub fn redacted(&self, secrets: &Secrets) -> Self {
        let mut step = self.clone();
        if let Subject::Image { key } = &mut step.subject {
            *key = secrets.redacted(key);
        }
        match &mut step.action {
            Action::PullImage { reference: image, .. } | Action::BuildImage(Build { tag: image, .. }) => {
                *image = secrets.redacted(image);
            }
            Action::CreateContainer { spec, .. } => spec.image = secrets.redacted(&spec.image),
            _ => {}
        }
        step
    }
}

/// One engine call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "camelCase")]
pub enum Action {
    /// Create a network with Argus labels.
    CreateNetwork {
        /// Name of the network.
        name: ResourceName,
        /// Labels of the network.
        labels: BTreeMap<String, String>,
        /// True for a network that Argus does not create: the action only checks that the engine has it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        external: bool,
    },
    /// Remove a network of this controller by id.
    RemoveNetwork {
        /// Id of the network.
        id: NetworkId,
        /// Name, for reports.
        name: String,
    },
    /// Create a named volume with Argus labels.
    CreateVolume {
        /// Name of the volume.
        name: ResourceName,
        /// Labels of the volume.
        labels: BTreeMap<String, String>,
        /// True for a volume that Argus does not create: the action only checks that the engine has it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        external: bool,
    },
    /// Remove a named volume of this controller.
    RemoveVolume {
        /// Name of the volume.
        name: ResourceName,
    },
    /// Pull an image from its registry.
    PullImage {
        /// Image reference.
        reference: String,
        /// With [`PullPolicy::Never`], the action only checks that the engine has the image.
        #[serde(default)]
        policy: PullPolicy,
    },
    /// Build an image.
    BuildImage(Build),
    /// Create a container without starting it.
    CreateContainer {
        /// Name of the container; a temporary one while its predecessor still holds the final name.
        name: ResourceName,
        /// Configuration of the container.
        spec: Box<ContainerSpec>,
    },
    /// Start a container.
    StartContainer {
        /// Id of the container.
        id: ContainerId,
    },
    /// Stop a container: SIGTERM, then SIGKILL after the grace period.
    StopContainer {
        /// Id of the container.
        id: ContainerId,
        /// Grace period.
        grace: Duration,
    },
    /// Unpause a container.
    UnpauseContainer {
        /// Id of the container.
        id: ContainerId,
    },
    /// Rename a container.
    RenameContainer {
        /// Id of the container.
        id: ContainerId,
        /// New name.
        to: ResourceName,
    },
    /// Remove a container of this controller by id, forced, with its anonymous volumes.
    RemoveContainer {
        /// Id of the container.
        id: ContainerId,
        /// Name, for reports.
        name: String,
    },
    /// Collect the evidence of a failed run before its container changes. Changes nothing.
    CollectEvidence {
        /// Run to collect it from.
        run: Box<FailedRun>,
        /// Time from which lines of the log belong to the run; absent if its start is unknown.
        #[serde(default)]
        lines_since: Option<Timestamp>,
        /// Port of its probe; probed once more if the container still runs.
        port: Option<u16>,
        /// True if its probe sends HTTP requests.
        #[serde(default)]
        http: bool,
        /// True if an outage of the engine caused the failure.
        #[serde(default)]
        by_engine: bool,
        /// Names and ports that a helper checks after the collection, from the network of the container.
        #[serde(default)]
        targets: Vec<Target>,
        /// Mounts and words whose files on the host belong to the evidence.
        #[serde(default)]
        host: Box<HostView>,
    },
    /// Copy files into a container, running or not, and replace the existing ones.
    CopyFile {
        /// Id of the container.
        id: ContainerId,
        /// Files with their paths.
        files: Vec<InjectedFile>,
    },
    /// Connect a container to one of its networks.
    ConnectNetwork {
        /// Id of the network; its name for a container that does not run, and for an external network.
        network: String,
        /// Id of the container.
        container: ContainerId,
        /// DNS aliases on the network.
        aliases: Vec<String>,
        /// True for a network that Argus did not create.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        external: bool,
    },
    /// Disconnect a container from a network, forced; by name, because an id does not free a stuck endpoint.
    DisconnectNetwork {
        /// Name or id of the network.
        network: String,
        /// Name or id of the container.
        container: String,
    },
}

impl Action {
    /// Kind of the action.
    pub fn kind(&self) -> ActionKind {
        self.into()
    }

    /// Stable name of the action for logs and metrics.
    pub fn verb(&self) -> &'static str {
        self.kind().as_str()
    }

    /// Returns the container that the action changes or reads, by its id.
    pub fn container(&self) -> Option<&ContainerId> {
        match self {
            Self::StartContainer { id }
            | Self::StopContainer { id, .. }
            | Self::UnpauseContainer { id }
            | Self::RenameContainer { id, .. }
            | Self::RemoveContainer { id, .. }
            | Self::CopyFile { id, .. }
            | Self::ConnectNetwork { container: id, .. } => Some(id),
            Self::CollectEvidence { run, .. } => Some(&run.container),
            _ => None,
        }
    }

    /// Returns the reference of the image that the action pulls or builds.
    pub fn image(&self) -> Option<&str> {
        match self {
            Self::PullImage { reference, .. } => Some(reference),
            Self::BuildImage(build) => Some(&build.tag),
            _ => None,
        }
    }

    /// Returns true for an action that a full disk makes fail.
    pub fn needs_disk_space(&self) -> bool {
        matches!(
            self,
            Self::PullImage { .. }
                | Self::BuildImage(_)
                | Self::CreateContainer { .. }
                | Self::CopyFile { .. }
                | Self::StartContainer { .. }
        )
    }
}

/// Progress of a pull or a build.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ActionProgress {
    /// Line for people, such as `layer 3/7 12.1 MB of 40.0 MB` or `Step 2/5 : COPY`.
    pub line: String,
    /// Layers of a pull.
    pub layers: Option<Amount>,
    /// Bytes of the known layers of a pull.
    pub bytes: Option<Amount>,
    /// Steps of a build.
    pub steps: Option<Amount>,
}

impl From<String> for ActionProgress {
    fn from(line: String) -> Self {
        Self {
            line,
            ..Self::default()
        }
    }
}
