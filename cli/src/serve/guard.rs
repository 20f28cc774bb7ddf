//! Who is answered: names of this server, pages of its own, and not too many at once.
//!
//! A page of somebody else's that makes its name lead to this machine (DNS rebinding) still sends
//! that name as `Host`; one that asks across origins sends its own as `Origin`. Names are therefore
//! compared, and addresses are always right where more than this machine can reach the server, as no
//! page can be given one.
//! Invariant: what passes was sent to a name of this server, and by no page of another.

use super::Server;
use super::answers::{JSON, Refused, as_page, is_for_a_page};
use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// Until a request is answered, the time in which its body comes included.
const MOST: Duration = Duration::from_secs(60);

/// What a client may call the server.
pub(super) struct Names {
    loopback: bool,
}

impl Names {
    pub(super) fn of(ip: IpAddr) -> Names {
        Names { loopback: ip.is_loopback() }
    }

    fn has(&self, host: &str) -> bool {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        match host.parse::<IpAddr>() {
            Ok(ip) => ip.is_loopback() || !self.loopback,
            Err(_) => host.eq_ignore_ascii_case("localhost"),
        }
    }

    /// Why a request with these is not answered.
    fn refuse(&self, headers: &HeaderMap) -> Option<Refused> {
        let forbidden = |words: &str| Some(Refused::new(StatusCode::FORBIDDEN, words));
        let mut hosts = headers.get_all(header::HOST).iter();
        let host = hosts.next().and_then(|host| host.to_str().ok());
        let host = host.and_then(|host| host.parse::<Authority>().ok());
        let known = host.as_ref().is_some_and(|host| self.has(host.host()));
        if !known || hosts.next().is_some() || host.as_ref()?.as_str().contains('@') {
            return forbidden(
                "the request names another server (header Host); use the address that tiersim \
                 serve printed, or localhost",
            );
        }
        let own = format!("http://{}", host?);
        match headers.get(header::ORIGIN) {
            Some(origin) if origin.as_bytes() != own.as_bytes() => forbidden(
                "the request comes from a page of another server (header Origin); open the page \
                 from this server",
            ),
            _ => None,
        }
    }
}

/// Requests that may still come: so many at once, and so many a second.
pub(super) struct Bucket {
    left: f64,
    at: Instant,
}

const AT_ONCE: f64 = 200.0;
const PER_SECOND: f64 = 100.0;

impl Bucket {
    pub(super) fn full() -> Bucket {
        Bucket { left: AT_ONCE, at: Instant::now() }
    }

    fn take(&mut self, now: Instant) -> bool {
        let more = (now - self.at).as_secs_f64() * PER_SECOND;
        (self.left, self.at) = ((self.left + more).min(AT_ONCE), now);
        let there = self.left >= 1.0;
        if there {
            self.left -= 1.0;
        }
        there
    }
}

/// What every answer says to a browser.
const HEADERS: [(HeaderName, &str); 6] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];
/// The policy of what is no page.
const NOTHING: &str =
    "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// Passes a request on, or refuses it.
pub(super) async fn guard(
    State(server): State<Arc<Server>>,
    request: Request,
    next: Next,
) -> Response {
    let there = server.bucket.lock().expect("nobody panics with it").take(Instant::now());
    let refused = match there {
        true => server.names.refuse(request.headers()),
        false => Some(Refused::new(
            StatusCode::TOO_MANY_REQUESTS,
            format!("more than {PER_SECOND} requests a second; ask less often"),
        )),
    };
    let for_a_page = is_for_a_page(request.headers());
    let late = || Refused::new(StatusCode::REQUEST_TIMEOUT, "the request took too long; ask again");
    let mut response = match refused {
        Some(refused) => refused.into_response(),
        None => match timeout(MOST, next.run(request)).await {
            Ok(response) => response,
            Err(_) => late().into_response(),
        },
    };
    // What the router refuses by itself has a few words and no remedy.
    let status = response.status();
    let kind = response.headers().get(header::CONTENT_TYPE);
    let json = kind.is_some_and(|kind| kind.as_bytes() == JSON.as_bytes());
    if (status.is_client_error() || status.is_server_error()) && !json {
        let what = status.canonical_reason().unwrap_or("refused").to_lowercase();
        let words = format!("{what}; see docs/howto/serve.md for what can be asked, and how much");
        response = Refused::new(status, words).into_response();
    }
    if for_a_page {
        response = as_page(response);
    }
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(header::CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static(NOTHING));
    server.counters.answered(response.status().as_u16());
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_names_and_own_pages_pass() {
        let ask = |ip: &str, host: &str, origin: Option<&str>| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, host.parse().expect("a header"));
            headers
                .extend(origin.map(|origin| (header::ORIGIN, origin.parse().expect("a header"))));
            Names::of(ip.parse().expect("an address")).refuse(&headers).is_none()
        };
        let here = "127.0.0.1";
        for host in ["localhost", "LOCALHOST:1", "127.0.0.1:7878", "[::1]:7878", "127.9.9.9"] {
            assert!(ask(here, host, None), "{host}");
            assert!(ask(here, host, Some(&format!("http://{host}"))), "{host}");
        }
        for host in
            ["evil.example", "localhost.evil.example", "10.0.0.1", "a@localhost", "", "127.1"]
        {
            assert!(!ask(here, host, None), "{host}");
        }
        assert!(ask("0.0.0.0", "10.0.0.1:80", None) && !ask("0.0.0.0", "evil.example", None));
        for origin in ["null", "http://evil.example", "https://localhost", "http://localhost:2"] {
            assert!(!ask(here, "localhost", Some(origin)), "{origin}");
        }
    }

    #[test]
    fn a_bucket_gives_what_was_in_it_and_then_its_rate() {
        let mut bucket = Bucket::full();
        let start = bucket.at;
        let given = |bucket: &mut Bucket, now| (0..1000).filter(|_| bucket.take(now)).count();
        assert_eq!(given(&mut bucket, start), 200);
        assert_eq!(given(&mut bucket, start + Duration::from_secs(1)), 100);
        assert_eq!(given(&mut bucket, start + Duration::from_secs(100)), 200);
    }
}
