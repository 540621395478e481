//! What people write and read: the `e2e.yaml` format, the status files, errors, and their schemas.
//!
//! Floor 0 of the house: no I/O, no clock, no randomness. [`yaml::read`] turns bytes into an [`E2eSpec`] and *all*
//! complaints about them at once; what the texts in it mean together is decided one floor up.

pub mod diagnostic;
pub mod environment;
pub mod error;
pub mod incident;
pub mod mock;
pub mod probe;
pub mod quantity;
pub mod resilience;
pub mod schema;
pub mod service;
pub mod status;
pub mod suite;
pub mod text;
pub mod yaml;

pub use diagnostic::{Diagnostic, DiagnosticSeverity, Location, render};
pub use environment::{
    Argus, Declared, Deletion, E2eSpec, Isolation, Network, Policy, PortRange, Project, RestartMode,
    RestartPolicy, Rollback, VolumeDeletion,
};
pub use error::{ActionId, Call, Category, Class, Code, Explanation, Remedy, Severity, StructuredError};
pub use mock::{Mock, MockMode, MockResponse, MockRoute, MockWhen};
pub use probe::{Healthcheck, ProbeType};
pub use quantity::{ByteSize, CpuCount, HumanDuration, QuantityError};
pub use resilience::{
    CircuitBreaker, ContainerResilience, NetworkResilience, PortConflictStrategy, Preflight, Resilience,
    RestartBackoff,
};
pub use service::{Build, Container, Criticality, Dependency, DependencyCondition, Service};
pub use suite::{
    History, HistoryStorage, Parallel, Retention, RetryBackoff, Runner, Suite, TestRetry, Tests,
};
pub use text::{Command, PortText};
pub use yaml::{ParsedSpec, SourceMap, Span, read, to_yaml};
