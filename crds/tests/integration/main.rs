//! The API types as files and tools see them: the corpus, the schemas, the reader and the error table.
#![allow(missing_docs)]

mod corpus;
mod errors;
mod keys;
mod quantity;
mod reading;
mod schema;
