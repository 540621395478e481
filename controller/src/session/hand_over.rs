//! Hand-over of a spec file to a running controller: a link in its specs folder, so that edits and relative paths keep their
//! meaning.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use argus_backend::host_path::folder::Folder;
use argus_core::desired::excluded::is_spec_name;
use argus_core::quoting::PathText as _;
use argus_crds::compose::is_compose_name;
use argus_crds::error::{Code, StructuredError};
use argus_reconciler::specs::source::SpecSource;

use super::SpecChoice;
use crate::client::ControllerClient;
use crate::local_state::status;
use crate::process::exit::Failure;

/// Link to a spec file in the specs folder of a controller. The folder stays open, because a container can put a link in its place.
#[derive(Debug)]
pub(super) struct SpecLink {
    folder: Folder,
    name: OsString,
    file: PathBuf,
}

impl SpecLink {
    /// Removes the link, unless something else has its name.
    pub(super) fn remove(&self) {
        if self.leads_to_file() {
            drop(self.folder.remove(&self.name));
        }
    }

    fn leads_to_file(&self) -> bool {
        let target = self.folder.read_link(&self.name);
        target.is_ok_and(|target| target == self.file)
    }
}

/// Makes the controller watch the file. Returns the link to it, or `None` if the controller watches the file itself.
pub(super) fn hand_over(client: &ControllerClient, spec: &SpecChoice) -> Result<Option<SpecLink>, Failure> {
    let source = SpecSource::new(&client.specs_folder(), client.state().root());
    let env = &spec.environment;
    let read = |path: &Path| {
        let real = path.canonicalize();
        real.map_err(|error| Failure::operation_failed(&format!("cannot read `{}`", path.shown()), &error))
    };
    let (folder, file) = (read(&source.folder)?, read(&spec.file)?);
    if let Some(only) = &source.only {
        let only = folder.join(only);
        return if only.canonicalize().is_ok_and(|only| only == file) {
            Ok(None)
        } else {
            let message = format!("the running controller watches only `{}`", only.shown());
            Err(conflict(env, &only, message)
                .with_hint("choose another state directory with `--state`, or stop that controller"))
        };
    }
    if is_watched(&folder, &file) {
        return Ok(None);
    }
    let known = status::read_environment(client.state(), env)?;
    let current = known.map(|status| folder.join(status.spec_path));
    if let Some(current) = current.filter(|current| current.is_file())
        && current.canonicalize().is_ok_and(|real| real != file)
    {
        let message = format!("environment `{env}` is already in `{}`", current.shown());
        let is_compose = file
            .file_name()
            .and_then(|name| name.to_str())
            .is_some_and(is_compose_name);
        let key = if is_compose { "name" } else { "isolation.namespace" };
        return Err(conflict(env, &current, message).with_hint(format!(
            "choose another `{key}` in the file, or another folder with `--state`"
        )));
    }
    let name = OsString::from(format!("{env}.e2e.yaml"));
    let path = folder.join(&name);
    let cannot_create = |error: &std::io::Error| {
        let doing = format!("cannot create the link `{}`", path.shown());
        Failure::operation_failed(&doing, error)
    };
    let folder = Folder::open(&folder).map_err(|error| cannot_create(&error))?;
    let created = folder.link(&file, &name);
    let link = SpecLink { folder, name, file };
    match created {
        Ok(()) => Ok(Some(link)),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            // A link of an earlier command.
            if link.leads_to_file() {
                return Ok(Some(link));
            }
            let message = format!("cannot link the file: `{}` exists already", path.shown());
            Err(conflict(env, &path, message))
        }
        Err(error) => Err(cannot_create(&error)),
    }
}

/// Returns true if a controller of the folder reads the file: in the folder, or one level below.
fn is_watched(folder: &Path, file: &Path) -> bool {
    let name = file.file_name().and_then(|name| name.to_str());
    let depth = file
        .strip_prefix(folder)
        .map(|inside| inside.components().count());
    name.is_some_and(is_spec_name) && depth.is_ok_and(|depth| depth <= 2)
}

fn conflict(env: &str, at: &Path, message: String) -> Failure {
    let error = StructuredError::new(Code::SpecConflict, message)
        .details(serde_json::json!({ "specPath": at }))
        .environment(env)
        .suggest(&[]);
    Failure::new(error)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use argus_crds::status::{ControllerStatus, EnvironmentStatus};

    use super::*;
    use crate::settings::{Options, Settings, SpecOptions};

    /// Client of a controller that watches `specs`, and a file outside that it does not know.
    fn client(root: &Path, specs: &Path) -> (ControllerClient, SpecChoice) {
        let state = root.join("state");
        std::fs::create_dir_all(state.join("environments")).unwrap();
        std::fs::create_dir_all(root.join("specs/team")).unwrap();
        let status = ControllerStatus {
            specs: specs.display().to_string(),
            ..ControllerStatus::default()
        };
        std::fs::write(
            state.join("controller.json"),
            serde_json::to_vec(&status).unwrap(),
        )
        .unwrap();
        let options = Options {
            state: Some(state),
            ..Options::default()
        };
        let file = root.join("e2e.yaml");
        std::fs::write(&file, "").unwrap();
        let settings = Settings::resolve(&options, &SpecOptions::default()).unwrap();
        let environment = "shop".to_owned();
        (
            ControllerClient::remote(settings),
            SpecChoice {
                file,
                environment,
                services: Vec::new(),
                longest_stop: Duration::ZERO,
            },
        )
    }

    #[test]
    fn outside_file_is_linked_and_a_watched_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let specs = root.join("specs");
        let (client, mut spec) = client(&root, &specs);
        let link = specs.join("shop.e2e.yaml");
        let handed = [0, 1].map(|_| {
            let handed = hand_over(&client, &spec).unwrap();
            assert_eq!(link.canonicalize().unwrap(), spec.file);
            handed.unwrap()
        });
        // A container exchanges the folder, in which another controller has a file of this name.
        let moved = root.join("moved");
        std::fs::rename(&specs, &moved).unwrap();
        std::fs::create_dir(&specs).unwrap();
        std::fs::write(&link, "theirs").unwrap();
        handed[0].remove();
        assert!(link.exists() && !moved.join("shop.e2e.yaml").is_symlink());
        std::fs::write(moved.join("shop.e2e.yaml"), "theirs").unwrap();
        handed[1].remove();
        assert!(moved.join("shop.e2e.yaml").exists(), "it is another file now");
        std::fs::create_dir(specs.join("team")).unwrap();
        spec.file = specs.join("team/e2e.yaml");
        std::fs::write(&spec.file, "").unwrap();
        assert!(hand_over(&client, &spec).unwrap().is_none());
        spec.file = specs.join("team/other.yaml");
        std::fs::write(&spec.file, "").unwrap();
        let failure = hand_over(&client, &spec).unwrap_err();
        assert!(failure.message().ends_with("exists already"), "{failure:?}");
    }

    #[test]
    fn file_of_another_environment_or_controller_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let specs = root.join("specs");
        let (client_of_folder, spec) = client(&root, &specs);
        std::fs::write(specs.join("mine.e2e.yaml"), "").unwrap();
        let status = EnvironmentStatus {
            environment: "shop".to_owned(),
            spec_path: "mine.e2e.yaml".to_owned(),
            ..EnvironmentStatus::default()
        };
        let path = root.join("state/environments/shop.json");
        std::fs::write(path, serde_json::to_vec(&status).unwrap()).unwrap();
        let failure = hand_over(&client_of_folder, &spec).unwrap_err();
        assert_eq!(failure.code(), Some(Code::SpecConflict));
        let (client_of_file, spec) = client(&root, &specs.join("mine.e2e.yaml"));
        let failure = hand_over(&client_of_file, &spec).unwrap_err();
        assert!(failure.message().contains("watches only"), "{failure:?}");
    }
}
