//! Table entries for the error codes in mock responses.

use super::action::ActionId as Act;
use super::kind::{Category, Class, Severity};
use super::table::Explanation;

pub(super) const NO_ROUTE: Explanation = Explanation {
    category: Category::Container,
    severity: Severity::Warning,
    class: Class::Human,
    retryable: false,
    summary: "a mock has no response for a request",
    explanation: "The request matches no route, no operation of the OpenAPI document and no recording of the mock. The mock responded with 404. The details name the nearest route and the difference. The mock's request log under `/__argus/requests` contains the request.",
    actions: &[Act::FixSpec, Act::InspectLogs],
};

pub(super) const REQUEST_INVALID: Explanation = Explanation {
    category: Category::Container,
    severity: Severity::Warning,
    class: Class::Human,
    retryable: false,
    summary: "a request violates the OpenAPI document of a mock",
    explanation: "The mock has `validate: true`, and a parameter, the body or its media type does not match the OpenAPI document. The mock responded with 422. The details list every violation with its location: a JSON pointer into the body, or the name of a parameter.",
    actions: &[Act::FixSpec, Act::InspectLogs],
};

pub(super) const NO_ANSWER: Explanation = Explanation {
    category: Category::Container,
    severity: Severity::Warning,
    class: Class::Human,
    retryable: false,
    summary: "a mock cannot create a response",
    explanation: "The request is valid, but the mock cannot create a response. Possible causes are a schema for which the mock finds no valid value, a request larger than 10 MiB, or a recording target that does not respond. The message names the cause. To define the response, add an `example` to the document or a route under `overrides`.",
    actions: &[Act::FixSpec, Act::InspectLogs],
};
