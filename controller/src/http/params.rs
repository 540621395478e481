//! What stands in a path and in a query, refused in the one form of error where it is not as it shall be.

use axum::extract::{self, FromRequestParts};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use super::problem::Problem;

/// What stands behind the question mark.
pub(super) struct Query<T>(pub(super) T);

/// What stands in the variable parts of the path.
pub(super) struct Path<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match extract::Query::from_request_parts(parts, state).await {
            Ok(extract::Query(asked)) => Ok(Self(asked)),
            Err(bad) => Err(Problem::asked(bad.status(), bad.body_text().to_lowercase())),
        }
    }
}

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match extract::Path::from_request_parts(parts, state).await {
            Ok(extract::Path(asked)) => Ok(Self(asked)),
            Err(bad) => Err(Problem::asked(bad.status(), bad.body_text().to_lowercase())),
        }
    }
}
