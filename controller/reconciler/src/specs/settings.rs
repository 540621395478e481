//! Settings of the scan and the admission, for the loader and its evaluations.

use std::collections::BTreeMap;

use super::admission::SpecAdmitter;
use super::parsed_file::Translate;
use super::source::SpecSource;

/// Settings of the scan and the admission.
#[derive(Clone)]
pub struct SpecLoaderSettings {
    /// Source of the spec files.
    pub source: SpecSource,
    /// True if warnings refuse a file.
    pub strict: bool,
    /// Names of variables that spec files may read.
    pub env_allow: Vec<String>,
    /// Environment variables of the controller.
    pub process_env: BTreeMap<String, String>,
    /// Identity of the controller.
    pub controller: String,
    /// Admitter of the files.
    pub admitter: SpecAdmitter,
    /// Translator of Compose files.
    pub translate: Option<Translate>,
}
