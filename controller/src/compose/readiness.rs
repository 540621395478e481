//! Health checks of a service, and the services that it waits for.

use serde_json::{Map, Value, json};

use super::{Service, parts};

/// Returns whether a health check is switched off, which also switches off that of the image.
pub(super) fn is_disabled(healthcheck: &Value) -> bool {
    healthcheck["disable"] == true || healthcheck["test"][0] == "NONE"
}

impl Service<'_> {
    pub(super) fn translate_healthcheck(&mut self, value: &Value) -> Option<Value> {
        let command = match &value["test"] {
            _ if value["disable"] == true => return self.disabled("healthcheck.disable"),
            Value::String(shell) => json!(["sh", "-c", shell]),
            Value::Array(words) => match words.first().and_then(Value::as_str) {
                Some("CMD") => json!(words[1..]),
                Some("CMD-SHELL") => json!(["sh", "-c", words.get(1)]),
                Some("NONE") => return self.disabled("healthcheck.test"),
                Some(_) | None => {
                    self.add_note("healthcheck.test", "`healthcheck.test`");
                    return None;
                }
            },
            // Without a test, only the timing changes. The probe is the image's own HEALTHCHECK.
            _ => Value::Null,
        };
        let mut check = if command.is_null() {
            json!({ "type": "docker" })
        } else {
            json!({ "type": "exec", "command": command })
        };
        for (from, to) in [
            ("interval", "interval"),
            ("timeout", "timeout"),
            ("start_period", "startPeriod"),
        ] {
            let key = format!("healthcheck.{from}");
            if let Some(span) = self.translate_part(&key, &value[from], parts::translate_duration) {
                check[to] = span;
            }
        }
        if let Some(retries) = value.get("retries").map(|retries| self.fill_number(retries)) {
            // A variable is always a text.
            let number = retries.as_str().and_then(|text| text.parse::<u32>().ok());
            check["retries"] = number.map_or(retries, |number| json!(number));
        }
        if value.get("start_interval").is_some() {
            self.add_note("healthcheck.start_interval", "`healthcheck.start_interval`");
        }
        Some(check)
    }

    /// Notes a health check that is switched off, if a published TCP port is checked in its place.
    fn disabled(&mut self, key: &str) -> Option<Value> {
        let ports = self.top["services"][self.name]["ports"].as_array();
        let mut ports = ports.into_iter().flatten().filter_map(parts::translate_port);
        if ports.any(|port| !port.ends_with("/udp")) {
            self.add_note(
                key,
                &format!("`{key}`: the service is ready when its published port accepts connections"),
            );
        }
        None
    }

    /// Returns whether the service can end with exit code 0: Compose does not start it again. The end of a service with ports or a
    /// health check, and of one whose health others wait for, stays a failure.
    pub(super) fn can_complete(&self, written: &Value, container: &Map<String, Value>) -> bool {
        let policy = &written["deploy"]["restart_policy"];
        let restart = if policy.is_object() {
            policy["condition"].as_str().unwrap_or("any")
        } else {
            written["restart"].as_str().unwrap_or("no")
        };
        let is_restarted = !matches!(restart, "no" | "none") && !restart.starts_with("on-failure");
        let is_server = ["ports", "healthcheck"]
            .iter()
            .any(|key| container.contains_key(*key))
            || self.awaited.contains(&(self.name, "service_healthy"));
        !is_restarted && !is_server
    }

    pub(super) fn translate_dependencies(&mut self, value: &Value) -> Value {
        let Some(all) = value.as_object() else {
            return value.clone();
        };
        let is_optional = |(name, on): &(&String, &Value)| {
            on["required"] == false && self.top["services"].get(name.as_str()).is_none()
        };
        let (gone, kept): (Vec<_>, Vec<_>) = all
            .iter()
            .filter(|entry| !is_optional(entry))
            .partition(|(name, _)| self.omitted.contains(name.as_str()));
        for (name, _) in gone {
            let what = format!("`depends_on`: `{name}`, which is left out");
            self.add_note(&format!("depends_on.{name}"), &what);
        }
        let long = |(name, on): (&String, &Value)| {
            let condition = match on["condition"].as_str() {
                Some("service_healthy") => "healthy",
                Some("service_completed_successfully") => "completed",
                Some("service_started") | None => "started",
                Some(other) => {
                    let key = format!("depends_on.{name}.condition");
                    self.add_note(&key, &format!("`{key}: {other}`"));
                    "started"
                }
            };
            let mut dependency = json!({ "service": name, "condition": condition });
            if on["required"] == false {
                dependency["required"] = json!(false);
            }
            if on["restart"] == true {
                dependency["restart"] = json!(true);
            }
            dependency
        };
        kept.into_iter().map(long).collect()
    }

    /// Adds the services under `links` to the dependencies. On the network, each service has its name without a link.
    pub(super) fn add_links(&mut self, links: &Value, service: &mut Map<String, Value>) {
        for link in links.as_array().into_iter().flatten().filter_map(Value::as_str) {
            let (name, alias) = link.split_once(':').unwrap_or((link, link));
            if alias != name || self.omitted.contains(name) {
                self.add_note("links", &format!("`links`: `{link}`"));
            }
            if self.omitted.contains(name) {
                continue;
            }
            let all = service.entry("dependsOn").or_insert_with(|| json!([]));
            let is_known = |on: &Value| on["service"] == name;
            if let Some(all) = all.as_array_mut().filter(|all| !all.iter().any(is_known)) {
                all.push(json!({ "service": name, "condition": "started" }));
            }
        }
    }
}
