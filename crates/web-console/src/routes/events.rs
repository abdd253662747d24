//! The run in progress as server-sent events: pieces of the page, each when it changed.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::stream::{self, Stream, StreamExt};
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::pages::{layout, runs};
use crate::view::live::Follower;

/// How often the journal is read.
const INTERVAL: Duration = Duration::from_secs(1);

struct Sender {
    follower: Follower,
    /// What was sent last, by the name of the part.
    sent: Vec<(&'static str, String)>,
    stop: CancellationToken,
}

pub(super) async fn events(
    State(app): State<Arc<App>>,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let follower = Follower::new(app.place.workspace.clone());
    let sender = Sender { follower, sent: Vec::new(), stop: app.stop.clone() };
    let changes = stream::unfold(sender, |sender| sender.next());
    let events = changes
        .flat_map(stream::iter)
        .map(|(part, html)| Ok(Event::default().event(part).data(html)));
    Sse::new(events).keep_alive(KeepAlive::default())
}

impl Sender {
    /// Waits for the next change. `None` ends the stream.
    async fn next(mut self) -> Option<(Vec<(&'static str, String)>, Self)> {
        loop {
            if !self.sent.is_empty() {
                tokio::select! {
                    () = self.stop.cancelled() => return None,
                    () = tokio::time::sleep(INTERVAL) => {}
                }
            }
            let Self { mut follower, sent, stop } = self;
            let read = tokio::task::spawn_blocking(move || {
                let now = follower.read();
                (follower, now)
            });
            let (follower, now) = read.await.ok()?;
            let parts = match now {
                Ok(now) => vec![
                    ("state", runs::state(&now).into_string()),
                    ("progress", runs::progress(&now).into_string()),
                    ("controls", runs::controls(&now).into_string()),
                ],
                Err(fault) => vec![("state", layout::fault(&fault).into_string())],
            };
            let changed: Vec<_> =
                parts.iter().filter(|part| !sent.contains(part)).cloned().collect();
            self = Self { follower, sent: parts, stop };
            if !changed.is_empty() {
                return Some((changed, self));
            }
        }
    }
}
