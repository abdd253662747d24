//! Policies of the documents that nodes used at their first boot. Each is created once: an edit is
//! kept, and a deleted policy is not created again.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail};
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::api::{Api, ApiResource, DynamicObject, ListParams, PostParams};
use kube::core::PartialObjectMeta;
use kube::{Client, ResourceExt as _};
use machine_config::MachineConfig;
use nmstate_api::{NodeNetworkConfigurationPolicy as Policy, NodeNetworkState};
use nmstate_deployment::adoption::{self, Judgement, Progress};
use nmstate_deployment::names::{ADOPTED_NODES, NAMESPACE};
use serde_json::json;

use super::notes;
use crate::requests::{self, within};

/// MachineConfigs that administrators wrote have it, rendered ones do not.
pub(super) const ROLE_LABEL: &str = "machineconfiguration.openshift.io/role";
/// MachineConfigs are large; this many are kept in memory at a time.
const PAGE: u32 = 5;
/// Nodes that are checked in one reconciliation.
const MOST: usize = 50;

pub(super) fn machine_configs() -> ApiResource {
    ApiResource {
        group: "machineconfiguration.openshift.io".into(),
        version: "v1".into(),
        api_version: "machineconfiguration.openshift.io/v1".into(),
        kind: "MachineConfig".into(),
        plural: "machineconfigs".into(),
    }
}

/// Adopts documents, and caches which nodes it has evaluated and from which versions.
pub(super) struct Adopter {
    client: Client,
    judged: BTreeMap<String, Judged>,
    last: Progress,
}

/// Why there is no policy for a node, as of these versions of its report and of all
/// MachineConfigs.
struct Judged {
    by: (String, String),
    /// None if it has no document.
    why: Option<String>,
}

/// The input for the evaluation of a node.
struct Evidence {
    nodes: Vec<adoption::Node>,
    /// Versions of the reports of nodes.
    reports: BTreeMap<String, String>,
    /// One name for the versions of all MachineConfigs.
    configs: String,
}

impl Adopter {
    pub(super) fn new(client: Client) -> Self {
        Self { client, judged: BTreeMap::new(), last: Progress::default() }
    }

    /// Checks all nodes. Errors are reported and retried later.
    pub(super) async fn reconcile(&mut self) -> Progress {
        match self.try_reconcile().await {
            Ok(progress) => self.last = progress,
            Err(error) => {
                tracing::warn!("adopting br-ex: {error:#}");
                self.last.trouble = Some(requests::why(&error));
            }
        }
        self.last.clone()
    }

    /// Only nodes with changes are evaluated.
    async fn try_reconcile(&mut self) -> Result<Progress> {
        let mut adopted = self.adopted().await?;
        let evidence = self.evidence().await?;
        let is_due = |node: &&adoption::Node| {
            let by = evidence.by(&node.name);
            let held = self.judged.get(&node.name).map(|judged| &judged.by);
            !adopted.contains_key(&node.name) && by.is_some() && by.as_ref() != held
        };
        let due: Vec<&adoption::Node> = evidence.nodes.iter().filter(is_due).take(MOST).collect();
        let mut trouble = None;
        if !due.is_empty() {
            match self.documents().await? {
                Ok(configs) => {
                    let before = adopted.len();
                    let judged = self.judge_all(&due, &evidence, &configs, &mut adopted).await;
                    // The created policies are recorded even if another step failed.
                    if adopted.len() > before {
                        self.remember(&adopted).await?;
                    }
                    judged?;
                }
                Err(why) => trouble = Some(why),
            }
        }
        Ok(self.progress(&evidence, &adopted, trouble))
    }

    async fn judge_all(
        &mut self,
        due: &[&adoption::Node],
        evidence: &Evidence,
        configs: &[MachineConfig],
        adopted: &mut BTreeMap<String, String>,
    ) -> Result<()> {
        let reports: Api<NodeNetworkState> = Api::all(self.client.clone());
        for node in due {
            let doing = || format!("reading the NodeNetworkState {}", node.name);
            let report = within(reports.get_opt(&node.name)).await?.with_context(doing)?;
            let Some(report) = report else { continue };
            let by = (report.resource_version().unwrap_or_default(), evidence.configs.clone());
            let report = serde_json::to_value(&report).with_context(doing)?;
            let why = match adoption::judge(node, &report, configs) {
                Judgement::Adopt(policy) => match self.make(&policy).await? {
                    None => {
                        tracing::info!(
                            node = node.name,
                            policy = policy.name_any(),
                            "adopted br-ex"
                        );
                        adopted.insert(node.name.clone(), policy.name_any());
                        continue;
                    }
                    why => why,
                },
                Judgement::NoDocument => None,
                Judgement::Refused(why) => {
                    tracing::info!(node = node.name, "br-ex is not adopted: {why}");
                    Some(why)
                }
            };
            self.judged.insert(node.name.clone(), Judged { by, why });
        }
        Ok(())
    }

    /// Creates a policy. Returns why there is none for this node in the end.
    async fn make(&self, policy: &Policy) -> Result<Option<String>> {
        let policies: Api<Policy> = Api::all(self.client.clone());
        let name = policy.name_any();
        let doing = || format!("making the policy {name}");
        match within(policies.create(&PostParams::default(), policy)).await? {
            // A user created it, or we did and were interrupted.
            Err(kube::Error::Api(status)) if status.code == 409 => {
                let there = within(policies.get_opt(&name)).await?.with_context(doing)?;
                let is_other = there.is_some_and(|there| !adoption::is_for(&there, policy));
                Ok(is_other.then(|| format!("the policy {name} is there, and for other nodes")))
            }
            result => result.map(|_| None).with_context(doing),
        }
    }

    async fn evidence(&self) -> Result<Evidence> {
        let all = ListParams::default();
        let nodes: Api<Node> = Api::all(self.client.clone());
        let nodes = within(nodes.list_metadata(&all)).await?.context("listing nodes")?;
        let reports: Api<NodeNetworkState> = Api::all(self.client.clone());
        let reports =
            within(reports.list_metadata(&all)).await?.context("listing NodeNetworkStates")?;
        let configs: Api<DynamicObject> = Api::all_with(self.client.clone(), &machine_configs());
        let configs = match within(configs.list_metadata(&all.labels(ROLE_LABEL))).await? {
            Err(kube::Error::Api(status)) if status.code == 404 => {
                bail!("this cluster does not have the MachineConfig API")
            }
            list => list.context("listing MachineConfigs")?,
        };
        let version = |config: &PartialObjectMeta<DynamicObject>| {
            format!("{}={}", config.name_any(), config.resource_version().unwrap_or_default())
        };
        let mut configs: Vec<String> = configs.items.iter().map(version).collect();
        configs.sort();
        Ok(Evidence {
            nodes: nodes.items.iter().map(|node| adoption::Node::of(&node.metadata)).collect(),
            reports: reports
                .items
                .iter()
                .map(|report| (report.name_any(), report.resource_version().unwrap_or_default()))
                .collect(),
            configs: configs.join(" "),
        })
    }

    /// The MachineConfigs with documents, or which of them cannot be read.
    async fn documents(&self) -> Result<Result<Vec<MachineConfig>, String>> {
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &machine_configs());
        let mut page = ListParams::default().labels(ROLE_LABEL).limit(PAGE);
        let mut found = Vec::new();
        loop {
            let list = within(api.list(&page)).await?.context("reading MachineConfigs")?;
            for config in list.items {
                let mut object = config.data;
                object["apiVersion"] = json!(machine_configs().api_version);
                object["kind"] = json!("MachineConfig");
                object["metadata"] = json!({
                    "name": config.metadata.name,
                    "labels": config.metadata.labels,
                });
                match adoption::documents(&object) {
                    Ok(documents) => found.extend(documents),
                    Err(why) => return Ok(Err(why)),
                }
            }
            match list.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page = page.continue_token(&token),
                None => return Ok(Ok(found)),
            }
        }
    }

    fn progress(
        &mut self,
        evidence: &Evidence,
        adopted: &BTreeMap<String, String>,
        trouble: Option<String>,
    ) -> Progress {
        let mut progress = Progress { adopted: adopted.len(), trouble, ..Progress::default() };
        for node in evidence.nodes.iter().filter(|node| !adopted.contains_key(&node.name)) {
            match self.judged.get(&node.name).map(|judged| &judged.why) {
                Some(Some(why)) => {
                    progress.refused.insert(node.name.clone(), why.clone());
                }
                Some(None) => progress.without_document += 1,
                None => progress.waiting += 1,
            }
        }
        // Deleted nodes are removed from the cache.
        self.judged.retain(|name, _| evidence.nodes.iter().any(|node| node.name == *name));
        progress
    }

    async fn adopted(&self) -> Result<BTreeMap<String, String>> {
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), NAMESPACE);
        let map = within(maps.get_opt(ADOPTED_NODES))
            .await?
            .with_context(|| format!("reading the ConfigMap {ADOPTED_NODES}"))?;
        Ok(map.and_then(|map| map.data).unwrap_or_default())
    }

    async fn remember(&self, adopted: &BTreeMap<String, String>) -> Result<()> {
        notes::write(&self.client, ADOPTED_NODES, adopted.clone()).await
    }
}

impl Evidence {
    /// The versions of the objects from which a node is evaluated, once it has reported.
    fn by(&self, node: &str) -> Option<(String, String)> {
        self.reports.get(node).map(|report| (report.clone(), self.configs.clone()))
    }
}
