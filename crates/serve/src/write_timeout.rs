//! A connection whose client must keep reading. A client that requests
//! a layer and then does not read would otherwise occupy a connection slot forever.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// Wraps `inner`; a write without progress for `limit` fails with
/// [`io::ErrorKind::TimedOut`]. Reads have no limit here: waiting for the next
/// request has its own limit.
#[derive(Debug)]
pub(crate) struct WriteTimeout<T> {
    inner: T,
    limit: Duration,
    /// Runs while a write waits.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<T> WriteTimeout<T> {
    pub(crate) fn new(inner: T, limit: Duration) -> Self {
        Self { inner, limit, deadline: None }
    }

    fn watch<R>(
        &mut self,
        cx: &mut Context<'_>,
        progress: Poll<io::Result<R>>,
    ) -> Poll<io::Result<R>> {
        if progress.is_ready() {
            self.deadline = None;
            return progress;
        }
        let limit = self.limit;
        let deadline = self
            .deadline
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + limit)));
        ready!(deadline.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for WriteTimeout<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buffer)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let progress = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.watch(cx, progress)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let progress = Pin::new(&mut self.inner).poll_write_vectored(cx, pieces);
        self.watch(cx, progress)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let progress = Pin::new(&mut self.inner).poll_flush(cx);
        self.watch(cx, progress)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let progress = Pin::new(&mut self.inner).poll_shutdown(cx);
        self.watch(cx, progress)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    const LIMIT: Duration = Duration::from_millis(200);

    #[tokio::test(start_paused = true)]
    async fn a_write_fails_when_the_client_stops_reading() {
        let (ours, _theirs) = tokio::io::duplex(16);
        let mut ours = WriteTimeout::new(ours, LIMIT);
        let started = Instant::now();
        let error = ours.write_all(&[0; 64]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(started.elapsed() >= LIMIT);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_reader_is_served_for_as_long_as_it_reads() {
        let (ours, mut theirs) = tokio::io::duplex(16);
        let mut ours = WriteTimeout::new(ours, LIMIT);
        let reader = async {
            let mut all = Vec::new();
            let mut piece = [0; 16];
            while all.len() < 96 {
                tokio::time::sleep(LIMIT / 4).await;
                let count = theirs.read(&mut piece).await.unwrap();
                all.extend_from_slice(&piece[..count]);
            }
            all.len()
        };
        let (written, read) = tokio::join!(ours.write_all(&[7; 96]), reader);
        written.unwrap();
        assert_eq!(read, 96);
    }
}
