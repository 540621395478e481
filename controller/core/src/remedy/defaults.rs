//! Addresses that the file does not contain: those that a program uses by default.

use argus_crds::error::SpecEdit;

use super::case::{Case, contains, paths, ports_in, quoted, unambiguous};
use super::classes::{OTHER_PROTOCOL, REFUSED, UNRESOLVED};
use super::environment::is_misspelled;
use super::images::{
    CLIENTS, ClientVariable, all_ports, database_variables, default_ports, facts_of, is_of_kind, main_port,
};
use super::network::{is_name_of, meant_service, named_addresses, names_service, port_edit, ports, siblings};
use crate::desired::hosts::{dns_names, hosts};
use crate::desired::{Role, Service};
use crate::secrets::is_secret;

parts! {
    /// Parts of a message of a program that waits for a server, in lower case.
    WAITING: "waiting for " "waiting on " "retrying in" "trying again in" "server selection" "on socket" "through socket"
        "is not available. waiting" "connection failed, retrying";
    /// Words in front of a host that DNS does not know, in lower case.
    BEFORE_HOST: "enotfound" "eai_again" "lookup" "host" "host:" "for" "unknownhostexception:" "resolve";
    /// Words after these that are no hosts.
    OTHER_WORDS: "name" "server" "the" "to" "address" "not" "host" "localhost" "hostname" "upstream" "in" "is";
    /// Parts of a message about a socket, which the client of `MySQL` uses for `localhost`, in lower case.
    NO_SOCKET: "socket" "[2002] no such file";
    /// Addresses of the container itself.
    LOCAL: "localhost" "127.0.0.1" "::1" "[::1]" "0.0.0.0";
}

/// Messages about a missing address of a database, with its variable.
const NO_ADDRESS: [(&str, &str); 2] = [
    ("'url' attribute is not specified", "SPRING_DATASOURCE_URL"),
    ("url is not defined for datasource", "QUARKUS_DATASOURCE_JDBC_URL"),
];

/// Host of the default address of a program that DNS does not know, and that no key of the file contains.
pub(super) fn default_host(case: &Case<'_>) -> Option<SpecEdit> {
    // A mounted file that the line names can be edited.
    let is_own = |line: &str| paths(line).all(|path| case.host_file(path).is_none()) && !line.contains("${");
    let mut lines = case
        .lines()
        .filter(|line| contains(line, &UNRESOLVED) && is_own(line) && !line.starts_with('{'));
    lines.find_map(|line| {
        let host = unknown_host(case, line)?;
        let mut others = siblings(case).filter(|sibling| sibling.role == Role::Service);
        // The name of a kind of server means no other one.
        let is_other = |sibling: &Service| facts_of(sibling).is_some() && is_of_kind(host);
        let mut only = || {
            others
                .next()
                .filter(|only| others.next().is_none() && !is_other(only))
        };
        let meant = meant_service(case, host, ports_in(line).next());
        let reason = format!("its program uses `{host}`, which is not a name of this environment");
        match meant {
            Some(sibling) => {
                client_variable(case, sibling, &reason).or_else(|| alias(case, sibling, host, reason))
            }
            None => alias(case, only()?, host, reason).map(SpecEdit::likely),
        }
    })
}

/// Name in a line that DNS does not know, if neither the command nor a variable contains it.
fn unknown_host<'a>(case: &Case<'a>, line: &'a str) -> Option<&'a str> {
    let names = dns_names(case.context.accepted.desired.services.values());
    let variables = || case.context.service.env_vars.values();
    let is_host = |host: &str| {
        let is_label = host
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
        let is_number = host.chars().all(|c| c.is_ascii_digit());
        let is_other = OTHER_WORDS.contains(&host.to_lowercase().as_str()) || names.contains(host);
        // Codes and constants are in capitals.
        let is_lower = !host.contains(|c: char| c.is_ascii_uppercase());
        host.len() >= 2 && is_label && is_lower && !is_number && !is_other
    };
    let is_written = |host: &str| case.words().chain(variables()).any(|text| text.contains(host));
    let trim = |word: &'a str| word.trim_matches(|c: char| "\"'`,;()[]<>.".contains(c));
    let words: Vec<&'a str> = line.split_whitespace().collect();
    let after_word = words.windows(2).filter_map(|pair| {
        let is_before = BEFORE_HOST.contains(&pair[0].to_lowercase().as_str());
        is_before.then(|| trim(pair[1]).split(':').next()).flatten()
    });
    let with_port = words.iter().copied().filter_map(|word| {
        let (host, port) = trim(word).rsplit_once(':')?;
        port.parse::<u16>().ok()?;
        host.rsplit(['/', '@', '(']).next()
    });
    let in_quotes = quoted(line).filter_map(|text| hosts(text).first().map(|(host, _)| *host));
    let mut all = in_quotes.chain(after_word).chain(with_port);
    all.find(|host| is_host(host)).filter(|host| !is_written(host))
}

/// The sibling with another alias.
fn alias(case: &Case<'_>, sibling: &Service, host: &str, reason: String) -> Option<SpecEdit> {
    let of_file = sibling.aliases.iter().map(String::as_str);
    let of_file = of_file.filter(|alias| *alias != sibling.container_name.as_str());
    let all: Vec<&str> = of_file.chain([host]).collect();
    let context = case.context.with_service(sibling);
    let edit = context.edit("container.aliases", reason);
    (sibling.role == Role::Service).then(|| edit.suggest(serde_json::to_string(&all).unwrap_or_default()))
}

/// Address of the container itself for a sibling: in a variable without a port, or by default.
pub(super) fn default_address(case: &Case<'_>) -> Option<SpecEdit> {
    let has_none = |(part, _): &&(&str, &str)| case.line_with(&[*part]).is_some();
    if let Some((_, name)) = NO_ADDRESS.iter().find(has_none) {
        let reason = "its program requires the address of its database";
        let is_meant = |edit: &SpecEdit| edit.key.ends_with(name);
        let of_sibling = |sibling| client_variable(case, sibling, reason).filter(is_meant);
        let found = siblings(case).find_map(of_sibling);
        let alone = || {
            case.variable(name, reason)
                .hint("write the address of its database")
        };
        let set = &case.context.service.env_vars;
        if let Some(wrong) = set.keys().find(|other| is_misspelled(other, name)) {
            let edit = case.variable(wrong, reason).now(wrong.as_str());
            return Some(edit.suggest(*name));
        }
        let is_set = set.contains_key(*name);
        return (!is_set).then(|| found.unwrap_or_else(alone));
    }
    let is_own = |line: &str| contains(line, LOCAL) || contains(line, NO_SOCKET) || contains(line, WAITING);
    let mut lines = case
        .lines()
        .filter(|line| contains(line, &REFUSED) || contains(line, WAITING));
    lines.find_map(|line| {
        let own = ports(case.context.service);
        let named: Vec<u16> = ports_in(line).filter(|port| !own.contains(port)).collect();
        let has_port = |sibling: &&Service| all_ports(sibling).iter().any(|port| named.contains(port));
        let is_of_kind = |sibling: &&Service| {
            let mut words = line
                .split(|c: char| !c.is_ascii_alphanumeric())
                .filter(|word| word.len() >= 4);
            facts_of(sibling).is_some_and(|facts| words.any(|word| facts.is_meant_by(word)))
        };
        let by_kind = || siblings(case).find(is_of_kind).filter(|_| named.is_empty());
        // The default of the same variable is the address of another kind of server.
        let is_default = |known: &ClientVariable| {
            let mut same = CLIENTS.iter().filter(|other| other.variable == known.variable);
            same.any(|other| {
                named
                    .iter()
                    .any(|port| default_ports(other.server).contains(port))
            })
        };
        let of_client = || siblings(case).find(|sibling| clients(case, sibling).any(is_default));
        let is_mysql = |sibling: &&Service| facts_of(sibling).is_some_and(|facts| facts.speaks("mysql"));
        let of_socket = || {
            siblings(case)
                .find(is_mysql)
                .filter(|_| contains(line, &["[2002]"]))
        };
        let sibling = siblings(case)
            .find(has_port)
            .or_else(by_kind)
            .or_else(of_socket)
            .or_else(of_client)?;
        let name = &sibling.name;
        let reason = if contains(line, LOCAL) {
            format!("its program uses an address of its own container for `{name}`")
        } else {
            format!("its program does not reach `{name}` at its present address")
        };
        let found = || {
            local_variable(case, sibling, &reason)
                .or_else(|| client_variable(case, sibling, &reason))
                .or_else(|| absent_host(case, sibling, &reason).filter(|_| contains(line, LOCAL)))
        };
        is_own(line).then(found).flatten()
    })
}

/// Variable with only the address of the container itself, which means a sibling.
fn local_variable(case: &Case<'_>, sibling: &Service, reason: &str) -> Option<SpecEdit> {
    let set = &case.context.service.env_vars;
    let is_client = |name: &str| {
        let prefix = name.strip_suffix("HOST").unwrap_or(name).trim_end_matches('_');
        let port = set
            .get(&format!("{prefix}_PORT"))
            .and_then(|port| port.parse().ok());
        let is_of_kind = facts_of(sibling).is_some_and(|facts| facts.is_meant_by(prefix));
        name == "PGHOST" || is_of_kind || port.is_some_and(|port| all_ports(sibling).contains(&port))
    };
    let mut local = set.iter().filter(|(_, value)| LOCAL.contains(&value.as_str()));
    let (name, value) = local.find(|(name, _)| is_client(name))?;
    Some(
        case.variable(name, reason)
            .now(value.as_str())
            .suggest(sibling.name.as_str()),
    )
}

/// Variable for the host next to those for the port or the user of the same server.
fn absent_host(case: &Case<'_>, sibling: &Service, reason: &str) -> Option<SpecEdit> {
    let set = &case.context.service.env_vars;
    let facts = facts_of(sibling)?;
    let name = set.keys().find_map(|name| {
        let (prefix, last) = name.rsplit_once('_')?;
        let is_of_server = ["PORT", "USER", "PASSWORD", "NAME", "DATABASE", "USERNAME"].contains(&last);
        let is_set = ["HOST", "URL"]
            .iter()
            .any(|end| set.contains_key(&format!("{prefix}_{end}")));
        (is_of_server && !is_set && facts.is_meant_by(prefix)).then(|| format!("{prefix}_HOST"))
    })?;
    Some(case.variable(&name, reason).suggest(sibling.name.as_str()))
}

/// Variables of well-known clients of a server that the service runs: by its image, its command, or a line of its output.
fn clients<'a>(
    case: &Case<'a>,
    sibling: &'a Service,
) -> impl Iterator<Item = &'static ClientVariable> + use<'a> {
    let own = case.context.service;
    let evidence = case.run.evidence.as_ref();
    let is_run = move |client: &str| {
        let streams = evidence
            .into_iter()
            .flat_map(|found| [&found.stderr, &found.stdout]);
        let mut lines = streams.flatten();
        let mut words = own.entrypoint.iter().chain(&own.command).flatten();
        if let Some(part) = client.strip_prefix('~') {
            return lines.any(|line| contains(line, &[part]));
        }
        let is_word = |word: &String| word.split([' ', '/']).any(|part| part == client);
        own.image.reference().to_lowercase().contains(client) || words.any(is_word)
    };
    let facts = facts_of(sibling);
    CLIENTS
        .iter()
        .filter(move |known| facts.is_some_and(|facts| facts.speaks(known.server)) && is_run(known.client))
}

/// Variable of a well-known client with the address of a server: another name for the one that has it, or a new one.
fn client_variable<'a>(case: &Case<'a>, sibling: &'a Service, reason: &str) -> Option<SpecEdit> {
    let set = &case.context.service.env_vars;
    clients(case, sibling).find_map(|known| {
        let value = value_for(known, sibling)?;
        if let Some(now) = set.get(known.variable) {
            let is_right = names_service(now, sibling) || *now == value;
            // The other parts of an address are those of the file.
            let local = hosts(now).into_iter().find(|(host, _)| LOCAL.contains(host));
            if let Some((host, _)) = local {
                let (now, meant) = unambiguous(now, host, sibling.name.as_str());
                return Some(case.variable(known.variable, reason).now(now).suggest(meant));
            }
            return (!is_right && !value.is_empty()).then(|| {
                case.variable(known.variable, reason)
                    .now(now.as_str())
                    .suggest(value)
            });
        }
        let end = known.variable.rsplit('_').next().unwrap_or(known.variable);
        let scheme = |text: &str| text.split_once("://").map(|(scheme, _)| scheme.to_owned());
        let is_meant = |name: &str, now: &str| {
            let is_same = value.is_empty() || scheme(now) == scheme(&value);
            name.ends_with(end) && !is_secret(name) && is_same && known.value != "PORT"
        };
        let other = set
            .iter()
            .find(|(name, now)| is_meant(name, now) && names_service(now, sibling));
        match other {
            Some((other, _)) => Some(
                case.variable(other, reason)
                    .now(other.as_str())
                    .suggest(known.variable),
            ),
            None if value.is_empty() => None,
            None => Some(case.variable(known.variable, reason).suggest(value)),
        }
    })
}

/// Value of a variable with which a well-known client finds a server of the environment.
pub(super) fn client_value(case: &Case<'_>, name: &str) -> Option<String> {
    siblings(case).find_map(|sibling| {
        let known = clients(case, sibling).find(|known| known.variable == name)?;
        value_for(known, sibling).filter(|value| !value.is_empty())
    })
}

fn value_for(known: &ClientVariable, sibling: &Service) -> Option<String> {
    let mut variables = database_variables().into_iter();
    let database = variables.find_map(|name| sibling.env_vars.get(name));
    let value = match database {
        Some(database) => known.value.replace("DATABASE", database),
        None if known.value.contains("DATABASE") && known.server == "postgres" => {
            known.value.replace("DATABASE", "postgres")
        }
        None if known.value.contains("DATABASE") => return None,
        None => known.value.to_owned(),
    };
    let port = main_port(sibling)?.to_string();
    Some(
        value
            .replace("NAME", sibling.name.as_str())
            .replace("PORT", &port),
    )
}

/// Name of a bucket in front of the name of its server.
pub(super) fn bucket_host(case: &Case<'_>) -> Option<SpecEdit> {
    let line = case.line_with(&UNRESOLVED)?;
    let mut words = line.split(|c: char| !c.is_ascii_alphanumeric() && !"-_.".contains(c));
    let (host, sibling) = words.find_map(|word| {
        let (_, server) = word.split_once('.')?;
        Some((word, siblings(case).find(|sibling| is_name_of(sibling, server))?))
    })?;
    let reason = format!("`{host}` is not a name of `{}`", sibling.name);
    let mut set = case.context.service.env_vars.iter();
    match set.find(|(name, _)| contains(name, &["path_style", "pathstyle"])) {
        Some((name, now)) => Some(case.variable(name, reason).now(now.as_str()).suggest("true")),
        None => alias(case, sibling, host, reason),
    }
}

/// Port of a sibling for another protocol: the message names the right one, or the image has one other port.
pub(super) fn other_port(case: &Case<'_>) -> Option<SpecEdit> {
    let named = case.lines().find_map(|line| {
        let lower = line.to_lowercase();
        let (_, rest) = lower.split_once("use port ")?;
        rest.split(|c: char| !c.is_ascii_digit())
            .next()?
            .parse::<u16>()
            .ok()
    });
    if named.is_none() {
        case.line_with(&OTHER_PROTOCOL)?;
    }
    named_addresses(case, "").find_map(|(name, host, port)| {
        let sibling = siblings(case).find(|sibling| is_name_of(sibling, host))?;
        let all: Vec<u16> = facts_of(sibling)?.ports().take(2).collect();
        let is_reported = |line: &str| {
            ports_in(line).any(|named| named == port)
                || line.contains(host)
                || contains(line, &["networkreceive"])
        };
        let mut others = all.into_iter().filter(|other| *other != port);
        let other = named.or_else(|| others.next().filter(|_| others.next().is_none()))?;
        let reason = format!("`{}` has the port {other} for this protocol", sibling.name);
        let edit = port_edit(case, name, reason)
            .now(port.to_string())
            .suggest(other.to_string());
        (other != port && case.lines().any(is_reported)).then_some(edit)
    })
}

#[cfg(test)]
mod tests {
    use crate::remedy::test_environment::TestEnvironment;

    const DB: &str = "  postgres: { image: \"postgres:16\", container: { name: pg, environment: { POSTGRES_DB: shop } } }\n";

    fn web(image: &str, environment: &str) -> String {
        format!(
            "{DB}  web: {{ image: \"{image}\", container: {{ name: web, environment: {{ {environment} }} }} }}\n"
        )
    }

    #[test]
    fn default_hosts_have_a_variable_or_an_alias() {
        let line = "could not translate host name \"db\" to address: Name or service not known";
        TestEnvironment::new(&web("odoo:17", "USER: odoo"))
            .wrote(line)
            .assert_edit("web.container.environment.HOST", "postgres");
        TestEnvironment::new(&web("shop/api:1", "A: b"))
            .wrote(line)
            .assert_edit("postgres.container.aliases", "[\"db\"]");
    }

    #[test]
    fn address_in_a_misspelled_variable_has_its_name() {
        let line = "Failed to configure a DataSource: 'url' attribute is not specified and no embedded datasource could be configured.";
        TestEnvironment::new(&web(
            "shop/api:1",
            "SPRING_DATASOURCES_URL: \"jdbc:postgresql://postgres/shop\"",
        ))
        .wrote(line)
        .assert_edit(
            "web.container.environment.SPRING_DATASOURCES_URL",
            "to `SPRING_DATASOURCE_URL`",
        );
    }

    #[test]
    fn default_addresses_have_the_variable_of_the_client() {
        let line = "connect ECONNREFUSED 127.0.0.1:5432";
        TestEnvironment::new(&web("shop/api:1", "DB_HOST: localhost, DB_PORT: \"5432\""))
            .wrote(line)
            .assert_edit("web.container.environment.DB_HOST", "postgres");
        TestEnvironment::new(&web("shop/api:1", "DB_PORT: \"5432\", DB_USER: shop"))
            .wrote(line)
            .assert_edit("web.container.environment.DB_HOST", "postgres");
        TestEnvironment::new(&web("shop/api:1", "A: b"))
            .wrote("at org.springframework.Application: Connection to localhost:5432 refused. connection refused")
            .assert_edit("web.container.environment.SPRING_DATASOURCE_URL", "jdbc:postgresql://postgres:5432/shop");
    }
}
