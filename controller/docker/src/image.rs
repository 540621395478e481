//! Images, pulled from a registry or built from a folder.

pub(crate) mod build;
pub(crate) mod context;
mod credentials;
mod dockerignore;
mod layers;
pub(crate) mod pull;
