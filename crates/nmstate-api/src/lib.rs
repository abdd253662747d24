//! The node network API: group `nmstate.io`, as kubernetes-nmstate has it, so that its manifests
//! and clients work unchanged.
//!
//! - [`NMState`]: whether and how the handlers are deployed.
//! - [`NodeNetworkConfigurationPolicy`]: the desired network of matching nodes.
//! - [`NodeNetworkConfigurationEnactment`]: the status of one policy on one node.
//! - [`NodeNetworkState`]: the current network of one node.
//!
//! The CRDs are generated from these types ([`crd`]). Extensions of that API use
//! [`annotations`], never new fields of a spec.
//!
//! Nothing here performs I/O.
//!
//! # Example
//!
//! ```
//! use nmstate_api::annotations::{DRIFT, Drift, PolicyOptions};
//!
//! let annotations = [(DRIFT.to_owned(), "enforce".to_owned())].into();
//! assert_eq!(PolicyOptions::parse(Some(&annotations))?.drift, Drift::Enforce);
//!
//! let unknown = [(DRIFT.to_owned(), "sometimes".to_owned())].into();
//! assert!(PolicyOptions::parse(Some(&unknown)).is_err());
//! # Ok::<(), nmstate_api::annotations::AnnotationError>(())
//! ```

pub mod admission;
pub mod annotations;
mod assignment;
pub mod condition;
pub mod crd;
mod enactment;
mod fingerprint;
mod name;
mod network_document;
mod nmstate;
mod node_expressions;
mod node_state;
pub mod node_values;
mod object;
mod policy;
mod revert_slots;
mod schema;
mod stored_policy;

pub use assignment::{ASSIGNED_POLICIES, Assignment, Assignments, PolicyNews};
pub use condition::{Condition, ConditionStatus};
pub use enactment::{
    CapturedState, EnactmentConditionType, EnactmentReason, EnactmentStatus, Failure, MetaInfo,
    NodeNetworkConfigurationEnactment, Warning,
};
pub use fingerprint::fingerprint;
pub use name::{EnactmentName, NameError, NodeName, PolicyName};
pub use network_document::NetworkDocument;
pub use nmstate::{
    DnsProbe, LogLevel, MetricsConfiguration, NMState, NMStateConditionType, NMStateReason,
    NMStateSpec, NMStateStatus, ProbeConfiguration, SelfSignConfiguration,
};
pub use node_expressions::{ExpressionError, NodeExpressions};
pub use node_state::{NodeNetworkState, NodeNetworkStateStatus};
pub use node_values::{NodeValues, ValuesError};
pub use policy::{
    IntOrText, NodeNetworkConfigurationPolicy, PolicyConditionType, PolicyReason, PolicySpec,
    PolicyStatus, Slot,
};
pub use revert_slots::{REVERT_GENERATION, REVERT_SLOTS, REVERTS, RevertSlots};
pub use stored_policy::{StoredPolicy, Unreadable};

/// The API group of all four kinds.
pub const GROUP: &str = "nmstate.io";

/// On an enactment: the policy it belongs to.
pub const POLICY_LABEL: &str = "nmstate.io/policy";
/// On an enactment: the node it belongs to.
pub const NODE_LABEL: &str = "nmstate.io/node";
/// On an enactment, as an annotation: the generation of the policy that the node accepted when it
/// created the enactment; 0 where its status follows at once. Older handlers do not write it.
pub const ACCEPTED_GENERATION: &str = "nmstate.landfall.dev/accepted-generation";
/// On a node's state: a new value requests that it is read again at once.
pub const REFRESH_LABEL: &str = "nmstate.io/force-nns-refresh";
