//! Update graphs: requested from a service on the connected side, read from archives on the other.

use futures_util::stream::{self, StreamExt};
use image_set::{Distribution, PlatformSection};
use registry::{Access, Client, DocumentRequest, Url};
use release::graph::{Graph, MAX_GRAPH_BYTES};
use release::select::{GraphKey, Graphs, needed};
use workspace::Holdings;

use super::Source;
use crate::collect::documents::Documents;

/// The service of OpenShift, and that of OKD.
const OCP: &str = "https://api.openshift.com/api/upgrades_info/v1/graph";
const OKD: &str = "https://origin-release.ci.openshift.org/graph";
/// Graphs that are requested at once.
const AT_ONCE: usize = 4;
/// Below `working-dir`.
const FOLDER: &str = "hold-release/cincinnati-graph-data";

/// Why a graph is unavailable.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GraphFault {
    #[error("the update service {url} does not have channel {channel}")]
    NotThere { url: String, channel: String },
    #[error("requesting channel {channel} from the update service {url}")]
    Request { url: String, channel: String, source: Box<registry::Error> },
    #[error("reading the update graph of channel {channel} from {place}")]
    Unreadable { channel: String, place: String, source: Box<release::graph::GraphError> },
    #[error(
        "no update graph of channel {channel} for {architecture} is here: mirror this channel on the connected side{held}"
    )]
    NotCarried { channel: String, architecture: &'static str, held: String },
    #[error("reading the update graph of channel {channel}")]
    Document { channel: String, source: workspace::DocumentError },
}

/// A graph, as it was sent and parsed.
pub(crate) type GraphResult = Result<(Vec<u8>, Graph), GraphFault>;

/// Collects all graphs that `section` is selected by. Those that are unavailable
/// are noted as such, and the reasons returned by key.
pub(crate) async fn collect(
    section: &PlatformSection,
    source: Source<'_>,
    service: Option<&Url>,
    documents: &mut Documents,
) -> (Graphs, Vec<(GraphKey, GraphFault)>) {
    let mut graphs = Graphs::new();
    let mut faults = Vec::new();
    loop {
        let wanted = needed(section, &graphs);
        if wanted.is_empty() {
            return (graphs, faults);
        }
        let responses: Vec<(GraphKey, GraphResult)> = stream::iter(wanted)
            .map(|key| async {
                let response = match source {
                    Source::Remote(client) => fetch(client, service, &key).await,
                    Source::Held(holdings) => read(holdings, &key),
                };
                (key, response)
            })
            .buffered(AT_ONCE)
            .collect()
            .await;
        for (key, response) in responses {
            match response {
                Ok((bytes, graph)) => {
                    documents.keep(file_name(&key), bytes);
                    graphs.insert(key, graph);
                }
                Err(fault) => {
                    graphs.give_up(key.clone());
                    faults.push((key, fault));
                }
            }
        }
    }
}

/// Requests one graph from an update service.
pub(crate) async fn fetch(client: &Client, service: Option<&Url>, key: &GraphKey) -> GraphResult {
    let url = address(service, key);
    let channel = || key.channel.clone();
    let plain = || without_secrets(&url);
    let limit = MAX_GRAPH_BYTES as u64;
    let request =
        DocumentRequest { url: &url, accept: "application/json", limit, access: Access::Public };
    let response = client.document(request).await;
    let response = response.map_err(|source| GraphFault::Request {
        url: plain(),
        channel: channel(),
        source: Box::new(source),
    })?;
    let bytes =
        response.ok_or_else(|| GraphFault::NotThere { url: plain(), channel: channel() })?;
    let graph = Graph::parse(&bytes).map_err(|source| GraphFault::Unreadable {
        channel: channel(),
        place: plain(),
        source: Box::new(source),
    })?;
    Ok((bytes, graph))
}

/// Reads a graph of an archive or a workspace.
pub(crate) fn read(holdings: &Holdings, key: &GraphKey) -> GraphResult {
    let channel = || key.channel.clone();
    let name = file_name(key);
    let document = |source| GraphFault::Document { channel: channel(), source };
    let Some(bytes) = holdings.document(&name).map_err(document)? else {
        let held = held_channels(holdings, key).map_err(document)?;
        let held = match held.is_empty() {
            true => String::new(),
            false => format!(" (here are: {})", held.join(", ")),
        };
        let architecture = key.architecture.as_str();
        return Err(GraphFault::NotCarried { channel: channel(), architecture, held });
    };
    let graph = Graph::parse(&bytes).map_err(|source| GraphFault::Unreadable {
        channel: channel(),
        place: name,
        source: Box::new(source),
    })?;
    Ok((bytes, graph))
}

/// The channels of the same architecture that are held.
pub(crate) fn held_channels(
    holdings: &Holdings,
    key: &GraphKey,
) -> Result<Vec<String>, workspace::DocumentError> {
    let prefix = format!("{FOLDER}/{}-", key.architecture.as_str());
    let documents = holdings.document_names()?;
    let channel =
        |name: &String| Some(name.strip_prefix(&prefix)?.strip_suffix(".json")?.to_owned());
    Ok(documents.iter().filter_map(channel).collect())
}

/// Where the response is stored, below `working-dir`.
pub(crate) fn file_name(key: &GraphKey) -> String {
    // Channels are free text; as a file name only the harmless part is used.
    format!("{FOLDER}/{}", key.file_name().replace(['/', '\\'], "_"))
}

/// The URL of the request for one channel and architecture.
fn address(service: Option<&Url>, key: &GraphKey) -> Url {
    let mut url = match (key.distribution, service) {
        (Distribution::Ocp, Some(url)) => url.clone(),
        (Distribution::Ocp, None) => fixed(OCP),
        (Distribution::Okd, _) => fixed(OKD),
    };
    url.query_pairs_mut()
        .append_pair("channel", &key.channel)
        .append_pair("arch", key.architecture.as_str());
    url
}

fn fixed(url: &str) -> Url {
    Url::parse(url).expect("the constant is a valid address")
}

/// An address without what may be secret in it.
fn without_secrets(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.to_string()
}

#[cfg(test)]
mod tests {
    use image_set::Architecture;

    use super::*;

    fn key(distribution: Distribution, channel: &str) -> GraphKey {
        GraphKey::new(distribution, channel, Architecture::Arm64)
    }

    #[test]
    fn the_override_is_for_openshift_and_keeps_its_own_query() {
        let own: Url = "https://me:secret@osus.lan/graph?tenant=1".parse().unwrap();
        let stable = key(Distribution::Ocp, "stable-4.16");
        assert_eq!(
            address(None, &stable).as_str(),
            format!("{OCP}?channel=stable-4.16&arch=arm64")
        );
        let url = address(Some(&own), &stable);
        assert_eq!(url.query(), Some("tenant=1&channel=stable-4.16&arch=arm64"));
        assert_eq!(without_secrets(&url), "https://osus.lan/graph");
        let okd = key(Distribution::Okd, "4-stable");
        assert!(address(Some(&own), &okd).as_str().starts_with(OKD));
    }

    #[test]
    fn a_channel_becomes_a_file_name_that_stays_in_its_folder() {
        let odd = key(Distribution::Ocp, "../../x");
        assert_eq!(file_name(&odd), format!("{FOLDER}/arm64-.._.._x.json"));
    }
}
