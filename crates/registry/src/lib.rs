//! The registry client: the only crate that speaks HTTP to registries.
//!
//! A [`Client`] is made from [`Settings`], one for each side of a copy. It finds
//! credentials, follows `registries.conf` and `certs.d`, gets and renews tokens,
//! tries again what may pass, and leaves a registry alone that requests it. What
//! it gives is checked as far as it can be without reading a blob twice:
//! manifests against their digest, blobs against their length.
//!
//! *Present*, *absent* and *could not determine* are three results: `Some`, `None`
//! and an [`Error`].

mod authfile;
mod challenge;
mod client;
mod credential_helper;
mod credentials;
mod deletion;
mod documents;
mod download;
mod environment;
mod error;
mod error_body;
mod host;
mod listing;
mod location;
mod manifests;
mod product;
mod proxies;
mod rate_limit;
mod registries_conf;
mod retry;
mod route;
mod session;
mod settings;
mod throttle;
mod tls;
mod token;
mod traffic;
mod transport;
mod upload;
mod upload_log;

pub use authfile::AuthFileError;
pub use challenge::Challenge;
pub use client::{Blob, Client, SettingsError};
pub use credentials::Provenance;
pub use deletion::Deletion;
pub use documents::{Access, DocumentRequest};
pub use download::BlobStream;
pub use environment::Environment;
pub use error::{BodyError, Error, Fault, RequestLine, RootCause, Wait};
pub use error_body::ErrorBody;
pub use listing::Tags;
pub use location::Location;
pub use manifests::{Found, Pushed};
pub use product::Product;
pub use proxies::ProxyError;
pub use rate_limit::{Allowed, RateLimiter};
pub use registries_conf::{
    ConfError, PullSource, RegistriesConf, RequestKind, ResolveError, ShortNameError, ShortNames,
};
pub use retry::Retry;
pub use route::{Contact, Route};
pub use settings::{CredentialSource, Settings, Side, Timeouts};
pub use tls::TlsError;
pub use traffic::Traffic;
pub use upload::Uploaded;
pub use upload_log::UploadLog;
pub use url::Url;
