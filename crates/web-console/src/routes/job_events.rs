//! A job as server-sent events, until it ends.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::stream::{self, Stream, StreamExt};

use crate::app::App;
use crate::jobs::{Job, JobError, JobState, Jobs};
use crate::pages::jobs::{self, JobDetail};
use crate::pages::layout;
use crate::view::Fault;

const INTERVAL: Duration = Duration::from_secs(1);

/// A job, the end of its output, and whether there is more before it.
pub(super) fn read(jobs: &Jobs, number: u64) -> Result<(Job, String, bool), Fault> {
    let fault = |error: JobError| match error {
        JobError::Absent(_) => Fault::Absent(error.to_string()),
        error => Fault::failed("reading the job", &error),
    };
    let job = jobs.job(number).map_err(fault)?;
    let (output, is_cut) = jobs.output(number).map_err(fault)?;
    Ok((job, output, is_cut))
}

type Parts = Vec<(&'static str, String)>;

/// What was sent last, and whether that was the end.
struct Sent {
    parts: Parts,
    is_last: bool,
}

pub(super) async fn events(
    State(app): State<Arc<App>>,
    Path(number): Path<u64>,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let start = Sent { parts: Vec::new(), is_last: false };
    let changes = stream::unfold((app, start), move |(app, sent)| next(app, number, sent));
    let events = changes.flat_map(stream::iter).map(|(part, html)| {
        Ok(Event::default().event(part).data(if html.is_empty() { " " } else { &html }))
    });
    Sse::new(events).keep_alive(KeepAlive::default())
}

async fn next(app: Arc<App>, number: u64, mut sent: Sent) -> Option<(Parts, (Arc<App>, Sent))> {
    if sent.is_last {
        return None;
    }
    loop {
        if !sent.parts.is_empty() {
            tokio::select! {
                () = app.stop.cancelled() => return None,
                () = tokio::time::sleep(INTERVAL) => {}
            }
        }
        let jobs = app.jobs.clone();
        let found = tokio::task::spawn_blocking(move || read(&jobs, number)).await.ok()?;
        let (parts, is_last) = match &found {
            Ok((job, output, is_cut)) => {
                let detail = JobDetail { job, output, is_cut: *is_cut };
                let parts = vec![
                    ("state", jobs::job_state(job).into_string()),
                    ("controls", jobs::controls(job).into_string()),
                    ("output", jobs::output(&detail).into_string()),
                ];
                // Its exit code is written a moment after its end.
                (parts, matches!(job.state, JobState::Ended(_)))
            }
            Err(fault) => (vec![("state", layout::fault(fault).into_string())], true),
        };
        let mut changed: Parts =
            parts.iter().filter(|part| !sent.parts.contains(part)).cloned().collect();
        if is_last {
            // The browser would connect again otherwise.
            changed.push(("end", "end".to_owned()));
        }
        sent = Sent { parts, is_last };
        if !changed.is_empty() {
            return Some((changed, (app, sent)));
        }
    }
}
