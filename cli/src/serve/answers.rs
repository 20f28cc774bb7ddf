//! What a request is answered: a page, JSON, or why not.
//!
//! An error is JSON with the words of the first problem, and every problem as `--messages json` has
//! it: file, line, column, rule, value found, remedy. Whoever asks for a page, as people do who
//! type an address, gets the same words as one.

use crate::messages::told;
use crate::output::Failure;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tiersim_reports::{ServedPage, refused_page};

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
        let words = errors.iter().map(|error| match error.get("error") {
            Some(error) => &error["message"],
            None => &error["fault"],
        });
        let words: Vec<&Value> = words.collect();
        let body = json!({ "error": words.first(), "errors": errors }).to_string();
        let said = Said(words.into_iter().filter_map(Value::as_str).map(str::to_owned).collect());
        let mut response = (self.status, [(header::CONTENT_TYPE, JSON)], body).into_response();
        response.extensions_mut().insert(said);
        let soon = [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE];
        if soon.contains(&self.status) {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

/// Why not, in words: with the answer until it is known who asked.
#[derive(Clone)]
struct Said(Vec<String>);

/// Whether a page is asked for, and not merely anything.
pub(super) fn is_for_a_page(asked: &HeaderMap) -> bool {
    let accepted = asked.get(header::ACCEPT).and_then(|accepted| accepted.to_str().ok());
    accepted.is_some_and(|accepted| accepted.contains("text/html"))
}

/// A refusal as a page; what is none stays as it is.
pub(super) fn as_page(mut refused: Response) -> Response {
    let Some(Said(words)) = refused.extensions_mut().remove::<Said>() else { return refused };
    let (mut head, _) = refused.into_parts();
    let title = match head.status {
        StatusCode::NOT_FOUND => "There is no such page",
        _ => "This page cannot be shown",
    };
    let shown = page(refused_page(title, &words));
    head.headers.extend(shown.headers().clone());
    Response::from_parts(head, shown.into_body())
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
