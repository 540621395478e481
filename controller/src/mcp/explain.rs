//! `argus_explain`: what an error code means.

use argus_crds::error::{Code, Reason};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::context::Call;
use super::reply::Output;
use super::tool::{Effect, Tool};
use crate::cli::explain;
use crate::exit::Failure;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Explain {
    /// Code, as in `PORT_CONFLICT`; the list of all codes without
    code: Option<String>,
}

/// What a code means, or what codes there are.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ExplainOutput {
    /// With `code`.
    #[serde(flatten)]
    meaning: Option<explain::Meaning>,
    /// All codes, each with what it means in a line.
    #[serde(skip_serializing_if = "Option::is_none")]
    codes: Option<std::collections::BTreeMap<String, &'static str>>,
}

impl Tool for Explain {
    const NAME: &'static str = "argus_explain";
    const TITLE: &'static str = "What an error code means";
    const ABOUT: &'static str = "Explains an error code of Argus: what it means, whether trying again helps, what to do. Without `code` it \
lists all codes.";
    const EFFECT: Effect = Effect::Looks;
    type Output = ExplainOutput;

    async fn call(self, _call: Call) -> Result<Output<ExplainOutput>, Failure> {
        let Some(text) = self.code else {
            let codes = Code::ALL
                .iter()
                .map(|code| (code.to_string(), code.about().summary));
            let text = Code::ALL
                .iter()
                .map(|code| format!("{code}: {}\n", code.about().summary));
            let told = ExplainOutput {
                meaning: None,
                codes: Some(codes.collect()),
            };
            return Ok(Output::new(told, text.collect::<String>()));
        };
        let code: Code =
            text.trim()
                .to_uppercase()
                .parse()
                .map_err(|error: argus_crds::error::UnknownCode| {
                    let all: Vec<String> = Code::ALL.iter().map(ToString::to_string).collect();
                    let message = format!("{error}; there are: {}", all.join(", "));
                    Failure::missing(Reason::NotFound, message).quiet()
                })?;
        let told = ExplainOutput {
            meaning: Some(explain::meaning(code)),
            codes: None,
        };
        let text = anstream::adapter::strip_str(&explain::page(code)).to_string();
        Ok(Output::new(told, text))
    }
}
