//! Requests that a registry received, from its access log.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use lab::docker_registry::DockerRegistry;
use oci::Digest;

/// Counted requests and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Traffic {
    pub(crate) requests: u64,
    /// Requests for manifests and blobs without their bodies.
    pub(crate) heads: u64,
    /// Bytes of blobs that were sent to clients.
    pub(crate) blob_bytes: u64,
    /// Those of them that had been sent before.
    pub(crate) blob_bytes_again: u64,
    /// Blobs that clients sent, and their bytes.
    pub(crate) uploads: u64,
    pub(crate) upload_bytes: u64,
    /// Uploads of a blob that had been uploaded before.
    pub(crate) uploads_again: u64,
    /// Blobs that were mounted from another repository.
    pub(crate) mounts: u64,
    /// Processor time of the registry itself.
    pub(crate) cpu: Duration,
}

/// One line of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Request<'a> {
    method: &'a str,
    path: &'a str,
    status: u16,
    sent: u64,
}

/// Counts the requests to a registry from its start on.
#[derive(Debug)]
pub(crate) struct Watch {
    log: PathBuf,
    from: u64,
    pid: u32,
    cpu: Duration,
}

impl Watch {
    /// Counts requests from now on.
    pub(crate) fn start(registry: &DockerRegistry) -> Result<Self> {
        let log = registry.access_log();
        let from =
            log.metadata().with_context(|| format!("reading the size of {}", log.display()))?.len();
        let pid = registry.pid();
        Ok(Self { log, from, pid, cpu: processor_time(pid)? })
    }

    /// The requests so far. Sizes of uploads are not in the log; `sizes` has them.
    pub(crate) fn traffic(&self, sizes: &BTreeMap<Digest, u64>) -> Result<Traffic> {
        let reading = || format!("reading {}", self.log.display());
        let mut file = File::open(&self.log).with_context(reading)?;
        file.seek(SeekFrom::Start(self.from)).with_context(reading)?;
        let lines: Vec<String> =
            BufReader::new(file).lines().collect::<Result<_, _>>().with_context(reading)?;
        let counted = count(lines.iter().filter_map(|line| parse(line)), sizes);
        Ok(Traffic { cpu: processor_time(self.pid)?.saturating_sub(self.cpu), ..counted })
    }
}

/// The processor time of a process so far, user and system time together.
fn processor_time(pid: u32) -> Result<Duration> {
    /// The unit of times in `/proc`.
    const TICK: Duration = Duration::from_millis(10);
    let path = format!("/proc/{pid}/stat");
    let stat = fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
    // The name of the program is before that, in parentheses, and may contain any character.
    let (_, fields) = stat.rsplit_once(')').with_context(|| format!("reading {path}"))?;
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks: u32 = ticks.filter_map(|ticks| ticks.parse::<u32>().ok()).sum();
    Ok(TICK * ticks)
}

fn count<'a>(
    requests: impl Iterator<Item = Request<'a>>,
    sizes: &BTreeMap<Digest, u64>,
) -> Traffic {
    let mut traffic = Traffic::default();
    let mut sent: BTreeMap<Digest, u64> = BTreeMap::new();
    let mut uploaded: BTreeMap<Digest, u64> = BTreeMap::new();
    for request in requests {
        traffic.requests += 1;
        match request.method {
            "HEAD" => traffic.heads += 1,
            "GET" if request.path.contains("/blobs/") && request.status < 300 => {
                traffic.blob_bytes += request.sent;
                if let Some(digest) = digest_after(request.path, "/blobs/") {
                    *sent.entry(digest).or_default() += request.sent;
                }
            }
            "PUT" if request.path.contains("/blobs/uploads/") && request.status == 201 => {
                traffic.uploads += 1;
                if let Some(digest) = digest_after(request.path, "digest=") {
                    *uploaded.entry(digest).or_default() += 1;
                    traffic.upload_bytes += sizes.get(&digest).copied().unwrap_or_default();
                }
            }
            "POST" if request.path.contains("mount=") && request.status == 201 => {
                traffic.mounts += 1;
            }
            _ => {}
        }
    }
    let size = |digest: &Digest| sizes.get(digest).copied().unwrap_or(u64::MAX);
    traffic.blob_bytes_again =
        sent.iter().map(|(digest, bytes)| bytes.saturating_sub(size(digest))).sum();
    traffic.uploads_again = uploaded.values().map(|times| times - 1).sum();
    traffic
}

/// The digest that follows `mark`, plain or with its colon escaped.
fn digest_after(path: &str, mark: &str) -> Option<Digest> {
    let (_, rest) = path.split_once(mark)?;
    let hex = rest.strip_prefix("sha256:").or_else(|| rest.strip_prefix("sha256%3A"))?;
    Digest::from_hex(hex.get(..64)?).ok()
}

/// Reads a line of Apache's combined format: `… [time] "GET /v2/ HTTP/1.1" 200 2 "" "agent"`.
fn parse(line: &str) -> Option<Request<'_>> {
    let (_, rest) = line.split_once("] \"")?;
    let (request, rest) = rest.split_once("\" ")?;
    let mut words = request.split(' ');
    let (method, path) = (words.next()?, words.next()?);
    let mut numbers = rest.split(' ');
    let (status, sent) = (numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?);
    Some(Request { method, path, status, sent })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae";

    fn line(request: &str, status: u16, sent: u64) -> String {
        format!(
            "127.0.0.1 - - [15/Nov/2026:22:00:00 +0000] \"{request} HTTP/1.1\" {status} {sent} \"\" \"agent/1 (x \\\"y\\\")\""
        )
    }

    fn counted(lines: &[String]) -> Traffic {
        let sizes = BTreeMap::from([(Digest::from_hex(HEX).unwrap(), 100)]);
        count(lines.iter().filter_map(|line| parse(line)), &sizes)
    }

    #[test]
    fn bytes_that_are_sent_twice_are_counted_separately() {
        let get = format!("GET /v2/a/blobs/sha256:{HEX}");
        let traffic = counted(&[line(&get, 200, 100), line(&get, 206, 40), line(&get, 404, 90)]);
        assert_eq!((traffic.requests, traffic.blob_bytes, traffic.blob_bytes_again), (3, 140, 40));
    }

    #[test]
    fn uploads_count_by_digest_however_it_is_escaped_and_mounts_only_when_granted() {
        let put = |mark| format!("PUT /v2/a/blobs/uploads/u?_state=s&digest=sha256{mark}{HEX}");
        let mount = format!("POST /v2/b/blobs/uploads/?mount=sha256%3A{HEX}&from=a");
        let traffic = counted(&[
            line(&put(":"), 201, 0),
            line(&put("%3A"), 201, 0),
            line(&put(":"), 400, 0),
            line(&mount, 201, 0),
            line(&mount, 202, 0),
        ]);
        assert_eq!((traffic.uploads, traffic.upload_bytes), (2, 200));
        assert_eq!((traffic.uploads_again, traffic.mounts), (1, 1));
    }

    #[test]
    fn a_line_that_is_not_a_request_is_ignored() {
        assert_eq!(parse("time=\"2026\" level=info msg=\"listening\""), None);
    }
}
