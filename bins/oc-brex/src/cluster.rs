//! A running cluster, read and never changed.

pub(crate) mod objects;

use std::env;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use cluster_connection::{
    Completeness, Connection, KubeconfigPaths, ListError, Listing, default_paths,
};
use command_line::say;

use objects::Kind;
pub(crate) use objects::Objects;

/// Objects per request: rendered MachineConfigs are large.
const PAGE: u32 = 50;

/// Which cluster is read.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ClusterArguments {
    /// Kubeconfig of the cluster [default: $KUBECONFIG, or ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: the current one]
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
}

impl ClusterArguments {
    /// Reads everything about br-ex that the cluster has. Kinds that it does not have, or that the
    /// account may not list, are noted in the result.
    pub(crate) fn read(&self) -> Result<Objects> {
        let variable = env::var_os("KUBECONFIG");
        let default = default_paths(variable.as_deref(), env::var_os("HOME").as_deref());
        let paths = KubeconfigPaths { named: self.kubeconfig.as_deref(), default: &default };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.context("starting a runtime")?;
        let objects = runtime.block_on(async {
            list_all(&Connection::connect(paths, self.context.as_deref()).await?).await
        })?;
        for note in &objects.notes {
            say(&format!("note: {note}"));
        }
        Ok(objects)
    }
}

/// Without nodes there is nothing to report; every other kind can be missing.
async fn list_all(connection: &Connection) -> Result<Objects> {
    let mut objects = Objects::default();
    let address = connection.address();
    for kind in Kind::ALL {
        let listing = Listing {
            path: kind.path(),
            label_selector: None,
            page_size: PAGE,
            first_page_only: false,
        };
        let mut items = Vec::new();
        let listed = connection.list(listing, |object| {
            if kind.is_of_interest(&object) {
                items.push(object);
            }
        });
        match listed.await {
            Ok(Completeness::Complete) => objects.add(kind, items)?,
            Ok(Completeness::Endless) => {
                bail!("listing {kind} at {address}: the list does not end")
            }
            Err(ListError::Missing) => objects.note_absent(kind),
            Err(ListError::Forbidden(message)) => {
                ensure!(
                    kind != Kind::Nodes,
                    "listing nodes at {address}: {message}; the ClusterRole in \
                     examples/brex-cluster-reader.yaml has the necessary rights"
                );
                objects.note_forbidden(kind, &message);
            }
            Err(error @ ListError::Unauthorized { .. }) => return Err(error.into()),
            Err(ListError::Failed(cause)) => bail!("listing {kind} at {address}: {cause}"),
        }
    }
    Ok(objects)
}
