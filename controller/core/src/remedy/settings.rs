//! Settings that a program names in its own words: the length of a value, and keys of a mounted file.

use argus_crds::error::SpecEdit;

use super::case::{Case, contains, is_plain, paths, quoted};
use super::values::ANY_SECRET;
use crate::desired::Mount;
use crate::secrets::{REDACTED, is_secret};

parts! {
    /// Parts of a message about a configuration that the program cannot read, in lower case.
    CONFIGURATION: "error decoding" "cannot unmarshal" "failed to get config" "failed to load config"
        "error loading config" "error reading config" "invalid configuration" "could not load config"
        "no setting with that name" "unknown variable:" "failed_to_prepare_configuration" "config is invalid"
        "provisioning error" "configuration error" "configuration is invalid" "error in configuration" "bad configuration"
        "invalid config" "config error" "unable to parse config" "failed to parse config" "unknown configuration"
        "configuration file is" "error initializing config" "config validation" "unmarshal errors" "failed to validate"
        "invalid keys" "has invalid keys" "\"events\" section" "unknown field" "unknown directive" "unsupported config" "fatal config file error" "unrecognized option:" "unknown option in config" "failed parsing config";
}

/// Secret that is shorter than the number of characters in the message.
pub(super) fn short_value(case: &Case<'_>) -> Option<SpecEdit> {
    let line = case.line_with(&["at least "])?;
    let words: Vec<&str> = line
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
        .collect();
    let is_unit = |word: &str| {
        ["char", "byte"]
            .iter()
            .any(|unit| word.to_lowercase().starts_with(unit))
    };
    let numbers = line.split("at least ").skip(1).filter_map(|rest| {
        let mut next = rest
            .split(|c: char| !c.is_ascii_alphanumeric())
            .filter(|word| !word.is_empty());
        let number = next.next()?.parse::<usize>().ok()?;
        is_unit(next.next()?).then_some(number)
    });
    let needed = numbers.max()?;
    let is_secret = |name: &str| is_secret(name) || name.ends_with("_KEY");
    let variables = case.context.service.env_vars.iter();
    let mut short =
        variables.filter(|(name, value)| is_secret(name) && !value.is_empty() && value.len() < needed);
    let named = short.clone().find(|(name, _)| words.contains(&name.as_str()));
    let only = || short.next().filter(|_| short.next().is_none());
    let (name, _) = named.or_else(only)?;
    let reason = format!("its value is shorter than the {needed} characters that the program requires");
    let edit = case.variable(name, reason);
    // Some programs also require several kinds of characters.
    let longer = ["Argus-Test-2026!", ANY_SECRET]
        .into_iter()
        .find(|text| text.len() >= needed);
    Some(match longer {
        Some(longer) => edit.now(REDACTED).suggest(longer),
        None => edit.now(REDACTED).hint("write a longer value"),
    })
}

/// Setting of the configuration that the command or the only mounted file of the service contains.
pub(super) fn named_setting(case: &Case<'_>) -> Option<SpecEdit> {
    parts! {
        PLACES: "configuration option" "configuration file" "config file" "in the configuration";
    }
    let mut lines = case.lines().filter(|line| {
        let is_request = contains(&format!(" {line}"), &[" set the ", " set `", " set '", " set \""]);
        is_request && contains(line, PLACES)
    });
    let is_name = |name: &&str| is_plain(name) && name.len() >= 3 && !name.contains('/');
    let name = lines.find_map(|line| quoted(line).find(is_name))?;
    let reason = format!("its program requires the setting `{name}`");
    let hint = format!("set `{name}` as the output describes, then `argus_retry`");
    Some(Case::host_edit(configuration_file(case)?, reason, hint))
}

/// Configuration that the program cannot read, without the path of its file.
pub(super) fn configuration(case: &Case<'_>) -> Option<SpecEdit> {
    case.line_with(CONFIGURATION)
        .filter(|line| !line.trim_start().starts_with('{') && paths(line).next().is_none())?;
    let hint = "correct it as the output describes, then `argus_retry`";
    let reason = "its program cannot read this configuration";
    Some(Case::host_edit(configuration_file(case)?, reason, hint))
}

/// Mounted configuration with the address on which the process listens only inside its container.
pub(super) fn local_listener(case: &Case<'_>) -> Option<SpecEdit> {
    let port = case.context.service.probe.as_ref()?.kind.port()?;
    let listening = case.run.evidence.as_ref()?.listening.as_deref()?;
    let mut of_port = listening.iter().filter(|at| at.port() == port).peekable();
    of_port.peek()?;
    if !of_port.all(|at| at.ip().is_loopback()) || case.context.healthcheck(case.run).is_some() {
        return None;
    }
    let reason = format!("the process listens on port {port} only inside its container");
    let hint = format!("set its address to `0.0.0.0:{port}`, then `argus_retry`");
    Some(Case::host_edit(configuration_file(case)?, reason, hint))
}

/// Mounted file that the command names, or the only one with an ending.
fn configuration_file(case: &Case<'_>) -> Option<String> {
    let is_file = |path: &str| path.rsplit('/').next().is_some_and(|name| name.contains('.'));
    let in_command = case
        .words()
        .flat_map(|word| paths(word))
        .find_map(|path| case.host_file(path));
    let mounted = || {
        let mounts = case.context.service.mounts.iter();
        let mut files = mounts.filter(|mount| matches!(mount, Mount::Bind { .. }) && is_file(mount.target()));
        let only = files.next().filter(|_| files.next().is_none())?;
        case.host_file(only.target())
    };
    in_command.or_else(mounted)
}
