//! A running cluster, read and never changed.

mod connection;
pub(crate) mod objects;

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;

use connection::Connection;
pub(crate) use objects::Objects;

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
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.context("starting a runtime")?;
        runtime.block_on(async {
            Connection::open(self.kubeconfig.as_deref(), self.context.as_deref())
                .await?
                .objects()
                .await
        })
    }
}
