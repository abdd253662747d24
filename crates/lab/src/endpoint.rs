//! Where a server of the lab listens, with or without TLS.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;

use anyhow::{Context, Result};
use tokio_rustls::TlsAcceptor;

use crate::certificates::{Authority, ClientCertificates};

/// An open port.
pub(crate) struct Endpoint {
    pub(crate) listener: TcpListener,
    pub(crate) address: SocketAddr,
    /// None for plain HTTP.
    pub(crate) acceptor: Option<TlsAcceptor>,
    pub(crate) scheme: &'static str,
}

impl Endpoint {
    /// On this listener, or on a free port of 127.0.0.1; TLS with a certificate of the authority.
    pub(crate) fn open(
        listener: Option<TcpListener>,
        tls: Option<&Authority>,
        clients: ClientCertificates,
    ) -> Result<Self> {
        let listener = match listener {
            Some(listener) => listener,
            None => TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("opening a port")?,
        };
        let address = listener.local_addr().context("reading the port")?;
        let acceptor = match tls {
            None => None,
            Some(authority) => Some(TlsAcceptor::from(Arc::new(authority.server_config(clients)?))),
        };
        let scheme = if acceptor.is_some() { "https" } else { "http" };
        Ok(Self { listener, address, acceptor, scheme })
    }
}
