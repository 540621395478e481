//! Labels of the objects that Argus creates, and the ownership that they record.
//!
//! The engine stores the labels with each object, so a new controller can recover ownership without its own database.

use std::collections::BTreeMap;

use crate::ident::{ContainerSpecHash, EnvName, ResourceName, ServiceName};

/// Prefix of all labels of Argus.
pub const PREFIX: &str = "argusai.";
/// `true` on every object that Argus created.
pub const MANAGED: &str = "argusai.managed";
/// `project.name` of the spec.
pub const PROJECT: &str = "argusai.project";
/// Run id of the controller process (a ULID, new at each start).
pub const RUN_ID: &str = "argusai.run-id";
/// Creation time in RFC 3339.
pub const CREATED_AT: &str = "argusai.created-at";
/// [`EnvName`] of the environment.
pub const ENVIRONMENT: &str = "argusai.environment";
/// [`ServiceName`] of the service or mock.
pub const SERVICE: &str = "argusai.service";
/// Role of the object: `service`, `mock`, `network` or `volume`.
pub const ROLE: &str = "argusai.role";
/// [`ContainerSpecHash`] of the rendered container specification.
pub const SPEC_HASH: &str = "argusai.spec-hash";
/// Revision of the environment at the creation of the object.
pub const REVISION: &str = "argusai.revision";
/// Identity of the controller (a ULID, kept in its state directory).
pub const CONTROLLER: &str = "argusai.controller";
/// Folder of the project whose spec file declared the object.
pub const FOLDER: &str = "argusai.folder";
/// `true` on a network without access to other networks.
pub const INTERNAL: &str = "argusai.internal";
/// Assigned ports of the container: `CONTAINER/PROTO=HOST@WANTED`, joined by commas. Empty without ports.
pub const PORTS: &str = "argusai.ports";

/// Services that the service of the container depends on, directly or through other services, joined by commas. They stop
/// after it. Empty without dependencies. Containers of older versions do not have this label.
pub const DEPENDS_ON: &str = "argusai.depends-on";

/// Service whose network namespace the container shares. Other containers do not have this label.
pub const NETWORK_OWNER: &str = "argusai.network-owner";

/// Digest of the build, on a built image. Its containers inherit the label.
pub const BUILD_DIGEST: &str = "argusai.build-digest";

/// Run id of the holder, on a lease.
pub const LEASE: &str = "argusai.lease";

/// `Delete` on volumes that Argus removes together with their environment.
pub const DELETION: &str = "argusai.deletion";

/// Name of the project, on every object that Compose created.
pub const COMPOSE_PROJECT: &str = "com.docker.compose.project";

/// Name of the volume in its file, on every named volume that Compose created.
pub const COMPOSE_VOLUME: &str = "com.docker.compose.volume";

/// Returns the Compose project that created an object. Its name is a text of another program, and becomes part of a command, so another
/// name than a plain one is left out.
pub fn compose_project(labels: &BTreeMap<String, String>) -> Option<&String> {
    let project = labels.get(COMPOSE_PROJECT)?;
    ResourceName::new(project.as_str()).ok().map(|_| project)
}

/// Describes a Compose project that holds a name or a port, with the command that ends it.
pub fn describe_compose_project(project: &str) -> String {
    format!("the Compose project `{project}` (`docker compose -p {project} down` ends it)")
}

/// Controller that created an object, and the folder of its project. Objects of older versions have no folder.
pub type Maker<'a> = (&'a str, Option<&'a str>);

/// Returns the maker of an object.
pub fn maker(labels: &BTreeMap<String, String>) -> Maker<'_> {
    let controller = labels.get(CONTROLLER).map_or("", String::as_str);
    (controller, labels.get(FOLDER).map(String::as_str))
}

/// Returns the environment of an object of the Node tool, which has project, run and creation labels but no controller.
fn node_tool_environment(labels: &BTreeMap<String, String>) -> Option<EnvName> {
    let is_set = |key: &str| labels.get(key).is_some_and(|value| !value.is_empty());
    let has_node_labels = is_set(RUN_ID) && is_set(CREATED_AT) && !is_set(CONTROLLER);
    EnvName::slug(labels.get(PROJECT).filter(|_| has_node_labels)?).ok()
}

/// Ownership of an object, as its labels record it.
///
/// ```
/// use std::collections::BTreeMap;
///
/// use argus_core::labels::{ENVIRONMENT, MANAGED, ObjectLabels, SERVICE};
///
/// let labels = [(MANAGED, "true"), (ENVIRONMENT, "shop"), (SERVICE, "api")];
/// let labels: BTreeMap<String, String> = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
/// let owner = ObjectLabels::read(&labels).unwrap();
/// assert_eq!(owner.environment.as_str(), "shop");
/// assert_eq!(owner.service.unwrap().as_str(), "api");
///
/// // Argus does not touch objects without its labels.
/// assert_eq!(ObjectLabels::read(&BTreeMap::new()), None);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectLabels {
    /// Environment that the object belongs to.
    pub environment: EnvName,
    /// Service that it belongs to; `None` on networks and volumes.
    pub service: Option<ServiceName>,
    /// Value of `argusai.project`.
    pub project: String,
    /// Value of `argusai.controller`; empty on objects of the Node tool.
    pub controller: String,
    /// Value of `argusai.run-id`.
    pub run: String,
    /// Value of `argusai.revision`.
    pub revision: String,
    /// Value of `argusai.folder`.
    pub folder: Option<String>,
    /// Value of `argusai.spec-hash`.
    pub spec_hash: Option<ContainerSpecHash>,
}

impl ObjectLabels {
    /// Reads the ownership; `None` for an unmanaged object, which Argus never modifies.
    ///
    /// The four labels of the Node tool do not name an environment. Its objects belong to the environment that has the
    /// slug of their project as its name.
    pub fn read(labels: &BTreeMap<String, String>) -> Option<Self> {
        if labels.get(MANAGED).map(String::as_str) != Some("true") {
            return None;
        }
        let text = |key: &str| labels.get(key).cloned().unwrap_or_default();
        let environment = match labels.get(ENVIRONMENT) {
            Some(name) => EnvName::new(name.clone()).ok()?,
            None => node_tool_environment(labels)?,
        };
        Some(Self {
            environment,
            service: labels.get(SERVICE).and_then(|s| ServiceName::new(s.clone()).ok()),
            project: text(PROJECT),
            controller: text(CONTROLLER),
            run: text(RUN_ID),
            revision: text(REVISION),
            folder: labels.get(FOLDER).cloned(),
            spec_hash: labels
                .get(SPEC_HASH)
                .and_then(|h| ContainerSpecHash::new(h.clone()).ok()),
        })
    }

    /// Describes the owner as the holder of a container or network name that the project in another folder needs.
    pub fn describe_holder(&self, own_folder: Option<&str>) -> String {
        let owner = self.describe_owner(own_folder);
        if !self.is_elsewhere(own_folder) {
            return owner;
        }
        let command = orphan_removal(&self.project, false);
        format!("{owner}; after the end of that controller, `{command}` removes it")
    }

    /// Describes the owner as the holder of a volume name that the project in another folder needs.
    pub fn describe_volume_holder(&self, own_folder: Option<&str>) -> String {
        let owner = self.describe_owner(own_folder);
        if !self.is_elsewhere(own_folder) {
            return owner;
        }
        let command = orphan_removal(&self.project, true);
        format!(
            "{owner}; after the end of that controller, `{command}` removes it; `argus allow` takes it over"
        )
    }

    fn is_elsewhere(&self, own_folder: Option<&str>) -> bool {
        self.folder.is_some() && self.folder.as_deref() != own_folder
    }

    fn describe_owner(&self, own_folder: Option<&str>) -> String {
        let (environment, controller) = (&self.environment, &self.controller);
        match self.folder.as_deref().filter(|_| self.is_elsewhere(own_folder)) {
            Some(folder) => {
                format!("environment `{environment}` of the project in `{folder}`, controller `{controller}`")
            }
            None => format!("environment `{environment}`, controller `{controller}`"),
        }
    }
}

/// Returns the command that removes the orphans of a project. Its name is a text of another file, and the command is for a shell, so another
/// name than a plain one is left out.
pub fn orphan_removal(project: &str, volumes: bool) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let mut command = "argus orphans --clean".to_owned();
    if !project.is_empty() && project.chars().all(is_plain) {
        command.extend([" --project ", project]);
    }
    if volumes {
        command.push_str(" --volumes");
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(pairs: &[(&str, &str)]) -> Option<ObjectLabels> {
        let labels = pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        ObjectLabels::read(&labels.collect())
    }

    #[test]
    fn holder_of_another_project_is_described_with_a_command() {
        let of = |project| {
            owner(&[
                (MANAGED, "true"),
                (ENVIRONMENT, "shop"),
                (PROJECT, project),
                (FOLDER, "/b"),
            ])
        };
        let text = of("Shop").unwrap().describe_holder(Some("/a"));
        assert!(
            text.starts_with("environment `shop` of the project in `/b`"),
            "{text}"
        );
        assert!(
            text.contains("`argus orphans --clean --project Shop` removes it"),
            "{text}"
        );
        assert!(!text.contains("argus allow"), "{text}");
        let text = of("Shop").unwrap().describe_volume_holder(Some("/a"));
        assert!(
            text.contains("`argus orphans --clean --project Shop --volumes` removes it; `argus allow`"),
            "{text}"
        );
        let text = of("a; rm").unwrap().describe_holder(Some("/a"));
        assert!(text.contains("`argus orphans --clean` removes it"), "{text}");
        let text = of("Shop").unwrap().describe_holder(Some("/b"));
        assert_eq!(text, "environment `shop`, controller ``");
    }

    #[test]
    fn compose_project_is_named_only_if_a_shell_can_read_it() {
        let of = |project: &str| BTreeMap::from([(COMPOSE_PROJECT.to_owned(), project.to_owned())]);
        let labels = of("my_shop");
        let project = compose_project(&labels).map(|it| describe_compose_project(it));
        assert_eq!(
            project.as_deref(),
            Some("the Compose project `my_shop` (`docker compose -p my_shop down` ends it)")
        );
        assert_eq!(compose_project(&of("a; rm -rf /")), None);
        assert_eq!(compose_project(&of("-p")), None);
        assert_eq!(compose_project(&BTreeMap::new()), None);
    }

    #[test]
    fn objects_of_the_node_tool_need_all_four_labels() {
        let four = [
            (MANAGED, "true"),
            (PROJECT, "My Shop"),
            (RUN_ID, "r1"),
            (CREATED_AT, "2026-01-01T00:00:00Z"),
        ];
        let found = owner(&four).unwrap();
        assert_eq!(
            (
                found.environment.as_str(),
                found.project.as_str(),
                found.controller.as_str()
            ),
            ("my-shop", "My Shop", "")
        );
        for missing in 0..four.len() {
            let some: Vec<_> = four
                .iter()
                .enumerate()
                .filter(|(at, _)| *at != missing)
                .map(|(_, pair)| *pair)
                .collect();
            assert_eq!(owner(&some), None, "without {:?}", four[missing]);
        }
        let half = [
            (MANAGED, "true"),
            (PROJECT, "My Shop"),
            (RUN_ID, "r1"),
            (CREATED_AT, "x"),
            (CONTROLLER, "c"),
        ];
        assert_eq!(owner(&half), None, "an object of Argus with a missing label");
    }
}
