//! How far a pull has come, added up from what each layer tells.

use std::collections::BTreeMap;

use bollard::models::CreateImageInfo;

#[derive(Debug, Default, Clone, Copy)]
struct Layer {
    done: bool,
    current: u64,
    total: u64,
}

/// What there is to say of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Heard {
    /// A step forward, worth keeping.
    Step(String),
    /// More of the same, for whoever looks now.
    Amount(String),
}

/// The layers of one pull.
#[derive(Debug, Default)]
pub(super) struct Layers {
    layers: BTreeMap<String, Layer>,
    said: String,
}

impl Layers {
    /// Takes one message in; what there is to say of it, if that is anything new.
    pub(super) fn hear(&mut self, info: CreateImageInfo) -> Option<Heard> {
        let status = info.status.unwrap_or_default();
        let Some(id) = info.id.filter(|_| is_of_a_layer(&status)) else {
            return (!status.is_empty()).then_some(Heard::Step(status));
        };
        let before = self.counted();
        let layer = self.layers.entry(id).or_default();
        layer.done = matches!(status.as_str(), "Pull complete" | "Already exists");
        if status == "Downloading" {
            let amount = |value: Option<i64>| u64::try_from(value.unwrap_or(0)).unwrap_or(0);
            let detail = info.progress_detail.unwrap_or_default();
            layer.current = amount(detail.current);
            layer.total = amount(detail.total).max(layer.total);
        } else if matches!(status.as_str(), "Download complete" | "Pull complete") {
            layer.current = layer.total;
        }
        let line = self.line();
        if line == self.said {
            return None;
        }
        self.said.clone_from(&line);
        Some(if self.counted() == before {
            Heard::Amount(line)
        } else {
            Heard::Step(line)
        })
    }

    /// How many are done, of how many.
    fn counted(&self) -> (usize, usize) {
        let done = self.layers.values().filter(|layer| layer.done).count();
        (done, self.layers.len())
    }

    fn line(&self) -> String {
        let (done, all) = self.counted();
        let sum = |part: fn(&Layer) -> u64| self.layers.values().map(part).sum::<u64>();
        let (current, total) = (sum(|layer| layer.current), sum(|layer| layer.total));
        let layers = format!("layer {done}/{all}");
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
        let mut hear = |id: Option<&str>, status: &str, detail: Option<(i64, i64)>| {
            let info = CreateImageInfo {
                id: id.map(str::to_owned),
                status: Some(status.to_owned()),
                progress_detail: detail.map(|(current, total)| bollard::models::ProgressDetail {
                    current: Some(current),
                    total: Some(total),
                }),
                error_detail: None,
            };
            layers.hear(info)
        };
        let step = |line: &str| Some(Heard::Step(line.to_owned()));
        let amount = |line: &str| Some(Heard::Amount(line.to_owned()));
        let of = |current| Some((current, 40_000_000));
        assert_eq!(
            hear(Some("1.0"), "Pulling from library/x", None),
            step("Pulling from library/x")
        );
        assert_eq!(hear(Some("a"), "Pulling fs layer", None), step("layer 0/1"));
        assert_eq!(hear(Some("b"), "Already exists", None), step("layer 1/2"));
        assert_eq!(
            hear(Some("a"), "Downloading", of(12_100_000)),
            amount("layer 1/2 12.1 MB of 40.0 MB")
        );
        assert_eq!(
            hear(Some("a"), "Downloading", of(12_100_001)),
            None,
            "nothing that one could see"
        );
        assert_eq!(
            hear(Some("a"), "Pull complete", None),
            step("layer 2/2 40.0 MB of 40.0 MB")
        );
        assert_eq!(hear(None, "Status: done", None), step("Status: done"));
    }
}
