//! Asks the questions of [`crate::probe`]: briefly, and all at once.

use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream, UdpSocket};

use crate::api_trust::ApiTrust;
use crate::dns_query;
use crate::message::Message;
use crate::neighbour;
use crate::probe::{ClauseReport, Endpoint, Probe, ProbeReport, Question};
use crate::view::Family;

/// Asks everything at once; each probe has `limit` to be answered. Without `trust` nothing tells an
/// API server from others that respond at its address.
pub(crate) async fn ask(
    questions: &[Question],
    limit: Duration,
    trust: Option<&ApiTrust>,
) -> Vec<ClauseReport> {
    let clauses = questions.iter().map(|question| async {
        let probes = question.probes.iter().map(|probe| ask_one(probe, limit, trust));
        question.judge(join_all(probes).await)
    });
    join_all(clauses).await
}

async fn ask_one(probe: &Probe, limit: Duration, trust: Option<&ApiTrust>) -> ProbeReport {
    let start = Instant::now();
    let result = tokio::time::timeout(limit, answer(probe, trust)).await;
    let (answered, detail) = match result {
        Ok(Ok(detail)) => (true, detail),
        Ok(Err(detail)) => (false, detail),
        Err(_) => (false, format!("no answer within {} s", limit.as_secs_f32()).into()),
    };
    let milliseconds = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
    ProbeReport { probe: probe.to_string().into(), answered, detail, milliseconds }
}

async fn answer(probe: &Probe, trust: Option<&ApiTrust>) -> Result<Message, Message> {
    match probe {
        Probe::Neighbour { interface, address } => {
            neighbour::resolve(interface, *address).await.map_err(|e| chain(&e))?;
            Ok("answered".into())
        }
        Probe::Dns { server, interface, name } => {
            ask_dns(*server, interface.as_deref(), name).await
        }
        Probe::Answer(endpoint) => {
            let target = (endpoint.host.as_str(), endpoint.port);
            let stream = TcpStream::connect(target).await;
            let stream = stream.map_err(|error| Message::new(error.to_string()))?;
            ask_api(endpoint, stream, trust).await
        }
        Probe::AnswerThrough { endpoint, interface, family } => {
            let stream = connect_through(endpoint, interface, *family).await?;
            ask_api(endpoint, stream, trust).await
        }
        Probe::Bind(address) => match UdpSocket::bind((*address, 0)).await {
            Ok(_) => Ok("usable".into()),
            Err(error) => Err(format!("not usable yet: {error}").into()),
        },
    }
}

async fn ask_dns(
    server: SocketAddr,
    interface: Option<&str>,
    name: &str,
) -> Result<Message, Message> {
    let say = |error: std::io::Error| Message::new(error.to_string());
    let id = u16::try_from(RandomState::new().hash_one(0) & 0xffff).unwrap_or_default();
    let query = dns_query::encode(id, name)
        .ok_or_else(|| Message::new(format!("{name} is no host name to ask about")))?;
    let any: IpAddr = match server.ip() {
        IpAddr::V4(_) => IpAddr::from([0, 0, 0, 0]),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).await.map_err(say)?;
    if let Some(interface) = interface {
        socket.bind_device(Some(interface.as_bytes())).map_err(say)?;
    }
    socket.connect(scoped(server, interface)).await.map_err(say)?;
    let mut packet = [0; 1500];
    loop {
        socket.send(&query).await.map_err(say)?;
        // Datagrams get lost; the caller's deadline ends this.
        let wait = tokio::time::timeout(Duration::from_secs(1), socket.recv(&mut packet)).await;
        let Ok(received) = wait else { continue };
        let received = received.map_err(say)?;
        if dns_query::answers(&packet[..received], id) {
            return Ok(dns_query::outcome(&packet[..received]).into());
        }
    }
}

/// A link-local server is told apart by its link, which `bind_device` gives; the address
/// itself needs no scope then.
fn scoped(server: SocketAddr, interface: Option<&str>) -> SocketAddr {
    match (server, interface) {
        (SocketAddr::V6(v6), Some(_)) => SocketAddrV6::new(*v6.ip(), v6.port(), 0, 0).into(),
        (server, _) => server,
    }
}

/// Without `trust` any byte that comes back counts: a server that speaks TLS rejects a plain request.
async fn ask_api(
    endpoint: &Endpoint,
    mut stream: TcpStream,
    trust: Option<&ApiTrust>,
) -> Result<Message, Message> {
    if let Some(trust) = trust {
        return trust.ask(endpoint, stream).await;
    }
    let say = |error: std::io::Error| Message::new(error.to_string());
    let request = format!("GET /readyz HTTP/1.0\r\nHost: {}\r\n\r\n", endpoint.host);
    stream.write_all(request.as_bytes()).await.map_err(say)?;
    let mut first = [0; 1];
    match stream.read(&mut first).await.map_err(say)? {
        0 => Err("it took the connection and closed it without a word".into()),
        _ => Ok("answered".into()),
    }
}

/// Connects by one interface, whichever routes others have: a node that reaches the API server by
/// another NIC tells nothing about this interface.
async fn connect_through(
    endpoint: &Endpoint,
    interface: &str,
    family: Option<Family>,
) -> Result<TcpStream, Message> {
    let say = |error: std::io::Error| Message::new(error.to_string());
    let found = tokio::net::lookup_host((endpoint.host.as_str(), endpoint.port)).await;
    let mut last = Message::from("the name has no address of this family");
    for address in found.map_err(say)? {
        if family.is_some_and(|family| Family::of(&address.ip()) != family) {
            continue;
        }
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4(),
            SocketAddr::V6(_) => TcpSocket::new_v6(),
        };
        let socket = socket.map_err(say)?;
        socket.bind_device(Some(interface.as_bytes())).map_err(say)?;
        match socket.connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = say(error),
        }
    }
    Err(last)
}

fn chain(error: &dyn std::error::Error) -> Message {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(&format!(": {error}"));
        source = error.source();
    }
    text.into()
}
