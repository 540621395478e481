//! `argus explain`: meaning and remedies of error codes.

use argus_crds::error::Code;
use clap::Args;

use crate::api::explain::code_page::{code_to_json, explain_all, format_page};
use crate::exit::{Exit, Failure};
use crate::output;
use crate::output::Format;
use crate::table;

#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// Error code, such as `PORT_CONFLICT` [default: list all codes]
    code: Option<String>,
    /// Output format [default: table]
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<Format>,
}

impl Explain {
    pub(crate) fn execute(self) -> Result<Exit, Failure> {
        let format = self.output.unwrap_or(Format::Table);
        match &self.code {
            Some(text) => {
                let code: Code = text.parse().map_err(|error: argus_crds::error::UnknownCode| {
                    Failure::usage(error.to_string()).with_hint("list all codes with `argus explain`")
                })?;
                match format {
                    Format::Json => output::print_json(&code_to_json(code))?,
                    Format::Yaml => output::print_yaml(&code_to_json(code))?,
                    Format::Name => output::print(&format!("{code}\n"))?,
                    Format::Table | Format::Wide => {
                        output::print(&table::format_prose(&format_page(code), output::terminal_width()))?;
                    }
                }
            }
            None => match format {
                Format::Json => output::print_json(&explain_all())?,
                Format::Yaml => output::print_yaml(&explain_all())?,
                Format::Name => output::print(&output::join_lines(Code::ALL))?,
                Format::Table | Format::Wide => {
                    let row = |code: &Code| vec![code.to_string(), code.explanation().summary.to_owned()];
                    let rows: Vec<_> = Code::ALL.iter().map(row).collect();
                    output::print(&table::format_table(
                        &["CODE", "MEANING"],
                        &rows,
                        output::terminal_width(),
                    ))?;
                }
            },
        }
        Ok(Exit::Done)
    }
}
