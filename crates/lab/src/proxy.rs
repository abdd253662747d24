//! A web proxy such as sites have: it tunnels, and every requested name leads to one server.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, copy_bidirectional};
use tokio::net::TcpStream;

use crate::background::Background;

/// A running proxy. It ends when dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    requested: Arc<Mutex<Vec<String>>>,
    _background: Background,
}

impl Proxy {
    /// A proxy whose tunnels all end at `server`.
    pub fn start(server: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("opening a port")?;
        let address = listener.local_addr().context("reading the port")?;
        let requested = Arc::<Mutex<Vec<String>>>::default();
        let background = Background::start("lab-proxy")?;
        let listener = background.listener(listener)?;
        let log = Arc::clone(&requested);
        background.spawn(async move {
            loop {
                let Ok((client, _)) = listener.accept().await else { continue };
                // A tunnel that breaks is seen by its two ends.
                tokio::spawn(tunnel(client, server, Arc::clone(&log)));
            }
        });
        Ok(Self { address, requested, _background: background })
    }

    /// What `HTTPS_PROXY` is set to.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The requested hosts and ports, in order.
    pub fn requested_hosts(&self) -> Vec<String> {
        self.requested.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn tunnel(
    client: TcpStream,
    server: SocketAddr,
    requested: Arc<Mutex<Vec<String>>>,
) -> std::io::Result<()> {
    let mut client = BufReader::new(client);
    let mut request = String::new();
    client.read_line(&mut request).await?;
    let mut words = request.split_whitespace();
    let (Some("CONNECT"), Some(host)) = (words.next(), words.next()) else {
        return client.write_all(b"HTTP/1.1 405 Method Not Allowed\r\n\r\n").await;
    };
    requested.lock().unwrap_or_else(PoisonError::into_inner).push(host.to_owned());
    let mut line = String::new();
    while client.read_line(&mut line).await? > 0 && line != "\r\n" {
        line.clear();
    }
    let mut server = TcpStream::connect(server).await?;
    client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
    copy_bidirectional(&mut client, &mut server).await.map(drop)
}
