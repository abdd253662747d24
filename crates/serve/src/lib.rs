//! A workspace as a read-only registry.
//!
//! [`Offer`] reads a workspace and makes a [`Shelf`] of it, which knows the
//! repositories, tags, manifests and blobs there are. [`Server`] gives them out
//! by the pull half of the OCI distribution rules: manifests, blobs with ranges,
//! tag and repository lists by pages, referrers.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//!
//! let offer = serve::Offer::new(workspace::Workspace::open("/data".as_ref()));
//! let stocked = offer.stock()?;
//! stocked.warn();
//! let address = "127.0.0.1:5000".parse()?;
//! let server = serve::Server::bind(address, stocked.shelf, serve::Options::default()).await?;
//! let follow = offer.follow(server.shelf(), stocked.seen, Duration::from_secs(5));
//! tokio::select! {
//!     () = server.run(async { _ = tokio::signal::ctrl_c().await }) => {}
//!     () = follow => {}
//! }
//! # Ok(())
//! # }
//! ```
//!
//! - Manifests go out byte for byte as their source gave them. The `Accept`
//!   header is not consulted: a manifest in another format would have another
//!   digest, and a client that cannot read ours is better informed by its own
//!   error than by a 406 that it takes for an absence.
//! - Everything but `GET` and `HEAD` is refused with 405.
//! - Text of a request is parsed into checked names and looked up in memory.
//!   No part of it ever becomes a path.
//! - Connections, request heads, idle time and stalled reads are limited, see
//!   [`Options`].
//! - What a run adds is served when the run ends, see [`Offer::follow`].
//! - Plain HTTP unless [`Tls`] is given; there is no login. Meant for loopback,
//!   and for a trusted network with TLS.

mod answer;
mod cause;
mod connections;
mod current;
mod from_workspace;
mod listing;
mod patience;
mod range;
mod refusal;
mod route;
mod server;
mod shelf;
mod tls;

pub use connections::{BindError, Listener, Options};
pub use current::CurrentShelf;
pub use from_workspace::{Offer, OfferError, Seen, Stocked};
pub use server::Server;
pub use shelf::{Blob, Note, ReadError, Shelf, Shelved, Store};
pub use tls::{Tls, TlsError};
