//! `argus diff`: shows the changes of an environment since its last good revision.

use argus_crds::diff::{EnvironmentDiff, ImageChange, KeyChange};
use clap::Args;

use super::call;
use crate::api::diff;
use crate::process::exit::{Exit, Failure};
use crate::render::output;
use crate::render::output::OutputArgs;
use crate::render::table;
use crate::settings::{Options, SpecOptions};

#[derive(Debug, Args)]
pub(crate) struct Diff {
    /// Environment name
    environment: String,
    #[command(flatten)]
    output: OutputArgs,
}

impl Diff {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let context = call::create_context(options, &SpecOptions::default())?;
        let operation = diff::Diff {
            environment: self.environment,
        };
        let found = call::run(&context, &operation)?;
        let keys = found.keys.iter().map(|change| &change.key);
        self.output
            .print(&found, keys, || format_text(&found, output::terminal_width()))?;
        Ok(Exit::Done)
    }
}

const KEY_COLUMNS: &[table::Column<KeyChange>] = &[
    ("KEY", |change| change.key.clone()),
    ("LINE", |change| {
        change.line.map_or_else(String::new, |line| line.to_string())
    }),
    ("BEFORE", |change| cell(change.before.as_deref())),
    ("NOW", |change| cell(change.after.as_deref())),
];

const IMAGE_COLUMNS: &[table::Column<ImageChange>] = &[
    ("SERVICE", |change| change.service.clone()),
    ("IMAGE", |change| change.image.clone()),
    ("BEFORE", |change| short_id(&change.before)),
    ("NOW", |change| {
        change.after.as_deref().map_or_else(String::new, short_id)
    }),
    ("BUILD", |change| {
        if change.build_changed { "changed" } else { "" }.to_owned()
    }),
];

fn format_text(diff: &EnvironmentDiff, width: Option<usize>) -> String {
    let mut text = table::format_prose(&(diff::format_head(diff) + "\n"), width);
    if !diff.keys.is_empty() {
        text = text + "\n" + &table::format_columns(KEY_COLUMNS, &diff.keys, width);
    }
    if !diff.images.is_empty() {
        text = text + "\n" + &table::format_columns(IMAGE_COLUMNS, &diff.images, width);
    }
    text
}

/// Value in one line. A missing one is an empty cell.
fn cell(value: Option<&str>) -> String {
    value.unwrap_or_default().replace('\n', "\\n")
}

/// Id in the length of `docker images`.
fn short_id(id: &str) -> String {
    let hash = id.strip_prefix("sha256:").unwrap_or(id);
    hash.chars().take(12).collect()
}

#[cfg(test)]
mod tests {
    use argus_crds::diff::GoodRevision;

    use super::*;

    #[test]
    fn changes_are_two_tables_below_one_line() {
        let mut diff = EnvironmentDiff {
            environment: "shop".to_owned(),
            ..EnvironmentDiff::default()
        };
        assert_eq!(
            format_text(&diff, None),
            "shop: never Ready for 10 s, so there is no good revision to compare with\n"
        );
        diff.good = Some(GoodRevision {
            revision: "3f2a".to_owned(),
            since: "2026-11-24T05:00:00Z".to_owned(),
        });
        let head = "since revision 3f2a, good since 2026-11-24T05:00:00Z";
        assert_eq!(format_text(&diff, None), format!("shop: no changes {head}\n"));
        diff.rolled_back_from = Some("9c1d".to_owned());
        assert_eq!(
            format_text(&diff, None),
            format!("shop: no changes {head}; rolled back from revision 9c1d until the file changes\n")
        );
        diff.rolled_back_from = None;
        diff.keys = vec![KeyChange {
            key: "services.web.image".to_owned(),
            line: Some(7),
            before: None,
            after: Some("web:2".to_owned()),
        }];
        diff.images = vec![ImageChange {
            service: "web".to_owned(),
            image: "web:2".to_owned(),
            before: format!("sha256:{}", "a".repeat(64)),
            after: None,
            build_changed: true,
        }];
        assert_eq!(
            format_text(&diff, None),
            format!(
                "shop: 2 changes {head}\n\n\
                 KEY                  LINE   BEFORE   NOW\n\
                 services.web.image   7      -        web:2\n\n\
                 SERVICE   IMAGE   BEFORE         NOW   BUILD\n\
                 web       web:2   aaaaaaaaaaaa   -     changed\n"
            )
        );
    }
}
