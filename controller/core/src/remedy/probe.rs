//! Health checks that the program cannot answer: a missing program, TLS, and statuses with another path.

use argus_crds::error::SpecEdit;

use super::EditContext;
use super::case::{contains, is_plain};
use super::program::program_in;
use crate::desired::ProbeHandler;
use crate::failed_run::FailedRun;

/// Health check with a program that the image does not have.
pub(super) fn missing_program(context: &EditContext<'_>, run: &FailedRun) -> Option<SpecEdit> {
    let ProbeHandler::Exec { command } = &context.service.probe.as_ref()?.kind else {
        return None;
    };
    let program = run
        .probe_output
        .iter()
        .rev()
        .find_map(|output| missing_in(output))?;
    let url = command
        .iter()
        .flat_map(|word| word.split_whitespace())
        .find_map(|word| word.split_once("://"));
    let instead = match url {
        Some((_, address)) => {
            let (host, path) = address.split_once('/').unwrap_or((address, ""));
            let port = host.rsplit_once(':').map_or("80", |(_, port)| port);
            format!("write `type: http`, `port: {port}` and `path: /{path}` instead")
        }
        None => "write `type: tcp` with `port`, or use a program of the image".to_owned(),
    };
    let reason = format!("the image has no program `{program}`");
    let edit = context.edit("container.healthcheck.command", reason);
    Some(edit.now(program).hint(instead))
}

/// Health check over plain HTTP of a port with TLS.
pub(super) fn tls(context: &EditContext<'_>, run: &FailedRun) -> Option<SpecEdit> {
    let ProbeHandler::Http { .. } = &context.service.probe.as_ref()?.kind else {
        return None;
    };
    let output = run.probe_output.last()?;
    let is_tls = contains(
        output,
        &[
            "http request to an https server",
            "plain http request was sent to https port",
            "requires tls",
        ],
    );
    let reason = "its port accepts only TLS".to_owned();
    is_tls.then(|| context.edit("container.healthcheck.type", reason).suggest("tcp"))
}

/// Program that the output of a probe names as missing.
pub(super) fn missing_in(output: &str) -> Option<&str> {
    output.lines().find_map(|line| {
        let of_engine = line
            .split_once("exec: \"")
            .filter(|(_, rest)| rest.contains("executable file not found") || rest.contains("no such file"))
            .and_then(|(_, rest)| rest.split('"').next());
        of_engine
            .filter(|name| is_plain(name))
            .or_else(|| program_in(line))
    })
}
