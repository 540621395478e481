//! `argus explain`: meaning and remedies of error codes, and keys of spec files.

use clap::Args;

use crate::api::explain;
use crate::api::explain::ExplainOutput;
use crate::api::explain::code_page::{CodePage, format_page};
use crate::api::explain::key_page::format_key;
use crate::process::exit::{Exit, Failure};
use crate::render::output;
use crate::render::output::OutputArgs;
use crate::render::table;
use crate::render::table::Column;
use crate::settings::Options;

const CODES: &[Column<CodePage>] = &[
    ("CODE", |page| page.code.to_string()),
    ("MEANING", |page| page.summary.to_owned()),
];

#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// Error code, such as `PORT_CONFLICT` [default: list all codes]
    code: Option<String>,
    /// Key of a spec file, such as `services.*.container.healthcheck`
    #[arg(long, value_name = "KEY", conflicts_with = "code")]
    key: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
}

impl Explain {
    pub(crate) fn execute(self, _: &Options) -> Result<Exit, Failure> {
        let is_key = self.key.is_some();
        let operation = explain::Explain {
            code: self.code,
            key: self.key,
        };
        let found = operation.explain().map_err(|failure| {
            if is_key {
                failure
            } else {
                failure.with_hint("list all codes with `argus explain`")
            }
        })?;
        let pages = match &found {
            ExplainOutput::One(page) => std::slice::from_ref(&**page),
            ExplainOutput::Key(_) => &[],
            ExplainOutput::All(pages) => pages,
        };
        let width = output::terminal_width();
        let names: Vec<String> = match &found {
            ExplainOutput::Key(page) => vec![page.key.clone()],
            ExplainOutput::One(_) | ExplainOutput::All(_) => {
                pages.iter().map(|page| page.code.to_string()).collect()
            }
        };
        self.output.print(&found, names, || match &found {
            ExplainOutput::Key(page) => format_key(page),
            ExplainOutput::One(page) => table::format_prose(&format_page(page), width),
            ExplainOutput::All(pages) => table::format_columns(CODES, pages, width),
        })?;
        Ok(Exit::Done)
    }
}
