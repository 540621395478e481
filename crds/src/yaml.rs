//! The only file that names the YAML crate.
use crate::complaint::{Complaint, Place};
use crate::environment::E2eSpec;

/// What reading a file brought.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The file's content, unless a complaint refuses it.
    pub spec: Option<E2eSpec>,
    /// All complaints, in the order of the file.
    pub complaints: Vec<Complaint>,
    /// Where things stand in the file.
    pub source: SourceMap,
}

/// A place in a file; see [`Place`].
pub type Span = Place;

/// Where things stand in a file.
#[derive(Clone, Debug, Default)]
pub struct SourceMap {}
