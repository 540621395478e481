//! The documentation is correct: its blocks, tours, tables and recorded output match the program.

mod onboarding;
mod reference;
mod snippets;
mod transcripts;
