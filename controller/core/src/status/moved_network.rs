//! Warning about a network whose derived name another object holds.

use argus_crds::Diagnostic;

use super::StatusInput;

/// Warning about a moved network, with the holder of its name.
pub(super) fn warning(input: &StatusInput<'_>) -> Option<Diagnostic> {
    let moved = input.history.moved_network.as_ref()?;
    let (to, from) = (&moved.to, &moved.from);
    let holder = match moved.holder.as_str() {
        "" => format!("`{from}`: another network"),
        known => known.to_owned(),
    };
    let message = format!("the network has the name `{to}`, because its own name is taken by {holder}");
    let hint = format!(
        "nothing is necessary; to get the name `{from}` again, remove the other network, then run `argus down {env}` and `argus up`",
        env = input.env
    );
    Some(Diagnostic::warning("network", message).hint(hint))
}
