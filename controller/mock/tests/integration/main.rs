//! The mocks against a corpus of documents and against their page.

mod corpus;
mod docs;
