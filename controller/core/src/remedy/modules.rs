//! Packages and modules that a program does not find: hidden by a mount, never installed in the image of a runtime, or in another folder.

use argus_crds::error::SpecEdit;

use super::case::{Case, add_volume, contains, is_plain, mount_of, paths, quoted};
use super::images::{rows, runtime_of};
use super::shell::after;
use crate::desired::{Image, Mount};

/// Package that is missing below a mount, which replaces the folder with the packages of the image, or in an image that has none.
pub(super) fn hidden_modules(case: &Case<'_>) -> Option<SpecEdit> {
    let service = case.context.service;
    let mut kinds = rows(include_str!("facts/packages.txt"));
    let of_module = |kind: [&'static str; 4]| Some((case.line_with(&[kind[0]])?, kind));
    // The script of a package runs a program of its modules.
    let of_script = || {
        let is_runner = |word: &str| ["npm", "yarn", "pnpm"].contains(&word);
        let is_run = case.words().flat_map(|word| word.split(' ')).any(is_runner);
        case.line_with(&["npm err", "elifecycle", "yarn run"])
            .or_else(|| case.line_with(&["sh: "]).filter(|_| is_run))?;
        let line = case.line_with(&[": not found", ": command not found"])?;
        Some((line, rows(include_str!("facts/packages.txt")).next()?))
    };
    let (line, [_, runtimes, folder, install]) = kinds.find_map(of_module).or_else(of_script)?;
    // A module with a path is a file of the program.
    if contains(line, &["module '/", "module './", "module '../"]) {
        return None;
    }
    if runtimes == "python"
        && let Some(edit) = python_path(case, line)
    {
        return Some(edit);
    }
    let runtime = runtime_of(service).filter(|_| matches!(service.image, Image::Named(_)));
    if runtime.is_some_and(|runtime| runtimes.split(' ').any(|name| name == runtime)) {
        return install_first(case, line, install);
    }
    let mut named = case.lines().flat_map(paths).chain(service.working_dir.as_deref());
    let path = named.find(|path| mount_of(&case.context, path).is_some())?;
    let (_, mount) = mount_of(&case.context, path)?;
    if folder.is_empty() || !matches!(mount, Mount::Bind { .. }) {
        return None;
    }
    let folder = format!("{}/{folder}", mount.target().trim_end_matches('/'));
    let reason = format!("the mount hides `{folder}` of the image");
    let entry = format!("{}-modules:{folder}", service.name);
    Some(add_volume(&case.context, &entry, reason))
}

/// The command after the installation of the packages of a mounted project, or of the missing one for a mounted script.
fn install_first(case: &Case<'_>, line: &str, install: &str) -> Option<SpecEdit> {
    let mounts = || {
        let binds = case.context.service.mounts.iter();
        let binds = binds.filter(|mount| matches!(mount, Mount::Bind { .. }));
        binds.filter_map(|mount| mount.target().rsplit('/').next())
    };
    let is_list =
        |name: &str| ["package.json", "requirements.txt", "Gemfile", "composer.json"].contains(&name);
    let has_project = mounts().any(|name| !name.contains('.') || is_list(name));
    let is_script = |name: &str| {
        [".py", ".js", ".mjs", ".cjs", ".ts"]
            .iter()
            .any(|end| name.ends_with(end))
    };
    let has_script = mounts().any(is_script);
    let mut words = case.words().flat_map(|word| word.split(' '));
    let tool = words.find(|word| ["yarn", "pnpm", "bun"].contains(word));
    let tool = tool.filter(|_| install.starts_with("npm"));
    let one = || {
        let name = quoted(line)
            .next()
            .filter(|name| is_plain(name) && !name.contains(['/', '.']))?;
        let tool = install
            .split(' ')
            .next()
            .filter(|tool| ["npm", "pip"].contains(tool))?;
        has_script.then(|| format!("{tool} install {name}"))
    };
    let all = tool.map_or_else(|| install.to_owned(), |tool| format!("{tool} install"));
    let install = if has_project { all } else { one()? };
    let reason = "the image of a runtime does not have the packages of the project";
    after(&case.context, &install, "", reason)
}

/// Variable with the folder of the project, if the program already runs in it and a module of the project itself is missing: the command
/// names it, or it has a usual name.
fn python_path(case: &Case<'_>, line: &str) -> Option<SpecEdit> {
    parts! {
        USUAL: "app" "src" "config" "settings" "models" "utils" "core" "api" "backend" "server" "database" "db" "tasks"
            "services" "common" "lib" "project";
    }
    let service = case.context.service;
    let set = &service.env_vars;
    let name = quoted(line).next()?.split('.').next()?;
    let mut words = case.words().flat_map(|word| word.split([' ', '.', ':', '/']));
    let is_own = USUAL.contains(&name) || words.any(|word| word == name);
    let folder = service.mounts.first().map(Mount::target);
    let folder = service.working_dir.as_deref().or(folder)?;
    mount_of(&case.context, folder).filter(|_| is_own && !set.contains_key("PYTHONPATH"))?;
    let reason = format!("its modules are in `{folder}`, and the interpreter looks next to the script");
    Some(case.variable("PYTHONPATH", reason).suggest(folder))
}

#[cfg(test)]
#[path = "modules_tests.rs"]
mod tests;
