//! `argus open`: prints the URL of a service, and opens it in a browser.

use std::process::{Command, Stdio};

use argus_core::status::{UNREACHABLE_HINT, client_address};
use argus_crds::error::Reason;
use clap::Args;

use super::{call, notes};
use crate::api::environments::GetEnvironment;
use crate::api::target::{parse_service_target, select_service};
use crate::process::exit::{Exit, Failure};
use crate::render::output;
use crate::settings::{Options, SpecOptions};

#[derive(Debug, Args)]
pub(crate) struct Open {
    /// Service, as ENVIRONMENT/SERVICE
    target: String,
    /// Only print the URL
    #[arg(long)]
    print: bool,
}

impl Open {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let context = call::create_context(options, &SpecOptions::default())?;
        let (environment, service) = parse_service_target(context.client.state(), &self.target)?;
        notes::note_if_not_running(context.client.state());
        let status = call::run(&context, &GetEnvironment { environment })?;
        let status = select_service(status, Some(&service))?;
        // Like ARGUS_<SERVICE>_URL, the URL is that of the first TCP port.
        let Some(port) = status.port_mappings.iter().find(|port| port.protocol == "tcp") else {
            let message = format!("`{}` publishes no TCP port", self.target);
            let failure = Failure::with_reason(Reason::NotFound, message).with_exit(Exit::Unexpected);
            return Err(failure.with_hint("add one under `ports:` of the service"));
        };
        let Some(address) = client_address(port) else {
            let message = format!(
                "`{}` is published where only the engine's host reaches it",
                self.target
            );
            let failure = Failure::with_reason(Reason::NotPossible, message).with_exit(Exit::Unexpected);
            return Err(failure.with_hint(UNREACHABLE_HINT));
        };
        let url = format!("http://{address}");
        output::print(&format!("{url}\n"))?;
        if !self.print && has_display() {
            open_browser(&url);
        }
        Ok(Exit::Done)
    }
}

fn has_display() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    cfg!(target_os = "macos") || is_set("DISPLAY") || is_set("WAYLAND_DISPLAY")
}

/// Opens the URL in the browser of the user. The URL is printed already, so an error is only a note.
fn open_browser(url: &str) {
    let program = if cfg!(target_os = "macos") {
        "open"
    } else {
        "xdg-open"
    };
    let mut command = Command::new(program);
    command
        .arg(url)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    match command.status() {
        Ok(ended) if ended.success() => {}
        Ok(ended) => output::print_note(&format!("note: `{program}` failed: {ended}")),
        Err(error) => output::print_note(&format!("note: cannot run `{program}`: {error}")),
    }
}
