//! The check of every request, and the headers of every reply.
//!
//! A web site could make its own name resolve to 127.0.0.1, and so read the replies of this server. Requests with such a
//! name in the header `Host` are rejected. Requests of other pages to 127.0.0.1 have their site in the header `Origin`,
//! and are rejected too.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// The page loads nothing from other sites, and no other page can embed it. Pictures contain inline style sheets.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; \
                      img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(super) async fn guard(request: Request, next: Next) -> Response {
    let mut response = if is_local(request.headers()) {
        next.run(request).await
    } else {
        let text = "the playground replies only to requests for 127.0.0.1 or localhost";
        (StatusCode::MISDIRECTED_REQUEST, text).into_response()
    };
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

fn is_local(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(header::HOST).and_then(|host| host.to_str().ok()) else { return false };
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let is_loopback = name == "127.0.0.1" || name.eq_ignore_ascii_case("localhost");
    let origin = headers.get(header::ORIGIN);
    is_loopback && origin.is_none_or(|origin| *origin == format!("http://{host}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_names_are_local() {
        let local = |host: &'static str| {
            is_local(&HeaderMap::from_iter([(header::HOST, HeaderValue::from_static(host))]))
        };
        let accepted = ["127.0.0.1", "127.0.0.1:7331", "localhost:80", "LocalHost"];
        assert_eq!(Vec::<&str>::new(), accepted.into_iter().filter(|host| !local(host)).collect::<Vec<_>>());
        let foreign = [
            "",
            "example.org",
            "example.org:7331",
            "127.0.0.1.example.org",
            "localhost.example.org",
            "[::1]:1",
        ];
        assert_eq!(Vec::<&str>::new(), foreign.into_iter().filter(|host| local(host)).collect::<Vec<_>>());
        assert!(!is_local(&HeaderMap::new()));
    }

    #[test]
    fn a_request_of_another_site_is_not_local() {
        let local = |origin: &'static str| {
            let headers = [(header::HOST, "localhost:7331"), (header::ORIGIN, origin)];
            is_local(
                &headers.map(|(name, value)| (name, HeaderValue::from_static(value))).into_iter().collect(),
            )
        };
        assert!(local("http://localhost:7331"));
        assert!(!local("http://example.org") && !local("http://localhost:8000") && !local("null"));
    }
}
