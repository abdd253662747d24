//! Sends the probes of [`crate::probe`], all at the same time and with a timeout.

use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::time::{Duration, Instant};

use error_causes::with_causes;
use futures_util::future::join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream, UdpSocket};

use crate::api_trust::ApiTrust;
use crate::dns_query;
use crate::echo;
use crate::message::Message;
use crate::neighbour;
use crate::probe::{CheckProbes, CheckReport, Endpoint, Probe, ProbeReport};
use crate::view::Family;

/// Sends all probes at the same time, each with the timeout `limit`. Without `trust` any server that
/// responds at the address of the API server counts as the API server.
pub(crate) async fn probe(
    requests: &[CheckProbes],
    limit: Duration,
    trust: Option<&ApiTrust>,
) -> Vec<CheckReport> {
    let checks = requests.iter().map(|request| async {
        let probes = request.probes.iter().map(|probe| send(probe, limit, trust));
        request.judge(join_all(probes).await)
    });
    join_all(checks).await
}

async fn send(probe: &Probe, limit: Duration, trust: Option<&ApiTrust>) -> ProbeReport {
    let start = Instant::now();
    let result = tokio::time::timeout(limit, response(probe, trust)).await;
    let (answered, detail) = match result {
        Ok(Ok(detail)) => (true, detail),
        Ok(Err(detail)) => (false, detail),
        Err(_) => (false, format!("no response within {} s", limit.as_secs_f32()).into()),
    };
    let milliseconds = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
    ProbeReport { probe: probe.to_string().into(), answered, detail, milliseconds }
}

async fn response(probe: &Probe, trust: Option<&ApiTrust>) -> Result<Message, Message> {
    match probe {
        Probe::Neighbour { interface, address } => {
            neighbour::resolve(interface, *address)
                .await
                .map_err(|e| Message::new(with_causes(&e)))?;
            Ok("responded".into())
        }
        Probe::Echo(address) => {
            echo::request(*address).await.map_err(|error| Message::new(with_causes(&error)))?;
            Ok("responded".into())
        }
        Probe::Dns { server, interface, name } => {
            query_dns(*server, interface.as_deref(), name).await
        }
        Probe::ApiServer(endpoint) => {
            let target = (endpoint.host.as_str(), endpoint.port);
            let stream = TcpStream::connect(target).await;
            let stream = stream.map_err(|error| Message::new(error.to_string()))?;
            request_api(endpoint, stream, trust).await
        }
        Probe::ApiServerThrough { endpoint, interface, family } => {
            let stream = connect_through(endpoint, interface, *family).await?;
            request_api(endpoint, stream, trust).await
        }
        Probe::Bind(address) => match UdpSocket::bind((*address, 0)).await {
            Ok(_) => Ok("usable".into()),
            Err(error) => Err(format!("not usable yet: {error}").into()),
        },
    }
}

async fn query_dns(
    server: SocketAddr,
    interface: Option<&str>,
    name: &str,
) -> Result<Message, Message> {
    let message = |error: std::io::Error| Message::new(error.to_string());
    let id = u16::try_from(RandomState::new().hash_one(0) & 0xffff).unwrap_or_default();
    let query = dns_query::encode(id, name)
        .ok_or_else(|| Message::new(format!("{name} is not a host name")))?;
    let any: IpAddr = match server.ip() {
        IpAddr::V4(_) => IpAddr::from([0, 0, 0, 0]),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).await.map_err(message)?;
    if let Some(interface) = interface {
        socket.bind_device(Some(interface.as_bytes())).map_err(message)?;
    }
    socket.connect(scoped(server, interface)).await.map_err(message)?;
    let mut packet = [0; 1500];
    loop {
        socket.send(&query).await.map_err(message)?;
        // Datagrams get lost; the caller's deadline ends this.
        let wait = tokio::time::timeout(Duration::from_secs(1), socket.recv(&mut packet)).await;
        let Ok(received) = wait else { continue };
        let received = received.map_err(message)?;
        if dns_query::is_response(&packet[..received], id) {
            return Ok(dns_query::outcome(&packet[..received]).into());
        }
    }
}

/// A link-local server is identified by its link, which `bind_device` sets; the address
/// itself needs no scope then.
fn scoped(server: SocketAddr, interface: Option<&str>) -> SocketAddr {
    match (server, interface) {
        (SocketAddr::V6(v6), Some(_)) => SocketAddrV6::new(*v6.ip(), v6.port(), 0, 0).into(),
        (server, _) => server,
    }
}

/// Without `trust` any byte of a response counts: a TLS server rejects a plain request.
async fn request_api(
    endpoint: &Endpoint,
    mut stream: TcpStream,
    trust: Option<&ApiTrust>,
) -> Result<Message, Message> {
    if let Some(trust) = trust {
        return trust.probe(endpoint, stream).await;
    }
    let message = |error: std::io::Error| Message::new(error.to_string());
    let request = format!("GET /readyz HTTP/1.0\r\nHost: {}\r\n\r\n", endpoint.host);
    stream.write_all(request.as_bytes()).await.map_err(message)?;
    let mut first = [0; 1];
    match stream.read(&mut first).await.map_err(message)? {
        0 => Err("it accepted the connection and closed it without a response".into()),
        _ => Ok("responded".into()),
    }
}

/// Connects through one interface, independent of the routes of others: a connection through
/// another NIC does not show that this interface works.
async fn connect_through(
    endpoint: &Endpoint,
    interface: &str,
    family: Option<Family>,
) -> Result<TcpStream, Message> {
    let message = |error: std::io::Error| Message::new(error.to_string());
    let found = tokio::net::lookup_host((endpoint.host.as_str(), endpoint.port)).await;
    let mut last = Message::from("the name has no address of this family");
    for address in found.map_err(message)? {
        if family.is_some_and(|family| Family::of(&address.ip()) != family) {
            continue;
        }
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4(),
            SocketAddr::V6(_) => TcpSocket::new_v6(),
        };
        let socket = socket.map_err(message)?;
        socket.bind_device(Some(interface.as_bytes())).map_err(message)?;
        match socket.connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = message(error),
        }
    }
    Err(last)
}
