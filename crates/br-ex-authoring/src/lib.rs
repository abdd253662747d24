//! br-ex documents on a workstation: written for a topology, a table or a list of hosts, imported from
//! other files, rendered as MachineConfigs, and drawn.
//!
//! Pure: texts and facts go in, documents and manifests come out. The model of documents and the rules
//! for them are in `br-ex`.
//!
//! # Example
//!
//! ```
//! use br_ex::{ClusterFacts, Document, check};
//! use br_ex_authoring::topology::{Addressing, Families, Topology, Uplink};
//!
//! let uplink = Uplink::Nic("eno1".parse()?);
//! let text = Topology::new(uplink, Addressing::Dhcp(Families::V4)).document()?;
//! assert!(check(&Document::parse(text.as_bytes()), &ClusterFacts::default()).is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod add_bridge;
pub mod document_schema;
pub mod first_network;
pub mod folder_reader;
pub mod host_list;
pub mod host_table;
pub mod install_config;
pub mod inventory;

pub mod picture;
pub mod proposal;
pub mod render;
pub mod scale_out;
pub mod topology;
