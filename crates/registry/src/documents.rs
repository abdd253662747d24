//! Small documents from web servers: update graphs, signatures of releases, charts.
//!
//! They use the proxies, certificates and retries of this side. Public servers are never sent
//! credentials, and their certificates are always verified. Private ones, such as chart
//! repositories, are treated like registries.

use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Method, StatusCode};
use url::Url;

use crate::authfile::Secret;
use crate::client::Client;
use crate::error::Error;
use crate::location::Location;
use crate::settings::CredentialSource;
use crate::token::{basic, bearer};
use crate::transport::{Outgoing, Protocol, Refusal, Verify};

/// Stands for the path of a URL that cannot be the name of a repository.
const NO_REPOSITORY: &str = "index";

/// A request.
#[derive(Debug, Clone)]
pub struct DocumentRequest<'a> {
    pub url: &'a Url,
    /// The expected type of content.
    pub accept: &'static str,
    /// The most bytes that are read.
    pub limit: u64,
    pub access: Access,
}

/// What a server of documents is sent beside the request, and whether it is verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// No credentials; certificates are always verified.
    Public,
    /// As for registries: the credentials and the TLS settings of this side. Credentials that are
    /// part of the URL take precedence.
    Private,
    /// As `Private`, for a URL that another server named: credentials that were given for all
    /// servers are not sent.
    Linked,
}

impl Client {
    /// A whole document. `None`: the server responds that it does not exist.
    pub async fn document(&self, request: DocumentRequest<'_>) -> Result<Option<Vec<u8>>, Error> {
        let session = self.session();
        let counters = &session.transport.counters;
        let attempt = || self.document_once(&request);
        session.retry.run(counters, attempt).await
    }

    async fn document_once(&self, request: &DocumentRequest<'_>) -> Result<Option<Vec<u8>>, Error> {
        let transport = &self.session().transport;
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static(request.accept));
        let mut url = request.url.clone();
        // Sent as a header, so that no error message shows them.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        let is_verified = request.access == Access::Public || self.session().tls_verify;
        let outgoing = Outgoing {
            method: Method::GET,
            url,
            headers,
            authorization: self.document_authorization(request).await?,
            body: None,
            verify: if is_verified { Verify::Yes } else { Verify::No },
            protocol: Protocol::Any,
        };
        let response = transport.exchange(outgoing, Some(transport.timeouts.stall)).await?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND | StatusCode::GONE => return Ok(None),
            _ => {
                let Refusal { request_line, status, error_body, retry_after } =
                    response.refusal().await;
                return Err(Error::ServerStatus { request_line, status, error_body, retry_after });
            }
        }
        let web_page = response
            .header(CONTENT_TYPE.as_str())
            .is_some_and(|kind| kind.trim_start().starts_with("text/html"));
        let announced = response.content_length();
        let (request_line, bytes) = response.body(request.limit, &transport.counters).await?;
        if web_page {
            let what = "a web page arrived instead of the document: a proxy or its log-in page responds in place of the server".to_owned();
            return Err(Error::Protocol { request_line, what });
        }
        match announced {
            Some(wanted) if wanted != bytes.len() as u64 => {
                Err(Error::Length { request_line, wanted, got: bytes.len() as u64 })
            }
            _ => Ok(Some(bytes)),
        }
    }

    async fn document_authorization(
        &self,
        request: &DocumentRequest<'_>,
    ) -> Result<Option<HeaderValue>, Error> {
        if request.access == Access::Public {
            return Ok(None);
        }
        if let Some(secret) = login_in(request.url) {
            return Ok(basic(&secret));
        }
        let credentials = &self.session().credentials;
        let is_for_all = matches!(
            credentials.source(),
            CredentialSource::User { .. } | CredentialSource::Token(_)
        );
        if request.access == Access::Linked && is_for_all {
            return Ok(None);
        }
        let Some(at) = location_of(request.url) else { return Ok(None) };
        let found = credentials.find(&at).await?;
        Ok(found.secret.and_then(|secret| match &secret {
            Secret::Bearer(token) => bearer(token),
            secret => basic(secret),
        }))
    }
}

/// The user and the password of a URL.
fn login_in(url: &Url) -> Option<Secret> {
    let password = url.password()?;
    Some(Secret::Password { user: decoded(url.username()), password: decoded(password) })
}

/// Text without percent-encoding.
fn decoded(text: &str) -> String {
    // Forms write a blank as `+`, which other parts of a URL do not.
    let pair = format!("={}", text.replace('+', "%2B").replace('&', "%26"));
    let value = url::form_urlencoded::parse(pair.as_bytes()).next();
    value.map(|(_, value)| value.into_owned()).unwrap_or_default()
}

/// The name that files of credentials have for a URL.
fn location_of(url: &Url) -> Option<Location> {
    let host = url.host_str()?;
    let registry = match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    };
    let path = url.path().trim_matches('/').parse();
    let repository = path.or_else(|_| NO_REPOSITORY.parse()).ok()?;
    Some(Location { registry: registry.parse().ok()?, repository })
}
