//! DNS names of services besides their own.

use core::net::IpAddr;

use argus_crds::{Container, Diagnostic};

use crate::desired::effective::unresolved_hint;
use crate::desired::identity::shown;
use crate::ident::ServiceName;

/// Maximum length of a DNS name in bytes.
const MAX_NAME: usize = 253;
/// Maximum length of one part of a DNS name in bytes.
pub(super) const MAX_PART: usize = 63;

/// Returns the DNS names of a service besides its own: its container in the file, then its aliases.
pub(super) fn resolve_aliases(
    container: &Container,
    service: Option<&ServiceName>,
    path: &str,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let mut add = |name: &String| {
        if service.is_none_or(|service| service.as_str() != name) && !all.contains(name) {
            all.push(name.clone());
        }
    };
    add(&container.name);
    for (index, alias) in container.aliases.iter().enumerate() {
        if check_alias(alias, &format!("{path}[{index}]"), diagnostics) {
            add(alias);
        }
    }
    all
}

/// Returns whether an alias is a valid DNS name; reports an invalid one.
pub(super) fn check_alias(alias: &str, path: &str, diagnostics: &mut Vec<Diagnostic>) -> bool {
    if is_dns_name(alias) {
        return true;
    }
    let message = format!("`{}` is not a valid DNS name", shown(alias));
    let hint = unresolved_hint(alias).unwrap_or_else(|| {
        "use letters, digits, `-`, `_` and `.`, such as `db` or `db.example.com`".to_owned()
    });
    diagnostics.push(Diagnostic::error(path, message).hint(hint));
    false
}

fn is_dns_name(name: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty()
            && part.len() <= MAX_PART
            && !part.starts_with('-')
            && !part.ends_with('-')
            && part
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
    };
    name.len() <= MAX_NAME && name.split('.').all(is_part) && name.parse::<IpAddr>().is_err()
}
