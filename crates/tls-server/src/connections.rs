//! Listens, and serves a limited number of connections at a time.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Connections at a time. A kubelet and a Prometheus need one each.
const CONNECTIONS: usize = 16;
/// The limit for a connection, from its start to the end of the response.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// The delay after a connection could not be accepted.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Listens. The unspecified address of IPv6 means that of IPv4 if the kernel has no IPv6.
///
/// # Errors
///
/// If the address is unavailable.
pub async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    match TcpListener::bind(address).await {
        Err(error)
            if address.is_ipv6()
                && address.ip().is_unspecified()
                && error.raw_os_error() == Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error()) =>
        {
            let all = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
            TcpListener::bind(SocketAddr::new(all, address.port())).await
        }
        result => result,
    }
}

/// Serves every connection, a few at a time, for as long as it is awaited.
pub async fn each_connection<F>(
    listener: &TcpListener,
    serve: impl Fn(TcpStream) -> F,
) -> Infallible
where
    F: Future<Output = ()> + Send + 'static,
{
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        if connections.len() >= CONNECTIONS {
            connections.join_next().await;
            continue;
        }
        match listener.accept().await {
            Ok((stream, _)) => {
                connections.spawn(serve(stream));
            }
            Err(error) => {
                tracing::warn!("accepting a connection: {error}");
                tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
            }
        }
    }
}
