//! What can go wrong while talking to a registry, and whether trying again
//! can help.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::time::Duration;

use http::{Method, StatusCode};
use oci::{Digest, ImageRef, ManifestError};
use url::Url;

use crate::authfile::AuthFileError;
use crate::credentials::Provenance;
use crate::error_body::ErrorBody;
use crate::registries_conf::ResolveError;
use crate::route::Route;
use crate::tls::TlsError;

/// An error of the caller's own body stream.
pub type BodyError = Box<dyn StdError + Send + Sync>;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("{image} has neither tag nor digest")]
    NoPointer { image: Box<ImageRef> },
    #[error("https://{host}/v2/{path} is not an address")]
    Address { host: String, path: String },
    #[error("{what} does not end")]
    Endless { what: String },
    /// A mirror that gets no requests for a while.
    #[error("{place} is temporarily not used: {why}")]
    Resting { place: String, why: std::sync::Arc<str> },
    #[error("{place} does not have it")]
    Absent { place: String },
    /// The registry forgot an upload before it was finished.
    #[error("{request_line}: the registry no longer has the upload ({status}{error_body})")]
    UploadLost { request_line: RequestLine, status: StatusCode, error_body: ErrorBody },
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    #[error(transparent)]
    Credentials(#[from] AuthFileError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// 401 or 403. Does not show whether the requested content exists.
    #[error("{request_line}: access refused ({status}{error_body}); {provenance}")]
    Denied {
        request_line: RequestLine,
        status: StatusCode,
        error_body: ErrorBody,
        provenance: Provenance,
    },
    /// The registry does not take a list whose images it does not all hold.
    #[error(
        "{request_line}: the registry refuses a list without all its images ({status}{error_body}); mirror all platforms of this image, or use a registry that takes sparse lists"
    )]
    SparseList { request_line: RequestLine, status: StatusCode, error_body: ErrorBody },
    #[error("{request_line}: the registry responded {status}{error_body}")]
    Status {
        request_line: RequestLine,
        status: StatusCode,
        error_body: ErrorBody,
        retry_after: Option<Duration>,
    },
    /// A server of documents, which is not a registry, did not send one.
    #[error("{request_line}: the server responded {status}{error_body}")]
    ServerStatus {
        request_line: RequestLine,
        status: StatusCode,
        error_body: ErrorBody,
        retry_after: Option<Duration>,
    },
    // Scripts search for `http request`.
    #[error("{request_line}: http request failed: {}", describe(*fault, route))]
    Transport {
        request_line: RequestLine,
        fault: Fault,
        route: Route,
        #[source]
        source: RootCause,
    },
    #[error("{request_line}: {wait}{route} within {} s", after.as_secs_f64())]
    Timeout { request_line: RequestLine, wait: Wait, route: Route, after: Duration },
    #[error("{request_line}: {got} bytes arrived, expected {wanted}")]
    Length { request_line: RequestLine, wanted: u64, got: u64 },
    #[error("{request_line}: the response is longer than the limit of {limit} bytes")]
    Large { request_line: RequestLine, limit: u64 },
    #[error("{request_line}: the content has the digest {got}, expected {wanted}")]
    Digest { request_line: RequestLine, wanted: Digest, got: Digest },
    #[error("{request_line}")]
    Manifest {
        request_line: RequestLine,
        #[source]
        source: ManifestError,
    },
    /// A response that breaks the protocol.
    #[error("{request_line}: {what}")]
    Protocol { request_line: RequestLine, what: String },
    /// The caller's stream failed while it was being uploaded.
    #[error("{request_line}: reading the content to send")]
    Body {
        request_line: RequestLine,
        #[source]
        source: BodyError,
    },
    /// A request that was repeated and failed each time; the error is that of the last attempt.
    #[error("{} (after {attempts} attempts)", error.chain())]
    Repeated { attempts: u32, error: Box<Error> },
    /// The registry and all its mirrors failed.
    #[error("{name}: no source is available: {}", list(tried))]
    Everywhere { name: String, tried: Vec<Error> },
}

/// A request, as errors and logs name it: method and address, without query.
/// Queries carry upload states and signatures of storage services.
#[derive(Clone, PartialEq, Eq)]
pub struct RequestLine(Box<str>);

/// What broke below HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    Resolve,
    Connect,
    Certificate,
    NotTls,
    Handshake,
    /// An alert of the other side that concerns this connection, not the two parties.
    Alert,
    Cut,
    /// The proxy requires credentials.
    ProxyLogin,
    Request,
}

/// What did not happen within the timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    Connect,
    Response,
    Receive,
    Send,
    Commit,
}

impl Error {
    /// Whether the registry understood a request and does not accept what it contains.
    pub fn refuses_content(&self) -> bool {
        match self {
            Self::Status { status, .. } => matches!(status.as_u16(), 400 | 422),
            Self::Repeated { error, .. } => error.refuses_content(),
            _ => false,
        }
    }

    /// Whether the same request may succeed a little later.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Status { status, .. } | Self::ServerStatus { status, .. } => {
                matches!(status.as_u16(), 408 | 429 | 500..=504)
            }
            Self::Transport { fault, .. } => {
                matches!(fault, Fault::Resolve | Fault::Connect | Fault::Alert | Fault::Cut)
            }
            // Bytes that a proxy or a bad cable changed arrive unchanged the next time.
            Self::Timeout { .. }
            | Self::Length { .. }
            | Self::Digest { .. }
            | Self::UploadLost { .. } => true,
            Self::Repeated { error, .. } => error.is_retryable(),
            Self::Everywhere { tried, .. } => tried.iter().any(Self::is_retryable),
            Self::NoPointer { .. }
            | Self::Address { .. }
            | Self::Absent { .. }
            | Self::Resting { .. }
            | Self::Endless { .. }
            | Self::Resolve(_)
            | Self::Credentials(_)
            | Self::Tls(_)
            | Self::Denied { .. }
            | Self::SparseList { .. }
            | Self::Large { .. }
            | Self::Manifest { .. }
            | Self::Protocol { .. }
            | Self::Body { .. } => false,
        }
    }

    /// Whether the same request may succeed in a last round of the same run: not at a host that
    /// never responded, which the user has to name or start first.
    pub fn may_pass_soon(&self) -> bool {
        self.is_retryable() && self.most_retries() > 1
    }

    /// The registry does not have what was requested.
    pub fn is_absent(&self) -> bool {
        match self {
            Self::Absent { .. } => true,
            Self::Repeated { error, .. } => error.is_absent(),
            Self::Everywhere { tried, .. } => tried.iter().all(Self::is_absent),
            _ => false,
        }
    }

    /// The registry refused for lack of permission: with 401 or 403.
    pub fn is_denied(&self) -> bool {
        match self {
            Self::Denied { .. } => true,
            Self::Repeated { error, .. } => error.is_denied(),
            Self::Everywhere { tried, .. } => tried.iter().any(Self::is_denied),
            _ => false,
        }
    }

    /// Nothing came of even the attempt to connect.
    pub fn is_unreachable(&self) -> bool {
        match self {
            Self::Transport { fault, .. } => matches!(fault, Fault::Resolve | Fault::Connect),
            Self::Timeout { wait, .. } => *wait == Wait::Connect,
            Self::Repeated { error, .. } => error.is_unreachable(),
            _ => false,
        }
    }

    /// The error of the last attempt, without the number of attempts.
    pub fn last(&self) -> &Self {
        match self {
            Self::Repeated { error, .. } => error.last(),
            error => error,
        }
    }

    /// This error, after so many attempts.
    pub(crate) fn after_attempts(self, attempts: u32) -> Self {
        match self {
            Self::Repeated { .. } => self,
            error if attempts > 1 => Self::Repeated { attempts, error: Box::new(error) },
            error => error,
        }
    }

    /// How many retries make sense at most, whatever the settings allow. A host that did not
    /// respond yet in this run is more likely misspelt or switched off than busy.
    pub(crate) fn most_retries(&self) -> u32 {
        match self {
            Self::Transport { fault: Fault::Resolve | Fault::Connect, route, .. } => {
                route.contact.most_retries()
            }
            Self::Timeout { wait: Wait::Connect, route, .. } => route.contact.most_retries(),
            Self::Digest { .. } => 2,
            Self::Repeated { error, .. } => error.most_retries(),
            Self::Everywhere { tried, .. } => {
                let retryable = tried.iter().filter(|error| error.is_retryable());
                retryable.map(Self::most_retries).max().unwrap_or(0)
            }
            _ => u32::MAX,
        }
    }

    /// How long the registry requested us to wait.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status { retry_after, .. } | Self::ServerStatus { retry_after, .. } => {
                *retry_after
            }
            Self::Repeated { error, .. } => error.retry_after(),
            Self::Everywhere { tried, .. } => tried.iter().filter_map(Self::retry_after).max(),
            _ => None,
        }
    }

    /// This error and its sources on one line.
    pub fn chain(&self) -> String {
        error_causes::with_causes(self)
    }

    /// Sorts an error of the HTTP library.
    pub(crate) fn of_transport(
        request_line: RequestLine,
        error: reqwest::Error,
        route: Route,
        connect: Duration,
    ) -> Self {
        let error = error.without_url();
        if error.is_connect() && error.is_timeout() {
            return Self::Timeout { request_line, wait: Wait::Connect, route, after: connect };
        }
        let fault = fault(&error);
        Self::Transport { request_line, fault, route, source: RootCause(Box::new(error)) }
    }
}

fn list(tried: &[Error]) -> String {
    let lines: Vec<String> = tried.iter().map(|error| format!("\n  {}", error.chain())).collect();
    lines.concat()
}

/// What broke, and through which proxy where that may be the cause.
fn describe(fault: Fault, route: &Route) -> String {
    match fault {
        Fault::Resolve if route.proxy.is_some() => {
            format!("no connection{route}: its host name cannot be resolved")
        }
        Fault::Connect | Fault::ProxyLogin | Fault::Handshake | Fault::Alert | Fault::Cut => {
            format!("{fault}{route}")
        }
        _ => fault.to_string(),
    }
}

fn fault(error: &reqwest::Error) -> Fault {
    if let Some(tls) = causes(error).find_map(tls_error) {
        return tls_fault(tls, error.is_connect());
    }
    if root_text(error) == PROXY_LOGIN {
        Fault::ProxyLogin
    } else if error.is_dns() {
        Fault::Resolve
    } else if error.is_connect() {
        Fault::Connect
    } else if error.is_builder() {
        Fault::Request
    } else {
        Fault::Cut
    }
}

/// What a TLS error means. Inside an established connection all but a refusal of this client is an
/// accident of this connection: damaged records, or a balancer that is being restarted.
fn tls_fault(error: &rustls::Error, connecting: bool) -> Fault {
    use rustls::{AlertDescription as Alert, Error as Tls};
    match error {
        Tls::InvalidCertificate(_) | Tls::NoCertificatesPresented => Fault::Certificate,
        Tls::AlertReceived(
            Alert::CloseNotify
            | Alert::UnexpectedMessage
            | Alert::BadRecordMac
            | Alert::RecordOverflow
            | Alert::DecodeError
            | Alert::DecryptError
            | Alert::InternalError
            | Alert::UserCanceled,
        )
        | Tls::DecryptError => Fault::Alert,
        Tls::AlertReceived(_) => Fault::Handshake,
        Tls::InvalidMessage(_) if connecting => Fault::NotTls,
        _ if connecting => Fault::Handshake,
        _ => Fault::Alert,
    }
}

/// Texts of the HTTP library for a proxy's response to CONNECT; their type is not public.
const PROXY_LOGIN: &str = "tunnel error: proxy authorization required";
const PROXY_REFUSED: &str = "tunnel error: unsuccessful";

fn root_text(error: &reqwest::Error) -> String {
    causes(error).last().map(ToString::to_string).unwrap_or_default()
}

/// The error and all that caused it, including those that `io::Error` carries
/// but leaves out of its chain.
fn causes<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |&error| match error.downcast_ref::<io::Error>() {
        Some(io) => io.get_ref().map(|inner| inner as &(dyn StdError + 'static)),
        None => error.source(),
    })
}

fn tls_error<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a rustls::Error> {
    error.downcast_ref()
}

impl RequestLine {
    pub(crate) fn new(method: &Method, url: &Url) -> Self {
        let host = url.host_str().unwrap_or_default();
        let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
        Self(format!("{method} {}://{host}{port}{}", url.scheme(), url.path()).into())
    }
}

/// A request by its description.
impl From<&str> for RequestLine {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for RequestLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for RequestLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Resolve => "the host name cannot be resolved",
            Self::Connect => "no connection",
            Self::Certificate => {
                "the certificate is not trusted; put the CA's certificate into certs.d/<host[:port]>/ca.crt below /etc/containers, or switch verification off for this side"
            }
            Self::NotTls => {
                "the response is not TLS; if the registry uses plain HTTP, switch verification off for this side or mark it insecure in registries.conf"
            }
            Self::Handshake => "the TLS handshake failed",
            Self::Alert => "the TLS connection failed",
            Self::ProxyLogin => "no connection",
            Self::Cut => "the connection broke",
            Self::Request => "the request cannot be made",
        })
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connect => "no connection",
            Self::Response => "no response",
            Self::Receive => "no further bytes were received",
            Self::Send => "the registry accepted no further bytes",
            Self::Commit => "no response to the finished upload",
        })
    }
}

/// An error of the HTTP library, printed as its first cause: the layers above
/// it add nothing. A refused connection reads `connection refused`, as in
/// oc-mirror v2: scripts search for it.
pub struct RootCause(Box<reqwest::Error>);

impl fmt::Display for RootCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let refused = |error: &(dyn StdError + 'static)| {
            error
                .downcast_ref::<io::Error>()
                .is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
        };
        match causes(&*self.0).last() {
            Some(root) if refused(root) => f.write_str("connection refused"),
            Some(root) => match root.to_string().as_str() {
                PROXY_LOGIN => f.write_str(
                    "the proxy requires credentials: put them into its address, \
                     http://user:password@host:port",
                ),
                PROXY_REFUSED => f.write_str("the proxy did not open a connection to the host"),
                text => f.write_str(text),
            },
            None => fmt::Display::fmt(&self.0, f),
        }
    }
}

impl fmt::Debug for RootCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl StdError for RootCause {}

#[cfg(test)]
mod tests {
    use super::*;

    fn request_line() -> RequestLine {
        let url =
            Url::parse("https://u:p@quay.io:8443/v2/a/blobs/uploads/1?_state=secret").unwrap();
        RequestLine::new(&Method::PUT, &url)
    }

    fn status(code: u16) -> Error {
        let status = StatusCode::from_u16(code).unwrap();
        Error::Status {
            request_line: request_line(),
            status,
            error_body: ErrorBody::Nothing,
            retry_after: None,
        }
    }

    #[test]
    fn a_request_is_named_without_what_is_secret_in_its_address() {
        assert_eq!(request_line().to_string(), "PUT https://quay.io:8443/v2/a/blobs/uploads/1");
    }

    #[test]
    fn only_what_may_pass_is_tried_again() {
        for code in [408, 429, 500, 502, 503, 504] {
            assert!(status(code).is_retryable(), "{code}");
        }
        for code in [400, 404, 405, 413, 501 + 4] {
            assert!(!status(code).is_retryable(), "{code}");
        }
        let length = Error::Length { request_line: request_line(), wanted: 2, got: 1 };
        assert!(length.is_retryable());
        let digest = Digest::of(b"");
        let digest = Error::Digest { request_line: request_line(), wanted: digest, got: digest };
        assert!(digest.is_retryable() && digest.most_retries() == 2);
    }

    #[test]
    fn tls_alerts_about_the_connection_are_retried_and_refusals_are_not() {
        use rustls::{AlertDescription as Alert, Error as Tls};
        for (error, connecting, expected) in [
            (Tls::AlertReceived(Alert::InternalError), true, Fault::Alert),
            (Tls::AlertReceived(Alert::BadRecordMac), false, Fault::Alert),
            (Tls::DecryptError, false, Fault::Alert),
            (Tls::InvalidMessage(rustls::InvalidMessage::InvalidCcs), false, Fault::Alert),
            (Tls::InvalidMessage(rustls::InvalidMessage::InvalidCcs), true, Fault::NotTls),
            (Tls::AlertReceived(Alert::HandshakeFailure), true, Fault::Handshake),
            (Tls::AlertReceived(Alert::CertificateRequired), false, Fault::Handshake),
            (Tls::AlertReceived(Alert::UnknownCA), false, Fault::Handshake),
            (Tls::AlertReceived(Alert::AccessDenied), false, Fault::Handshake),
        ] {
            assert_eq!(tls_fault(&error, connecting), expected, "{error:?} {connecting}");
        }
    }

    #[test]
    fn when_all_places_fail_each_is_reported() {
        let error =
            Error::Everywhere { name: "quay.io/a".into(), tried: vec![status(404), status(503)] };
        let text = error.to_string();
        assert!(
            text.contains("404 Not Found") && text.contains("503 Service Unavailable"),
            "{text}"
        );
        assert!(error.is_retryable());
    }
}
