//! Name of a project.

use std::path::Path;

use argus_crds::yaml::document;

use super::ReadFile;

/// Name in the project's own files (package.json, Cargo.toml, go.mod, pyproject.toml), else the name of its folder.
pub(crate) fn find_name(dir: &Path, read: ReadFile<'_>) -> String {
    let text = |file: &str| String::from_utf8(read(&dir.join(file)).ok()?).ok();
    let package = || {
        let read = document("package.json", text("package.json")?.as_bytes()).ok()?;
        let name = read.value["name"].as_str()?;
        // A scope such as `@acme/` precedes the name.
        Some(name.rsplit('/').next().unwrap_or(name).to_owned())
    };
    let go = || {
        let text = text("go.mod")?;
        let module = text
            .lines()
            .find_map(|line| line.trim().strip_prefix("module "))?;
        let mut parts = module.trim().trim_matches('"').rsplit('/');
        let last = parts.next()?;
        let is_version = last
            .strip_prefix('v')
            .is_some_and(|rest| rest.parse::<u32>().is_ok());
        Some(if is_version { parts.next()? } else { last }.to_owned())
    };
    let cargo = || read_toml_name(&text("Cargo.toml")?, &["package", "name"]);
    let python = || {
        let text = text("pyproject.toml")?;
        read_toml_name(&text, &["project", "name"])
            .or_else(|| read_toml_name(&text, &["tool", "poetry", "name"]))
    };
    let folder = || Some(dir.file_name()?.to_string_lossy().into_owned());
    let named = package().or_else(cargo).or_else(go).or_else(python);
    let named = named.filter(|name| !name.trim().is_empty()).or_else(folder);
    named.unwrap_or_else(|| "project".to_owned())
}

fn read_toml_name(text: &str, path: &[&str]) -> Option<String> {
    let table: toml::Table = text.parse().ok()?;
    let (last, tables) = path.split_last()?;
    let inner = tables
        .iter()
        .try_fold(&table, |table, key| table.get(*key)?.as_table())?;
    Some(inner.get(*last)?.as_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn name_is_that_of_the_package_or_else_of_the_folder() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("my-folder");
        fs::create_dir(&home).unwrap();
        let read = |path: &Path| fs::read(path).map_err(|error| error.to_string());
        assert_eq!(find_name(&home, &read), "my-folder");
        for (file, text, expected) in [
            ("package.json", r#"{ "name": "@acme/shop" }"#, "shop"),
            ("Cargo.toml", "[package]\nname = \"crab\"\n", "crab"),
            ("Cargo.toml", "[workspace]\n", "my-folder"),
            (
                "go.mod",
                "// a comment\nmodule example.com/acme/gopher/v2\n\ngo 1.22\n",
                "gopher",
            ),
            ("pyproject.toml", "[tool.poetry]\nname = \"snake\"\n", "snake"),
            ("pyproject.toml", "[project]\nname = \"snake\"\n", "snake"),
            ("pyproject.toml", "not toml", "my-folder"),
        ] {
            fs::write(home.join(file), text).unwrap();
            assert_eq!(find_name(&home, &read), expected, "{file}: {text}");
            fs::remove_file(home.join(file)).unwrap();
        }
    }
}
