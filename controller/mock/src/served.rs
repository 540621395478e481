//! A mock as it is served: from a request to an answer.

use argus_crds::Complaint;
use argus_crds::error::Code;
use serde_json::json;

use crate::answer::Answer;
use crate::config::{MockConfig, RESERVED};
use crate::fill::Moment;
use crate::path;
use crate::request::Request;
use crate::route::{Nearest, Table};

/// A mock that is ready to answer.
#[derive(Debug)]
pub struct Served {
    overrides: Table,
    routes: Table,
}

impl Served {
    /// The mock of a configuration, unless a complaint is an error; the complaints' paths are those of the spec.
    pub fn new(config: &MockConfig) -> (Option<Self>, Vec<Complaint>) {
        let mut complaints = Vec::new();
        let at = format!("mocks.{}", config.name);
        let served = Self {
            overrides: Table::new(&config.mock.overrides, "overrides", &at, &mut complaints),
            routes: Table::new(&config.mock.routes, "routes", &at, &mut complaints),
        };
        let refused = complaints.iter().any(Complaint::is_error);
        ((!refused).then_some(served), complaints)
    }

    /// The answer to a request.
    pub fn answer(&self, request: &Request, moment: Moment) -> Answer {
        let segments = path::segments(&request.path);
        let mut nearest: Vec<Nearest> = Vec::new();
        for table in [&self.overrides, &self.routes] {
            match table.answer(request, &segments, moment) {
                Ok(answer) => return answer,
                Err(near) => nearest.extend(near),
            }
        }
        unmatched(request, nearest)
    }
}

/// Whether the mock itself answers what is asked for.
pub fn is_reserved(request: &Request) -> bool {
    path::segments(&request.path)
        .first()
        .is_some_and(|first| format!("/{first}") == RESERVED)
}

fn unmatched(request: &Request, mut nearest: Vec<Nearest>) -> Answer {
    nearest.sort_by(|one, other| one.distance.total_cmp(&other.distance));
    let asked = format!("{} {}", request.method, request.path);
    let (message, near) = match nearest.first() {
        None => (
            format!("nothing answers `{asked}`: the mock has no routes"),
            json!(null),
        ),
        Some(near) => (
            format!(
                "nothing answers `{asked}`; nearest is `{}`: {}",
                near.route, near.because
            ),
            json!({ "route": near.route, "because": near.because }),
        ),
    };
    let details = json!({ "method": request.method, "path": request.path, "nearest": near });
    Answer::refusal(404, Code::MockNoRoute, &message, &details)
}

#[cfg(test)]
mod tests {
    use argus_core::time::Timestamp;
    use bytes::Bytes;
    use serde_json::Value;

    use super::*;

    const NOW: Moment = Moment {
        now: Timestamp(0),
        chance: 0,
    };

    fn served(mock: &Value) -> Served {
        let config = MockConfig::new("m", serde_json::from_value(mock.clone()).unwrap(), None);
        let (served, complaints) = Served::new(&config);
        served.unwrap_or_else(|| panic!("{complaints:?}"))
    }

    fn get(served: &Served, path: &str) -> Answer {
        served.answer(&Request::new("GET", path, Vec::new(), Bytes::new()), NOW)
    }

    #[test]
    fn overrides_go_before_routes_however_general_they_are() {
        let mock = json!({
            "port": 1,
            "routes": [{ "method": "GET", "path": "/a", "response": { "body": "route" } }],
            "overrides": [{ "method": "ANY", "path": "/*", "response": { "body": "override" } }],
        });
        assert_eq!(get(&served(&mock), "/a").body, "override");
    }

    #[test]
    fn the_answer_to_what_nobody_answers_is_json_with_the_nearest_route() {
        let mock = json!({ "port": 1, "routes": [{ "method": "GET", "path": "/users/:id" }] });
        let answer = get(&served(&mock), "/user/1");
        let body: Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(answer.status, 404);
        assert_eq!(body["error"]["code"], "MOCK_NO_ROUTE");
        assert_eq!(
            body["error"]["details"]["nearest"]["route"],
            "routes[0] GET /users/:id"
        );
        assert_eq!(
            body["error"]["message"],
            "nothing answers `GET /user/1`; nearest is `routes[0] GET /users/:id`: segment 1 is `user`, not `users`"
        );
    }

    #[test]
    fn what_the_mock_answers_itself_is_reserved_in_every_spelling() {
        let reserved = |path: &str| is_reserved(&Request::new("GET", path, Vec::new(), Bytes::new()));
        assert!(
            reserved("/__argus") && reserved("/__argus/requests?x") && reserved("/a/../%5f_argus/health")
        );
        assert!(!reserved("/__arguse") && !reserved("/a/__argus") && !reserved("/"));
    }
}
