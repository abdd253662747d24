//! OpenShift releases: which there are, which are wanted, how a cluster gets
//! from one to the next, who signed them, and what is in them.
//!
//! Pure: the update service is queried, signatures are fetched and layers are
//! opened by the caller. All input is untrusted.
//!
//! ```text
//! responses ──graph──▶ graphs ──select──▶ releases ──signature──▶ payloads to trust
//!                      │                                             │
//!                      └──upgrade_path──▶ hops, risks, pictures      └──payload──▶ components
//! ```
//!
//! # Example
//!
//! ```
//! use release::graph::Graph;
//! use release::upgrade_path::{PathQuery, find_paths};
//!
//! let node = |version: &str, digit: &str| {
//!     format!(r#"{{"version": "{version}", "payload": "quay.io/o/r@sha256:{}"}}"#, digit.repeat(64))
//! };
//! let text = format!(
//!     r#"{{"nodes": [{}, {}], "edges": [[0, 1]]}}"#,
//!     node("4.16.1", "1"),
//!     node("4.16.2", "2")
//! );
//! let graph = Graph::parse(text.as_bytes()).unwrap();
//! let [from, to] = ["4.16.1", "4.16.2"].map(|version| version.parse().unwrap());
//! let query = PathQuery::Between { from, to };
//! let paths = find_paths(&graph, &query).unwrap();
//! assert_eq!(paths.routes[0].hops.len(), 1);
//! ```

pub mod channel;
pub mod expected_release;
pub mod graph;
pub mod graph_image;
pub mod keyring;
mod nearest;
pub mod payload;
pub mod resources;
pub mod select;
pub mod signature;
pub mod upgrade_path;
