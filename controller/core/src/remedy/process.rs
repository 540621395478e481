//! Settings of the process of a container: its folder, its capabilities, and the jobs before it.

use argus_crds::error::SpecEdit;

use super::case::{Case, contains, mount_of, paths, quoted};
use super::classes::{NO_CAPABILITY, NO_PROJECT_FILE, NO_TABLE, PROJECT_FILES};
use super::cures::cure_of;
use super::network::siblings;
use crate::desired::{Condition, Dependency, Mount};

/// Folder of the project: the only mounted one, if the program does not find a file of the project.
pub(super) fn working_dir(case: &Case<'_>) -> Option<SpecEdit> {
    let service = case.context.service;
    let mut folders = service.mounts.iter().filter(|mount| {
        let name = mount.target().rsplit('/').next().unwrap_or_default();
        matches!(mount, Mount::Bind { .. }) && !name.contains('.')
    });
    let target = folders.next().filter(|_| folders.next().is_none())?.target();
    if service.working_dir.as_deref() == Some(target) {
        return None;
    }
    // An absolute path does not depend on the folder.
    let is_absolute = |path: &str| case.words().any(|word| word == path);
    let is_outside =
        |line: &str| paths(line).all(|path| mount_of(&case.context, path).is_none() && !is_absolute(path));
    let is_meant = |line: &&str| {
        let is_project =
            contains(line, &PROJECT_FILES) || contains(line, &["no pom in this directory", "no rakefile"]);
        contains(line, &NO_PROJECT_FILE) && is_project && is_outside(line)
    };
    let module = || {
        let line = case.line_with(&[
            "no module named",
            "could not import module",
            "could not import '",
            "module not found",
            "the module ",
        ])?;
        let named = || line.split_once("he module ")?.1.split(' ').next();
        let name = quoted(line).next().or_else(named)?.split(['.', ':']).next()?;
        let mut words = case.words().flat_map(|word| word.split([' ', '.', ':']));
        words.any(|word| word == name).then_some(line)
    };
    case.lines().find(is_meant).or_else(module)?;
    let reason = format!("the project is mounted at `{target}`, and the program runs in another folder");
    let edit = case.context.edit("workingDir", reason);
    Some(match &service.working_dir {
        Some(now) => edit.now(now.as_str()).suggest(target),
        None => edit.suggest(target),
    })
}

/// Command of an image that only shows its options, or that needs a terminal.
pub(super) fn missing_command(case: &Case<'_>) -> Option<SpecEdit> {
    let own = case.context.service;
    let has_command = own.command.is_some() || own.entrypoint.is_some();
    let is_ended = case.run.exit_code == 0 && !has_command;
    is_ended.then(|| cure_of(case, "<ended>")).flatten()
}

/// Capabilities that the service removes.
pub(super) fn capability(case: &Case<'_>) -> Option<SpecEdit> {
    let dropped = &case.context.service.process.cap_drop;
    case.line_with(&NO_CAPABILITY).filter(|_| !dropped.is_empty())?;
    let reason = format!(
        "its program needs a capability that `{}` removes: {}",
        case.context.accepted.lines.write_key("capDrop"),
        dropped.join(", ")
    );
    Some(case.context.edit("capDrop", reason).suggest("[]"))
}

/// Job that creates the tables, on which the service does not depend.
pub(super) fn missing_job(case: &Case<'_>) -> Option<SpecEdit> {
    let own = case.context.service;
    let line = case.line_with(&NO_TABLE)?;
    let is_of_host = (paths(line).next().is_some() && contains(line, &["exist"]))
        || contains(line, &["database \"", "role \"", "unknown database"]);
    let mut jobs = siblings(case).filter(|sibling| {
        let mut needs = own.depends_on.iter();
        let is_waited =
            |need: &Dependency| need.service == sibling.name && need.condition != Condition::Started;
        sibling.one_shot && !needs.any(is_waited)
    });
    let job = jobs.next().filter(|_| jobs.next().is_none() && !is_of_host)?;
    let reason = format!(
        "nothing waits until `{}` has created what the program needs",
        job.name
    );
    let mut needs = own.depends_on.iter();
    if let Some(index) = needs.position(|need| need.service == job.name) {
        let key = format!("dependsOn[{index}].condition");
        let completed = case.context.accepted.lines.write_value(&key, "completed");
        return Some(case.context.edit(&key, reason).suggest(completed));
    }
    Some(add_dependency(case, job.name.as_str(), reason))
}

/// Job without a health check that others wait to be healthy, although it completes.
pub(super) fn completed_job(case: &Case<'_>) -> Option<SpecEdit> {
    let own = case.context.service;
    if case.run.exit_code != 0 || own.probe.is_some() {
        return None;
    }
    let waits = |need: &Dependency| need.service == own.name && need.condition == Condition::Healthy;
    let (sibling, index) =
        siblings(case).find_map(|sibling| Some((sibling, sibling.depends_on.iter().position(waits)?)))?;
    let reason = format!(
        "`{}` has completed with exit code 0, and `{}` waits until it is healthy",
        own.name, sibling.name
    );
    let lines = &case.context.accepted.lines;
    if lines.is_compose() {
        let key = format!("dependsOn[{index}].condition");
        let completed = lines.write_value(&key, "completed");
        let context = case.context.with_service(sibling);
        return Some(context.edit(&key, reason).suggest(completed));
    }
    Some(case.context.edit("oneShot", reason).suggest("true"))
}

/// The dependencies with another one.
pub(super) fn add_dependency(case: &Case<'_>, name: &str, reason: String) -> SpecEdit {
    let own = case.context.service;
    let edit = case.context.edit("dependsOn", reason);
    let is_usual = own
        .depends_on
        .iter()
        .all(|need| need.condition != Condition::Started);
    if case.context.accepted.lines.is_compose() || !is_usual {
        return edit.hint(format!("add `{name}` with the condition `healthy`"));
    }
    let mut all: Vec<&str> = own.depends_on.iter().map(|need| need.service.as_str()).collect();
    all.push(name);
    edit.suggest(format!("[{}]", all.join(", ")))
}

#[cfg(test)]
#[path = "process_tests.rs"]
mod tests;
