//! Words of the command line: the path of a file, then services of a Compose file.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use argus_core::desired::excluded::is_spec_name;
use argus_core::ident::ServiceName;
use argus_core::quoting::PathText as _;
use argus_crds::compose::is_compose_name;
use argus_crds::error::Reason;
use argus_reconciler::state_dir::StateDir;

use crate::local_state::status;
use crate::process::exit::{Exit, Failure};
use crate::session::SpecChoice;

/// Splits the words into a path and the names of services. The first word is a service if no file and no folder with spec files has
/// its name.
pub(super) fn split(words: &[PathBuf]) -> Result<(Option<PathBuf>, Vec<String>), Failure> {
    let has_path = words
        .first()
        .is_some_and(|word| to_service(word).is_none() || word.is_file() || has_spec_file(word, 1));
    let (path, services) = words.split_at(usize::from(has_path));
    let names = services.iter().map(|word| {
        to_service(word).ok_or_else(|| {
            let message = format!("`{}` is not a name of a service", word.shown());
            Failure::usage(message).with_hint("pass one file or folder, then names of services")
        })
    });
    Ok((path.first().cloned(), names.collect::<Result<_, _>>()?))
}

/// Fails for services of a file that is not a Compose file.
pub(super) fn check(services: &[String], file: &Path) -> Result<(), Failure> {
    let is_spec = file.file_name().and_then(OsStr::to_str).is_some_and(is_spec_name);
    if services.is_empty() || !is_spec {
        return Ok(());
    }
    let message = format!(
        "`{}` is a spec file, and only services of a Compose file can be selected",
        file.shown()
    );
    Err(Failure::usage(message).with_hint("start all services, then stop one with `argus stop SERVICE`"))
}

/// Returns the services of the environment that have a container, which stay. A running controller must start all services of the file,
/// because it reads the file without the selection.
pub(super) fn find_existing(state: &StateDir, spec: &SpecChoice) -> Result<Vec<String>, Failure> {
    let env = &spec.environment;
    let status = status::read_environment(state, env)?;
    let rows = status.map(|status| status.services).unwrap_or_default();
    let missing = spec
        .services
        .iter()
        .find(|name| rows.iter().all(|row| row.name != name.as_str()));
    if let Some(missing) = missing
        && status::is_alive(state)
    {
        let message = format!("the running controller has no service `{env}/{missing}`");
        return Err(Failure::with_reason(Reason::NotPossible, message)
            .with_exit(Exit::Usage)
            .with_hint(
                "end the controller with `argus stop`, and repeat the command: running services stay",
            ));
    }
    let existing = rows.into_iter().filter(|row| row.container_id.is_some());
    Ok(existing.map(|row| row.name).collect())
}

/// Word as the name of a service; `None` for the name of a file.
fn to_service(word: &Path) -> Option<String> {
    let is_file_name = word.extension().is_some_and(|it| it == "yaml" || it == "yml");
    let name = word.to_str().filter(|_| !is_file_name)?;
    ServiceName::new(name).ok().map(|_| name.to_owned())
}

/// Returns true if a folder, or one up to `depth` levels below, has a spec file or a Compose file.
fn has_spec_file(folder: &Path, depth: u8) -> bool {
    let mut entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.any(|entry| {
        let name = entry.file_name();
        let is_named = |is: fn(&str) -> bool| name.to_str().is_some_and(is);
        is_named(is_spec_name)
            || is_named(is_compose_name)
            || depth > 0 && has_spec_file(&entry.path(), depth - 1)
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use argus_crds::status::{EnvironmentStatus, ServiceStatus};

    use super::*;

    #[test]
    fn words_without_a_file_are_services() {
        let dir = tempfile::tempdir().unwrap();
        let (specs, sources) = (dir.path().join("specs"), dir.path().join("web"));
        std::fs::create_dir_all(specs.join("shop")).unwrap();
        std::fs::create_dir_all(&sources).unwrap();
        std::fs::write(specs.join("shop/e2e.yaml"), "").unwrap();
        std::fs::write(sources.join("Dockerfile"), "").unwrap();
        assert!(has_spec_file(&specs, 1) && !has_spec_file(&specs, 0));
        assert!(!has_spec_file(&sources, 1) && !has_spec_file(&dir.path().join("missing"), 1));
        let split = |words: &[&str]| {
            let words: Vec<PathBuf> = words.iter().map(PathBuf::from).collect();
            split(&words).map(|(path, services)| {
                let path = path.map(|path| path.display().to_string());
                (path.unwrap_or_default(), services.join(" "))
            })
        };
        for (words, path, services) in [
            (&["missing.yaml", "web"][..], "missing.yaml", "web"),
            (&["some-service"], "", "some-service"),
            (&[], "", ""),
            (&["./missing", "web", "db"], "./missing", "web db"),
            (&["."], ".", ""),
        ] {
            let expected = (path.to_owned(), services.to_owned());
            assert_eq!(split(words).ok(), Some(expected), "{words:?}");
        }
        assert!(split(&["a.yaml", "b.yaml"]).is_err());
    }

    #[test]
    fn services_with_a_container_exist() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::at(dir.path().join("state"));
        for folder in [state.environments(), state.private()] {
            std::fs::create_dir_all(folder).unwrap();
        }
        let spec = SpecChoice {
            file: "compose.yaml".into(),
            environment: "shop".to_owned(),
            services: vec![ServiceName::new("web").unwrap()],
            longest_stop: std::time::Duration::ZERO,
        };
        assert_eq!(find_existing(&state, &spec).unwrap(), [""; 0]);
        let row = |name: &str, container: Option<&str>| ServiceStatus {
            name: name.to_owned(),
            container_id: container.map(str::to_owned),
            ..ServiceStatus::default()
        };
        let status = EnvironmentStatus {
            environment: "shop".to_owned(),
            services: vec![row("db", Some("1f")), row("web", None), row("web-2", Some("2f"))],
            ..EnvironmentStatus::default()
        };
        let path = state.environments().join("shop.json");
        std::fs::write(path, serde_json::to_vec(&status).unwrap()).unwrap();
        assert_eq!(find_existing(&state, &spec).unwrap(), ["db", "web-2"]);
        // A running controller has no service of another selection.
        let _controller = UnixListener::bind(state.socket()).unwrap();
        assert!(find_existing(&state, &spec).is_ok());
        let other = SpecChoice {
            services: vec![ServiceName::new("api").unwrap()],
            ..spec
        };
        let failure = find_existing(&state, &other).unwrap_err();
        assert!(failure.message().ends_with("`shop/api`"), "{failure:?}");
    }

    #[test]
    fn services_of_a_spec_file_cannot_be_selected() {
        let services = ["web".to_owned()];
        assert!(check(&services, Path::new("compose.yaml")).is_ok());
        assert!(check(&[], Path::new("e2e.yaml")).is_ok());
        let failure = check(&services, Path::new("x/e2e.yaml")).unwrap_err();
        assert!(failure.message().contains("is a spec file"), "{failure:?}");
    }
}
