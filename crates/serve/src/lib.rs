//! A workspace as a read-only registry.
//!
//! [`WorkspaceSource`] reads a workspace into a [`Snapshot`], which lists its
//! repositories, tags, manifests and blobs. [`Server`] serves them by the pull
//! endpoints of the OCI distribution specification: manifests, blobs with ranges,
//! tag and repository lists by pages, referrers.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//!
//! let source = serve::WorkspaceSource::new(workspace::Workspace::open("/data".as_ref()));
//! let loaded = source.load()?;
//! loaded.log_warnings();
//! let address = "127.0.0.1:5000".parse()?;
//! let server = serve::Server::bind(address, loaded.snapshot, serve::Options::default()).await?;
//! let follow = source.follow(server.snapshot(), loaded.revision, Duration::from_secs(5));
//! tokio::select! {
//!     () = server.run(async { _ = tokio::signal::ctrl_c().await }) => {}
//!     () = follow => {}
//! }
//! # Ok(())
//! # }
//! ```
//!
//! - Manifests are served byte for byte as the source registry sent them. The `Accept`
//!   header is not consulted: a manifest in another format would have another
//!   digest, and a client that cannot read ours reports a clearer
//!   error than for a 406, which it would treat as an absent image.
//! - Everything but `GET` and `HEAD` is refused with 405.
//! - Text of a request is parsed into checked names and looked up in memory.
//!   No part of it becomes a path.
//! - Connections, request heads, idle time and stalled reads are limited, see
//!   [`Options`].
//! - Images that a run adds are served when the run ends, see [`WorkspaceSource::follow`].
//! - Plain HTTP unless [`Tls`] is given; no authentication. Intended for loopback,
//!   and for a trusted network with TLS.

mod connections;
mod current_snapshot;
mod error_response;
mod listing;
mod range;
mod response;
mod route;
mod server;
mod snapshot;
mod tls;
mod workspace_source;
mod write_timeout;

pub use connections::{BindError, Listener, Options};
pub use current_snapshot::CurrentSnapshot;
pub use server::Server;
pub use snapshot::{Blob, NamedImage, ReadError, Snapshot, Store, Warning};
pub use tls::{Tls, TlsError};
pub use workspace_source::{LoadError, Loaded, Revision, WorkspaceSource};
