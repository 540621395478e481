//! Listeners of the program itself: addresses of its container only, ports that two of them use, and TLS without a certificate.

use argus_crds::error::SpecEdit;

use super::EditContext;
use super::case::{Case, contains, ports_in};
use super::images::rows;
use crate::outcome::Evidence;
use crate::secrets::is_secret;

/// Addresses that accept connections only from the own container.
pub(super) const LOCAL: [&str; 4] = ["127.0.0.1", "localhost", "[::1]", "::1"];

impl EditContext<'_> {
    /// Listen address of a service whose program accepts connections only from its own container.
    pub(crate) fn local_listener(&self, port: u16) -> Option<SpecEdit> {
        let (key, local) = self.listen_address(port, &LOCAL)?;
        let reason = format!(
            "`{}` listens on port {port} only inside its container",
            self.service.name
        );
        Some(self.public(self.edit(&key, reason).now(local).suggest("0.0.0.0")))
    }
}

/// Option for all addresses of a program that by default listens only inside its container.
pub(super) fn option_for(word: &str, port: u16) -> Option<String> {
    let program = word.rsplit('/').next();
    let mut known = rows(include_str!("facts/listeners.txt"));
    let [_, option] = known.find(|[name, _]: &[&str; 2]| Some(*name) == program)?;
    Some(option.replace("PORT", &port.to_string()))
}

/// Variable for all addresses of a program whose output names its local one.
pub(super) fn open_variable(
    context: &EditContext<'_>,
    evidence: &Evidence,
    port: u16,
    reason: String,
) -> Option<SpecEdit> {
    let lines = || evidence.stderr.iter().chain(&evidence.stdout);
    let mut known = rows(include_str!("facts/addresses.txt"));
    let is_meant = |[part, name, _]: &[&str; 3]| {
        !context.service.env_vars.contains_key(*name) && lines().any(|line| contains(line, &[*part]))
    };
    let [_, name, value] = known.find(is_meant)?;
    let edit = context.edit(&format!("container.environment.{name}"), reason);
    Some(edit.suggest(value.replace("PORT", &port.to_string())))
}

/// Two listeners of one container on the same port.
pub(super) fn address_in_use(case: &Case<'_>) -> Option<SpecEdit> {
    let line = case.line_with(&["address already in use", "eaddrinuse", "address in use"])?;
    let named: Vec<u16> = ports_in(line).collect();
    let variables = &case.context.service.env_vars;
    let listeners: Vec<(&str, u16)> = variables
        .iter()
        .filter(|(name, _)| name.to_uppercase().split('_').any(|part| part == "PORT"))
        .filter_map(|(name, value)| Some((name.as_str(), value.parse().ok()?)))
        .collect();
    let is_same = |(one, port): &(&str, u16)| {
        let mut others = listeners.iter().filter(|(other, _)| other != one);
        named.contains(port) && others.any(|(_, other)| other == port)
    };
    // The main port has the shortest name.
    let (name, port) = *listeners
        .iter()
        .filter(|listener| is_same(listener))
        .max_by_key(|(name, _)| name.len())?;
    let (other, _) = listeners
        .iter()
        .find(|(other, known)| *other != name && *known == port)?;
    let mut free =
        (port.checked_add(1)?..=u16::MAX).filter(|free| listeners.iter().all(|(_, used)| used != free));
    let reason = format!("`{other}` has the same port, so one of its two listeners fails");
    let key = format!("container.environment.{name}");
    let edit = case.context.edit(&key, reason).now(port.to_string());
    Some(edit.suggest(free.next()?.to_string()))
}

/// Listener with TLS for which the program has no certificate.
pub(super) fn own_tls(case: &Case<'_>) -> Option<SpecEdit> {
    parts! {
        ANY: "https://+" "https://*" "https://0.0.0.0" "https://localhost" "https://[::]";
    }
    case.line_with(&[
        "unable to configure https endpoint",
        "no server certificate was specified",
    ])?;
    let is_own = |text: &str| ANY.iter().any(|start| text.starts_with(start));
    let reason = "the program has no certificate for its listener with TLS".to_owned();
    let edit = |name: &str| {
        case.context
            .edit(&format!("container.environment.{name}"), reason.clone())
    };
    let variables = || case.context.service.env_vars.iter();
    if let Some((name, ports)) = variables().find(|(name, _)| name.ends_with("HTTPS_PORTS")) {
        return Some(edit(name).now(ports.as_str()).suggest("\"\""));
    }
    let (name, value) = variables()
        .filter(|(name, _)| !is_secret(name))
        .find(|(_, value)| value.split(';').any(is_own))?;
    let others: Vec<&str> = value.split(';').filter(|text| !is_own(text)).collect();
    let plain = if others.is_empty() {
        value.replace("https://", "http://")
    } else {
        others.join(";")
    };
    Some(edit(name).now(value.as_str()).suggest(plain))
}

#[cfg(test)]
mod tests {
    use crate::remedy::test_environment::TestEnvironment;

    fn web(environment: &str, line: &str) -> TestEnvironment {
        let text = format!(
            "  web: {{ image: \"shop/web:1\", command: [python, main.py], container: {{ name: web, environment: {{ {environment} }}, \
             healthcheck: {{ type: tcp, port: 8000 }} }} }}\n"
        );
        let result = "connect to 10.0.0.2:8000: connection refused";
        let mut environment = TestEnvironment::new(&text).unhealthy(result, &["127.0.0.1:8000"]);
        environment.evidence().stdout = vec![line.to_owned()];
        environment
    }

    #[test]
    fn local_program_has_the_variable_for_all_addresses() {
        let line = "INFO:     Uvicorn running on http://127.0.0.1:8000 (Press CTRL+C to quit)";
        web("A: b", line).assert_edit("web.container.environment.UVICORN_HOST", "0.0.0.0");
        // The program does not read it, or it is set.
        assert_eq!(web("A: b", " * Running on http://127.0.0.1:8000").text(), "none");
        assert_eq!(web("UVICORN_HOST: web", line).text(), "none");
    }
}
