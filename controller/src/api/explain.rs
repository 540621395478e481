//! Explanations of error codes, and of the keys of spec files.

pub(crate) mod code_page;
pub(crate) mod key_page;
mod traces;

use std::collections::BTreeMap;

use argus_crds::error::{Code, Reason, UnknownCode};
use argus_crds::keys::{self, KeyPage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Context, Effect, Operation, Route, Summary, Tool};
use crate::process::exit::{Exit, Failure};
use code_page::{CodePage, explain_code, format_page};
use key_page::format_key;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Explain {
    /// Error code, such as `PORT_CONFLICT` [default: list all codes]
    pub(crate) code: Option<String>,
    /// Key of a spec file, such as `services.*.container.healthcheck` or `argus.policy`; not with `code`
    pub(crate) key: Option<String>,
}

/// Explanation of one code or key, or the list of all codes.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum ExplainOutput {
    /// Explanation of the requested code.
    One(Box<CodePage>),
    /// Explanation of the requested key.
    Key(Box<KeyPage>),
    /// Explanations of all codes.
    All(Vec<CodePage>),
}

/// Explanation of one code or key, or the summaries of all codes.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExplanationSummary {
    /// Explanation, for calls with `code`.
    #[serde(flatten)]
    meaning: Option<CodePage>,
    /// Explanation, for calls with `key`.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<KeyPage>,
    /// All codes with one-line summaries.
    #[serde(skip_serializing_if = "Option::is_none")]
    codes: Option<BTreeMap<String, &'static str>>,
}

impl Operation for Explain {
    const EFFECT: Effect = Effect::ReadOnly;
    const ROUTES: &'static [Route] = &[
        Route::get("/api/v1/errors", "all error codes").without(&["code", "key"]),
        Route::get("/api/v1/errors/{code}", "explanation of an error code").without(&["key"]),
        Route::get("/api/v1/keys/{key}", "explanation of a key of spec files").without(&["code"]),
    ];
    type Output = ExplainOutput;

    async fn run(&self, _context: &Context) -> Result<ExplainOutput, Failure> {
        self.explain()
    }
}

impl Explain {
    /// Explains the code, the key, or all codes.
    pub(crate) fn explain(&self) -> Result<ExplainOutput, Failure> {
        if let Some(key) = &self.key {
            return self.explain_key(key);
        }
        let Some(text) = &self.code else {
            return Ok(ExplainOutput::All(
                Code::ALL.iter().copied().map(explain_code).collect(),
            ));
        };
        let code = text.trim().to_uppercase().parse().map_err(|error: UnknownCode| {
            let all: Vec<String> = Code::ALL.iter().map(ToString::to_string).collect();
            Failure::with_reason(Reason::NotFound, error.to_string())
                .with_exit(Exit::Usage)
                .with_hint(format!("available codes: {}", all.join(", ")))
        })?;
        Ok(ExplainOutput::One(Box::new(explain_code(code))))
    }
}

impl Explain {
    fn explain_key(&self, key: &str) -> Result<ExplainOutput, Failure> {
        if self.code.is_some() {
            let failure = Failure::usage("`code` and `key` exclude each other");
            return Err(failure.with_hint("use one of them"));
        }
        let page = keys::explain(key).map_err(|error| {
            Failure::with_reason(Reason::NotFound, error.to_string())
                .with_exit(Exit::Usage)
                .with_hint(error.hint)
        })?;
        Ok(ExplainOutput::Key(Box::new(page)))
    }
}

impl Tool for Explain {
    const NAME: &'static str = "argus_explain";
    const TITLE: &'static str = "Explain an error code or a key";
    const ABOUT: &'static str = "Explains an error code of Argus: its meaning, its remedies, and whether a retry helps. With `key` instead of \
`code`, it explains a key of spec files: its inner keys, their types and defaults, and an example. Without both, it lists all codes.";
    type Data = ExplanationSummary;

    async fn summarize(&self, output: ExplainOutput, _context: &Context) -> Summary<ExplanationSummary> {
        match output {
            ExplainOutput::One(meaning) => {
                let text = anstream::adapter::strip_str(&format_page(&meaning)).to_string();
                let data = ExplanationSummary {
                    meaning: Some(*meaning),
                    key: None,
                    codes: None,
                };
                Summary::new(data, text)
            }
            ExplainOutput::Key(page) => {
                let text = format_key(&page);
                let data = ExplanationSummary {
                    meaning: None,
                    key: Some(*page),
                    codes: None,
                };
                Summary::new(data, text)
            }
            ExplainOutput::All(all) => {
                let line = |meaning: &CodePage| format!("{}: {}\n", meaning.code, meaning.summary);
                let text: String = all.iter().map(line).collect();
                let codes = all
                    .iter()
                    .map(|meaning| (meaning.code.to_string(), meaning.summary));
                let data = ExplanationSummary {
                    meaning: None,
                    key: None,
                    codes: Some(codes.collect()),
                };
                Summary::new(data, text)
            }
        }
    }
}
