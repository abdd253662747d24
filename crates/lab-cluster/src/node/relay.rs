//! A port of another network namespace that leads to a server of the host: of a LAN's router to an
//! API server, of a pod to a registry.

use std::fs::File;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, anyhow};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::Lan;

/// A running relay. Dropped, it accepts no more connections; those that are open last
/// until one of their ends closes them.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    is_over: Arc<AtomicBool>,
    listener: Arc<TcpListener>,
    acceptor: Option<JoinHandle<()>>,
}

impl Relay {
    /// Leads from a free port of the router to a port of this host.
    pub fn start(lan: &Lan, to: SocketAddr) -> Result<Self> {
        let router = lan.router();
        let namespace = lan.network_namespace();
        // A socket always belongs to the namespace it was created in; threads created later do not.
        let listener = thread::scope(|scope| {
            let inside = || -> Result<TcpListener> {
                let namespace =
                    File::open(&namespace).with_context(|| format!("opening {namespace}"))?;
                move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
                    .context("entering the network of a LAN")?;
                TcpListener::bind((router, 0)).context("opening a port of a router")
            };
            scope.spawn(inside).join().map_err(|_| anyhow!("a thread ended badly"))?
        })?;
        Self::of(listener, to)
    }

    /// Leads from a listener, which may belong to any network namespace, to a port of this host.
    pub fn of(listener: TcpListener, to: SocketAddr) -> Result<Self> {
        let listener = Arc::new(listener);
        let address = listener.local_addr().context("reading the port of a relay")?;
        let is_over = Arc::new(AtomicBool::new(false));
        let acceptor = thread::spawn({
            let (listener, is_over) = (Arc::clone(&listener), Arc::clone(&is_over));
            move || accept(&listener, to, &is_over)
        });
        Ok(Self { address, is_over, listener, acceptor: Some(acceptor) })
    }

    /// The address for clients.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // Shutting a listening socket down wakes up who waits for connections on it.
        let _ = rustix::net::shutdown(&*self.listener, rustix::net::Shutdown::Both);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

fn accept(listener: &TcpListener, to: SocketAddr, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        let Ok((client, _)) = listener.accept() else { continue };
        // A server that is away is seen by the client as a connection that closes.
        if let Ok(server) = TcpStream::connect(to) {
            let _ = relay(&client, &server);
        }
    }
}

/// Copies in both directions, on threads that end with the connection.
fn relay(client: &TcpStream, server: &TcpStream) -> io::Result<()> {
    for (from, to) in [(client, server), (server, client)] {
        let (mut from, mut to) = (from.try_clone()?, to.try_clone()?);
        thread::spawn(move || {
            let _ = io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Both);
            let _ = from.shutdown(Shutdown::Both);
        });
    }
    Ok(())
}
