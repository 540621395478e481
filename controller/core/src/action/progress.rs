//! Progress of pulls and builds.

pub use argus_crds::status::Amount;

/// Progress of a pull or a build.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ActionProgress {
    /// Line for people, such as `layer 3/7 12.1 MB of 40.0 MB` or `Step 2/5 : COPY`.
    pub line: String,
    /// Layers of a pull.
    pub layers: Option<Amount>,
    /// Bytes of the known layers of a pull.
    pub bytes: Option<Amount>,
    /// Steps of a build.
    pub steps: Option<Amount>,
}

impl From<String> for ActionProgress {
    fn from(line: String) -> Self {
        Self {
            line,
            ..Self::default()
        }
    }
}
