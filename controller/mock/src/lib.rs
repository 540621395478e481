//! What a mock answers to what: routes, templates, `OpenAPI` documents and recordings.
//!
//! Pure: a request and a [`Moment`] go in, an [`Answer`] comes out. `argus mock` serves it; admission asks it what is wrong
//! with a mock before anything runs.

mod answer;
mod compiled;
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
pub use argus_crds::mock::config::{MockConfig, RESERVED, VERSION};
pub use compiled::{CompiledMock, Decision, is_reserved};
pub use fill::Moment;
pub use forward::{Target, end_to_end};
pub use openapi::check;
pub use record::Pair;
pub use request::{Content, Request};
