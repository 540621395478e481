//! Output formats of `argus get`: those of all commands, and templates.

use std::ffi::OsStr;

use clap::builder::{EnumValueParser, PossibleValue, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, Command, Error, ValueEnum as _};

use super::json_path::Template;
use crate::render::output::Format;

/// Format of the data.
#[derive(Debug, Clone)]
pub(crate) enum GetFormat {
    Common(Format),
    JsonPath(Template),
}

/// Parser of the values of [`Format`], and of `jsonpath=TEMPLATE`.
#[derive(Debug, Clone, Copy)]
pub(super) struct GetFormatParser;

impl TypedValueParser for GetFormatParser {
    type Value = GetFormat;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<GetFormat, Error> {
        let template = value.to_str().and_then(|text| text.strip_prefix("jsonpath="));
        let Some(template) = template else {
            let parser = EnumValueParser::<Format>::new();
            return parser.parse_ref(command, arg, value).map(GetFormat::Common);
        };
        Template::parse(template).map(GetFormat::JsonPath).map_err(|why| {
            let message = format!("the template of `jsonpath` is invalid: {why}\n");
            Error::raw(ErrorKind::ValueValidation, message).with_cmd(command)
        })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let formats = Format::value_variants().iter();
        Some(Box::new(formats.filter_map(clap::ValueEnum::to_possible_value)))
    }
}
