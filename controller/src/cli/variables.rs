//! Misspelled `ARGUS_*` variables: Argus ignores them, so a warning names the nearest one.

use std::collections::BTreeSet;

use argus_crds::suggestion::nearest;
use clap::Command;

use crate::render::output;

const PREFIX: &str = "ARGUS_";
/// Variables without a flag: the filter of the log, and the name that commands of a test get.
const WITHOUT_A_FLAG: [&str; 2] = ["ARGUS_LOG", "ARGUS_ENVIRONMENT"];

/// Warns about each variable of this process that Argus ignores and whose name resembles a known one.
pub(super) fn warn_of_misspelled(command: &Command) {
    let mut known: BTreeSet<String> = WITHOUT_A_FLAG.map(str::to_owned).into();
    add_variables(command, &mut known);
    for (name, _) in std::env::vars_os() {
        let Some(name) = name.to_str() else {
            continue;
        };
        if let Some(similar) = find_similar(name, &known) {
            output::print_note(&format!(
                "warning: the variable `{name}` is unknown and has no effect; the nearest is `{PREFIX}{similar}`"
            ));
        }
    }
}

/// Adds the variables of a command and of its subcommands.
fn add_variables(command: &Command, known: &mut BTreeSet<String>) {
    let names = command
        .get_arguments()
        .filter_map(|argument| argument.get_env()?.to_str());
    known.extend(names.map(str::to_owned));
    for subcommand in command.get_subcommands() {
        add_variables(subcommand, known);
    }
}

/// Returns the known name nearest to an unknown variable of Argus, without the prefix.
fn find_similar<'k>(name: &str, known: &'k BTreeSet<String>) -> Option<&'k str> {
    let rest = name.strip_prefix(PREFIX)?;
    // Addresses of services, such as `ARGUS_WEB_8080`, `ARGUS_DNS_53_UDP` and `ARGUS_WEB_URL`.
    let is_port = |part: &str| part.parse::<u16>().is_ok();
    let is_address = rest.ends_with("_URL") || rest.split('_').any(is_port);
    if is_address || known.contains(name) {
        return None;
    }
    nearest(rest, known.iter().filter_map(|name| name.strip_prefix(PREFIX)))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn misspelled_variable_has_the_nearest_name() {
        let mut known: BTreeSet<String> = WITHOUT_A_FLAG.map(str::to_owned).into();
        add_variables(&Cli::command(), &mut known);
        for (name, similar) in [
            ("ARGUS_TIMEOUT_SHROT", Some("TIMEOUT_SHORT")),
            ("ARGUS_STAT", Some("STATE")),
            ("ARGUS_MOCK_LISTN", Some("MOCK_LISTEN")),
            ("ARGUS_STATE", None),
            ("ARGUS_LOG", None),
            ("ARGUS_STATE_URL", None),
            ("ARGUS_STATS_8080", None),
            ("ARGUS_LOGS_53_UDP", None),
            ("ARGUS_SOMETHING_DIFFERENT", None),
            ("STAT", None),
        ] {
            assert_eq!(find_similar(name, &known), similar, "{name}");
        }
    }
}
