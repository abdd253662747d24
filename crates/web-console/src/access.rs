//! Which requests are served. Pure: from headers to a decision.
//!
//! - The `Host` must be one of the console's own: a page of another site whose name resolves to
//!   this machine (DNS rebinding) sends its own name.
//! - A request that changes something must come from a page of the console, by its `Origin`.
//!   No response has CORS headers.
//! - Everything but the login and the style sheet needs the session cookie.

use std::net::{IpAddr, SocketAddr};

use http::header::{COOKIE, HOST, ORIGIN};
use http::{HeaderMap, Method};

use crate::token::{Session, Token};

/// What requests are checked against.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    token: Token,
    session: Session,
    cookie: String,
    is_tls: bool,
    /// Names with port, as `Host` has them.
    hosts: Vec<String>,
}

/// Why a request is not served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The request is for another server.
    Host,
    /// A page of another site sent it.
    Origin,
    /// The session is missing.
    Session,
}

impl Access {
    /// Access to a console at `address`. `names` are further names of this machine.
    pub(crate) fn new(token: Token, address: SocketAddr, names: &[String], is_tls: bool) -> Self {
        let port = address.port();
        let mut known: Vec<String> = names.to_vec();
        let ip = address.ip();
        if ip.is_loopback() {
            known.extend(["127.0.0.1", "localhost", "[::1]"].map(str::to_owned));
        }
        if !ip.is_unspecified() {
            known.push(match ip {
                IpAddr::V4(ip) => ip.to_string(),
                IpAddr::V6(ip) => format!("[{ip}]"),
            });
        }
        let default_port = if is_tls { 443 } else { 80 };
        let mut hosts: Vec<String> =
            known.iter().map(|name| format!("{}:{port}", name.to_ascii_lowercase())).collect();
        if port == default_port {
            hosts.extend(known.iter().map(|name| name.to_ascii_lowercase()));
        }
        // Cookies do not distinguish ports: two consoles on one machine need two names.
        let prefix = if is_tls { "__Host-" } else { "" };
        let cookie = format!("{prefix}oc-mirror-console-{port}");
        Self { session: token.session(), token, cookie, is_tls, hosts }
    }

    /// Checks a request. `is_public` pages are served without a session.
    pub(crate) fn check(
        &self,
        method: &Method,
        headers: &HeaderMap,
        is_public: bool,
    ) -> Result<(), Refusal> {
        let host = only(headers, &HOST).map(str::to_ascii_lowercase).ok_or(Refusal::Host)?;
        if !self.hosts.contains(&host) {
            return Err(Refusal::Host);
        }
        let scheme = if self.is_tls { "https" } else { "http" };
        let is_own = |origin: &str| origin.eq_ignore_ascii_case(&format!("{scheme}://{host}"));
        let is_reading = matches!(*method, Method::GET | Method::HEAD);
        match headers.contains_key(&ORIGIN) {
            true if !only(headers, &ORIGIN).is_some_and(is_own) => return Err(Refusal::Origin),
            false if !is_reading => return Err(Refusal::Origin),
            _ => {}
        }
        match is_public || self.has_session(headers) {
            true => Ok(()),
            false => Err(Refusal::Session),
        }
    }

    /// The cookie to set for a token, if it is the right one.
    pub(crate) fn log_in(&self, token: &str) -> Option<String> {
        let secure = if self.is_tls { "; Secure" } else { "" };
        self.token.is(token).then(|| {
            format!(
                "{}={}; Path=/; HttpOnly; SameSite=Strict{secure}",
                self.cookie,
                self.session.as_str()
            )
        })
    }

    fn has_session(&self, headers: &HeaderMap) -> bool {
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs =
            cookies.flat_map(|line| line.split(';')).filter_map(|pair| pair.split_once('='));
        pairs.any(|(name, value)| name.trim() == self.cookie && self.session.is(value.trim()))
    }
}

/// The value of a header that occurs once. A second one would be for a proxy to be misled by.
fn only<'a>(headers: &'a HeaderMap, name: &http::HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(address: &str, names: &[&str], is_tls: bool) -> (Access, Token) {
        let token = Token::random().unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        (Access::new(token.clone(), address.parse().unwrap(), &names, is_tls), token)
    }

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    fn cookie(access: &Access, token: &Token) -> String {
        access.log_in(token.as_str()).unwrap().split(';').next().unwrap().to_owned()
    }

    #[test]
    fn names_that_are_not_the_consoles_own_are_refused() {
        let (access, token) = access("127.0.0.1:8443", &[], false);
        let session = cookie(&access, &token);
        for host in ["127.0.0.1:8443", "localhost:8443", "LOCALHOST:8443", "[::1]:8443"] {
            let headers = headers(&[("host", host), ("cookie", &session)]);
            assert_eq!(access.check(&Method::GET, &headers, false), Ok(()), "{host}");
        }
        for host in ["evil.example:8443", "127.0.0.1", "127.0.0.1:80", "localhost.evil:8443", ""] {
            let headers = headers(&[("host", host), ("cookie", &session)]);
            assert_eq!(access.check(&Method::GET, &headers, true), Err(Refusal::Host), "{host}");
        }
        let twice = headers(&[("host", "127.0.0.1:8443"), ("host", "127.0.0.1:8443")]);
        assert_eq!(access.check(&Method::GET, &twice, true), Err(Refusal::Host));
        assert_eq!(access.check(&Method::GET, &headers(&[]), true), Err(Refusal::Host));
    }

    #[test]
    fn a_change_needs_the_origin_of_the_console_itself() {
        let (access, token) = access("127.0.0.1:8443", &[], false);
        let session = cookie(&access, &token);
        let check = |method: Method, origin: Option<&str>| {
            let mut headers = headers(&[("host", "127.0.0.1:8443"), ("cookie", &session)]);
            if let Some(origin) = origin {
                headers.insert("origin", origin.parse().unwrap());
            }
            access.check(&method, &headers, false)
        };
        assert_eq!(check(Method::POST, Some("http://127.0.0.1:8443")), Ok(()));
        assert_eq!(check(Method::GET, None), Ok(()));
        for origin in [
            None,
            Some("null"),
            Some("https://127.0.0.1:8443"),
            Some("http://localhost:8443"),
            Some("http://127.0.0.1:8444"),
            Some("http://evil.example"),
        ] {
            assert_eq!(check(Method::POST, origin), Err(Refusal::Origin), "{origin:?}");
        }
        assert_eq!(check(Method::GET, Some("http://evil.example")), Err(Refusal::Origin));
    }

    #[test]
    fn a_page_needs_the_session_of_this_console() {
        let (access, token) = access("127.0.0.1:8443", &[], false);
        let check = |cookie: &str| {
            let headers = headers(&[("host", "127.0.0.1:8443"), ("cookie", cookie)]);
            access.check(&Method::GET, &headers, false)
        };
        let session = cookie(&access, &token);
        assert_eq!(check(&format!("other=1; {session}")), Ok(()));
        assert_eq!(check(""), Err(Refusal::Session));
        assert_eq!(check(&format!("{session}0")), Err(Refusal::Session));
        assert_eq!(check(&session.replace("8443", "8444")), Err(Refusal::Session));
        assert_eq!(
            check(&format!("oc-mirror-console-8443={}", token.as_str())),
            Err(Refusal::Session)
        );
        assert!(access.log_in("wrong").is_none() && access.log_in("").is_none());
    }

    #[test]
    fn with_tls_the_cookie_is_secure_and_names_are_given() {
        let (access, token) = access("0.0.0.0:443", &["Mirror.example"], true);
        let set = access.log_in(token.as_str()).unwrap();
        assert!(set.starts_with("__Host-") && set.ends_with("; Secure"), "{set}");
        assert!(set.contains("HttpOnly") && set.contains("SameSite=Strict"), "{set}");
        for (host, expected) in [
            ("mirror.example", Ok(())),
            ("mirror.example:443", Ok(())),
            ("0.0.0.0:443", Err(Refusal::Host)),
            ("127.0.0.1:443", Err(Refusal::Host)),
        ] {
            let headers = headers(&[("host", host)]);
            assert_eq!(access.check(&Method::GET, &headers, true), expected, "{host}");
        }
    }
}
