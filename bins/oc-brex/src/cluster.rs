//! A running cluster, read and never changed.

pub(crate) mod objects;

use std::env;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use br_ex::node_state::NodeState;
use clap::Args;
use cluster_connection::{
    Completeness, Connection, KubeconfigPaths, ListError, Listing, default_paths,
};
use command_line::print_message;

pub(crate) use objects::{Kind, Objects};

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

/// A cluster in place of files, where a command reads files as well.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ClusterSource {
    /// Read the running cluster; nothing is changed there
    #[arg(long)]
    pub(crate) cluster: bool,
    /// With --cluster: its kubeconfig [default: $KUBECONFIG, or ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// With --cluster: the context of the kubeconfig [default: the current one]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

impl ClusterSource {
    /// Reads these kinds, the first of which must be readable; `None` without --cluster.
    pub(crate) fn read(&self, kinds: &[Kind]) -> Result<Option<Objects>> {
        if !self.cluster {
            // A cluster that is named and not read would be ignored silently.
            if self.kubeconfig.is_some() || self.context.is_some() {
                bail!("--kubeconfig and --context: no cluster is read; give --cluster as well");
            }
            return Ok(None);
        }
        let (kubeconfig, context) = (self.kubeconfig.clone(), self.context.clone());
        ClusterArguments { kubeconfig, context }.read_kinds(kinds).map(Some)
    }
}

impl ClusterArguments {
    /// Whether a cluster is named.
    pub(crate) fn is_given(&self) -> bool {
        self.kubeconfig.is_some() || self.context.is_some()
    }

    /// Reads everything about br-ex that the cluster has. Kinds that it does not have, or that the
    /// account may not list, are noted in the result.
    pub(crate) fn read(&self) -> Result<Objects> {
        self.read_kinds(&Kind::ALL)
    }

    /// The current network of a node, by its name or its short name.
    pub(crate) fn state_of(&self, node: &str) -> Result<NodeState> {
        self.read_kinds(&[Kind::NodeStates])?.take_state(node)
    }

    /// Reads these kinds. Without rights to list the first one there is nothing to report; every other
    /// kind can be missing.
    pub(crate) fn read_kinds(&self, kinds: &[Kind]) -> Result<Objects> {
        let variable = env::var_os("KUBECONFIG");
        let default = default_paths(variable.as_deref(), env::var_os("HOME").as_deref());
        let paths = KubeconfigPaths { named: self.kubeconfig.as_deref(), default: &default };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.context("starting a runtime")?;
        let objects = runtime.block_on(async {
            list(&Connection::connect(paths, self.context.as_deref()).await?, kinds).await
        })?;
        for note in &objects.notes {
            print_message(&format!("note: {note}"));
        }
        Ok(objects)
    }
}

async fn list(connection: &Connection, kinds: &[Kind]) -> Result<Objects> {
    let mut objects = Objects::default();
    let address = connection.address();
    for kind in kinds.iter().copied() {
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
            Err(ListError::Forbidden(message)) if kinds.first() == Some(&kind) => bail!(
                "listing {kind} at {address}: {message}; the ClusterRole in \
                 examples/brex-cluster-reader.yaml has the necessary rights"
            ),
            Err(ListError::Forbidden(message)) => objects.note_forbidden(kind, &message),
            Err(error @ ListError::Unauthorized { .. }) => return Err(error.into()),
            Err(ListError::Failed(cause)) => bail!(
                "listing {kind} at {address}: {cause}; check that this machine reaches the API server \
                 (address, VPN, proxy), or give another --kubeconfig or --context"
            ),
        }
    }
    Ok(objects)
}
