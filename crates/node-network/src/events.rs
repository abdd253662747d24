//! Signals that the network of this machine changed: the kernel's and NetworkManager's.
//!
//! They report that something changed, not what. To find that out, read the state.

use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use rtnetlink::MulticastGroup;
use zbus::message::Type;
use zbus::{Connection, MatchRule, MessageStream};

/// The kernel's events to receive. Neighbours are left out: they change all the time.
const GROUPS: [MulticastGroup; 7] = [
    MulticastGroup::Link,
    MulticastGroup::Ipv4Ifaddr,
    MulticastGroup::Ipv6Ifaddr,
    MulticastGroup::Ipv4Route,
    MulticastGroup::Ipv6Route,
    MulticastGroup::Ipv4Rule,
    MulticastGroup::Ipv6Rule,
];
/// Queued signals; more add no information.
const QUEUE: usize = 64;

#[derive(Debug, thiserror::Error)]
pub enum EventsError {
    #[error("listening for changes of the network in the kernel")]
    Kernel(#[source] std::io::Error),
    #[error("listening for changes of the network in NetworkManager")]
    Manager(#[source] zbus::Error),
}

/// A stream with an item for each signal. It ends when one of the two sources ends.
pub async fn listen() -> Result<BoxStream<'static, ()>, EventsError> {
    let (connection, handle, messages) =
        rtnetlink::new_multicast_connection(&GROUPS).map_err(EventsError::Kernel)?;
    // The connection moves messages while it is awaited; its end is the end of them.
    let driver = stream::once(async move {
        connection.await;
        drop(handle);
    });
    let kernel = messages.map(|_| Some(()));
    let kernel = stream::select(kernel, driver.map(|()| None));
    let bus = Connection::system().await.map_err(EventsError::Manager)?;
    let rule = MatchRule::builder()
        .msg_type(Type::Signal)
        .sender("org.freedesktop.NetworkManager")
        .map_err(EventsError::Manager)?
        .build();
    let signals = MessageStream::for_match_rule(rule, &bus, Some(QUEUE))
        .await
        .map_err(EventsError::Manager)?;
    let signals = signals.map(|_| Some(())).chain(stream::once(async { None }));
    let all = stream::select(kernel, signals);
    Ok(all.take_while(|sign| std::future::ready(sign.is_some())).map(drop).boxed())
}
