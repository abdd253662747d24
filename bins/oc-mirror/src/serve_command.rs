//! `oc-mirror serve`: a workspace as a read-only registry.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serve::{Loaded, Options, Server, WorkspaceSource};
use tokio_util::sync::CancellationToken;
use workspace::Workspace;

use crate::arguments::ServeArguments;
use crate::interrupt::{self, Ended};
use crate::{listener, route};

/// How often the workspace is checked for runs that ended.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

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
    let source = WorkspaceSource::new(Workspace::open(&dir));
    let Loaded { snapshot, revision, .. } = load(&source, &dir)?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    let options = Options { tls, ..Options::default() };
    let runtime = crate::runtime().context("starting threads")?;
    let ended = runtime.block_on(async {
        let server = Server::bind(address, snapshot, options).await?;
        tracing::info!("serving {} at {scheme}://{}", dir.display(), server.local_addr());
        let follow = source.follow(server.snapshot(), revision, POLL_INTERVAL);
        let serve = |cancel: CancellationToken| async move {
            tokio::select! {
                () = server.run(async move { cancel.cancelled().await }) => {}
                () = follow => {}
            }
        };
        let ended = interrupt::until_ended(serve).await.context("waiting for signals")?;
        anyhow::Ok(ended)
    })?;
    runtime.shutdown_background();
    // A server is ended by a signal: that is its success.
    match ended {
        Ended::Result(()) | Ended::Abandoned => Ok(()),
    }
}

/// Reads the images of the workspace; each has the names it would have in a target.
fn load(source: &WorkspaceSource, dir: &Path) -> anyhow::Result<Loaded> {
    let loaded =
        source.load().with_context(|| format!("reading the workspace {}", dir.display()))?;
    loaded.log_warnings();
    let repositories = loaded.snapshot.repositories().count();
    if repositories == 0 && loaded.warnings.is_empty() {
        bail!(
            "{} holds no images; mirror to it first: \
             oc-mirror -c FILE file://DIR",
            dir.display()
        );
    }
    tracing::info!("repositories: {repositories}");
    Ok(loaded)
}
