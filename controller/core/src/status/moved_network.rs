//! Warnings about networks whose derived name another object holds.

use argus_crds::Diagnostic;

use super::StatusInput;

/// Warnings about moved networks, with the holders of their names.
pub(super) fn warnings(input: &StatusInput<'_>) -> impl Iterator<Item = Diagnostic> {
    let env = input.env;
    input.history.moved_networks.values().map(move |moved| {
        let (to, from) = (&moved.to, &moved.from);
        let holder = match moved.holder.as_str() {
            "" => format!("`{from}`: another network"),
            known => known.to_owned(),
        };
        let message =
            format!("the network has the name `{to}`, because its own name is taken by {holder}");
        let hint = format!(
            "nothing is necessary; to get the name `{from}` again, remove the other network, then run `argus down {env}` and `argus up`"
        );
        Diagnostic::warning("network", message).hint(hint)
    })
}
