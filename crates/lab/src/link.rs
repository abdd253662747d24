//! A slow link to a server: a TCP proxy with latency and limited rate.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};

use crate::background::Background;

/// The most that is read at once. Large, for the proxy shares the processors
/// with what is measured.
const PIECE: usize = 256 << 10;
/// How many pieces of one connection may be on their way.
const PIECES_UNDER_WAY: usize = 16;
/// Waits shorter than this are not worth a timer; the account stays exact.
const NOT_WORTH_A_WAIT: Duration = Duration::from_millis(2);
/// How much unused time counts later. Makes good what timers oversleep.
const CREDIT: Duration = Duration::from_millis(10);

/// What a link is like. Rates are in bytes per second and hold in each direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// How long a byte and the response to it take, at least.
    pub round_trip: Duration,
    /// The most that one connection carries.
    pub per_connection: u64,
    /// The most that all connections carry together.
    pub total: u64,
}

impl Link {
    /// A good link to a distant registry: 40 ms, 20 MB/s, 125 MB/s in all.
    pub const DISTANT: Self = Self {
        round_trip: Duration::from_millis(40),
        per_connection: 20_000_000,
        total: 125_000_000,
    };
}

/// What has passed over a link so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traffic {
    /// Connections made.
    pub connections: u64,
    /// Bytes from clients to the server.
    pub up: u64,
    /// Bytes from the server to clients.
    pub down: u64,
}

/// A running proxy. It ends when dropped, and with it all its connections.
#[derive(Debug)]
pub struct SlowLink {
    address: SocketAddr,
    shared: Arc<Shared>,
    _background: Background,
}

#[derive(Debug)]
struct Shared {
    link: Link,
    server: SocketAddr,
    connections: AtomicU64,
    up: Direction,
    down: Direction,
}

/// One direction of the link.
#[derive(Debug)]
struct Direction {
    total: Pace,
    bytes: AtomicU64,
}

impl SlowLink {
    /// A link to `server`, which clients reach at [`SlowLink::address`].
    pub fn start(server: SocketAddr, link: Link) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("opening a port")?;
        let address = listener.local_addr().context("reading the port")?;
        let way = || Direction { total: Pace::new(link.total), bytes: AtomicU64::new(0) };
        let shared = Arc::new(Shared {
            link,
            server,
            connections: AtomicU64::new(0),
            up: way(),
            down: way(),
        });
        let background = Background::start("lab-link")?;
        let listener = background.listener(listener)?;
        background.spawn(accept(listener, shared.clone()));
        Ok(Self { address, shared, _background: background })
    }

    /// Where clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What has passed so far.
    pub fn traffic(&self) -> Traffic {
        Traffic {
            connections: self.shared.connections.load(Ordering::Relaxed),
            up: self.shared.up.bytes.load(Ordering::Relaxed),
            down: self.shared.down.bytes.load(Ordering::Relaxed),
        }
    }
}

async fn accept(listener: tokio::net::TcpListener, shared: Arc<Shared>) {
    loop {
        let Ok((client, _)) = listener.accept().await else { continue };
        shared.connections.fetch_add(1, Ordering::Relaxed);
        tokio::spawn(carry(client, shared.clone()));
    }
}

/// Carries one connection until both directions have ended. What breaks on
/// one side breaks on the other when its half is dropped.
async fn carry(client: TcpStream, shared: Arc<Shared>) {
    // The handshake over such a link takes a round trip; ours took none.
    sleep(shared.link.round_trip).await;
    let Ok(server) = TcpStream::connect(shared.server).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::join!(
        direction(from_client, to_server, &shared.link, &shared.up),
        direction(from_server, to_client, &shared.link, &shared.down),
    );
}

async fn direction(
    from: impl AsyncRead + Unpin,
    to: impl AsyncWrite + Unpin,
    link: &Link,
    way: &Direction,
) {
    let (sender, receiver) = mpsc::channel(PIECES_UNDER_WAY);
    tokio::join!(depart(from, sender, link, way), arrive(to, receiver, way));
}

/// Reads pieces as fast as the link accepts them, and records when each arrives.
async fn depart(
    mut from: impl AsyncRead + Unpin,
    pieces: mpsc::Sender<(Instant, Bytes)>,
    link: &Link,
    way: &Direction,
) {
    let own = Pace::new(link.per_connection);
    let mut buffer = BytesMut::new();
    loop {
        buffer.reserve(PIECE);
        let Ok(count @ 1..) = (&mut from).take(PIECE as u64).read_buf(&mut buffer).await else {
            return;
        };
        let gone = own.send(count).max(way.total.send(count));
        // Credit makes up for lost rate, never for latency.
        let arrival = gone.max(Instant::now()) + link.round_trip / 2;
        if pieces.send((arrival, buffer.split().freeze())).await.is_err() {
            return;
        }
        if gone > Instant::now() + NOT_WORTH_A_WAIT {
            sleep_until(gone).await;
        }
    }
}

async fn arrive(
    mut to: impl AsyncWrite + Unpin,
    mut pieces: mpsc::Receiver<(Instant, Bytes)>,
    way: &Direction,
) {
    while let Some((arrival, piece)) = pieces.recv().await {
        sleep_until(arrival).await;
        if to.write_all(&piece).await.is_err() {
            return;
        }
        way.bytes.fetch_add(piece.len() as u64, Ordering::Relaxed);
    }
    // The other side may already be closed.
    let _ = to.shutdown().await;
}

/// An account of the time that bytes take at a rate.
#[derive(Debug)]
struct Pace {
    bytes_per_second: u64,
    busy_until: Mutex<Instant>,
}

impl Pace {
    fn new(bytes_per_second: u64) -> Self {
        Self { bytes_per_second: bytes_per_second.max(1), busy_until: Mutex::new(Instant::now()) }
    }

    /// When the last of `count` bytes will have been sent, if they arrive now.
    fn send(&self, count: usize) -> Instant {
        let nanos = count as u128 * 1_000_000_000 / u128::from(self.bytes_per_second);
        let takes = Duration::from_nanos(nanos.try_into().unwrap_or(u64::MAX));
        let mut busy_until = self.busy_until.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let earliest = now.checked_sub(CREDIT).unwrap_or(now);
        *busy_until = (*busy_until).max(earliest) + takes;
        *busy_until
    }
}
