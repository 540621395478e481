//! Hand-over of a spec file to a running controller: a link in its specs folder, so that edits and relative paths keep their
//! meaning.

use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use argus_core::desired::excluded::is_spec_name;
use argus_core::quoting::PathText as _;
use argus_crds::error::{Code, StructuredError};
use argus_reconciler::specs::source::SpecSource;

use super::SpecChoice;
use crate::client::ControllerClient;
use crate::exit::Failure;
use crate::status;

/// Makes the controller watch the file. Returns the link to it, or `None` if the controller watches the file itself.
pub(super) fn hand_over(client: &ControllerClient, spec: &SpecChoice) -> Result<Option<PathBuf>, Failure> {
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
        return Err(conflict(env, &current, message).with_hint(
            "choose another `isolation.namespace` in the file, or another folder with `--state`",
        ));
    }
    let link = folder.join(format!("{env}.e2e.yaml"));
    match symlink(&file, &link) {
        Ok(()) => Ok(Some(link)),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            // A link of an earlier command.
            if link.canonicalize().is_ok_and(|real| real == file) {
                return Ok(Some(link));
            }
            let message = format!("cannot link the file: `{}` exists already", link.shown());
            Err(conflict(env, &link, message))
        }
        Err(error) => {
            let doing = format!("cannot create the link `{}`", link.shown());
            Err(Failure::operation_failed(&doing, &error))
        }
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
        for _ in 0..2 {
            assert_eq!(hand_over(&client, &spec).unwrap(), Some(link.clone()));
            assert_eq!(link.canonicalize().unwrap(), spec.file);
        }
        spec.file = specs.join("team/e2e.yaml");
        std::fs::write(&spec.file, "").unwrap();
        assert_eq!(hand_over(&client, &spec).unwrap(), None);
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
