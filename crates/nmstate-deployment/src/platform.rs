//! The kind of the cluster, from its Infrastructure object.

use serde_json::Value;

use crate::operand::ControlPlane;

/// The platform and the topology of a cluster. Both may change while the operator runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Platform {
    /// As in `status.platformStatus.type`: `BareMetal`, `AWS`, `None`. Empty while it is unknown.
    pub name: String,
    pub control_plane: ControlPlane,
}

impl Platform {
    /// Reads an Infrastructure object. Missing fields get the most common value.
    pub fn of(infrastructure: &Value) -> Self {
        let status = &infrastructure["status"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let name = match text(&status["platformStatus"]["type"]) {
            // Old clusters have it here.
            empty if empty.is_empty() => text(&status["platform"]),
            name => name,
        };
        let control_plane = match status["controlPlaneTopology"].as_str() {
            Some("External") => ControlPlane::Hosted,
            Some("SingleReplica") => ControlPlane::SingleNode,
            _ => ControlPlane::HighlyAvailable,
        };
        Self { name, control_plane }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_platform_is_read_from_where_it_is() {
        for (status, name) in [
            (json!({ "platformStatus": { "type": "BareMetal" }, "platform": "x" }), "BareMetal"),
            (json!({ "platform": "AWS" }), "AWS"),
            (json!({}), ""),
        ] {
            assert_eq!(Platform::of(&json!({ "status": status })).name, name);
        }
    }

    #[test]
    fn the_topology_of_the_control_plane_is_reported() {
        for (topology, expected) in [
            ("HighlyAvailable", ControlPlane::HighlyAvailable),
            ("HighlyAvailableArbiter", ControlPlane::HighlyAvailable),
            ("DualReplica", ControlPlane::HighlyAvailable),
            ("SingleReplica", ControlPlane::SingleNode),
            ("External", ControlPlane::Hosted),
        ] {
            let infrastructure = json!({ "status": { "controlPlaneTopology": topology } });
            assert_eq!(Platform::of(&infrastructure).control_plane, expected);
        }
    }
}
