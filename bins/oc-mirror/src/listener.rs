//! Where `serve` and `console` listen.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;

use anyhow::Context as _;
use serve::Tls;

/// The address that `--listen` names.
pub(crate) fn address(text: &str) -> anyhow::Result<SocketAddr> {
    let found = text.to_socket_addrs().with_context(|| {
        format!("reading --listen {text}: expected ADDRESS:PORT, such as 127.0.0.1:5000")
    })?;
    found.into_iter().next().with_context(|| format!("--listen {text} has no address"))
}

/// TLS with the certificate and key that flags name; each requires the other.
pub(crate) fn tls(certificate: Option<&Path>, key: Option<&Path>) -> anyhow::Result<Option<Tls>> {
    match (certificate, key) {
        (Some(certificate), Some(key)) => Ok(Some(Tls::open(certificate, key)?)),
        _ => Ok(None),
    }
}
