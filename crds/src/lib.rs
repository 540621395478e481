//! Types of the Argus API: the `e2e.yaml` format, status files, errors, and their JSON Schemas.
//!
//! This crate is layer 0 of the project. It has no I/O, no clock and no randomness.
//!
//! - [`yaml::read`] parses bytes into an [`E2eSpec`] and collects all [`Diagnostic`]s of the file in one pass.
//!   [`render`] prints them with the source line.
//! - [`E2eSpec`] is the root of a spec file. Its parts are in [`service`], [`mock`], [`suite`], [`resilience`] and
//!   [`probe`].
//! - [`HumanDuration`], [`ByteSize`] and [`CpuCount`] in [`quantity`] parse and print values with units.
//! - [`StructuredError`] is the only error type of the public interfaces. [`Code::explanation`] returns the table entry of
//!   a code, and [`Remedy`] is a suggested action.
//! - [`keys::explain`] returns the meaning, the type and an example of a key of a spec file.
//! - [`status`] and [`incident`] hold the documents that Argus writes to its state directory.
//! - [`schema`] generates the JSON Schemas and the CRD from these types. Doc comments on serialized types become
//!   descriptions in the schemas and in `docs/reference/keys.md`.
//!
//! The crate checks the shape of a file only. The crate `argus-core` checks the meaning of its values, for example
//! names, templates and mounts.
//!
//! Start with [`yaml::read`] for spec files and with [`StructuredError`] for errors.

pub mod build;
pub mod compose;
pub mod diagnostic;
pub mod diff;
pub mod environment;
pub mod error;
pub mod halt_after_same;
pub mod incident;
mod key_schema;
pub mod keys;
pub mod mock;
pub mod network;
pub mod number;
pub mod probe;
pub mod quantity;
pub mod resilience;
pub mod schema;
pub mod service;
pub mod status;
pub mod suggestion;
pub mod suite;
pub mod text;
pub mod volume;
pub mod yaml;

pub use build::{Build, BuildSecret};
pub use diagnostic::{Correction, Diagnostic, DiagnosticSeverity, Location, OtherFile, render};
pub use environment::{
    Argus, DeclaredService, Deletion, E2eSpec, Isolation, Policy, PortRange, Project, RestartMode,
    RestartPolicy, Rollback, Runtime, RuntimeKind, VolumeDeletion,
};
pub use error::{
    ActionId, Call, Category, Class, Code, Confidence, Explanation, Remedy, Severity, SpecEdit,
    StructuredError,
};
pub use mock::{Mock, MockMode, MockResponse, MockRoute, MockWhen};
pub use network::{Network, NetworkAttachment};
pub use probe::{Healthcheck, ProbeMethod, ProbeScheme, ProbeType, StatusCodes};
pub use quantity::{ByteSize, CpuCount, HumanDuration, QuantityError};
pub use resilience::{
    CircuitBreaker, ContainerResilience, NetworkResilience, PortConflictStrategy, Preflight, Resilience,
    RestartBackoff,
};
pub use service::{
    Container, ContainerFile, Criticality, Dependency, DependencyCondition, PullPolicy, Service,
};
pub use suite::{
    History, HistoryStorage, Parallel, Retention, RetryBackoff, Runner, Suite, TestRetry, Tests,
};
pub use text::{Command, PortText};
pub use volume::NamedVolume;
pub use yaml::{ParsedSpec, SourceMap, read, to_yaml};
