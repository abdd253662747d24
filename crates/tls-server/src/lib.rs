//! An HTTP server over TLS for clients with certificates.
//!
//! The serving certificate, the CA of clients and the offered versions of TLS are read for every
//! connection, so that a change of any of them needs no restart. While one of them is missing, no
//! client is served, and the log reports the reason once.

mod client_name;
mod connections;
mod server;
mod serving_certificate;

pub use client_name::common_name;
pub use connections::{REQUEST_TIMEOUT, bind, each_connection};
pub use server::{Access, Offer, TlsServer};
pub use serving_certificate::{CertificateError, ServingCertificate};
