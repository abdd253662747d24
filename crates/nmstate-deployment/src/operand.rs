//! What the operator deploys when policies are enabled: handlers on nodes, one coordinator, and
//! their permissions. Objects as values; nothing is applied here.

mod access;
mod coordinator;
mod handler;
pub(crate) mod metrics;
pub(crate) mod pod;

use std::net::{Ipv6Addr, SocketAddr};

use nmstate_api::NMStateSpec;
use serde_json::{Value, json};

use crate::names::{COMPONENT_LABEL, COORDINATOR, NAMESPACE, PART_OF, PART_OF_LABEL};
use crate::tls::TlsSettings;

pub use coordinator::SINGLE_NODE_LEASE;
pub(crate) use coordinator::{egress, pod as coordinator_pod};

/// Where the coordinator runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlPlane {
    /// In this cluster, on several nodes.
    HighlyAvailable,
    /// In this cluster, on its only node.
    SingleNode,
    /// In another cluster, where it is deployed beside the control plane.
    Hosted,
}

/// All input that determines the operand.
#[derive(Debug, Clone)]
pub struct Wanted<'a> {
    pub spec: &'a NMStateSpec,
    pub image: &'a str,
    pub version: &'a str,
    pub control_plane: ControlPlane,
    /// Whether changes of policies without their own setting are lost at the next reboot.
    pub memory_only: bool,
    metrics: Option<Metrics>,
}

/// Where handlers serve metrics, and the TLS settings of all components.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Metrics {
    handlers: SocketAddr,
    tls: TlsSettings,
}

/// An `NMState` that cannot be honoured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "spec.metricsConfiguration.bindAddress is {address:?}; it must be `:PORT`, `ADDRESS:PORT`, or `0` for no metrics"
)]
pub struct BindAddressError {
    address: String,
}

impl<'a> Wanted<'a> {
    pub fn new(
        spec: &'a NMStateSpec,
        image: &'a str,
        version: &'a str,
        control_plane: ControlPlane,
    ) -> Result<Self, BindAddressError> {
        let handlers = bind_address(&spec.metrics_configuration.bind_address)?;
        let tls = TlsSettings::default();
        let metrics = handlers.map(|handlers| Metrics { handlers, tls });
        Ok(Self { spec, image, version, control_plane, memory_only: false, metrics })
    }

    /// The same with another default for policies.
    pub fn with_memory_only(self, memory_only: bool) -> Self {
        Self { memory_only, ..self }
    }

    /// Metrics are served with these TLS settings; without any, they are not served.
    pub fn with_tls(mut self, tls: Option<&TlsSettings>) -> Self {
        let terms = self.metrics.take().zip(tls.cloned());
        self.metrics = terms.map(|(metrics, tls)| Metrics { tls, ..metrics });
        self
    }
}

/// Where handlers serve metrics; `0` disables it. As in Go, no address means all of them.
fn bind_address(bind: &str) -> Result<Option<SocketAddr>, BindAddressError> {
    if bind == "0" {
        return Ok(None);
    }
    let address = match bind.strip_prefix(':') {
        Some(port) => {
            port.parse().ok().map(|port: u16| SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)))
        }
        None => bind.parse().ok(),
    };
    address
        .filter(|address| address.port() != 0)
        .map(Some)
        .ok_or_else(|| BindAddressError { address: bind.chars().take(80).collect() })
}

/// Every object, in the order in which they are applied: permissions before their users.
pub fn objects(wanted: &Wanted<'_>) -> Vec<Value> {
    let mut objects = access::handler();
    objects.extend([handler::service(wanted), handler::daemon_set(wanted)]);
    if wanted.control_plane != ControlPlane::Hosted {
        objects.extend(access::coordinator());
        objects.extend(coordinator::objects(wanted));
    }
    objects
}

/// What the coordinator of a hosted control plane may do in the guest. The operator does not deploy
/// it: the coordinator runs whether handlers do or not.
pub(crate) fn coordinator_access() -> Vec<Value> {
    access::coordinator()
}

/// Every object that is deployed in any cluster that is hosted, or in any that is not, for its
/// removal: only kinds and names count.
pub fn everything(is_hosted: bool) -> Vec<Value> {
    let spec = NMStateSpec::default();
    let control_plane =
        if is_hosted { ControlPlane::Hosted } else { ControlPlane::HighlyAvailable };
    let memory_only = false;
    let metrics = None;
    objects(&Wanted { spec: &spec, image: "", version: "", control_plane, memory_only, metrics })
}

/// What the coordinator creates for itself, and leaves behind when it is removed.
pub fn leases() -> [Value; 2] {
    [COORDINATOR, nmstate_api::REVERTS].map(|name| {
        json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": { "name": name, "namespace": NAMESPACE },
        })
    })
}

/// Names of the ClusterRoles and ClusterRoleBindings among the objects.
pub fn cluster_names() -> [String; 2] {
    access::cluster_names()
}

/// The permissions that the operator must have to grant them to what it deploys.
pub(crate) fn rules_to_pass_on() -> Vec<Value> {
    let rules = [access::handler_rules(), access::coordinator_rules()];
    rules.into_iter().filter_map(|rules| rules.as_array().cloned()).flatten().collect()
}

fn labels(component: &str) -> Value {
    json!({ COMPONENT_LABEL: component, PART_OF_LABEL: PART_OF })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(control_plane: ControlPlane) -> Vec<String> {
        let spec = NMStateSpec::default();
        let wanted = Wanted::new(&spec, "i", "1", control_plane).unwrap();
        let name = |object: &Value| {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            format!("{} {}", text(&object["kind"]), text(&object["metadata"]["name"]))
        };
        objects(&wanted).iter().map(name).collect()
    }

    #[test]
    fn handlers_are_deployed_everywhere_and_the_coordinator_beside_its_control_plane() {
        for control_plane in
            [ControlPlane::HighlyAvailable, ControlPlane::SingleNode, ControlPlane::Hosted]
        {
            let made = kinds(control_plane);
            assert!(made.contains(&"DaemonSet nmstate-handler".to_owned()), "{made:?}");
            let coordinator = made.contains(&"Deployment nmstate-coordinator".to_owned());
            assert_eq!(coordinator, control_plane != ControlPlane::Hosted);
        }
    }

    #[test]
    fn leases_last_longer_where_the_control_plane_is_a_single_node() {
        for (control_plane, expected) in
            [(ControlPlane::HighlyAvailable, false), (ControlPlane::SingleNode, true)]
        {
            let spec = NMStateSpec::default();
            let made = objects(&Wanted::new(&spec, "i", "1", control_plane).unwrap());
            assert_eq!(json!(made).to_string().contains("--lease=270"), expected);
        }
    }

    #[test]
    fn every_object_has_our_labels() {
        let spec = NMStateSpec::default();
        let control_plane = ControlPlane::HighlyAvailable;
        for object in objects(&Wanted::new(&spec, "i", "1", control_plane).unwrap()) {
            assert_eq!(object["metadata"]["labels"][PART_OF_LABEL], PART_OF, "{object}");
        }
    }

    #[test]
    fn metrics_are_served_at_the_port_of_the_nmstate() {
        for (bind, expected) in [
            (":8089", Some("[::]:8089")),
            ("10.0.0.1:80", Some("10.0.0.1:80")),
            ("[2001:db8::1]:80", Some("[2001:db8::1]:80")),
            ("0", None),
        ] {
            let address = bind_address(bind).unwrap().map(|address| address.to_string());
            assert_eq!(address.as_deref(), expected);
        }
        for bind in ["", ":", ":0", "8089", "host:80", ":70000"] {
            assert!(bind_address(bind).is_err(), "{bind}");
        }
    }

    #[test]
    fn without_tls_settings_no_metrics_are_served_and_no_port_is_monitored() {
        let spec = NMStateSpec::default();
        let control_plane = ControlPlane::HighlyAvailable;
        let wanted = Wanted::new(&spec, "i", "1", control_plane).unwrap().with_tls(None);
        let made = objects(&wanted);
        assert!(!json!(made).to_string().contains("--metrics-listen"));
        let services: Vec<&Value> = made.iter().filter(|it| it["kind"] == "Service").collect();
        assert_eq!(services.len(), 2);
        assert!(services.iter().all(|service| service["spec"]["ports"] == json!([])));
    }

    #[test]
    fn the_terms_of_tls_reach_every_part() {
        let spec = NMStateSpec::default();
        let control_plane = ControlPlane::HighlyAvailable;
        let modern = TlsSettings::default().without_tls12();
        let wanted = Wanted::new(&spec, "i", "1", control_plane).unwrap().with_tls(Some(&modern));
        let made = objects(&wanted);
        for kind in ["DaemonSet", "Deployment"] {
            let object = made.iter().find(|object| object["kind"] == kind).unwrap();
            let arguments = &object["spec"]["template"]["spec"]["containers"][0]["args"];
            let minimum = json!("--tls-min-version=VersionTLS13");
            assert!(arguments.as_array().unwrap().contains(&minimum), "{kind}: {arguments}");
        }
    }
}
