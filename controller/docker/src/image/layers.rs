//! How far a pull has come, added up from what each layer tells.

use std::collections::BTreeMap;
use std::time::Duration;

use argus_core::time::Timestamp;
use bollard::models::CreateImageInfo;

/// More lines than this nobody reads.
const AT_MOST_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug, Default, Clone, Copy)]
struct Layer {
    done: bool,
    current: u64,
    total: u64,
}

/// The layers of one pull.
#[derive(Debug, Default)]
pub(super) struct Layers {
    layers: BTreeMap<String, Layer>,
    said_at: Option<Timestamp>,
}

impl Layers {
    /// Takes one message in; a line for people when there is something new to say.
    pub(super) fn hear(&mut self, info: CreateImageInfo, now: Timestamp) -> Option<String> {
        let status = info.status.unwrap_or_default();
        let Some(id) = info.id.filter(|_| is_of_a_layer(&status)) else {
            return (!status.is_empty()).then_some(status);
        };
        let layer = self.layers.entry(id).or_default();
        let was_done = layer.done;
        layer.done = matches!(status.as_str(), "Pull complete" | "Already exists");
        if status == "Downloading" {
            let amount = |value: Option<i64>| u64::try_from(value.unwrap_or(0)).unwrap_or(0);
            let detail = info.progress_detail.unwrap_or_default();
            layer.current = amount(detail.current);
            layer.total = amount(detail.total).max(layer.total);
        } else if matches!(status.as_str(), "Download complete" | "Pull complete") {
            layer.current = layer.total;
        }
        let finished = layer.done && !was_done;
        let rested = self.said_at.is_none_or(|at| now.since(at) >= AT_MOST_EVERY);
        if !finished && !rested {
            return None;
        }
        self.said_at = Some(now);
        Some(self.line())
    }

    fn line(&self) -> String {
        let done = self.layers.values().filter(|layer| layer.done).count();
        let sum = |part: fn(&Layer) -> u64| self.layers.values().map(part).sum::<u64>();
        let (current, total) = (sum(|layer| layer.current), sum(|layer| layer.total));
        let layers = format!("layer {done}/{}", self.layers.len());
        if total == 0 {
            return layers;
        }
        format!("{layers} {} of {}", megabytes(current), megabytes(total))
    }
}

fn is_of_a_layer(status: &str) -> bool {
    matches!(
        status,
        "Pulling fs layer"
            | "Waiting"
            | "Downloading"
            | "Verifying Checksum"
            | "Download complete"
            | "Extracting"
            | "Pull complete"
            | "Already exists"
    )
}

fn megabytes(bytes: u64) -> String {
    format!("{}.{} MB", bytes / 1_000_000, bytes % 1_000_000 / 100_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_add_up_to_one_line() {
        let mut layers = Layers::default();
        let mut hear = |at, id: Option<&str>, status: &str, detail: Option<(i64, i64)>| {
            let info = CreateImageInfo {
                id: id.map(str::to_owned),
                status: Some(status.to_owned()),
                progress_detail: detail.map(|(current, total)| bollard::models::ProgressDetail {
                    current: Some(current),
                    total: Some(total),
                }),
                error_detail: None,
            };
            layers.hear(info, Timestamp(at))
        };
        assert_eq!(
            hear(0, Some("1.0"), "Pulling from library/x", None).as_deref(),
            Some("Pulling from library/x")
        );
        assert_eq!(
            hear(0, Some("a"), "Pulling fs layer", None).as_deref(),
            Some("layer 0/1")
        );
        assert_eq!(
            hear(1, Some("b"), "Already exists", None).as_deref(),
            Some("layer 1/2")
        );
        assert_eq!(
            hear(2, Some("a"), "Downloading", Some((1_000_000, 40_000_000))),
            None
        );
        let line = hear(1001, Some("a"), "Downloading", Some((12_100_000, 40_000_000)));
        assert_eq!(line.as_deref(), Some("layer 1/2 12.1 MB of 40.0 MB"));
        let line = hear(1002, Some("a"), "Pull complete", None);
        assert_eq!(line.as_deref(), Some("layer 2/2 40.0 MB of 40.0 MB"));
        assert_eq!(
            hear(1003, None, "Status: done", None).as_deref(),
            Some("Status: done")
        );
    }
}
