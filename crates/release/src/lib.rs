//! OpenShift releases: which there are, which are wanted, how a cluster gets
//! from one to the next, who signed them, and what is in them.
//!
//! Pure: the update service is asked, signatures are fetched and layers are
//! opened by the caller. Whatever comes in is taken as hostile.
//!
//! ```text
//! answers ──graph──▶ graphs ──select──▶ releases ──signature──▶ payloads to trust
//!                      │                                             │
//!                      └──upgrade_path──▶ hops, risks, pictures      └──payload──▶ components
//! ```

pub mod channel;
pub mod graph;
pub mod graph_image;
pub mod keyring;
mod nearest;
pub mod payload;
pub mod promise;
pub mod resources;
pub mod select;
pub mod signature;
pub mod upgrade_path;
