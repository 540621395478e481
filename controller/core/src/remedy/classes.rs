//! Classes of messages, as data: the parts of a line that mean the class.

use std::sync::LazyLock;

macro_rules! classes {
    ($($name:ident)+) => {
        $(pub(super) static $name: LazyLock<Vec<&'static str>> = LazyLock::new(|| parts_of(stringify!($name)));)+

        #[cfg(test)]
        static ALL: &[&LazyLock<Vec<&'static str>>] = &[$(&$name),+];
    };
}

classes! {
    ADDRESSES ANSWERED BEFORE_VERSION BETWEEN_VALUES CAPITALS CONFIGURATION CONTENTS DENIED FIRST_PROCESS
    FULL_HEAP INVALID KILLED KINDS_OF_VALUES KNOWN_VALUES LATE MISSING_FILE MISSING_VARIABLE NEEDS_ROOT
    NO_CAPABILITY NO_PROCESS NO_PROJECT_FILE NO_TABLE NO_TLS NUMBERS OF_ENVIRONMENT OTHER_NAMES OTHER_PROTOCOL
    PERMITTED PLAIN_SERVER PRIVILEGED PROJECT_FILES READ_ONLY REFUSED REFUSED_PASSWORD REFUSES_ROOT
    REMOVED_VARIABLE REQUIRED_OPTION STARTING STORED_DATA UNFIT_DATA UNFIT_VERSION UNKNOWN_COMMAND
    UNKNOWN_OPTION UNRESOLVED WEAK_SECRET
}

fn parts_of(name: &str) -> Vec<&'static str> {
    let mut rows = include_str!("facts/classes.txt").lines();
    let parts = rows.find_map(|row| row.strip_prefix(name)?.strip_prefix(" | "));
    parts.into_iter().flat_map(|parts| parts.split(" | ")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_have_parts_in_lower_case() {
        for parts in ALL {
            assert!(!parts.is_empty());
            // Names of variables are in capitals.
            let is_lower = |part: &&&str| part.to_lowercase() == **part;
            let lower = parts.iter().filter(is_lower).count();
            assert!(lower == 0 || lower == parts.len(), "{parts:?}");
        }
    }
}
