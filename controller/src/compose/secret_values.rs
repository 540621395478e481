//! Secret values that a compose file or a file under `env_file` contains. They go to the `.env` next to the spec file.

use std::collections::BTreeMap;

use argus_core::secrets::is_secret;
use serde_json::Value;

/// Replaces the values of variables with secret names by references, and adds them to the secrets. A variable of the `.env` keeps its
/// value.
pub(super) fn move_to_dotenv(
    services: &mut [Value],
    secrets: &mut BTreeMap<String, String>,
    dotenv: &BTreeMap<String, String>,
) {
    for service in services {
        let owner = service["name"].as_str().unwrap_or_default().to_owned();
        let variables = service.pointer_mut("/container/environment");
        let Some(variables) = variables.and_then(Value::as_object_mut) else {
            continue;
        };
        for (name, value) in variables.iter_mut().filter(|(name, _)| is_secret(name)) {
            let text = value.as_str().unwrap_or_default();
            // A reference is no secret.
            if text.is_empty() || text.contains("{{") {
                continue;
            }
            let text = text.to_owned();
            let known = find_name(name, &owner, &text, [&*secrets, dotenv]);
            *value = Value::String(format!("{{{{env.{known}}}}}"));
            secrets.insert(known, text);
        }
    }
}

/// Name in the `.env`: that of the variable, or one with the name of the service if another value has it.
fn find_name(name: &str, service: &str, text: &str, known: [&BTreeMap<String, String>; 2]) -> String {
    let is_free = |name: &String| {
        known
            .iter()
            .all(|known| known.get(name).is_none_or(|known| known == text))
    };
    let own = name.to_owned();
    if is_free(&own) {
        return own;
    }
    let word = |c: char| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_uppercase()
        } else {
            '_'
        }
    };
    let prefix: String = service.chars().map(word).collect();
    let mut longer = format!("{prefix}_{name}");
    while !is_free(&longer) {
        longer.push('_');
    }
    longer
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secret_values_become_references() {
        let service =
            |name: &str, variables: Value| json!({ "name": name, "container": { "environment": variables } });
        let mut services = [
            service(
                "db",
                json!({ "API_TOKEN": "one", "MODE": "dev", "PASSWORD": "{{env.PASSWORD}}" }),
            ),
            service(
                "my-app",
                json!({ "API_TOKEN": "two", "DB_PASSWORD": "", "COUNT": 2 }),
            ),
            service("other", json!({ "API_TOKEN": "one" })),
            json!({ "name": "plain", "container": {} }),
        ];
        let mut secrets = BTreeMap::from([("PASSWORD".to_owned(), "three".to_owned())]);
        move_to_dotenv(&mut services, &mut secrets, &BTreeMap::new());
        let variables = |at: usize| services[at]["container"]["environment"].clone();
        assert_eq!(
            variables(0),
            json!({ "API_TOKEN": "{{env.API_TOKEN}}", "MODE": "dev", "PASSWORD": "{{env.PASSWORD}}" })
        );
        assert_eq!(
            variables(1),
            json!({ "API_TOKEN": "{{env.MY_APP_API_TOKEN}}", "DB_PASSWORD": "", "COUNT": 2 })
        );
        assert_eq!(variables(2), json!({ "API_TOKEN": "{{env.API_TOKEN}}" }));
        assert_eq!(services[3], json!({ "name": "plain", "container": {} }));
        let known: Vec<_> = secrets
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        assert_eq!(known, ["API_TOKEN=one", "MY_APP_API_TOKEN=two", "PASSWORD=three"]);
    }

    #[test]
    fn variable_of_the_dotenv_keeps_its_value() {
        let service = json!({ "name": "db", "container": { "environment": { "API_TOKEN": "one", "PASSWORD": "two" } } });
        let mut services = [service];
        let mut secrets = BTreeMap::new();
        let dotenv = [("API_TOKEN", "other"), ("PASSWORD", "two")];
        let dotenv = dotenv.map(|(name, value)| (name.to_owned(), value.to_owned()));
        move_to_dotenv(&mut services, &mut secrets, &dotenv.into());
        assert_eq!(
            services[0]["container"]["environment"],
            json!({ "API_TOKEN": "{{env.DB_API_TOKEN}}", "PASSWORD": "{{env.PASSWORD}}" })
        );
    }
}
