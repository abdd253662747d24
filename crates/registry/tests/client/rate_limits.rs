//! Limits on the rate hold for real transfers, in both directions.

use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use lab::registry::Settings;
use registry::{Allowed, Client, RateLimiter, Side, Timeouts};

use crate::{fetch, lab, location, stored_blob, upload};

fn limited(side: Side, limits: &[&RateLimiter]) -> Client {
    let limits = limits.iter().map(|limiter| (*limiter).clone()).collect();
    // Shorter than the waits for the limit: those are not stalls.
    let timeouts = Timeouts { stall: Duration::from_millis(150), ..Timeouts::default() };
    let settings = registry::Settings { limits, timeouts, ..crate::settings(side) };
    Client::open(settings).unwrap()
}

fn per_second(bytes: u64) -> RateLimiter {
    RateLimiter::new(Allowed::BytesPerSecond(NonZeroU64::new(bytes).unwrap()))
}

/// At least this long: a limit is a lower bound on the time, so a busy machine cannot fail the test.
#[tokio::test]
async fn downloads_and_uploads_keep_to_a_limit_that_they_share() {
    let registry = lab(Settings::default());
    let (blob, content) = stored_blob(&registry, "a", 300_000);
    let limiter = per_second(400_000);
    let (from, to) = (limited(Side::Source, &[&limiter]), limited(Side::Destination, &[&limiter]));
    let start = Instant::now();
    let at = location(&registry, "a");
    let copy = bytes::Bytes::from(vec![7; 300_000]);
    let target = location(&registry, "b");
    let (fetched, uploaded) =
        tokio::join!(fetch(&from, &at, blob, 0), upload(&to, &target, &copy, None));
    assert_eq!(fetched.unwrap(), content);
    uploaded.unwrap();
    assert!(start.elapsed() >= Duration::from_millis(1200), "{:?}", start.elapsed());
    assert_eq!((from.traffic().retries, to.traffic().retries), (0, 0));
}

#[tokio::test]
async fn no_request_is_sent_while_nothing_is_allowed_and_a_transfer_waits_in_the_middle() {
    let registry = lab(Settings::default());
    let (blob, content) = stored_blob(&registry, "a", 300_000);
    let limiter = RateLimiter::new(Allowed::Nothing);
    let client = limited(Side::Source, &[&limiter]);
    let at = location(&registry, "a");
    let fetching = tokio::spawn({
        let (client, at) = (client.clone(), at.clone());
        async move { fetch(&client, &at, blob, 0).await }
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(registry.requests().count(), 0);
    limiter.set(Allowed::BytesPerSecond(NonZeroU64::new(200_000).unwrap()));
    tokio::time::sleep(Duration::from_millis(300)).await;
    limiter.set(Allowed::Nothing);
    tokio::time::sleep(Duration::from_millis(300)).await;
    let paused = client.traffic().received;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(client.traffic().received, paused);
    assert!(paused < blob.size, "{paused}");
    limiter.set(Allowed::Everything);
    assert_eq!(fetching.await.unwrap().unwrap(), content);
    assert_eq!(client.traffic().retries, 0);
}
