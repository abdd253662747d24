//! News about what the operator acts on. Only that there are any is of interest: each look reads
//! the few objects afresh.

use futures_util::stream::{self, BoxStream, StreamExt as _};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use kube::api::{Api, ApiResource, DynamicObject};
use kube::core::PartialObjectMeta;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{Config, Event, watcher};
use kube::{Client, Resource};
use nmstate_api::{NMState, NodeNetworkConfigurationPolicy, NodeNetworkState};
use nmstate_deployment::names::{CLUSTER_OPERATOR, NAMESPACE, PART_OF, PART_OF_LABEL};
use serde::de::DeserializeOwned;

use super::adoption::{ROLE_LABEL, machine_configs};

/// OpenShift's kinds, which we know by name only.
pub(super) fn openshift(kind: &str, plural: &str) -> ApiResource {
    ApiResource {
        group: "config.openshift.io".into(),
        version: "v1".into(),
        api_version: "config.openshift.io/v1".into(),
        kind: kind.into(),
        plural: plural.into(),
    }
}

/// A stream that gives something whenever there may be something to do.
pub(super) fn open(client: &Client) -> BoxStream<'static, ()> {
    let named = |name: &str| Config::default().fields(&format!("metadata.name={name}"));
    let ours = || Config::default().labels(&format!("{PART_OF_LABEL}={PART_OF}"));
    let openshift =
        |kind, plural| Api::<DynamicObject>::all_with(client.clone(), &openshift(kind, plural));
    let daemon_sets: Api<DaemonSet> = Api::namespaced(client.clone(), NAMESPACE);
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), NAMESPACE);
    let policies: Api<PartialObjectMeta<NodeNetworkConfigurationPolicy>> = Api::all(client.clone());
    stream::select_all([
        whole(openshift("Infrastructure", "infrastructures"), named("cluster")),
        whole(openshift("ClusterOperator", "clusteroperators"), named(CLUSTER_OPERATOR)),
        whole(openshift("APIServer", "apiservers"), named("cluster")),
        whole(Api::<NMState>::all(client.clone()), Config::default()),
        whole(daemon_sets, ours()),
        whole(deployments, ours()),
        // Policies are many and large; that there is another is all we must know.
        whole(policies, Config::default()),
    ])
    .boxed()
}

/// The same about what nodes took their br-ex from, and about their networks.
pub(super) fn documents(client: &Client) -> BoxStream<'static, ()> {
    let configs: Api<PartialObjectMeta<DynamicObject>> =
        Api::all_with(client.clone(), &machine_configs());
    let reports: Api<PartialObjectMeta<NodeNetworkState>> = Api::all(client.clone());
    stream::select_all([
        whole(configs, Config::default().labels(ROLE_LABEL)),
        whole(reports, Config::default()),
    ])
    .boxed()
}

fn whole<K>(api: Api<K>, config: Config) -> BoxStream<'static, ()>
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    watcher(api, config).default_backoff().filter_map(|event| async move { told(event) }).boxed()
}

/// A watch that failed goes on by itself after a while, and then tells everything anew. That it
/// begins is no news: where it cannot, it does so again and again.
fn told<K>(event: Result<Event<K>, kube::runtime::watcher::Error>) -> Option<()> {
    match event {
        Ok(Event::Init) => None,
        Ok(_) => Some(()),
        Err(error) => {
            tracing::debug!("watching the cluster: {error}");
            None
        }
    }
}
