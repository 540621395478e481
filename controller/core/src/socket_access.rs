//! Text of a connection error that the permissions of the engine's socket cause.

use argus_crds::error::Code;

/// System error of missing permissions.
const EACCES: i32 = 13;
const GROUP: &str = "the group `";

/// Describes a socket that refuses the user. `group` is the group whose members have access.
pub fn describe_refusal(socket: &str, group: Option<&str>) -> String {
    let group = group.map_or_else(String::new, |group| format!(" and {GROUP}{group}`"));
    format!("only root{group} can use the socket `{socket}`: Permission denied (os error {EACCES})")
}

/// Returns whether the permissions of the socket are the cause of a connection error.
pub fn is_refused(reason: &str) -> bool {
    errno(reason) == Some(EACCES)
}

/// Error code of a connection error.
pub(crate) fn code_of_reason(reason: &str) -> Code {
    if is_refused(reason) {
        Code::DockerPermissionDenied
    } else {
        Code::DockerUnavailable
    }
}

/// Returns the group whose members have access, from [`describe_refusal`].
pub(crate) fn group_with_access(reason: &str) -> Option<&str> {
    let (_, rest) = reason.split_once(GROUP)?;
    Some(rest.split_once('`')?.0)
}

/// Number of the system error, which Rust appends to the message.
pub(crate) fn errno(reason: &str) -> Option<i32> {
    let (_, rest) = reason.split_once("(os error ")?;
    rest.split_once(')')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_keeps_its_group() {
        let reason = describe_refusal("/run/d.sock", Some("docker"));
        assert_eq!(
            (is_refused(&reason), group_with_access(&reason)),
            (true, Some("docker"))
        );
        let reason = describe_refusal("/run/d.sock", None);
        assert_eq!((is_refused(&reason), group_with_access(&reason)), (true, None));
        assert!(!is_refused("Connection refused (os error 111)") && !is_refused("Permission denied"));
    }
}
