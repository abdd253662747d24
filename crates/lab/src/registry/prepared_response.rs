//! Responses, and how faults modify them.

use std::fmt::Display;
use std::io::{self, SeekFrom};
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt};
use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio_util::io::ReaderStream;

use super::fault::Effect;
use super::log::InFlight;

pub(crate) type Body = UnsyncBoxBody<Bytes, io::Error>;
type Pieces = BoxStream<'static, io::Result<Bytes>>;

/// How much of a file is read at once.
const FILE_PIECE: usize = 256 << 10;
/// How long a cut waits, so that what was sent before it leaves the machine.
const CUT_GRACE: Duration = Duration::from_millis(20);

pub(crate) const DIGEST_HEADER: HeaderName = HeaderName::from_static("docker-content-digest");

/// A response before it is sent.
#[derive(Debug)]
pub(crate) struct PreparedResponse {
    pub(crate) status: StatusCode,
    headers: Vec<(HeaderName, String)>,
    content: Content,
}

#[derive(Debug, Clone)]
pub(crate) enum Content {
    Bytes(Bytes),
    File { path: PathBuf, start: u64, length: u64 },
}

impl Content {
    fn length(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::File { length, .. } => *length,
        }
    }

    fn pieces(self) -> Pieces {
        match self {
            Self::Bytes(bytes) => stream::iter([Ok(bytes)]).boxed(),
            Self::File { path, start, length } => stream::once(async move {
                let mut file = tokio::fs::File::open(path).await?;
                file.seek(SeekFrom::Start(start)).await?;
                Ok::<_, io::Error>(ReaderStream::with_capacity(file.take(length), FILE_PIECE))
            })
            .flat_map(|opened| match opened {
                Ok(pieces) => pieces.boxed(),
                Err(error) => stream::iter([Err(error)]).boxed(),
            })
            .boxed(),
        }
    }
}

impl PreparedResponse {
    pub(crate) fn empty(status: StatusCode) -> Self {
        Self { status, headers: Vec::new(), content: Content::Bytes(Bytes::new()) }
    }

    pub(crate) fn json(status: StatusCode, document: &Value) -> Self {
        Self::empty(status)
            .with(header::CONTENT_TYPE, "application/json")
            .holding(Content::Bytes(document.to_string().into()))
    }

    /// A refusal in the form of the distribution API.
    pub(crate) fn refusal(status: StatusCode, code: &str, message: &str) -> Self {
        let error = json!({"code": code, "message": message, "detail": {}});
        Self::json(status, &json!({"errors": [error]}))
    }

    pub(crate) fn with(mut self, name: HeaderName, value: impl Display) -> Self {
        self.headers.retain(|(held, _)| *held != name);
        self.headers.push((name, value.to_string()));
        self
    }

    /// Makes a `Location` that is a path a whole address below `base`.
    pub(crate) fn with_location_below(mut self, base: &str) -> Self {
        for (name, value) in &mut self.headers {
            if *name == header::LOCATION && value.starts_with('/') {
                value.insert_str(0, base);
            }
        }
        self
    }

    pub(crate) fn with_status(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }

    pub(crate) fn holding(self, content: Content) -> Self {
        Self { content, ..self }
    }

    /// Turns this into an HTTP response. The request stays in flight until
    /// the last piece is sent.
    pub(crate) fn send(
        mut self,
        head_only: bool,
        effects: &[Effect],
        in_flight: InFlight,
    ) -> Response<Body> {
        let mut length = self.content.length();
        let mut pieces = match head_only {
            true => stream::empty().boxed(),
            false => self.content.clone().pieces(),
        };
        for effect in effects {
            match effect {
                Effect::WrongDigestHeader => {
                    let other = oci::Digest::of(b"not what was sent");
                    self = self.with(DIGEST_HEADER, other);
                }
                Effect::WrongContentType(value) => self = self.with(header::CONTENT_TYPE, value),
                Effect::ExtraBytes(extra) if !head_only => {
                    length += extra;
                    let more = Bytes::from(vec![b'x'; *extra as usize]);
                    pieces = pieces.chain(stream::iter([Ok(more)])).boxed();
                }
                Effect::WrongBytes => pieces = flip_first_bit(pieces),
                Effect::SlowBytesPerSecond(rate) => pieces = paced(pieces, *rate),
                Effect::CutAfter(count) if !head_only => {
                    let cut = async {
                        tokio::time::sleep(CUT_GRACE).await;
                        Err(io::Error::other("cut on demand"))
                    };
                    pieces = first(pieces, *count).chain(stream::once(cut)).boxed();
                }
                Effect::StallAfter(count) if !head_only => {
                    pieces = first(pieces, *count).chain(stream::pending()).boxed();
                }
                _ => {}
            }
        }
        let counted = pieces.map(move |piece| {
            piece.map(|bytes| {
                in_flight.sent(bytes.len() as u64);
                Frame::data(bytes)
            })
        });
        let mut response = Response::new(StreamBody::new(counted).boxed_unsync());
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        for (name, value) in self.headers {
            if let Ok(value) = HeaderValue::from_str(&value) {
                headers.insert(name, value);
            }
        }
        // 204 has no body, and no length.
        if self.status != StatusCode::NO_CONTENT {
            headers.insert(header::CONTENT_LENGTH, length.into());
        }
        response
    }
}

fn flip_first_bit(pieces: Pieces) -> Pieces {
    pieces
        .enumerate()
        .map(|(number, piece)| match piece {
            Ok(bytes) if number == 0 && !bytes.is_empty() => {
                let mut changed = bytes.to_vec();
                changed[0] ^= 1;
                Ok(changed.into())
            }
            other => other,
        })
        .boxed()
}

fn first(pieces: Pieces, count: u64) -> Pieces {
    pieces
        .scan(count, |left, piece| {
            let piece = piece.map(|bytes| {
                let kept = bytes.slice(..bytes.len().min(*left as usize));
                *left -= kept.len() as u64;
                kept
            });
            let spent = piece.as_ref().is_ok_and(Bytes::is_empty);
            std::future::ready((!spent).then_some(piece))
        })
        .boxed()
}

/// Ten pieces a second, each a tenth of the rate.
fn paced(pieces: Pieces, rate: u64) -> Pieces {
    let size = (rate / 10).max(1) as usize;
    let cut = move |bytes: Bytes| {
        let starts = (0..bytes.len()).step_by(size);
        stream::iter(
            starts
                .map(|start| bytes.slice(start..bytes.len().min(start + size)))
                .collect::<Vec<_>>(),
        )
    };
    pieces
        .flat_map(move |piece| match piece {
            Ok(bytes) => cut(bytes).map(Ok).boxed(),
            Err(error) => stream::iter([Err(error)]).boxed(),
        })
        .then(|piece| async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            piece
        })
        .boxed()
}

/// Faults that occur before there is a response, or replace it.
pub(crate) fn instead(effects: &[Effect], path_and_query: &str) -> Option<PreparedResponse> {
    effects.iter().find_map(|effect| match effect {
        Effect::Status(code, headers, body) => {
            let status = StatusCode::from_u16(*code).unwrap_or(StatusCode::IM_A_TEAPOT);
            let response =
                PreparedResponse::empty(status).holding(Content::Bytes(body.clone().into()));
            Some(headers.iter().fold(
                response,
                |response, (name, value)| match HeaderName::try_from(name.as_str()) {
                    Ok(name) => response.with(name, value),
                    Err(_) => response,
                },
            ))
        }
        Effect::RedirectTo(address) => {
            let location = format!("{}{path_and_query}", address.trim_end_matches('/'));
            let response = PreparedResponse::empty(StatusCode::TEMPORARY_REDIRECT);
            Some(response.with(header::LOCATION, location))
        }
        _ => None,
    })
}
