//! Downloads of blobs: a stream that continues where it was interrupted.

use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream::try_unfold;
use http::header::{HeaderValue, RANGE};
use http::{Method, StatusCode};
use oci::Digest;

use crate::client::{Blob, Client};
use crate::error::Error;
use crate::location::Location;
use crate::registries_conf::RequestKind;
use crate::session::{Call, HostRepository};
use crate::throttle::{Lane, Permit};
use crate::token::Scope;
use crate::transport::{Protocol, Response};

/// Bytes that a connection must transfer for its end to count as an accident. With less, a
/// registry that disconnects after a few bytes each time would be sent requests forever.
const GETTING_AHEAD: u64 = 32 << 10;

impl Client {
    /// Whether a repository holds a blob.
    pub async fn has_blob(&self, at: &Location, digest: &Digest) -> Result<bool, Error> {
        let found = self
            .session()
            .everywhere(at, RequestKind::Content, |spot| async move {
                let call = call(Method::HEAD, &spot, digest);
                let response = self.session().send_small(&spot, &call).await?;
                match response.status() {
                    status if status.is_success() => Ok(Some(())),
                    StatusCode::NOT_FOUND => Ok(None),
                    _ => Err(response.refusal().await.into()),
                }
            })
            .await?;
        Ok(found.is_some())
    }

    /// A blob from `offset` to its end. The stream gives exactly the bytes
    /// that are missing, or an error; a broken connection is opened again
    /// from where it broke. The caller checks the digest.
    ///
    /// The stream holds one of the places a registry gives us until it ends or
    /// is dropped, so a caller must not wait with it for another transfer of
    /// the same client.
    pub async fn blob(
        &self,
        from: &Location,
        blob: Blob,
        offset: u64,
    ) -> Result<BlobStream, Error> {
        let broken = Broken { times: 0, at: offset };
        let (client, from) = (self.clone(), from.clone());
        let mut stream = BlobStream { client, from, blob, offset, open: None, broken };
        if offset < blob.size {
            let session = self.session();
            let counters = &session.transport.counters;
            stream.open = Some(session.retry.run(counters, || stream.reopen()).await?);
        }
        Ok(stream)
    }
}

fn call(method: Method, spot: &HostRepository, digest: &Digest) -> Call {
    let repository = &spot.at.repository;
    Call::new(method, format!("{repository}/blobs/{digest}"), Scope::pull(repository))
}

/// A blob that is being downloaded. See [`Client::blob`].
#[derive(Debug)]
pub struct BlobStream {
    client: Client,
    from: Location,
    blob: Blob,
    /// How much has been given, counted from the blob's start.
    offset: u64,
    open: Option<Open>,
    broken: Broken,
}

/// How often a stream broke without getting ahead in between.
#[derive(Debug, Clone, Copy, Default)]
struct Broken {
    times: u32,
    /// Where it broke the first of these times.
    at: u64,
}

impl Broken {
    /// Takes note of a failure at `offset`; the number of failures before it
    /// that count.
    fn again(&mut self, offset: u64) -> u32 {
        if offset - self.at >= GETTING_AHEAD {
            *self = Self { times: 0, at: offset };
        }
        self.times += 1;
        self.times - 1
    }
}

#[derive(Debug)]
struct Open {
    response: Response,
    /// Bytes to come that were given before: the registry did not heed the range.
    skip: u64,
    _place: Permit,
}

impl BlobStream {
    /// The next bytes; `None` after the last.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            match self.step().await {
                Ok(chunk) => return Ok(chunk),
                Err(error) => {
                    self.open = None;
                    let failed = self.broken.again(self.offset);
                    let session = self.client.session();
                    let Some(pause) = session.retry.after(failed, &error) else {
                        return Err(error.after_attempts(failed + 1));
                    };
                    session.retry.wait(&session.transport.counters, failed, &error, pause).await;
                }
            }
        }
    }

    /// The same as a stream.
    pub fn into_stream(self) -> impl Stream<Item = Result<Bytes, Error>> + Send + 'static {
        try_unfold(
            self,
            |mut blob| async move { Ok(blob.chunk().await?.map(|chunk| (chunk, blob))) },
        )
    }

    async fn step(&mut self) -> Result<Option<Bytes>, Error> {
        if self.open.is_none() && self.offset < self.blob.size {
            self.open = Some(self.reopen().await?);
        }
        let Some(open) = &mut self.open else { return Ok(None) };
        let missing = self.blob.size - self.offset;
        loop {
            let mut chunk = match open.response.chunk().await {
                Ok(Some(chunk)) => chunk,
                // However the connection ends, everything expected has arrived.
                Ok(None) | Err(_) if missing == 0 => {
                    self.open = None;
                    return Ok(None);
                }
                Err(error) => return Err(error),
                Ok(None) => {
                    let request_line = open.response.request_line.clone();
                    return Err(Error::Length {
                        request_line,
                        wanted: self.blob.size,
                        got: self.offset,
                    });
                }
            };
            self.client.session().transport.counters.received(chunk.len());
            let skipped = open.skip.min(chunk.len() as u64);
            open.skip -= skipped;
            let _ = chunk.split_to(usize::try_from(skipped).unwrap_or(chunk.len()));
            if chunk.is_empty() {
                continue;
            }
            let length = chunk.len() as u64;
            if length > missing {
                // Asking again would give the same: a blob that is not what
                // its manifest states.
                let request_line = open.response.request_line.clone();
                let what = format!("more than the expected {} bytes", self.blob.size);
                return Err(Error::Protocol { request_line, what });
            }
            self.offset += length;
            return Ok(Some(chunk));
        }
    }

    async fn reopen(&self) -> Result<Open, Error> {
        let attempt = |spot| self.open_at(spot);
        let open = self.client.session().once(&self.from, RequestKind::Content, attempt).await?;
        open.ok_or_else(|| Error::Absent { place: format!("{}@{}", self.from, self.blob.digest) })
    }

    async fn open_at(&self, spot: HostRepository) -> Result<Option<Open>, Error> {
        let place = spot.host.throttle.enter(Lane::Transfer).await;
        let mut call = call(Method::GET, &spot, &self.blob.digest);
        call.protocol = Protocol::Http1;
        if self.offset > 0 {
            let range = HeaderValue::from_str(&format!("bytes={}-", self.offset));
            if let Ok(range) = range {
                call.headers.insert(RANGE, range);
            }
        }
        let response = self.client.session().send(&spot, &place, &call).await?;
        let skip = match response.status() {
            StatusCode::OK => self.offset,
            StatusCode::PARTIAL_CONTENT if self.offset > 0 => {
                let start = response.header("content-range").and_then(range_start);
                if start != Some(self.offset) {
                    return Err(response.broken("another range than requested"));
                }
                0
            }
            StatusCode::NOT_FOUND => return Ok(None),
            _ => return Err(response.refusal().await.into()),
        };
        let due = self.blob.size - self.offset + skip;
        match response.content_length() {
            Some(length) if length != due => {
                Err(Error::Length { request_line: response.request_line, wanted: due, got: length })
            }
            _ => Ok(Some(Open { response, skip, _place: place })),
        }
    }
}

/// The first number of `bytes 5-9/10`.
fn range_start(value: &str) -> Option<u64> {
    value.strip_prefix("bytes ")?.split('-').next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_count_until_the_stream_gets_ahead() {
        let mut broken = Broken { times: 0, at: 1000 };
        let counted: Vec<u32> = [1000, 1010, 40_000, 40_010].map(|at| broken.again(at)).into();
        assert_eq!(counted, [0, 1, 0, 1]);
    }

    #[test]
    fn the_start_of_a_range_is_read() {
        for (value, expected) in [
            ("bytes 5-9/10", Some(5)),
            ("bytes 0-0/*", Some(0)),
            ("bytes */10", None),
            ("5-9", None),
        ] {
            assert_eq!(range_start(value), expected, "{value}");
        }
    }
}
