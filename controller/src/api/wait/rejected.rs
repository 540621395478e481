//! Failure of a wait after a rejected edit, although the environment keeps the earlier content of its file.

use argus_crds::error::StructuredError;
use argus_crds::status::{Condition, EnvironmentStatus, Truth};

use super::goal::add_warnings;
use crate::process::exit::{Exit, Failure};

/// Fails with the first error of a rejected edit. Without an earlier content, the environment is blocked instead.
pub(super) fn check(status: &EnvironmentStatus) -> Result<(), Failure> {
    let is_rejection = |it: &Condition| it.kind == "SpecAccepted" && it.status == Truth::False;
    if status.revision.is_none() || !status.conditions.iter().any(is_rejection) {
        return Ok(());
    }
    let is_of_file = |error: &&StructuredError| Exit::from_code(error.code) == Exit::SpecRejected;
    let mut errors = status.errors.iter().filter(is_of_file);
    let Some(first) = errors.next() else {
        return Ok(());
    };
    let more = match errors.filter(|error| error.spec_path == first.spec_path).count() {
        0 => String::new(),
        count => format!(" (and {count} more)"),
    };
    let mut error = first.clone();
    error.message = format!(
        "{}{more}; `{}` keeps the content that Argus accepted before",
        first.message, status.environment
    );
    add_warnings(&mut error, status);
    Err(Failure::new(error))
}

#[cfg(test)]
mod tests {
    use argus_crds::error::{Class, Code};
    use argus_crds::status::Phase;

    use super::*;

    #[test]
    fn rejected_edit_ends_the_wait_for_the_earlier_revision() {
        let error = |code, message: &str| StructuredError::new(code, message).spec("a.e2e.yaml", Some(4));
        let mut status = EnvironmentStatus {
            environment: "shop".to_owned(),
            phase: Phase::Ready,
            revision: Some("r1".to_owned()),
            errors: vec![
                error(Code::SpecInvalid, "a.e2e.yaml:4:9: a port must be a number"),
                error(Code::SpecInvalid, "a.e2e.yaml:7:1: `image` is missing"),
                StructuredError::new(Code::ContainerCrash, "why"),
            ],
            ..EnvironmentStatus::default()
        };
        assert!(check(&status).is_ok(), "the file is accepted");
        status.conditions.push(Condition {
            kind: "SpecAccepted".to_owned(),
            status: Truth::False,
            reason: "SpecInvalid".to_owned(),
            message: String::new(),
            last_transition_time: String::new(),
        });
        let failure = check(&status).expect_err("the file is rejected");
        assert!(matches!(
            failure,
            Failure::Error {
                exit: Exit::SpecRejected,
                ..
            }
        ));
        let found = failure.into_error();
        assert_eq!(
            found.message,
            "a.e2e.yaml:4:9: a port must be a number (and 1 more); `shop` keeps the content that Argus accepted before"
        );
        assert_eq!((found.code, found.class), (Code::SpecInvalid, Class::Permanent));
        status.errors[0] = error(Code::PolicyViolation, "`privileged` is not allowed");
        let found = check(&status).expect_err("the file is rejected").into_error();
        assert_eq!((found.code, found.class), (Code::PolicyViolation, Class::Human));
        status.revision = None;
        assert!(check(&status).is_ok(), "it is blocked");
    }
}
