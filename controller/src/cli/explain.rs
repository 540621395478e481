//! `argus explain`: meaning and remedies of error codes.

use clap::Args;

use crate::api::explain;
use crate::api::explain::ExplainOutput;
use crate::api::explain::code_page::{CodePage, format_page};
use crate::exit::{Exit, Failure};
use crate::output;
use crate::output::OutputArgs;
use crate::settings::Options;
use crate::table;
use crate::table::Column;

const CODES: &[Column<CodePage>] = &[
    ("CODE", |page| page.code.to_string()),
    ("MEANING", |page| page.summary.to_owned()),
];

#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// Error code, such as `PORT_CONFLICT` [default: list all codes]
    code: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
}

impl Explain {
    pub(crate) fn execute(self, _: &Options) -> Result<Exit, Failure> {
        let found = explain::Explain { code: self.code }.explain();
        let found = found.map_err(|failure| failure.with_hint("list all codes with `argus explain`"))?;
        let pages = match &found {
            ExplainOutput::One(page) => std::slice::from_ref(&**page),
            ExplainOutput::All(pages) => pages,
        };
        let width = output::terminal_width();
        self.output
            .print(&found, pages.iter().map(|page| page.code), || match &found {
                ExplainOutput::One(page) => table::format_prose(&format_page(page), width),
                ExplainOutput::All(pages) => table::format_columns(CODES, pages, width),
            })?;
        Ok(Exit::Done)
    }
}
