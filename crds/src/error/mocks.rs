//! Table entries for the error codes in mock responses.

use super::action::ActionId as Act;
use super::kind::{Category, Class, Severity};
use super::table::Explanation;

pub(super) const NO_ROUTE: Explanation = Explanation {
    category: Category::Container,
    severity: Severity::Warning,
    class: Class::Permanent,
    summary: "a mock has no response for a request",
    explanation: "The request matches no route, no operation of the OpenAPI document and no recording of the mock. The mock responded with 404. The details name the most similar route and the difference. `argus mock requests ENV MOCK` lists the request.",
    actions: &[Act::FixSpec, Act::InspectLogs],
};

pub(super) const REQUEST_INVALID: Explanation = Explanation {
    category: Category::Container,
    severity: Severity::Warning,
    class: Class::Permanent,
    summary: "a request violates the OpenAPI document of a mock",
    explanation: "The mock has `validate: true`. A parameter, the body or the media type of the request does not match the OpenAPI document. The mock responded with 422. The details list every violation with its location: a JSON pointer into the body, or the name of a parameter.",
    actions: &[Act::FixSpec, Act::InspectLogs],
};

pub(super) const NO_ANSWER: Explanation = Explanation {
    category: Category::Container,
    severity: Severity::Warning,
    class: Class::Permanent,
    summary: "a mock cannot create a response",
    explanation: "The request is valid, but the mock cannot respond to it. The message names the cause. Either the mock finds no valid value for a schema, or the request is larger than 10 MiB, or the recording target does not respond. To define the response yourself, add an `example` to the OpenAPI document or a route under `overrides`.",
    actions: &[Act::FixSpec, Act::InspectLogs],
};
