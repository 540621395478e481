//! Responses of mocks: routes, templates, `OpenAPI` documents and recordings.
//!
//! The crate is pure: no I/O, no clock, no randomness. A [`Request`] and a [`Moment`] go in, and a [`Decision`] comes
//! out. The mock server (`argus mock serve`) reads the requests and sends the responses. Admission uses the same code
//! to check a mock before its container starts.
//!
//! - [`CompiledMock::new`] compiles a [`MockConfig`] and returns diagnostics about it. [`CompiledMock::decide`] finds the
//!   response to a request.
//! - [`check_openapi`] returns diagnostics about an `OpenAPI` document.
//! - [`Target`] describes the real service of a mock in mode `record`.
//! - [`journal`] keeps the latest requests of a mock, without secrets.
//!
//! Start with [`CompiledMock`]. It tries the overrides, the routes, the recordings and the document, in this order.

mod answer;
mod compiled;
mod cors;
mod fill;
mod forward;
pub mod journal;
mod openapi;
mod path;
mod record;
mod request;
mod route;
mod secret;
mod when;

pub use answer::MockReply;
pub use argus_crds::mock::config::{MockConfig, RESERVED_PATH, VERSION};
pub use compiled::{CompiledMock, Decision, is_reserved};
pub use fill::Moment;
pub use forward::{Target, end_to_end_headers};
pub use openapi::check_openapi;
pub use record::Recording;
pub use request::{Content, Request};
