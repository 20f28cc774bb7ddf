//! What a request is answered: a page, JSON, or why not.
//!
//! An error is JSON with the words of the first problem, and every problem as `--messages json` has
//! it: file, line, column, rule, value found, remedy.

use crate::messages::told;
use crate::output::Failure;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tiersim_reports::ServedPage;

/// Why a request is not answered.
#[derive(Debug)]
pub(super) struct Refused {
    status: StatusCode,
    failure: Failure,
}

impl Refused {
    /// With these words, which end in the remedy.
    pub(super) fn new(status: StatusCode, words: impl Into<String>) -> Refused {
        Refused { status, failure: Failure::Input(words.into()) }
    }
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Refused {
        let status = match failure {
            Failure::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
            _ => StatusCode::UNPROCESSABLE_ENTITY,
        };
        Refused { status, failure }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let errors = told(&self.failure);
        let first = errors.first().map(|error| match error.get("error") {
            Some(error) => error["message"].clone(),
            None => error["fault"].clone(),
        });
        let body = json!({ "error": first, "errors": errors }).to_string();
        let mut response = (self.status, [(header::CONTENT_TYPE, JSON)], body).into_response();
        let soon = [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE];
        if soon.contains(&self.status) {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

/// The type of what is no page.
pub(super) const JSON: &str = "application/json";

/// What was asked for.
pub(super) fn ok(value: &Value) -> Response {
    ([(header::CONTENT_TYPE, JSON)], json!({ "ok": value }).to_string()).into_response()
}

/// A page under its own policy.
pub(super) fn page(page: ServedPage) -> Response {
    let policy = format!("{}; frame-ancestors 'none'", page.policy);
    let head = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8".to_owned()),
        (header::CONTENT_SECURITY_POLICY, policy),
    ];
    (head, page.html).into_response()
}
