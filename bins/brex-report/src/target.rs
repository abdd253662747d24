//! The Node of this machine, as its kubelet reaches it.

use std::path::Path;

use cluster_connection::{ConnectError, Connection, explain};
use first_boot::Summary;
use first_boot::summary::ANNOTATION;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::core::v1::{Event, EventSource, Node, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Client;
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::json;

const COMPONENT: &str = "brex-report";
/// Where events of nodes are.
const NAMESPACE: &str = "default";
/// The name of a node in the eyes of the API server.
const USER: &str = "system:node:";

/// How an attempt to report ended.
#[derive(Debug)]
pub(crate) enum Attempt {
    Reported {
        node: String,
    },
    Unchanged {
        node: String,
    },
    /// Another attempt ends in the same way.
    Refused(String),
    /// Another attempt may succeed.
    Failed(String),
}

/// An API server.
pub(crate) struct Target {
    client: Client,
}

impl Target {
    /// Uses the kubeconfig of the kubelet, which exists after the node has joined.
    pub(crate) async fn connect(kubeconfig: &Path) -> Result<Self, ConnectError> {
        Ok(Self { client: Connection::of_file(kubeconfig).await?.client().clone() })
    }

    pub(crate) async fn report(&self, summary: &Summary, text: &str) -> Attempt {
        match self.try_report(summary, text).await {
            Ok(attempt) => attempt,
            Err(kube::Error::Api(status)) if status.code == 403 || status.code == 422 => {
                Attempt::Refused(format!("the API server refused: {}", status.message))
            }
            Err(kube::Error::Api(status)) if status.code == 404 => {
                Attempt::Failed(format!("the node has not joined yet: {}", status.message))
            }
            Err(error) => Attempt::Failed(explain(&error)),
        }
    }

    async fn try_report(&self, summary: &Summary, text: &str) -> Result<Attempt, kube::Error> {
        let user = self.user().await?;
        let Some(name) = user.strip_prefix(USER) else {
            let problem = format!(
                "expected the credentials of a kubelet ({USER}NAME), found those of {user}"
            );
            return Ok(Attempt::Refused(problem));
        };
        let nodes: Api<Node> = Api::all(self.client.clone());
        let node = nodes.get(name).await?;
        let held = node.metadata.annotations.as_ref().and_then(|all| all.get(ANNOTATION));
        let node_name = name.to_owned();
        if held.is_some_and(|held| held == text) {
            return Ok(Attempt::Unchanged { node: node_name });
        }
        // The event first: if it fails, the next attempt finds the old annotation and repeats both.
        self.create_event(&node, name, summary).await?;
        let patch = json!({ "metadata": { "annotations": { ANNOTATION: text } } });
        nodes.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
        Ok(Attempt::Reported { node: node_name })
    }

    /// The user as which the API server authenticates this program.
    async fn user(&self) -> Result<String, kube::Error> {
        let reviews: Api<SelfSubjectReview> = Api::all(self.client.clone());
        let review = SelfSubjectReview::default();
        let review = reviews.create(&PostParams::default(), &review).await?;
        let user = review.status.and_then(|status| status.user_info);
        Ok(user.and_then(|user| user.username).unwrap_or_default())
    }

    async fn create_event(
        &self,
        node: &Node,
        name: &str,
        summary: &Summary,
    ) -> Result<(), kube::Error> {
        let now = Time(jiff::Timestamp::now());
        let kind = if summary.is_warning() { "Warning" } else { "Normal" };
        let event = Event {
            metadata: ObjectMeta {
                generate_name: Some(format!("{name}-brex-")),
                namespace: Some(NAMESPACE.to_owned()),
                ..ObjectMeta::default()
            },
            involved_object: ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Node".to_owned()),
                name: Some(name.to_owned()),
                uid: node.metadata.uid.clone(),
                ..ObjectReference::default()
            },
            reason: Some(summary.reason().to_owned()),
            // The API server accepts 1024 characters.
            message: Some(summary.message.as_str().chars().take(1000).collect()),
            type_: Some(kind.to_owned()),
            source: Some(EventSource {
                component: Some(COMPONENT.to_owned()),
                host: Some(name.to_owned()),
            }),
            first_timestamp: Some(now.clone()),
            last_timestamp: Some(now),
            count: Some(1),
            ..Event::default()
        };
        let events: Api<Event> = Api::namespaced(self.client.clone(), NAMESPACE);
        events.create(&PostParams::default(), &event).await.map(drop)
    }
}
