//! Start of a controller in the background, which outlives this command.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use argus_core::quoting::PathText as _;
use argus_crds::error::{Code, Reason};
use tokio::process::Command;

use super::compose_flags::{Former, Started};
use crate::client::ControllerClient;
use crate::process::exit::{Exit, Failure, state_failure};
use crate::render::output;
use crate::settings::Settings;

/// Maximum time until the controller accepts commands.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Starts a controller of `file` with these arguments in the background, unless one runs without Compose options of an earlier command.
/// Returns when it accepts commands.
pub(crate) async fn start_in_background(
    settings: &Settings,
    (file, environment): (&Path, &str),
    arguments: Vec<OsString>,
) -> Result<(), Failure> {
    let client = ControllerClient::remote(settings.clone());
    let mut former = None;
    if client.missing_controller().await?.is_none() {
        if settings.state == settings.own_state {
            former = Former::find(&settings.state, file, &arguments).await?;
        }
        if former.is_none() {
            return Ok(());
        }
    }
    let state = settings
        .state
        .create(file)
        .map_err(|error| state_failure(&error))?;
    let fault = |error: io::Error| Failure::operation_failed("cannot start a controller", &error);
    let log = state.private().join("controller.log");
    let (out, err) = open_log(&log).map_err(fault)?;
    let program = std::env::current_exe().map_err(fault)?;
    // The caller has read the file. A former controller ends only when the new one can start.
    if let Some(former) = former
        && !former.end(&state).await?
    {
        return wait_until_alive(&client, "the newer controller").await;
    }
    let mut child = Command::new(program)
        .args(&arguments)
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(err)
        // Ctrl-C in this terminal does not reach it.
        .process_group(0)
        .spawn()
        .map_err(fault)?;
    let pid = child.id().unwrap_or_default();
    let started = Started::new(pid, file, &arguments).of(environment, &settings.compose);
    if let Err(error) = started.write(&state) {
        output::print_note(&format!(
            "note: a later command keeps the options of this one, because their record cannot be written: {error}"
        ));
    }
    let controller = format!("the controller (pid {pid})");
    let failed = |end: String| {
        let message = format!("cannot start a controller: {end}; its log is `{}`", log.shown());
        Failure::with_reason(Reason::NotRunning, message).with_exit(Exit::Unexpected)
    };
    tokio::select! {
        started = wait_until_alive(&client, &controller) => started?,
        ended = child.wait() => return Err(failed(ended.map_err(fault)?.to_string())),
    }
    output::print_note(&format!(
        "the controller runs in the background; stop it with `kill {pid}`, its log is `{}`",
        log.shown()
    ));
    Ok(())
}

/// Waits until a controller accepts commands.
async fn wait_until_alive(client: &ControllerClient, controller: &str) -> Result<(), Failure> {
    let is_alive = client.wait_for(START_TIMEOUT, |_| client.is_alive().then_some(()));
    if is_alive.await?.is_some() {
        return Ok(());
    }
    let waited = humantime::format_duration(START_TIMEOUT);
    let message = format!("{controller} accepts no commands after {waited}");
    Err(Failure::with_code(Code::Timeout, message).with_exit(Exit::TimedOut))
}

/// Opens the log for appending. Only the user may read it.
fn open_log(path: &Path) -> io::Result<(File, File)> {
    let log = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(path)?;
    Ok((log.try_clone()?, log))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use tokio::signal::unix::{SignalKind, signal};

    use super::*;
    use crate::settings::{Options, SpecOptions};

    #[tokio::test]
    async fn former_controller_stays_if_the_new_one_cannot_start() {
        let dir = tempfile::tempdir().unwrap();
        let options = Options {
            state: Some(dir.path().join("state")),
            ..Options::default()
        };
        let settings = Settings::resolve(&options, &SpecOptions::default()).unwrap();
        let file = dir.path().join("compose.yaml");
        let state = settings.state.create(&file).unwrap();
        // A folder has the place of the log.
        std::fs::create_dir(state.private().join("controller.log")).unwrap();
        // This process is the controller of the earlier command.
        let _socket = UnixListener::bind(state.socket()).unwrap();
        let debug = ["run", "--profile=debug"].map(OsString::from);
        let started = Started::new(std::process::id(), &file, &debug);
        started.write(&state).unwrap();
        let mut terminated = signal(SignalKind::terminate()).unwrap();
        let plain = vec![OsString::from("run")];
        let failure = start_in_background(&settings, (&file, "shop"), plain)
            .await
            .unwrap_err();
        assert!(failure.message().contains("cannot start"), "{failure:?}");
        let signal = tokio::time::timeout(Duration::from_millis(200), terminated.recv());
        assert!(signal.await.is_err(), "no signal");
    }
}
