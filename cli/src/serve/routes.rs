//! What can be asked for.

use super::Server;
use super::answers::{Refused, is_for_a_page, ok, page};
use super::edit::MOST_TEXT;
use super::guard::guard;
use super::simulator::Asked;
use super::{metrics, results::Found};
use crate::output::Failure;
use crate::report::read;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use serde_json::{Value, json};
use std::sync::Arc;
use tiersim_reports::{Index, ReportError, index_page, result_page, what_if_page};
use tiersim_what_if::Set;

/// Bytes of a question: every slider turned is a tenth of it.
const MOST_QUESTION: usize = 64 << 10;

type Answer = Result<Response, Refused>;

pub(super) fn router(server: Arc<Server>) -> Router {
    let what_if = get(knobs).post(run).layer(DefaultBodyLimit::max(MOST_QUESTION));
    let scenario = get(scenario).put(save).layer(DefaultBodyLimit::max(MOST_TEXT as usize));
    Router::new()
        .route("/", get(index))
        .route("/results/{*name}", get(result))
        .route("/sweeps", get(sweeps))
        .route("/scenario", scenario)
        .route("/what-if", what_if)
        .route("/metrics", get(measured))
        .fallback(nothing)
        .method_not_allowed_fallback(not_so)
        .layer(from_fn_with_state(Arc::clone(&server), guard))
        .with_state(server)
}

async fn nothing() -> Refused {
    Refused::new(StatusCode::NOT_FOUND, "there is nothing of this name; begin at /")
}

async fn not_so() -> Refused {
    Refused::new(StatusCode::METHOD_NOT_ALLOWED, "this cannot be done to it; begin at /")
}

/// Does what reads files where waiting for them holds up nobody.
async fn reading<T: Send + 'static>(
    server: &Arc<Server>,
    read: impl FnOnce(&Server) -> Result<T, Refused> + Send + 'static,
) -> Result<T, Refused> {
    let server = Arc::clone(server);
    let done = tokio::task::spawn_blocking(move || read(&server)).await;
    let failed = |_| Failure::Internal("reading failed; see the server's terminal".to_owned());
    done.map_err(failed)?
}

async fn index(State(server): State<Arc<Server>>) -> Answer {
    reading(&server, |server| {
        let overviews = server.results.lock().expect("nobody panics with it").overviews();
        let listed: Vec<_> = overviews
            .iter()
            .map(|(name, said)| (name.clone(), said.as_deref().map_err(Clone::clone)))
            .collect();
        let sweeps: Vec<_> = server.look().iter().map(super::sweeps::Sweep::shown).collect();
        let scenario = server.simulator.as_ref().map(|_| &server.title[..]);
        let title = &server.title;
        let index = Index { title, scenario, results: &listed, sweeps: &sweeps };
        Ok(page(index_page(&index)))
    })
    .await
}

async fn result(
    State(server): State<Arc<Server>>,
    Path(name): Path<String>,
    address: Uri,
    asked: HeaderMap,
) -> Answer {
    // People end the address of a folder with a slash; what programs ask for is compared as it is.
    let path = address.path();
    if path.ends_with('/') && is_for_a_page(&asked) {
        return Ok(Redirect::permanent(path.trim_end_matches('/')).into_response());
    }
    let found = reading(&server, move |server| {
        let found = server.results.lock().expect("nobody panics with it").find(&name);
        let Some(Found { name, path }) = found else { return Ok(None) };
        let folder = tiersim_reports::ResultFolder { name, ..read(&path)? };
        Ok(Some(page(result_page(&folder).map_err(|error: ReportError| Failure::from(error))?)))
    });
    match found.await? {
        Some(page) => Ok(page),
        None => Err(nothing().await),
    }
}

async fn sweeps(State(server): State<Arc<Server>>) -> Answer {
    reading(&server, |server| {
        let shown: Vec<_> = server.look().iter().map(super::sweeps::Sweep::shown).collect();
        Ok(ok(&json!(shown)))
    })
    .await
}

async fn measured(State(server): State<Arc<Server>>) -> Answer {
    reading(&server, |server| {
        let overviews = server.results.lock().expect("nobody panics with it").overviews();
        let text = metrics::text(&server.counters, &overviews, &server.look());
        let text = text.map_err(|error| Failure::Internal(error.to_string()))?;
        let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
        Ok((kind, text).into_response())
    })
    .await
}

/// Asks the simulator.
async fn asked(server: &Server, asked: Asked) -> Result<Value, Refused> {
    match &server.simulator {
        Some(simulator) => simulator.ask(asked).await,
        None => Err(Refused::new(
            StatusCode::NOT_FOUND,
            "there is no scenario to turn; name one: tiersim serve SCENARIO",
        )),
    }
}

async fn scenario(State(server): State<Arc<Server>>) -> Answer {
    let begun = asked(&server, Asked::Begin).await;
    reading(&server, |server| {
        let text = server.edit.as_ref().map(super::Editable::text).transpose()?;
        // A file that cannot be run can still be mended here.
        let begun = match begun {
            Err(refused) if text.is_none() => return Err(refused),
            begun => begun.unwrap_or_default(),
        };
        let cases = begun["answer"]["cases"].as_array();
        let figures = |case: &Value| match case["figures"].as_array() {
            Some(figures) if !figures.is_empty() => {
                figures.iter().map(|figure| figure["value"].clone()).collect()
            }
            _ => Value::Null,
        };
        let nominal: Vec<Value> = cases.into_iter().flatten().map(figures).collect();
        let text = text.as_ref().map(|(text, tag)| (&text[..], &tag[..]));
        Ok(page(what_if_page(&server.title, &Value::from(nominal).to_string(), text)))
    })
    .await
}

async fn knobs(State(server): State<Arc<Server>>) -> Answer {
    Ok(ok(&asked(&server, Asked::Begin).await?))
}

async fn run(State(server): State<Arc<Server>>, body: Bytes) -> Answer {
    let set: Vec<Set> = serde_json::from_slice(&body).map_err(|error| {
        let words = format!("the question is no list of [path, value] ({error}); turn a slider");
        Refused::new(StatusCode::BAD_REQUEST, words)
    })?;
    Ok(ok(&asked(&server, Asked::Run(set)).await?))
}

async fn save(State(server): State<Arc<Server>>, headers: HeaderMap, body: Bytes) -> Answer {
    reading(&server, move |server| {
        let Some(edit) = &server.edit else {
            let words = "nothing can be changed here; begin with tiersim serve SCENARIO --edit";
            return Err(Refused::new(StatusCode::FORBIDDEN, words));
        };
        let tag = headers.get(header::IF_MATCH).and_then(|tag| tag.to_str().ok());
        let Some(tag) = tag else {
            let words = "the request does not say which text it replaces; send its tag as If-Match";
            return Err(Refused::new(StatusCode::PRECONDITION_REQUIRED, words));
        };
        edit.save(tag, &body)?;
        Ok(ok(&json!({})))
    })
    .await
}

impl Server {
    /// Sweeps on their way.
    fn look(&self) -> Vec<super::sweeps::Sweep> {
        let found = self.results.lock().expect("nobody panics with it").sweeps();
        self.sweeps.lock().expect("nobody panics with it").look(&found)
    }
}
