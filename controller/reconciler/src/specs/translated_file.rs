//! A translated Compose file with the files that it names.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use argus_core::quoting::PathText as _;
use argus_crds::Diagnostic;
use sha2::{Digest, Sha256};

use super::digest::Digests;
use super::env_vars;
use super::location::SpecLocation;
use super::parsed_file::{ComposeSource, Translation};
use super::scan::{MAX_FILE_BYTES, Text};
use super::settings::SpecLoaderSettings;
use crate::clock::thread_cpu_time;

type Hash = [u8; 32];

/// A translated Compose file.
pub(super) struct TranslatedFile {
    pub(super) translation: Translation,
    /// Text of the translation, with the hash of both texts.
    pub(super) text: Text,
    /// Paths of the other files that the translator read.
    pub(super) read: Vec<PathBuf>,
    /// Hash of these files; `None` without any.
    pub(super) others: Option<Hash>,
    /// Hash of the Compose file and of the other Compose files that it names.
    pub(super) files: Hash,
    pub(super) took: Duration,
    /// Warnings about variables of the shell that it names and does not get.
    pub(super) unread: Vec<Diagnostic>,
}

/// Translates a Compose file, and adds the variables that it uses; `None` for another file. `digests` know whether the caller has ended.
pub(super) fn translate(
    settings: &SpecLoaderSettings,
    (name, location, text): (&str, &SpecLocation, &Text),
    variables: &mut BTreeMap<String, String>,
    digests: &Digests,
) -> Option<TranslatedFile> {
    // A person allowed the project, so its Compose files receive the variables of the shell, as in Compose.
    let mut known = variables.clone();
    if location.host.allowed {
        known.extend(settings.process_env.clone());
    }
    let others = RefCell::new(BTreeMap::new());
    let read = |path: &Path| {
        let found = match location.read(path, MAX_FILE_BYTES) {
            // The caller of the translation has ended.
            _ if digests.is_stopped() => Err("the evaluation has ended".to_owned()),
            Ok(Some(bytes)) => Ok(bytes),
            Ok(None) => Err(format!("it is longer than {MAX_FILE_BYTES} bytes")),
            Err(error) => Err(error.to_string()),
        };
        let hash = Hash::from(Sha256::digest(format!("{}\0{found:?}", path.shown())));
        others.borrow_mut().insert(path.to_owned(), hash);
        found
    };
    let before = thread_cpu_time();
    let translation = settings.translate?(&ComposeSource {
        name,
        file: &location.file,
        bytes: &text.bytes,
        read: &read,
        variables: &known,
    })?;
    let used = referenced_variables(&translation.text);
    known.retain(|name, _| used.contains(name.as_str()));
    variables.extend(known);
    let took = thread_cpu_time().saturating_sub(before);
    let hash = Sha256::new()
        .chain_update(text.hash)
        .chain_update(&translation.text)
        .finalize();
    let unread = if location.host.allowed {
        Vec::new()
    } else {
        env_vars::warn_of_unread(&translation.unset, &settings.process_env).collect()
    };
    let others = others.into_inner();
    let compose_files = translation.files.iter().filter_map(|file| others.get(file));
    Some(TranslatedFile {
        files: combine(compose_files.chain([&text.hash])),
        read: others.keys().cloned().collect(),
        others: (!others.is_empty()).then(|| combine(others.values())),
        text: Text {
            bytes: translation.text.as_bytes().into(),
            hash: hash.into(),
        },
        translation,
        took,
        unread,
    })
}

/// Names in the references `{{env.NAME}}` of a text.
fn referenced_variables(text: &str) -> BTreeSet<&str> {
    let after = text.split("{{env.").skip(1);
    after.filter_map(|rest| Some(rest.split_once("}}")?.0)).collect()
}

fn combine<'a>(hashes: impl Iterator<Item = &'a Hash>) -> Hash {
    hashes.fold(Sha256::new(), Sha256::chain_update).finalize().into()
}
