//! What the codes mean that mocks answer with: a part of the table.

use super::action::ActionId as Act;
use super::kind::{Category, Class, Severity};
use super::table::Explanation;

pub(super) const NO_ROUTE: Explanation = Explanation {
    category: Category::Container,
    severity: Severity::Warning,
    class: Class::Human,
    retryable: false,
    summary: "a mock has no answer for a request",
    explanation: "A request to a mock matches none of its routes, nothing in its OpenAPI document, and no recording. It was answered with 404. The details name what comes nearest, and why it did not match. The mock's journal under `/__argus/requests` shows the request.",
    actions: &[Act::FixSpec, Act::InspectLogs],
};

pub(super) const REQUEST_INVALID: Explanation = Explanation {
    category: Category::Container,
    severity: Severity::Warning,
    class: Class::Human,
    retryable: false,
    summary: "a request breaks a mock's OpenAPI document",
    explanation: "The mock has `validate: true`, and the request does not fit what its OpenAPI document says: a parameter, the body or its type. It was answered with 422. The details list every violation with its place, as a JSON pointer into the body or the name of a parameter.",
    actions: &[Act::FixSpec, Act::InspectLogs],
};

pub(super) const NO_ANSWER: Explanation = Explanation {
    category: Category::Container,
    severity: Severity::Warning,
    class: Class::Human,
    retryable: false,
    summary: "a mock cannot make an answer",
    explanation: "The request fits, but no answer could be made: no value was found that validates against the document's schema, the request is larger than 10 MiB, or the target of a recording does not answer. The message says which. An `example` in the document, or a route under `overrides`, gives the answer outright.",
    actions: &[Act::FixSpec, Act::InspectLogs],
};
