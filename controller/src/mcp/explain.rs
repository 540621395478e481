//! Tool `argus_explain`: explanations of error codes.

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
    /// Error code, such as `PORT_CONFLICT` [default: list all codes]
    code: Option<String>,
}

/// Explanation of one code, or the list of all codes.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ExplainOutput {
    /// Explanation, for calls with `code`.
    #[serde(flatten)]
    meaning: Option<explain::Meaning>,
    /// All codes with one-line summaries.
    #[serde(skip_serializing_if = "Option::is_none")]
    codes: Option<std::collections::BTreeMap<String, &'static str>>,
}

impl Tool for Explain {
    const NAME: &'static str = "argus_explain";
    const TITLE: &'static str = "Explain an error code";
    const ABOUT: &'static str = "Explains an error code of Argus: its meaning, its remedies, and whether a retry helps. Without `code`, it \
lists all codes.";
    const EFFECT: Effect = Effect::ReadOnly;
    type Output = ExplainOutput;

    async fn call(self, _call: Call) -> Result<Output<ExplainOutput>, Failure> {
        let Some(text) = self.code else {
            let codes = Code::ALL
                .iter()
                .map(|code| (code.to_string(), code.about().summary));
            let text = Code::ALL
                .iter()
                .map(|code| format!("{code}: {}\n", code.about().summary));
            let output = ExplainOutput {
                meaning: None,
                codes: Some(codes.collect()),
            };
            return Ok(Output::new(output, text.collect::<String>()));
        };
        let code: Code =
            text.trim()
                .to_uppercase()
                .parse()
                .map_err(|error: argus_crds::error::UnknownCode| {
                    let all: Vec<String> = Code::ALL.iter().map(ToString::to_string).collect();
                    let message = format!("{error}; available codes: {}", all.join(", "));
                    Failure::with_reason(Reason::NotFound, message).without_suggestions()
                })?;
        let output = ExplainOutput {
            meaning: Some(explain::meaning(code)),
            codes: None,
        };
        let text = anstream::adapter::strip_str(&explain::page(code)).to_string();
        Ok(Output::new(output, text))
    }
}
