//! Translation of a Compose file that a command or a controller reads in place of a spec file.

use std::collections::BTreeMap;
use std::path::Path;

use argus_core::ident::EnvName;
use argus_crds::compose::is_compose_name;
use argus_crds::diagnostic::{Diagnostic, Location};
use argus_crds::yaml::{self, ParsedSpec, SourceMap};
use argus_reconciler::specs::parsed_file::{ComposeSource, Translation};

use super::origin::Origin;
use super::variables::{NAME, Variables, is_name_char};
use super::{Document, FILES, PROFILES, create_draft};
use crate::compose::spec_draft::note::Note;
use crate::compose::spec_draft::{ProjectInfo, format_file};

/// Translates a Compose file as `argus init` does; `None` for another file, and for a spec file with such a name.
///
/// Parts without a counterpart become warnings. Invalid parts and unreadable files become errors: a translation without them would
/// remove containers. The text contains the names of variables instead of their values, so that all rules for secrets apply.
pub(crate) fn translate(source: &ComposeSource<'_>) -> Option<Translation> {
    let is_compose = |path: &Path| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(is_compose_name)
    };
    if !is_compose(Path::new(source.name)) && !is_compose(source.file) {
        return None;
    }
    match Document::parse(
        source.name,
        source.file,
        source.bytes,
        source.variables,
        source.read,
    ) {
        // Only spec files have this key.
        Ok(document) if document.value.get("project").is_some() => None,
        Ok(document) => Some(translate_document(source, &document)),
        Err(diagnostic) => Some(rejected(*diagnostic)),
    }
}

fn translate_document(source: &ComposeSource<'_>, document: &Document) -> Translation {
    let dir = source.file.parent().unwrap_or(Path::new("/"));
    let folder = || dir.file_name().map(|name| name.to_string_lossy().into_owned());
    let mut in_name = Variables {
        is_inlined: true,
        project: source.variables.clone(),
        ..Variables::default()
    };
    let named = document.value["name"].as_str();
    let named = named.map(|name| in_name.replace(name));
    let own = source
        .variables
        .get(NAME)
        .filter(|name| !name.is_empty())
        .cloned();
    let name = own.or(named).or_else(folder).unwrap_or_default();
    let slug = EnvName::slug(&name).map_or_else(|_| "project".to_owned(), String::from);
    let project = ProjectInfo {
        dir,
        back: ".".into(),
        slug: &slug,
        read: source.read,
        variables: source.variables,
        is_inlined: false,
    };
    let mut draft = create_draft(document, &project);
    draft.missing.append(&mut in_name.missing);
    // Compose reads them as well.
    let own = [NAME, FILES, PROFILES].map(str::to_owned).into_iter();
    draft
        .missing
        .extend(own.filter(|name| !source.variables.contains_key(name)));
    let written = String::from_utf8_lossy(source.bytes);
    let unset = draft.missing.iter();
    let unset = unset.map(|name| (name.clone(), locate_variable(&written, name)));
    let unset = unset.collect();
    let text = match format_file(&slug, &draft) {
        Ok(text) => text,
        Err(failure) => return rejected(Diagnostic::error("", failure.message())),
    };
    let origin = Origin::new(document, source.variables);
    let mut contents = yaml::read_translated(source.name, &text, &origin);
    let notes = draft.notes.iter().filter_map(Note::diagnostic);
    contents.diagnostics.extend(notes);
    if contents.diagnostics.iter().any(Diagnostic::is_error) {
        contents.rest = contents.spec.take().or(contents.rest);
    }
    Translation {
        text,
        contents,
        files: document.other_files().map(|file| dir.join(file)).collect(),
        unset,
    }
}

/// First line with the name of a variable before a comment; `None` for a name in another file.
fn locate_variable(text: &str, name: &str) -> Option<Location> {
    let is_name = |line: &str| {
        let code = line.split('#').next().unwrap_or_default();
        code.split(|c| !is_name_char(c)).any(|word| word == name)
    };
    let line = text.lines().position(is_name)?;
    Some(Location {
        line: line + 1,
        column: 1,
        length: 1,
    })
}

fn rejected(diagnostic: Diagnostic) -> Translation {
    Translation {
        text: String::new(),
        contents: ParsedSpec {
            spec: None,
            rest: None,
            diagnostics: vec![diagnostic],
            source: SourceMap::default(),
        },
        files: Vec::new(),
        unset: BTreeMap::new(),
    }
}

#[cfg(test)]
#[path = "translation_tests.rs"]
mod tests;
