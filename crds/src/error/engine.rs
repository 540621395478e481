//! Table entries for the error codes of the connection to the engine.

use super::action::ActionId as Act;
use super::kind::{Category, Class, Severity};
use super::table::Explanation;

pub(super) const UNAVAILABLE: Explanation = Explanation {
    category: Category::Infrastructure,
    severity: Severity::Fatal,
    class: Class::Transient,
    summary: "the Docker engine does not respond",
    explanation: "Argus cannot connect to the engine at its address, or the engine reports that it is unavailable. Running containers keep running. Argus changes nothing until the engine responds. It retries with increasing delays, and lists all objects of the engine again when the engine is back.",
    actions: &[Act::StartEngine, Act::RunPreflight],
};

pub(super) const PERMISSION_DENIED: Explanation = Explanation {
    category: Category::Infrastructure,
    severity: Severity::Fatal,
    class: Class::Human,
    summary: "the user has no access to the Docker engine",
    explanation: "The permissions of the engine's socket do not admit the user of Argus (EACCES). Commands end immediately with this error. A new member of a group needs a new login, and a running controller a restart. A running controller tries again once per minute, and immediately after a change of the socket. The details contain the socket and the group that has access.",
    actions: &[Act::JoinGroup, Act::RunPreflight],
};

pub(super) const EVENTS_UNAVAILABLE: Explanation = Explanation {
    category: Category::Infrastructure,
    severity: Severity::Warning,
    class: Class::Transient,
    summary: "the engine delivers no events",
    explanation: "The engine answers, but its event stream fails, for example because a proxy in front of it forbids `GET /events`. Argus continues with full lists every 2 to 10 s and opens the stream again with increasing delays. Until then, Argus notices changes up to 10 s later. It cannot distinguish a container that a person stopped from one that exited, and it does not see out-of-memory events of the kernel. The details contain the reason.",
    actions: &[Act::StartEngine, Act::RunPreflight],
};
