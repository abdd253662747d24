//! One HTTP exchange: request out, redirects followed, response in. Knows hosts,
//! proxies and timeouts; independent of registries.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use http::header::{AUTHORIZATION, DATE, HeaderMap, HeaderValue, LOCATION, RETRY_AFTER};
use http::{Method, StatusCode};
use url::Url;

use crate::credentials::Provenance;
use crate::error::{Error, RequestLine, Wait};
use crate::error_body::{ErrorBody, MAX_ERROR_BYTES};
use crate::proxies::{Proxies, ProxyError};
use crate::rate_limit::Limits;
use crate::retry::parse_retry_after;
use crate::route::{Contact, Contacts, Route};
use crate::settings::{Settings, Timeouts};
use crate::tls::Trust;
use crate::traffic::Counters;

const MAX_REDIRECTS: usize = 8;
const IDLE: Duration = Duration::from_secs(45);
/// How long the first connection to a proxy may take.
const PROXY_PATIENCE: Duration = Duration::from_millis(2500);
/// When a user is informed that a host does not respond.
const ANNOUNCED_AFTER: Duration = Duration::from_millis(2500);

pub(crate) struct Transport {
    trust: Trust,
    proxies: Proxies,
    user_agent: String,
    pub(crate) timeouts: Timeouts,
    pub(crate) counters: Counters,
    pub(crate) limits: Limits,
    contacts: Contacts,
    hosts: Mutex<HashMap<(String, Verify), Arc<Connections>>>,
}

/// Whether a host must prove who it is. Redirects inherit it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Verify {
    Yes,
    No,
}

/// Blobs go over HTTP/1.1: with HTTP/2 all of them would share a single
/// connection, and a line that is slow per connection would carry one share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Any,
    Http1,
}

#[derive(Debug)]
struct Connections {
    any: reqwest::Client,
    http1: reqwest::Client,
}

/// A request. `authorization` is sent to the authority of `url` and to no other.
pub(crate) struct Outgoing {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) authorization: Option<HeaderValue>,
    pub(crate) body: Option<reqwest::Body>,
    pub(crate) verify: Verify,
    pub(crate) protocol: Protocol,
}

/// A response whose body is still to come.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) request_line: RequestLine,
    response: reqwest::Response,
    route: Route,
    timeouts: Timeouts,
    limits: Limits,
}

impl Transport {
    pub(crate) fn new(settings: &Settings) -> Result<Self, ProxyError> {
        Ok(Self {
            trust: Trust::new(&settings.environment, settings.cert_dir.clone()),
            proxies: Proxies::new(&settings.environment)?,
            user_agent: settings.user_agent.clone(),
            timeouts: settings.timeouts,
            counters: Counters::default(),
            limits: Limits::new(&settings.limits),
            contacts: Contacts::default(),
            hosts: Mutex::default(),
        })
    }

    /// Sends and follows redirects of GET and HEAD. Waits for the head of the
    /// response for `patience`; `None` leaves that to the caller.
    pub(crate) async fn exchange(
        &self,
        mut outgoing: Outgoing,
        patience: Option<Duration>,
    ) -> Result<Response, Error> {
        for _ in 0..=MAX_REDIRECTS {
            let may_follow = matches!(outgoing.method, Method::GET | Method::HEAD);
            let next = may_follow.then(|| Outgoing {
                method: outgoing.method.clone(),
                url: outgoing.url.clone(),
                headers: outgoing.headers.clone(),
                authorization: outgoing.authorization.clone(),
                body: None,
                ..outgoing
            });
            let response = self.send(outgoing, patience).await?;
            let target = response.redirect()?;
            let (Some(mut next), Some(target)) = (next, target) else { return Ok(response) };
            if next.url.scheme() == "https"
                && target.scheme() == "http"
                && next.verify == Verify::Yes
            {
                let what = "the registry redirects from https to http, which is not followed";
                return Err(Error::Protocol {
                    request_line: response.request_line,
                    what: what.into(),
                });
            }
            if target.origin() != next.url.origin() {
                next.authorization = None;
            }
            next.url = target;
            outgoing = next;
        }
        let request_line = RequestLine::new(&outgoing.method, &outgoing.url);
        Err(Error::Protocol { request_line, what: format!("more than {MAX_REDIRECTS} redirects") })
    }

    async fn send(
        &self,
        outgoing: Outgoing,
        patience: Option<Duration>,
    ) -> Result<Response, Error> {
        let Outgoing { method, url, headers, authorization, body, verify, protocol } = outgoing;
        let request_line = RequestLine::new(&method, &url);
        let connections = self.connections(&url, verify, &request_line)?;
        let client = match protocol {
            Protocol::Any => &connections.any,
            Protocol::Http1 => &connections.http1,
        };
        let mut request = reqwest::Request::new(method, url.clone());
        *request.headers_mut() = headers;
        if let Some(authorization) = authorization {
            request.headers_mut().insert(AUTHORIZATION, authorization);
        }
        *request.body_mut() = body;
        self.limits.open().await;
        let host = host_with_port(&url);
        self.check_contact(&request_line, &url, &host).await?;
        self.counters.request();
        let sent = client.execute(request);
        let response = tokio::select! {
            biased;
            response = sent => Ok(response),
            () = self.announce_wait(&url, &host) => unreachable!("announcing never ends"),
            () = sleep(patience) => {
                Err(self.timed_out(&request_line, &url, Wait::Response, patience.unwrap_or_default()))
            }
        };
        let response = response?.map_err(|error| {
            let mut route = self.route(&url);
            // A host that broke a connection was there to break it.
            if error.is_connect() && error.is_timeout() {
                route.contact = self.contacts.timed_out(&host, Instant::now());
            } else if error.is_connect() {
                route.contact = self.contacts.failed(&host, Instant::now());
            }
            let error =
                Error::of_transport(request_line.clone(), error, route, self.timeouts.connect);
            tracing::debug!("{}", error.chain());
            error
        })?;
        if self.contacts.responded(&host)
            && let Some(date) = response.headers().get(DATE).and_then(|date| date.to_str().ok())
            && let Some(warning) = clock_warning(&host, date, SystemTime::now())
        {
            tracing::warn!("{warning}");
        }
        tracing::debug!(status = response.status().as_u16(), "{request_line}");
        let (route, timeouts, limits) = (self.route(&url), self.timeouts, self.limits.clone());
        Ok(Response { request_line, response, route, timeouts, limits })
    }

    /// Ends requests early that could only wait: to a host that was given up, or through a proxy
    /// that accepts no connection. A proxy is near, so it gets little time.
    async fn check_contact(
        &self,
        request_line: &RequestLine,
        url: &Url,
        host: &str,
    ) -> Result<(), Error> {
        let failed = |after| {
            let route = Route { proxy: self.proxies.named(url), contact: Contact::Failed };
            Error::Timeout { request_line: request_line.clone(), wait: Wait::Connect, route, after }
        };
        if self.contacts.is_given_up(host, Instant::now()) {
            return Err(failed(self.timeouts.connect));
        }
        let Some((name, port)) = self.proxies.address(url) else { return Ok(()) };
        let key = format!("proxy {name}:{port}");
        if self.contacts.has_responded(&key) {
            return Ok(());
        }
        if self.contacts.is_given_up(&key, Instant::now()) {
            return Err(failed(PROXY_PATIENCE));
        }
        let probe = tokio::net::TcpStream::connect((name.as_str(), port));
        match tokio::time::timeout(PROXY_PATIENCE, probe).await {
            // The request itself is refused again, and its error has more details.
            Ok(connected) => {
                if connected.is_ok() {
                    self.contacts.responded(&key);
                }
                Ok(())
            }
            Err(_) => {
                self.contacts.timed_out(&key, Instant::now());
                Err(failed(PROXY_PATIENCE))
            }
        }
    }

    /// Logs after a moment that a host has not responded yet. Never ends.
    async fn announce_wait(&self, url: &Url, host: &str) {
        if !self.contacts.has_responded(host) {
            tokio::time::sleep(ANNOUNCED_AFTER).await;
            if self.contacts.is_first_wait(host) {
                tracing::warn!(
                    "no response from {host}{} after {} s; still waiting",
                    self.route(url),
                    ANNOUNCED_AFTER.as_secs_f64()
                );
            }
        }
        std::future::pending::<()>().await;
    }

    /// The route to `url`, for a failure other than that of a connection.
    fn route(&self, url: &Url) -> Route {
        Route { proxy: self.proxies.named(url), contact: Contact::Established }
    }

    /// A timeout at `url`.
    pub(crate) fn timed_out(
        &self,
        request_line: &RequestLine,
        url: &Url,
        wait: Wait,
        after: Duration,
    ) -> Error {
        Error::Timeout { request_line: request_line.clone(), wait, route: self.route(url), after }
    }

    fn connections(
        &self,
        url: &Url,
        verify: Verify,
        request_line: &RequestLine,
    ) -> Result<Arc<Connections>, Error> {
        let host = host_with_port(url);
        let key = (host, verify);
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(connections) = hosts.get(&key) {
            return Ok(Arc::clone(connections));
        }
        // Docker's registry responds under another name than it is known by.
        let known_as = if key.0 == HUB_API { HUB } else { &key.0 };
        let mut config = self.trust.config(known_as, verify == Verify::Yes)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let http1 = config.clone();
        config.alpn_protocols.insert(0, b"h2".to_vec());
        let made = |error| {
            Error::of_transport(request_line.clone(), error, self.route(url), self.timeouts.connect)
        };
        let connections = Arc::new(Connections {
            any: self.client(config, Protocol::Any, url.port()).map_err(made)?,
            http1: self.client(http1, Protocol::Http1, url.port()).map_err(made)?,
        });
        hosts.insert(key, Arc::clone(&connections));
        Ok(connections)
    }

    fn client(
        &self,
        tls: rustls::ClientConfig,
        protocol: Protocol,
        port: Option<u16>,
    ) -> Result<reqwest::Client, reqwest::Error> {
        let mut builder = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .user_agent(&self.user_agent)
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .connect_timeout(self.timeouts.connect)
            // Shorter than servers and balancers keep idle connections, so
            // that none is used in the moment it is closed.
            .pool_idle_timeout(IDLE)
            .tcp_nodelay(true)
            .no_proxy();
        if protocol == Protocol::Http1 {
            builder = builder.http1_only();
        }
        for proxy in self.proxies.toward(port) {
            builder = builder.proxy(proxy);
        }
        builder.build()
    }
}

/// Ends after `patience`; without one, never.
async fn sleep(patience: Option<Duration>) {
    match patience {
        Some(patience) => tokio::time::sleep(patience).await,
        None => std::future::pending().await,
    }
}

/// More than clocks without a common source differ; less than what breaks tokens and certificates.
const CLOCK_SKEW: Duration = Duration::from_secs(300);

/// The warning for a `Date` of a response is far from the clock of this machine.
fn clock_warning(host: &str, date: &str, now: SystemTime) -> Option<String> {
    let theirs = httpdate::parse_http_date(date).ok()?;
    let (skew, direction) = match theirs.duration_since(now) {
        Ok(ahead) => (ahead, "behind"),
        Err(behind) => (behind.duration(), "ahead of"),
    };
    (skew > CLOCK_SKEW).then(|| {
        format!(
            "the clock of this machine is {} minutes {direction} that of {host}: tokens, \
             certificates and signatures may be refused; set the clock",
            skew.as_secs() / 60
        )
    })
}

/// The name docker's registry is known by, and the one it responds under.
pub(crate) const HUB: &str = "docker.io";
pub(crate) const HUB_API: &str = "registry-1.docker.io";

/// `host[:port]` as references and `certs.d` write it.
pub(crate) fn host_with_port(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

impl Response {
    pub(crate) fn status(&self) -> StatusCode {
        self.response.status()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.response.headers().get(name)?.to_str().ok()
    }

    pub(crate) fn headers(&self, name: &str) -> impl Iterator<Item = &str> {
        self.response.headers().get_all(name).iter().filter_map(|value| value.to_str().ok())
    }

    pub(crate) fn url(&self) -> &Url {
        self.response.url()
    }

    pub(crate) fn content_length(&self) -> Option<u64> {
        self.header("content-length")?.parse().ok()
    }

    pub(crate) fn retry_after(&self) -> Option<Duration> {
        let own = self.header(DATE.as_str()).and_then(|date| httpdate::parse_http_date(date).ok());
        parse_retry_after(self.header(RETRY_AFTER.as_str())?, own.unwrap_or_else(SystemTime::now))
    }

    fn redirect(&self) -> Result<Option<Url>, Error> {
        if !matches!(self.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
            return Ok(None);
        }
        let target = self.header(LOCATION.as_str()).and_then(|to| self.url().join(to).ok());
        let target = target.filter(|to| matches!(to.scheme(), "http" | "https") && to.has_host());
        target.map(Some).ok_or_else(|| self.broken("a redirect without a usable Location"))
    }

    /// The next piece of the body, at the rate that is allowed. What is not read meanwhile waits
    /// at the sender.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, Error> {
        let after = self.timeouts.stall;
        match tokio::time::timeout(after, self.response.chunk()).await {
            Err(_) => Err(Error::Timeout {
                request_line: self.request_line.clone(),
                wait: Wait::Receive,
                route: self.route.clone(),
                after,
            }),
            Ok(Err(error)) => Err(Error::of_transport(
                self.request_line.clone(),
                error,
                self.route.clone(),
                self.timeouts.connect,
            )),
            Ok(Ok(chunk)) => {
                // Outside the limit for a stall: this wait is our own.
                self.limits.pass(chunk.as_ref().map_or(0, Bytes::len)).await;
                Ok(chunk)
            }
        }
    }

    /// The whole body, which may be at most `limit` bytes.
    pub(crate) async fn body(
        mut self,
        limit: u64,
        counters: &Counters,
    ) -> Result<(RequestLine, Vec<u8>), Error> {
        let announced = self.content_length().unwrap_or(0);
        let too_large =
            |request_line: &RequestLine| Error::Large { request_line: request_line.clone(), limit };
        if announced > limit {
            return Err(too_large(&self.request_line));
        }
        let mut body = Vec::with_capacity(usize::try_from(announced).unwrap_or(0));
        while let Some(chunk) = self.chunk().await? {
            counters.received(chunk.len());
            if body.len() as u64 + chunk.len() as u64 > limit {
                return Err(too_large(&self.request_line));
            }
            body.extend_from_slice(&chunk);
        }
        Ok((self.request_line, body))
    }

    /// Status and reason of a refusal. Reads no more of the body than is
    /// printed, and ignores a failure to read it.
    pub(crate) async fn refusal(mut self) -> Refusal {
        let mut body = Vec::new();
        while body.len() < MAX_ERROR_BYTES
            && let Ok(Some(chunk)) = self.chunk().await
        {
            let room = MAX_ERROR_BYTES - body.len();
            body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        }
        let (status, retry_after) = (self.status(), self.retry_after());
        Refusal {
            request_line: self.request_line,
            status,
            error_body: ErrorBody::parse(&body),
            retry_after,
        }
    }

    /// A response that makes no sense.
    pub(crate) fn broken(&self, what: impl Into<String>) -> Error {
        Error::Protocol { request_line: self.request_line.clone(), what: what.into() }
    }
}

/// A response that is not the one hoped for.
pub(crate) struct Refusal {
    pub(crate) request_line: RequestLine,
    pub(crate) status: StatusCode,
    pub(crate) error_body: ErrorBody,
    pub(crate) retry_after: Option<Duration>,
}

impl Refusal {
    /// As a matter of rights.
    pub(crate) fn denied(self, provenance: Provenance) -> Error {
        let Self { request_line, status, error_body, .. } = self;
        Error::Denied { request_line, status, error_body, provenance }
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        let Refusal { request_line, status, error_body, retry_after } = refusal;
        Self::Status { request_line, status, error_body, retry_after }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_far_off_is_reported_with_its_direction() {
        // 1994-11-06 08:49:37 UTC, the example date of the HTTP standard.
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        let there = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        let minutes = |count: u64| Duration::from_secs(60 * count);
        assert_eq!(clock_warning("h", date, there + minutes(5)), None);
        assert_eq!(clock_warning("h", "soon", there), None);
        let ahead = clock_warning("h", date, there + minutes(90)).unwrap();
        assert!(ahead.contains("90 minutes ahead of that of h"), "{ahead}");
        let behind = clock_warning("h", date, there - minutes(10)).unwrap();
        assert!(behind.contains("10 minutes behind that of h"), "{behind}");
    }
}
