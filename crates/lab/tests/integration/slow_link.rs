//! The slow link, measured.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use lab::link::{Link, SlowLink};

/// A server that sends `size` bytes to a client that sends one, and then closes.
fn server(size: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            thread::spawn(move || {
                let mut stream = stream.unwrap();
                let mut requested = [0];
                if stream.read_exact(&mut requested).is_ok() {
                    let piece = vec![7; 64 << 10];
                    let mut left = size;
                    while left > 0 {
                        let count = left.min(piece.len());
                        stream.write_all(&piece[..count]).unwrap();
                        left -= count;
                    }
                }
            });
        }
    });
    address
}

/// Fetches over so many connections at once and returns how long it took.
fn fetch(from: SocketAddr, connections: usize) -> (usize, Duration) {
    let began = Instant::now();
    let fetchers: Vec<_> = (0..connections)
        .map(|_| {
            thread::spawn(move || {
                let mut stream = TcpStream::connect(from).unwrap();
                stream.write_all(&[1]).unwrap();
                let mut buffer = vec![0; 256 << 10];
                let mut total = 0;
                loop {
                    match stream.read(&mut buffer).unwrap() {
                        0 => return total,
                        count => total += count,
                    }
                }
            })
        })
        .collect();
    let total = fetchers.into_iter().map(|fetcher| fetcher.join().unwrap()).sum();
    (total, began.elapsed())
}

/// Bytes per second once the handshake and the first request have passed.
fn rate(bytes: usize, took: Duration, link: &Link) -> f64 {
    bytes as f64 / (took - 2 * link.round_trip).as_secs_f64()
}

#[test]
fn one_connection_gets_its_rate_and_many_share_the_total() {
    let size = 20_000_000;
    let link = SlowLink::start(server(size), Link::DISTANT).unwrap();
    let (bytes, took) = fetch(link.address(), 1);
    assert_eq!(bytes, size);
    let one = rate(bytes, took, &Link::DISTANT);
    let (bytes, took) = fetch(link.address(), 10);
    let many = rate(bytes, took, &Link::DISTANT);
    println!("one connection: {one:.0}, ten: {many:.0} bytes/s");
    // Never faster than specified. A busy machine makes it slower by any amount.
    assert!(one < 20_400_000.0, "{one}");
    assert!(many < 127_500_000.0, "{many}");
    let traffic = link.traffic();
    assert_eq!((traffic.connections, traffic.up, traffic.down), (11, 11, 11 * size as u64));
}

#[test]
fn a_request_takes_a_round_trip_and_a_new_connection_one_more() {
    let link = Link { round_trip: Duration::from_millis(100), ..Link::DISTANT };
    let slow = SlowLink::start(server(1), link).unwrap();
    let (bytes, took) = fetch(slow.address(), 1);
    assert_eq!(bytes, 1);
    assert!(took >= 2 * link.round_trip, "{took:?}");
}
