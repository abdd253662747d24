//! A cluster with many nodes, as far as the API server knows.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Node;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::PartialObjectMeta;
use kube::{Api, Client, Config, ResourceExt as _};
use lab_cluster::kube::ApiServer;
use nmstate_api::{
    ASSIGNED_POLICIES, NodeNetworkConfigurationPolicy as Policy, NodeNetworkState, condition,
};
use serde_json::json;

/// Longer than anything takes.
const DEADLINE: Duration = Duration::from_secs(3600);
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// What a list of all objects adds to the interval, for each of them. A list that is requested as often
/// as a single object takes as much of the server as the handlers do.
const LISTED: Duration = Duration::from_millis(2);
/// Policies that are not Available yet, at most. More of them would wait for the server, which must also
/// respond to the coordinator in time.
const MOST_IN_PROGRESS: usize = 100;
/// Requests at the same time.
const REQUESTS: usize = 16;
const POLICY: &str = "rollout";
const HOSTNAME: &str = "kubernetes.io/hostname";

pub(crate) struct Cluster {
    config: Config,
    names: Vec<String>,
}

impl Cluster {
    pub(crate) async fn prepare(server: &ApiServer, nodes: usize) -> Result<Self> {
        for crd in nmstate_api::crd::all() {
            server.client().load_crd_text(&crd.to_string()).await?;
        }
        Self::with_nodes(server, nodes).await
    }

    /// A cluster that has the API already.
    pub(crate) async fn with_nodes(server: &ApiServer, nodes: usize) -> Result<Self> {
        let kubeconfig = Kubeconfig::read_from(server.kubeconfig())?;
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
        let names = (0..nodes).map(|number| format!("node-{number:04}")).collect();
        let cluster = Self { config, names };
        let client = cluster.client()?;
        stream::iter(&cluster.names)
            .map(|name| create_node(&client, name))
            .buffer_unordered(REQUESTS)
            .try_collect::<()>()
            .await?;
        Ok(cluster)
    }

    pub(crate) fn config(&self) -> Config {
        self.config.clone()
    }

    pub(crate) fn client(&self) -> Result<Client> {
        Client::try_from(self.config.clone()).context("making a client")
    }

    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Waits until all handlers have reported their networks.
    pub(crate) async fn wait_for_reports(&self) -> Result<()> {
        let reports: Api<PartialObjectMeta<NodeNetworkState>> = Api::all(self.client()?);
        let expected = self.names.len();
        wait("all nodes report", self.list_interval(), async || {
            // A status is the second version of an object.
            let list = reports.list(&cached()).await?;
            Ok(list.items.len() == expected)
        })
        .await?;
        // The second write of each report follows the first at once.
        tokio::time::sleep(Duration::from_secs(5)).await;
        Ok(())
    }

    /// The interval between two lists of objects of all nodes.
    fn list_interval(&self) -> Duration {
        let nodes = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        POLL_INTERVAL + LISTED.saturating_mul(nodes)
    }

    /// Waits until the coordinator has written the assignments of all nodes.
    pub(crate) async fn wait_until_assigned(&self) -> Result<()> {
        let reports: Api<PartialObjectMeta<NodeNetworkState>> = Api::all(self.client()?);
        wait("all nodes have their assignments", self.list_interval(), async || {
            let list = reports.list(&cached()).await?;
            let is_told = |it: &&PartialObjectMeta<NodeNetworkState>| {
                it.annotations().contains_key(ASSIGNED_POLICIES)
            };
            Ok(list.items.iter().filter(is_told).count() == self.names.len())
        })
        .await
    }

    /// Creates a policy for each node, and waits until all are Available. What a handler receives does not
    /// depend on how many policies of other nodes are in progress.
    pub(crate) async fn apply_policy_of_each(&self) -> Result<()> {
        let policies: Api<Policy> = Api::all(self.client()?);
        let mut created = 0;
        wait("all policies are Available", self.list_interval(), async || {
            let list = policies.list(&cached()).await?;
            let is_done = |it: &&Policy| {
                condition::is_true(it.conditions(), nmstate_api::PolicyConditionType::Available)
            };
            let done = list.items.iter().filter(is_done).count();
            let next = self.names.len().min(done + MOST_IN_PROGRESS).max(created);
            create_policies(&policies, &self.names[created..next]).await?;
            created = next;
            Ok(done == self.names.len())
        })
        .await
    }

    pub(crate) async fn create_policy(&self) -> Result<()> {
        let mut policy = Policy::new(POLICY);
        policy.spec.desired_state = serde_json::from_value(json!({
            "interfaces": [{"name": "nic1", "type": "ethernet", "state": "up", "mtu": 1400}],
        }))?;
        Api::all(self.client()?).create(&PostParams::default(), &policy).await?;
        Ok(())
    }

    pub(crate) async fn wait_until_available(&self) -> Result<()> {
        let policies: Api<Policy> = Api::all(self.client()?);
        wait("the policy is Available", POLL_INTERVAL, async || {
            let policy = policies.get(POLICY).await?;
            Ok(condition::is_true(policy.conditions(), nmstate_api::PolicyConditionType::Available))
        })
        .await
    }

    /// Waits until one node has reported.
    pub(crate) async fn wait_for_report(&self, node: &str) -> Result<()> {
        let reports: Api<NodeNetworkState> = Api::all(self.client()?);
        wait("a node reports", POLL_INTERVAL, async || {
            let report = reports.get_opt(node).await?;
            Ok(report.is_some_and(|report| report.status.is_some()))
        })
        .await
    }
}

pub(crate) async fn create_node(client: &Client, name: &str) -> Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    let mut node = Node::default();
    node.metadata.name = Some(name.to_owned());
    node.metadata.labels = Some([(HOSTNAME.to_owned(), name.to_owned())].into());
    nodes.create(&PostParams::default(), &node).await.context("making a node")?;
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let merge = Patch::Merge(&ready);
    nodes
        .patch_status(name, &PatchParams::default(), &merge)
        .await
        .context("making a node ready")?;
    Ok(())
}

/// Creates a policy for each of these nodes.
async fn create_policies(policies: &Api<Policy>, nodes: &[String]) -> Result<()> {
    let created = stream::iter(nodes).map(|name| async move {
        let mut policy = Policy::new(&format!("of-{name}"));
        policy.spec.desired_state = serde_json::from_value(json!({
            "interfaces": [{"name": "nic1", "type": "ethernet", "state": "up", "mtu": 1400}],
        }))?;
        policy.spec.node_selector = [(HOSTNAME.to_owned(), name.clone())].into();
        policies.create(&PostParams::default(), &policy).await?;
        anyhow::Ok(())
    });
    created.buffer_unordered(REQUESTS).try_collect::<()>().await
}

/// Lists what the server has in memory; it need not read its store.
fn cached() -> ListParams {
    ListParams::default().match_any()
}

async fn wait(
    what: &str,
    interval: Duration,
    mut holds: impl AsyncFnMut() -> Result<bool>,
) -> Result<()> {
    let end = Instant::now() + DEADLINE;
    while !holds().await? {
        if Instant::now() > end {
            bail!("not within {} s: {what}", DEADLINE.as_secs());
        }
        tokio::time::sleep(interval).await;
    }
    Ok(())
}
