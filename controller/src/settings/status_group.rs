//! Group whose members may read the status files.

use std::str::FromStr;

use serde::Deserialize;

use super::Settings;

/// File with the groups of the machine.
const GROUPS: &str = "/etc/group";

/// An existing group, or the number of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct StatusGroup(u32);

impl Settings {
    /// Lets a group, if one is given, read the status files of a controller that this command starts.
    pub(crate) fn set_status_group(&mut self, group: Option<StatusGroup>) {
        let Some(StatusGroup(group)) = group else { return };
        for state in [&mut self.state, &mut self.own_state] {
            *state = state.clone().with_status_group(Some(group));
        }
    }
}

impl FromStr for StatusGroup {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let groups = std::fs::read_to_string(GROUPS).unwrap_or_default();
        find(text, &groups)
            .map(Self)
            .ok_or_else(|| format!("`{GROUPS}` has no group `{text}`; pass its name or its number"))
    }
}

impl TryFrom<String> for StatusGroup {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// Number of a group in the text of `/etc/group`. A number need not be in it, because a group can come from a directory service.
fn find(group: &str, groups: &str) -> Option<u32> {
    let of_line = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (name == group).then(|| fields.nth(1)?.parse().ok()).flatten()
    };
    groups.lines().find_map(of_line).or_else(|| group.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_is_found_by_name_or_number() {
        let groups = "root:x:0:\nagents:x:1007:ann,bob\n1007:x:5:\nbroken\n";
        for (group, number) in [
            ("agents", Some(1007)),
            ("root", Some(0)),
            ("1007", Some(5)),
            ("4711", Some(4711)),
            ("agent", None),
            ("", None),
            ("broken", None),
            ("-1", None),
        ] {
            assert_eq!(find(group, groups), number, "{group}");
        }
        let unknown = "no-such-group-here".parse::<StatusGroup>().unwrap_err();
        assert!(unknown.contains("has no group `no-such-group-here`"), "{unknown}");
    }
}
