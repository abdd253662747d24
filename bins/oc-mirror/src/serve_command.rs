//! `oc-mirror serve`: a workspace as a read-only registry.

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use mirror_plan::{Destination, ImageRecord, Wanted};
use oci::Digest;
use serve::{NamedImage, Options, Server, Snapshot, Store};
use workspace::{BlobStore, Workspace};

use crate::arguments::ServeArguments;
use crate::interrupt::{self, Ended};
use crate::{listener, route};

/// Serves until a signal ends it.
pub(crate) fn serve(arguments: &ServeArguments) -> ExitCode {
    match try_serve(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn try_serve(arguments: &ServeArguments) -> anyhow::Result<()> {
    let dir =
        route::served_directory(&arguments.dir).map_err(|problem| anyhow::anyhow!("{problem}"))?;
    let address = listener::address(&arguments.listen)?;
    let tls = listener::tls(arguments.tls_cert.as_deref(), arguments.tls_key.as_deref())?;
    let snapshot = snapshot(&dir)?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    let options = Options { tls, ..Options::default() };
    let runtime = crate::runtime().context("starting threads")?;
    let ended = runtime.block_on(async {
        let server = Server::bind(address, snapshot, options).await?;
        tracing::info!("serving {} at {scheme}://{}", dir.display(), server.local_addr());
        let ended =
            interrupt::until_ended(|cancel| server.run(async move { cancel.cancelled().await }))
                .await
                .context("waiting for signals")?;
        anyhow::Ok(ended)
    })?;
    runtime.shutdown_background();
    // A server is ended by a signal: that is its success.
    match ended {
        Ended::Result(()) | Ended::Abandoned => Ok(()),
    }
}

/// Puts every image of the workspace on a snapshot, under the name it would have in a target.
fn snapshot(dir: &Path) -> anyhow::Result<Snapshot> {
    let workspace = Workspace::open(dir);
    let reading = || format!("reading the workspace {}", dir.display());
    let records = workspace.records().with_context(reading)?;
    let mut count = 0;
    let mut failure = None;
    // One record at a time: all of them at once would be the largest thing in memory.
    let images =
        records.map_while(|record| match record.map_err(Into::into).and_then(named_images) {
            Ok(names) => {
                count += 1;
                Some(names)
            }
            Err(error) => {
                failure = Some(error);
                None
            }
        });
    let images = images.flatten();
    let (snapshot, warnings) = Snapshot::new(Arc::new(Blobs(workspace.blobs().clone())), images);
    if let Some(error) = failure {
        return Err(error.context(reading()));
    }
    if count == 0 {
        bail!(
            "{} holds no images; mirror to it first: oc-mirror -c FILE file://DIR",
            dir.display()
        );
    }
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    tracing::info!(
        "{} in {} repositories",
        crate::quantity::count(count, "image"),
        snapshot.repositories().count()
    );
    Ok(snapshot)
}

/// An image under every name that configurations gave it.
fn named_images(record: ImageRecord) -> anyhow::Result<Vec<NamedImage>> {
    if !record.names.is_empty() {
        let named = |name: &Destination| NamedImage { name: name.clone(), record: record.clone() };
        return Ok(record.names.iter().map(named).collect());
    }
    // No configuration names it, so it has the name of its origin.
    let wanted = Wanted {
        kind: record.kind,
        origin: record.origin.clone(),
        target_repository: None,
        target_tag: None,
        platforms: Vec::new(),
    };
    Ok(vec![NamedImage { name: Destination::of(&wanted)?, record }])
}

/// The blobs of the workspace, as the server asks for them.
struct Blobs(BlobStore);

impl Store for Blobs {
    fn open(&self, digest: &Digest) -> io::Result<File> {
        self.0.open(digest).map_err(|error| io::Error::new(error.kind(), error))
    }
}
