//! Small documents from web servers: update graphs, signatures of releases.
//!
//! They come the same way as all else: through the proxies, with the
//! certificates and the patience of this side. Servers of documents are never
//! shown credentials, and their certificates are always checked: a name that
//! begins with `https://` means it.

use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Method, StatusCode};
use url::Url;

use crate::client::Client;
use crate::error::Error;
use crate::transport::{Outgoing, Protocol, Refusal, Verify};

/// What is asked for.
#[derive(Debug, Clone)]
pub struct DocumentRequest<'a> {
    pub url: &'a Url,
    /// The type of content that is due.
    pub accept: &'static str,
    /// The most bytes that are read.
    pub limit: u64,
}

impl Client {
    /// A whole document. `None`: the server says that it does not exist.
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
        let outgoing = Outgoing {
            method: Method::GET,
            url: request.url.clone(),
            headers,
            authorization: None,
            body: None,
            verify: Verify::Yes,
            protocol: Protocol::Any,
        };
        let answer = transport.exchange(outgoing, Some(transport.timeouts.stall)).await?;
        match answer.status() {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND | StatusCode::GONE => return Ok(None),
            _ => {
                let Refusal { asked, status, said, retry_after } = answer.refusal().await;
                return Err(Error::Answered { asked, status, said, retry_after });
            }
        }
        let web_page = answer
            .header(CONTENT_TYPE.as_str())
            .is_some_and(|kind| kind.trim_start().starts_with("text/html"));
        let announced = answer.content_length();
        let (asked, bytes) = answer.body(request.limit, &transport.counters).await?;
        if web_page {
            let what = "a web page came instead of what was asked for: a proxy or its log-in page answers in the server's place".to_owned();
            return Err(Error::Protocol { asked, what });
        }
        match announced {
            Some(wanted) if wanted != bytes.len() as u64 => {
                Err(Error::Length { asked, wanted, got: bytes.len() as u64 })
            }
            _ => Ok(Some(bytes)),
        }
    }
}
