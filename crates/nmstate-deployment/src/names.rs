//! Names of the objects that we create in a cluster.

/// Everything of ours that belongs to a namespace is in this one, but not in clusters whose
/// control plane is hosted elsewhere: there the operator and the coordinator are beside it.
pub const NAMESPACE: &str = "openshift-nmstate-operator";
/// The operator: its Deployment, its service account, its ClusterOperator is `nmstate`.
pub const OPERATOR: &str = "nmstate-operator";
pub const CLUSTER_OPERATOR: &str = "nmstate";
/// The handlers: their DaemonSet and service account.
pub const HANDLER: &str = "nmstate-handler";
/// The coordinator: its Deployment, service account and lease.
pub const COORDINATOR: &str = "nmstate-coordinator";
/// The state that the operator keeps across restarts.
pub const MEMORY: &str = "nmstate-operator-memory";
/// What was taken over from another operator, to be given back.
pub const TAKEN_OVER: &str = "nmstate-operator-taken-over";
/// Nodes for which a policy was created from their document, and its name. A policy that was deleted is
/// not created again.
pub const ADOPTED_NODES: &str = "nmstate-operator-adopted";
/// On every object of ours: its component.
pub const COMPONENT_LABEL: &str = "app.kubernetes.io/component";
/// On every object of ours: marks it as ours.
pub const PART_OF_LABEL: &str = "app.kubernetes.io/part-of";
pub const PART_OF: &str = "nmstate-operator";

/// Health of the operator and the coordinator, probed by the kubelet of their node.
pub const HEALTH_PORT: u16 = 8081;
/// Metrics of the operator and the coordinator. The port of handlers is set in the `NMState`.
pub const METRICS_PORT: u16 = 8443;
/// Health of handlers, on the loopback of their node: they share its network with other programs.
pub const HANDLER_HEALTH_PORT: u16 = 29089;
