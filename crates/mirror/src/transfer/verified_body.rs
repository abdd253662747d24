//! A stream that checks what passes through it.

use bytes::Bytes;
use futures_util::stream::{BoxStream, StreamExt, unfold};
use oci::{Digest, Hasher};

/// What a body may fail with during the transfer.
pub(crate) type BodyError = Box<dyn std::error::Error + Send + Sync>;
pub(crate) type Body = BoxStream<'static, Result<Bytes, BodyError>>;

#[derive(Debug, thiserror::Error)]
#[error(
    "the content of {want} does not match its digest (found {got}); the source is damaged or sends wrong content"
)]
pub(crate) struct WrongContent {
    pub(crate) want: Digest,
    pub(crate) got: Digest,
}

/// Passes `body` on and holds its last piece back until the whole agrees with
/// `want`: a receiver never gets a complete but wrong blob.
pub(crate) fn verified(want: Digest, body: Body) -> Body {
    struct State {
        body: Body,
        held: Option<Bytes>,
        hasher: Option<Hasher>,
    }
    let start = State { body, held: None, hasher: Some(Hasher::new()) };
    unfold(start, move |mut state| async move {
        loop {
            let mut hasher = state.hasher.take()?;
            match state.body.next().await {
                Some(Ok(piece)) => {
                    hasher.update(&piece);
                    state.hasher = Some(hasher);
                    if let Some(before) = state.held.replace(piece) {
                        return Some((Ok(before), state));
                    }
                }
                Some(Err(error)) => return Some((Err(error), state)),
                None => {
                    let got = hasher.finish();
                    if got != want {
                        return Some((Err(WrongContent { want, got }.into()), state));
                    }
                    return state.held.take().map(|last| (Ok(last), state));
                }
            }
        }
    })
    .boxed()
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;

    fn body(pieces: &[&'static str]) -> Body {
        let pieces: Vec<_> = pieces.iter().map(|p| Ok(Bytes::from_static(p.as_bytes()))).collect();
        stream::iter(pieces).boxed()
    }

    async fn pass(want: Digest, pieces: &[&'static str]) -> (String, Option<String>) {
        let mut text = String::new();
        let mut stream = verified(want, body(pieces));
        while let Some(piece) = stream.next().await {
            match piece {
                Ok(piece) => text.push_str(std::str::from_utf8(&piece).unwrap()),
                Err(error) => return (text, Some(error.to_string())),
            }
        }
        (text, None)
    }

    #[tokio::test]
    async fn the_right_content_passes_unchanged() {
        let passed = pass(Digest::of(b"abcdef"), &["ab", "cd", "ef"]).await;
        assert_eq!(passed, ("abcdef".into(), None));
        assert_eq!(pass(Digest::of(b""), &[]).await, (String::new(), None));
    }

    #[tokio::test]
    async fn of_wrong_content_the_last_piece_never_arrives() {
        let (text, error) = pass(Digest::of(b"abcdef"), &["ab", "cd", "eX"]).await;
        assert_eq!(text, "abcd");
        assert!(error.unwrap().contains("does not match its digest"));
    }
}
