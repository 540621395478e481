//! Translation of single values of a compose file: ports, volumes, durations, sizes.

use std::path::{Component, Path, PathBuf};

use serde_json::{Value, json};

/// Scalar as text. `None` for other values.
pub(super) fn scalar_to_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Wraps a single value into a list.
pub(super) fn to_list(value: &Value) -> Value {
    match value {
        Value::Array(_) => value.clone(),
        one => json!([one]),
    }
}

/// List of `a:b` from a list or a map.
pub(super) fn join_pairs(value: &Value, between: char) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .flat_map(|(name, value)| {
                let values = to_list(value);
                let texts = values.as_array().into_iter().flatten().filter_map(scalar_to_text);
                let pairs = texts.map(|text| json!(format!("{name}{between}{text}")));
                pairs.collect::<Vec<_>>()
            })
            .collect(),
        Value::Array(all) => {
            let one = |one: &Value| {
                json!(
                    scalar_to_text(one)
                        .unwrap_or_default()
                        .replacen('=', &between.to_string(), 1)
                )
            };
            all.iter().map(one).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => to_list(value),
    }
}

/// Translates a duration such as `1m30s` to seconds or milliseconds.
pub(super) fn translate_duration(value: &Value) -> Option<Value> {
    let span = humantime::parse_duration(value.as_str()?).ok()?;
    let millis = span.as_millis();
    Some(if millis % 1_000 == 0 {
        json!(format!("{}s", millis / 1_000))
    } else {
        json!(format!("{millis}ms"))
    })
}

/// Translates a size such as `512m`, `1gb` or a number of bytes.
pub(super) fn translate_size(value: &Value) -> Option<Value> {
    let text = scalar_to_text(value)?;
    let at = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = (&text[..at], text[at..].trim().to_ascii_lowercase());
    number.parse::<f64>().ok()?;
    // All units of Compose are powers of 1,024.
    let unit = match unit.as_str() {
        "" | "b" => {
            return Some(
                number
                    .parse::<u64>()
                    .map_or_else(|_| json!(text), |bytes| json!(bytes)),
            );
        }
        "k" | "kb" | "kib" => "KiB",
        "m" | "mb" | "mib" => "MiB",
        "g" | "gb" | "gib" => "GiB",
        "t" | "tb" | "tib" => "TiB",
        _ => return None,
    };
    Some(json!(format!("{number}{unit}")))
}

/// Translates a port in either form to `[ip:]host:container[/udp]`.
pub(super) fn translate_port(value: &Value) -> Option<String> {
    if !value.is_object() {
        // A container port alone gets any free port of the host.
        let text = scalar_to_text(value)?;
        return Some(if text.contains(':') {
            text
        } else {
            format!(":{text}")
        });
    }
    let target = scalar_to_text(&value["target"])?;
    let host = scalar_to_text(&value["host_ip"])
        .map(|ip| format!("{ip}:"))
        .unwrap_or_default();
    let published = scalar_to_text(&value["published"]).unwrap_or_default() + ":";
    let protocol = value["protocol"].as_str().filter(|protocol| *protocol != "tcp");
    let protocol = protocol
        .map(|protocol| format!("/{protocol}"))
        .unwrap_or_default();
    Some(format!("{host}{published}{target}{protocol}"))
}

/// Translates a volume of a service to the short form. The error is the text of a note.
pub(super) fn translate_volume(value: &Value, back: &Path, service: &str) -> Result<String, String> {
    let written = || scalar_to_text(value).unwrap_or_else(|| value.to_string());
    let mut is_path = false;
    let (source, target, mode) = if let Some(text) = value.as_str() {
        let mut parts = text.splitn(3, ':');
        match (parts.next(), parts.next(), parts.next()) {
            (Some(source), Some(target), mode) => (source, target, mode.map(str::to_owned)),
            (Some(target), None, _) if target.starts_with('/') => {
                // Argus has no anonymous volumes.
                let name = format!(
                    "{service}{}",
                    target
                        .trim_end_matches('/')
                        .replace(|c: char| !c.is_ascii_alphanumeric(), "-")
                );
                return Ok(format!("{name}:{target}"));
            }
            (_, _, _) => return Err(format!("volume `{}`: it has no name or no target", written())),
        }
    } else {
        let (Some(source), Some(target)) = (value["source"].as_str(), value["target"].as_str()) else {
            return Err(format!("volume `{}`", written()));
        };
        let mode = (value["read_only"] == true).then(|| "ro".to_owned());
        match value["type"].as_str() {
            Some("bind") => is_path = true,
            Some("volume") | None => {}
            Some(other) => return Err(format!("volume `{target}` of the type `{other}`")),
        }
        (source, target, mode)
    };
    let mode = mode.map(|mode| format!(":{mode}")).unwrap_or_default();
    let is_name = !is_path && !source.starts_with(['.', '/', '~']);
    if is_name || source.starts_with('/') {
        return Ok(format!("{source}:{target}{mode}"));
    }
    if source.starts_with('~') {
        return Err(format!("volume `{}`: the home folder of a user", written()));
    }
    let inside = join_paths(back, source);
    let is_complete = inside.starts_with("..") || inside == Path::new(".");
    let lead = if is_complete { "" } else { "./" };
    Ok(format!("{lead}{}:{target}{mode}", inside.to_string_lossy()))
}

/// Settings of a volume in the long form that have no counterpart. Argus never creates the host path of a mount.
pub(super) fn find_mount_settings(volume: &Value) -> Vec<(&'static str, &str)> {
    let mut found = Vec::new();
    for section in ["bind", "volume", "tmpfs", "image"] {
        for (key, value) in volume[section].as_object().into_iter().flatten() {
            if *value != false && (section, key.as_str()) != ("tmpfs", "size") {
                found.push((section, key.as_str()));
            }
        }
    }
    found
}

/// Joins two paths without `.` components.
pub(super) fn join_paths(folder: &Path, path: &str) -> PathBuf {
    let joined: PathBuf = folder
        .join(path)
        .components()
        .filter(|part| *part != Component::CurDir)
        .collect();
    if joined.as_os_str().is_empty() {
        ".".into()
    } else {
        joined
    }
}

/// Labels as a map of texts.
pub(super) fn translate_labels(value: &Value) -> Value {
    let labels = value.as_object().into_iter().flatten();
    labels
        .map(|(name, value)| (name.clone(), json!(scalar_to_text(value).unwrap_or_default())))
        .collect()
}

/// Container port of the first TCP port, for a health check that opens a connection.
pub(super) fn find_first_tcp(ports: &[Value]) -> Option<u16> {
    let text = ports
        .iter()
        .filter_map(Value::as_str)
        .find(|port| !port.ends_with("/udp"))?;
    let inside = text.rsplit(':').next()?;
    inside.split(['/', '-']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compose_values_are_translated() {
        assert_eq!(translate_duration(&json!("1m30s")), Some(json!("90s")));
        assert_eq!(
            translate_duration(&json!("1.5s")).or(translate_duration(&json!("1500ms"))),
            Some(json!("1500ms"))
        );
        for (written, expected) in [
            ("512m", json!("512MiB")),
            ("100M", json!("100MiB")),
            ("1gb", json!("1GiB")),
            ("1.5g", json!("1.5GiB")),
            ("64kb", json!("64KiB")),
            ("1024", json!(1024)),
        ] {
            assert_eq!(translate_size(&json!(written)), Some(expected), "{written}");
        }
        assert_eq!(translate_size(&json!("lots")), None);
        assert_eq!(translate_size(&json!(1024)), Some(json!(1024)));
        for (written, expected) in [
            (json!("127.0.0.1:80:80"), "127.0.0.1:80:80"),
            (json!(80), ":80"),
            (json!("9092"), ":9092"),
            (json!("53/udp"), ":53/udp"),
            (
                json!({ "target": 53, "published": "5353", "host_ip": "127.0.0.1", "protocol": "udp" }),
                "127.0.0.1:5353:53/udp",
            ),
            (json!({ "target": 53, "host_ip": "127.0.0.1" }), "127.0.0.1::53"),
            (json!({ "target": 53 }), ":53"),
        ] {
            assert_eq!(translate_port(&written).unwrap(), expected);
        }
        assert_eq!(join_pairs(&json!({ "a": "1.2.3.4" }), ':'), json!(["a:1.2.3.4"]));
    }

    #[test]
    fn volumes_are_translated() {
        let (here, up) = (Path::new("."), Path::new(".."));
        for (written, back, expected) in [
            (json!("data:/data"), up, Some("data:/data")),
            (json!("./conf:/conf:ro"), here, Some("./conf:/conf:ro")),
            (json!("./conf:/conf:ro"), up, Some("../conf:/conf:ro")),
            (json!("../initdb:/initdb"), up, Some("../../initdb:/initdb")),
            (json!("/etc:/etc"), here, Some("/etc:/etc")),
            (json!("~/x:/x"), here, None),
            (json!("/var/lib/x"), here, Some("web-var-lib-x:/var/lib/x")),
            (
                json!({ "type": "volume", "source": "data", "target": "/data", "read_only": true }),
                up,
                Some("data:/data:ro"),
            ),
        ] {
            assert_eq!(
                translate_volume(&written, back, "web").ok().as_deref(),
                expected,
                "{written}"
            );
        }
    }
}
