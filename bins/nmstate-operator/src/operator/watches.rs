//! Watches of what the operator acts on. An event only starts a reconciliation, which reads the few
//! objects itself.

use futures_util::stream::{self, BoxStream, Stream, StreamExt as _};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::api::{Api, ApiResource, DynamicObject};
use kube::core::{NamespaceResourceScope, PartialObjectMeta};
use kube::runtime::watcher::{self, Config, Event, watcher};
use kube::runtime::{WatchStreamExt as _, predicates};
use kube::{Client, Resource};
use nmstate_api::{NMState, NodeNetworkConfigurationPolicy, NodeNetworkState};
use nmstate_deployment::names::{CLUSTER_OPERATOR, NAMESPACE, PART_OF, PART_OF_LABEL};
use nmstate_deployment::operand;
use serde::de::DeserializeOwned;

use super::adoption::{ROLE_LABEL, machine_configs};

/// OpenShift's kinds, which are referenced by name only.
pub(super) fn openshift(kind: &str, plural: &str) -> ApiResource {
    ApiResource {
        group: "config.openshift.io".into(),
        version: "v1".into(),
        api_version: "config.openshift.io/v1".into(),
        kind: kind.into(),
        plural: plural.into(),
    }
}

/// A stream with an item whenever there may be something to do.
pub(super) fn open(client: &Client) -> BoxStream<'static, ()> {
    let openshift =
        |kind, plural| Api::<DynamicObject>::all_with(client.clone(), &openshift(kind, plural));
    let daemon_sets: Api<DaemonSet> = Api::namespaced(client.clone(), NAMESPACE);
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), NAMESPACE);
    let policies: Api<PartialObjectMeta<NodeNetworkConfigurationPolicy>> = Api::all(client.clone());
    let mut watches = vec![
        whole(openshift("Infrastructure", "infrastructures"), named("cluster")),
        whole(openshift("ClusterOperator", "clusteroperators"), named(CLUSTER_OPERATOR)),
        whole(openshift("APIServer", "apiservers"), named("cluster")),
        whole(Api::<NMState>::all(client.clone()), Config::default()),
        whole(daemon_sets, ours()),
        whole(deployments, ours()),
        new_generations(policies),
        deployed::<ServiceAccount>(client),
        deployed::<Service>(client),
        deployed::<NetworkPolicy>(client),
        deployed::<PodDisruptionBudget>(client),
        deployed::<Role>(client),
        deployed::<RoleBinding>(client),
    ];
    for name in operand::cluster_names() {
        let roles: Api<PartialObjectMeta<ClusterRole>> = Api::all(client.clone());
        let bindings: Api<PartialObjectMeta<ClusterRoleBinding>> = Api::all(client.clone());
        watches.extend([whole(roles, named(&name)), whole(bindings, named(&name))]);
    }
    stream::select_all(watches).boxed()
}

/// A name is all that the operator may select ClusterRoles by.
fn named(name: &str) -> Config {
    Config::default().fields(&format!("metadata.name={name}"))
}

fn ours() -> Config {
    Config::default().labels(&format!("{PART_OF_LABEL}={PART_OF}"))
}

/// Objects of ours in our namespace: what is deleted or edited is restored.
fn deployed<K>(client: &Client) -> BoxStream<'static, ()>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    K: Clone + std::fmt::Debug + Send + Sync + 'static,
{
    let api: Api<PartialObjectMeta<K>> = Api::namespaced(client.clone(), NAMESPACE);
    whole(api, ours())
}

/// Policies are many, and their status is written often; only new ones and edits matter here.
fn new_generations(
    api: Api<PartialObjectMeta<NodeNetworkConfigurationPolicy>>,
) -> BoxStream<'static, ()> {
    generations(watcher(api, Config::default()).default_backoff())
}

/// One item for each generation of each object.
fn generations<K>(
    events: impl Stream<Item = Result<Event<K>, watcher::Error>> + Send + 'static,
) -> BoxStream<'static, ()>
where
    K: Resource<DynamicType = ()> + Clone + Send + 'static,
{
    let new = events.applied_objects().predicate_filter(predicates::generation, Default::default());
    new.filter_map(|object| async move {
        object.inspect_err(|error| tracing::debug!("watching policies: {error}")).ok().map(drop)
    })
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
    watcher(api, config).default_backoff().filter_map(|event| async move { changed(event) }).boxed()
}

/// A watch that failed resumes by itself after a while, and then delivers all objects again. Its
/// start is not an event: a watch that cannot be opened restarts repeatedly.
fn changed<K>(event: Result<Event<K>, watcher::Error>) -> Option<()> {
    match event {
        Ok(Event::Init) => None,
        Ok(_) => Some(()),
        Err(error) => {
            tracing::debug!("watching the cluster: {error}");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(name: &str, uid: &str, generation: i64) -> NodeNetworkConfigurationPolicy {
        let mut policy = NodeNetworkConfigurationPolicy::new(name);
        policy.metadata.generation = Some(generation);
        policy.metadata.uid = Some(uid.to_owned());
        policy
    }

    async fn reconciliations(events: Vec<Event<NodeNetworkConfigurationPolicy>>) -> usize {
        generations(stream::iter(events.into_iter().map(Ok))).count().await
    }

    #[tokio::test]
    async fn a_status_that_is_written_starts_no_reconciliation() {
        let first = || Event::InitApply(policy("a", "1", 1));
        assert_eq!(reconciliations(vec![first()]).await, 1);
        let status = Event::Apply(policy("a", "1", 1));
        assert_eq!(reconciliations(vec![first(), status]).await, 1, "only its status was written");
        let edit = Event::Apply(policy("a", "1", 2));
        assert_eq!(reconciliations(vec![first(), edit]).await, 2);
        let other = Event::Apply(policy("b", "2", 1));
        assert_eq!(reconciliations(vec![first(), other]).await, 2);
        let again = [Event::Delete(policy("a", "1", 1)), Event::Apply(policy("a", "3", 1))];
        let [deleted, created] = again;
        assert_eq!(reconciliations(vec![first(), deleted, created]).await, 2, "created again");
    }
}
