//! Specs read once, with the same eyes as the controller's.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use argus_core::desired::Desired;
use argus_crds::diagnostic::{Diagnostic, DiagnosticSeverity};
use argus_docker::Endpoint;
use argus_reconciler::clock;
use argus_reconciler::specs::admission::SpecAdmitter;
use argus_reconciler::specs::admitter::{AdmissionInput, Admitter, OwnImage};
use argus_reconciler::specs::digest::Digests;
use argus_reconciler::specs::scan::{MAX_FILE, read_bounded};
use argus_reconciler::specs::surroundings::Access;
use argus_reconciler::specs::{Rules, SpecLoader, SpecRegistry, StartingPoint, env_vars};
use argus_reconciler::state_dir::StateDir;
use sha2::{Digest as _, Sha256};

use crate::exit::Failure;
use crate::own_image;
use crate::settings::Settings;

/// One file that was looked at.
#[derive(Debug)]
pub(crate) struct SpecFile {
    /// As it was named.
    pub(crate) path: PathBuf,
    /// Its contents, for snippets.
    pub(crate) text: String,
    /// What is wrong with it.
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// What it asks for, unless it is refused.
    pub(crate) desired: Option<Desired>,
}

/// How the controller reads specs in this folder under these settings.
pub(crate) fn rules(settings: &Settings, folder: &Path, controller: &str) -> Result<Rules, Failure> {
    let folder = std::path::absolute(folder)
        .map_err(|error| Failure::fault(&format!("cannot find `{}`", folder.display()), &error))?;
    Ok(Rules {
        folder,
        strict: settings.strict,
        env_allow: settings.env_allow.clone(),
        process_env: process_env(),
        controller: controller.to_owned(),
        own_image: own_image(settings),
        admitter: Arc::new(judge(settings)),
    })
}

/// The book of a folder, as a controller that starts on it would have it.
pub(crate) fn folder(
    settings: &Settings,
    folder: &Path,
    controller: &str,
    kept: StartingPoint,
) -> Result<SpecRegistry, Failure> {
    let mut desk = SpecLoader::new(rules(settings, folder, controller)?, kept);
    let mut now = clock::now();
    // A file counts when it reads the same twice; that some time lies between two reads is told, not waited for.
    for _ in 0..20 {
        desk.scan_once(now);
        if desk.registry().scanned || desk.registry().unavailable.is_some() {
            break;
        }
        now = now + Duration::from_secs(1);
    }
    Ok(desk.registry().clone())
}

/// One file, whatever its name.
pub(crate) fn file(settings: &Settings, path: &Path) -> SpecFile {
    let refused = |message: String| SpecFile {
        path: path.to_owned(),
        text: String::new(),
        diagnostics: vec![Diagnostic::error("", message)],
        desired: None,
    };
    match read_bounded(path, MAX_FILE) {
        Ok(Some(bytes)) => text(settings, path, &bytes),
        Ok(None) => refused(format!("file is longer than the {MAX_FILE} bytes that are read")),
        Err(error) => refused(format!("file cannot be read: {error}")),
    }
}

/// The contents of a file, as if they stood at this place.
pub(crate) fn text(settings: &Settings, path: &Path, bytes: &[u8]) -> SpecFile {
    let judge = judge(settings);
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut around = judge.surroundings(&absolute);
    around.resolve(&judge.named(&around.file, bytes));
    let (variables, trouble) = env_vars::dotenv(&around);
    let mut digests = Digests::default();
    let variables = env_vars::passed(variables, &process_env(), &settings.env_allow);
    let needs = judge.needs(&around.file, bytes, &variables, &around.host);
    let own = own_image(settings);
    let digests = needs.builds.into_iter().filter_map(|build| {
        let digest = own.digest(&build, &mut digests)?;
        Some((build.service, digest))
    });
    let digests = digests.collect();
    let documents = needs.documents.into_iter();
    let documents = documents
        .map(|(mock, at)| (mock, env_vars::document(&at, &around)))
        .collect();
    let reading = AdmissionInput {
        path: &around.file,
        name: &path.display().to_string(),
        bytes,
        variables,
        digests,
        documents,
        host: around.host.clone(),
        uuid: env_vars::uuid("", path, &Sha256::digest(bytes).into()),
        first_seen: clock::now(),
    };
    let mut judged = judge.admit(&reading);
    judged
        .diagnostics
        .extend(trouble.map(|trouble| Diagnostic::warning("", trouble)));
    if settings.strict {
        judged
            .diagnostics
            .iter_mut()
            .for_each(|diagnostic| diagnostic.severity = DiagnosticSeverity::Error);
    }
    let refused = judged.diagnostics.iter().any(Diagnostic::is_error);
    SpecFile {
        path: path.to_owned(),
        text: String::from_utf8_lossy(bytes).into_owned(),
        diagnostics: judged.diagnostics,
        desired: judged.desired.filter(|_| !refused),
    }
}

/// Who never ran a controller has no image of this program, and its mocks are as good.
fn own_image(settings: &Settings) -> OwnImage {
    OwnImage {
        folder: own_image::folder(&StateDir::at(settings.state.clone())),
        fill: None,
    }
}

fn judge(settings: &Settings) -> SpecAdmitter {
    SpecAdmitter {
        own_image: own_image::folder(&StateDir::at(settings.state.clone())),
        access: Access {
            allow_mounts: allow_mounts(settings),
            state: std::path::absolute(&settings.state).unwrap_or_else(|_| settings.state.clone()),
            engine: engine_socket(settings),
        },
    }
}

/// The engine's socket, where the settings lead to one.
pub(crate) fn engine_socket(settings: &Settings) -> Option<PathBuf> {
    let endpoint = Endpoint::discover(settings.docker_host.as_deref()).ok()?;
    endpoint.socket().map(Path::to_path_buf)
}

/// The folders outside a file's own that it may mount, absolute.
pub(crate) fn allow_mounts(settings: &Settings) -> Vec<String> {
    // A folder that is not there yet cannot be mounted either; its name as written still says which one is meant.
    let absolute = |path: &PathBuf| {
        std::path::absolute(path)
            .unwrap_or_else(|_| path.clone())
            .display()
            .to_string()
    };
    settings.allow_mount.iter().map(absolute).collect()
}

/// The variables of this process, as far as they are text.
pub(crate) fn process_env() -> BTreeMap<String, String> {
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    std::env::vars_os().filter_map(text).collect()
}
