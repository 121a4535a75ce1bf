//! Replies of the admin port.
//!
//! Neighbours: [`super`] receives the requests; [`super::figures`] has the figures.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{self, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};

use super::AdminSource;
use super::figures;

/// The live page.
const PAGE: &str = include_str!("page.html");

/// Sources that the page may use: itself only.
const PAGE_SOURCES: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
                            connect-src 'self'; img-src data:; frame-ancestors 'none'; base-uri 'none'";

const TEXT: &str = "text/plain; charset=utf-8";

/// Reply to a request, whose body is not read.
pub(super) fn answer<B>(source: &AdminSource, request: &Request<B>) -> Response<Full<Bytes>> {
    let mut reply = answer_path(source, request);
    let headers = reply.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(PAGE_SOURCES));
    reply
}

fn answer_path<B>(source: &AdminSource, request: &Request<B>) -> Response<Full<Bytes>> {
    let header = |name: header::HeaderName| request.headers().get(name).map(HeaderValue::as_bytes);
    if !header(header::HOST).is_some_and(names_this_machine) {
        return reply(
            StatusCode::FORBIDDEN,
            TEXT,
            "Host must name this machine: 127.0.0.1, [::1] or localhost\n",
        );
    }
    let given = header(header::AUTHORIZATION).and_then(password_of);
    if !given.is_some_and(|given| source.password.is(&given)) {
        let mut refusal =
            reply(StatusCode::UNAUTHORIZED, TEXT, "give the admin password by basic authentication\n");
        let scheme = HeaderValue::from_static("Basic realm=\"ensile\", charset=\"UTF-8\"");
        refusal.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        return refusal;
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut refusal = reply(StatusCode::METHOD_NOT_ALLOWED, TEXT, "the admin port is read only\n");
        refusal.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        return refusal;
    }
    match request.uri().path() {
        "/" => reply(StatusCode::OK, "text/html; charset=utf-8", PAGE),
        "/metrics" => {
            reply(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", figures::prometheus(source))
        }
        "/stats.json" => reply(StatusCode::OK, "application/json", figures::json(source)),
        "/health" => {
            let health = figures::health(source);
            let code = if health.is_well { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
            reply(code, "application/json", health.json())
        }
        _ => reply(StatusCode::NOT_FOUND, TEXT, "there are /, /metrics, /stats.json and /health\n"),
    }
}

fn reply(status: StatusCode, content_type: &'static str, text: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut reply = Response::new(Full::new(text.into()));
    *reply.status_mut() = status;
    reply.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    reply
}

/// True if `Host` names this machine, with any port.
fn names_this_machine(host: &[u8]) -> bool {
    let name = match host.iter().rposition(|byte| *byte == b':') {
        Some(colon) if !host.ends_with(b"]") => &host[..colon],
        _ => host,
    };
    name.eq_ignore_ascii_case(b"localhost") || name == b"127.0.0.1" || name == b"[::1]"
}

/// Password of basic authentication.
fn password_of(authorization: &[u8]) -> Option<Vec<u8>> {
    let (scheme, encoded) = authorization.split_at_checked("Basic ".len())?;
    if !scheme.eq_ignore_ascii_case(b"Basic ") {
        return None;
    }
    let decoded = STANDARD.decode(encoded.trim_ascii()).ok()?;
    let colon = decoded.iter().position(|byte| *byte == b':')?;
    Some(decoded[colon + 1..].to_vec())
}

#[cfg(test)]
mod tests {
    use super::{names_this_machine, password_of};

    #[test]
    fn only_names_of_this_machine_are_hosts() {
        for host in ["localhost", "LOCALHOST:80", "127.0.0.1", "127.0.0.1:9187", "[::1]", "[::1]:9187"] {
            assert!(names_this_machine(host.as_bytes()), "{host}");
        }
        for host in [
            "",
            ":",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil:80",
            "::1",
            "[::1",
            "10.0.0.1",
        ] {
            assert!(!names_this_machine(host.as_bytes()), "{host}");
        }
    }

    #[test]
    fn the_password_stands_behind_the_first_colon() {
        assert_eq!(password_of(b"Basic YTpiOmM=").as_deref(), Some(&b"b:c"[..]));
        assert_eq!(password_of(b"basic OmI=").as_deref(), Some(&b"b"[..]));
        for wrong in [&b"Basic"[..], b"Basic ", b"Basic ?", b"Bearer YTpi", b"Basic YWI="] {
            assert_eq!(password_of(wrong), None);
        }
    }
}
