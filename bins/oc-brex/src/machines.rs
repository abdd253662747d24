//! Documents that name their machine with `# brex-match:` lines: read as brex-firstboot reads them,
//! and compared with each other and with the states of nodes.

use std::collections::{BTreeMap, BTreeSet};

use br_ex::hosts::{HostDocument, Naming, Reader};
use br_ex::node_state::NodeState;
use br_ex::{Finding, RuleId, Severity};
use br_ex_authoring::inventory::short_name;
use first_boot::Mac;
use first_boot::matching::{Match, MatchError, matches};
use located_yaml::Position;

use crate::cluster::objects::macs;

/// The lines of a document that name a machine.
#[derive(Debug, Clone, Default)]
pub(crate) struct Named {
    /// The host in the name of the document.
    host: Option<String>,
    reader: Reader,
    matches: Vec<(usize, Match)>,
    error: Option<(usize, String)>,
}

impl Named {
    /// Reads the top of a document.
    pub(crate) fn read(host: Option<&str>, reader: Reader, bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let mut named = Self { host: host.map(str::to_owned), reader, ..Self::default() };
        match matches(&text) {
            Ok(found) => named.matches = lines(&text).zip(found).collect(),
            Err(error) => {
                let (line, message) = match &error {
                    MatchError::Mac { line, source } => (*line, source.to_string()),
                    MatchError::Unknown { line, text } => {
                        (*line, format!("expected mac=… or serial=…, found {text:?}"))
                    }
                };
                named.error = Some((line, message));
            }
        }
        named
    }

    fn short_host(&self) -> Option<&str> {
        self.host.as_deref().map(short_name)
    }
}

/// The numbers of the lines that name a machine.
fn lines(text: &str) -> impl Iterator<Item = usize> {
    let is_match = |line: &str| {
        line.trim().trim_start_matches('#').trim_start().starts_with("brex-match:")
            && line.trim().starts_with('#')
    };
    let numbered = text.lines().enumerate();
    numbered.filter(move |(_, line)| is_match(line)).map(|(index, _)| index + 1)
}

fn finding(line: usize, severity: Severity, message: String) -> Finding {
    Finding { at: Position { line, column: 1 }, rule: RuleId::B43, severity, message }
}

/// What is wrong with these lines: the number of the document, and the finding.
pub(crate) fn check(documents: &[Named], states: &[NodeState]) -> Vec<(usize, Finding)> {
    let mut all = Vec::new();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for (number, document) in documents.iter().enumerate() {
        if let Some((line, message)) = &document.error {
            let message = format!("`brex-match`: {message}");
            all.push((number, finding(*line, Severity::Error, message)));
        }
        for (line, machine) in &document.matches {
            let first = *seen.entry(machine.to_string()).or_insert(number);
            let other = &documents[first];
            // A document that goes to two roles is in the list twice.
            if first != number
                && (other.host.is_none() || other.short_host() != document.short_host())
            {
                let of = other.host.as_deref().unwrap_or("another host");
                let message = format!("the document of {of} names {machine}, too");
                all.push((number, finding(*line, Severity::Error, message)));
            }
        }
        let Some((line, _)) = document.matches.first() else { continue };
        if document.reader == Reader::Mco {
            let message = "the machine config operator's nmstate-configuration does not read \
                           `brex-match`: the file name alone selects the node";
            all.push((number, finding(*line, Severity::Warning, message.to_owned())));
        }
        let compared = compare(document, states);
        all.extend(compared.map(|message| (number, finding(*line, Severity::Error, message))));
    }
    all
}

/// Documents of hosts that no installer lists, where one lists hosts. It may be a host that is added
/// later, so this is a warning.
pub(crate) fn unlisted(documents: &[Named], listed: &BTreeSet<String>) -> Vec<(usize, Finding)> {
    if listed.is_empty() {
        return Vec::new();
    }
    let unlisted = |(number, document): (usize, &Named)| {
        let host = document.short_host()?;
        // A document that names its machine may be called anything.
        if listed.contains(host) || !document.matches.is_empty() {
            return None;
        }
        let distance = |known: &&String| strsim::levenshtein(known, host);
        let nearest = listed.iter().min_by_key(distance).filter(|it| distance(it) <= 2);
        let meant = nearest.map(|known| format!("; is {known} meant?")).unwrap_or_default();
        let message = format!("no installer lists a host {host}, so no node uses it{meant}");
        let (at, severity) = (Position::START, Severity::Warning);
        Some((number, Finding { at, rule: RuleId::B30, severity, message }))
    };
    documents.iter().enumerate().filter_map(unlisted).collect()
}

/// Listed hosts without a document, where others have one. A document for all hosts is for these.
pub(crate) fn without_document<'a>(
    documents: &[HostDocument],
    listed: &'a BTreeSet<String>,
) -> Vec<&'a String> {
    let mut named = documents.iter().filter(|it| it.naming != Naming::Loose).peekable();
    if named.peek().is_none() || documents.iter().any(HostDocument::is_for_all) {
        return Vec::new();
    }
    let hosts: BTreeSet<&str> = named.map(|it| short_name(it.host())).collect();
    listed.iter().filter(|host| !hosts.contains(host.as_str())).collect()
}

/// Whether the node that the document is named after is the machine that it names.
fn compare(document: &Named, states: &[NodeState]) -> Option<String> {
    let wanted: Vec<Mac> = document
        .matches
        .iter()
        .filter_map(|(_, machine)| match machine {
            Match::Mac(mac) => Some(*mac),
            Match::Serial(_) => None,
        })
        .collect();
    // A state does not contain the serial number, so it may be the right machine.
    if wanted.is_empty() || wanted.len() < document.matches.len() {
        return None;
    }
    let host = document.short_host()?;
    let is_node = |state: &&NodeState| state.name.as_deref().map(short_name) == Some(host);
    let state = states.iter().find(is_node)?;
    if wanted.iter().any(|mac| macs(&state.state).contains(mac)) {
        return None;
    }
    let texts: Vec<String> = wanted.iter().map(ToString::to_string).collect();
    let owner =
        states.iter().find(|state| wanted.iter().any(|mac| macs(&state.state).contains(mac)));
    let of = owner.and_then(|state| state.name.as_deref());
    let hint = of.map(|name| format!("; {name} has it")).unwrap_or_default();
    let listed = texts.join(" or ");
    Some(format!("node {host} has no NIC with {listed}, so brex-firstboot refuses it there{hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(host: &str, text: &str) -> Named {
        Named::read(Some(host), Reader::FirstBoot, text.as_bytes())
    }

    fn messages(documents: &[Named], states: &[NodeState]) -> Vec<String> {
        let found = check(documents, states);
        found.iter().map(|(number, finding)| format!("{number}: {finding}")).collect()
    }

    #[test]
    fn lines_that_cannot_be_read_and_machines_of_two_documents_are_errors() {
        let documents = [
            named("w0", "# ours\n# brex-match: mac=52:54:00:00:00:01\ninterfaces: []\n"),
            named("w1", "# brex-match: name=w1\n"),
            named("w2", "# brex-match: mac=52-54-00-00-00-01\n"),
            // The same host in another role.
            named("w0.example.com", "# brex-match: mac=52:54:00:00:00:01\n"),
        ];
        assert_eq!(
            messages(&documents, &[]),
            [
                "1: 1:1: error: `brex-match`: expected mac=… or serial=…, found \"name=w1\" [B43]",
                "2: 1:1: error: the document of w0 names MAC 52:54:00:00:00:01, too [B43]",
            ]
        );
    }

    #[test]
    fn a_document_is_compared_with_the_node_of_its_name() {
        let states = br_ex::node_state::parse(
            "kind: List\nitems:\n- kind: NodeNetworkState\n  metadata: {name: w0.example.com}\n  status: \
             {currentState: {interfaces: [{name: eth0, type: ethernet, mac-address: '52:54:00:00:00:01'}]}}\n\
             - kind: NodeNetworkState\n  metadata: {name: w1}\n  status: {currentState: {interfaces: \
             [{name: eth0, type: ethernet, mac-address: '52:54:00:00:00:02'}]}}\n",
        )
        .unwrap();
        let right = named("w0", "# brex-match: mac=52:54:00:00:00:01\n");
        assert_eq!(messages(&[right], &states), Vec::<String>::new());
        let wrong = named("w0", "# brex-match: mac=52:54:00:00:00:02\n");
        let [line] = messages(&[wrong], &states).try_into().unwrap();
        assert!(line.contains("node w0 has no NIC with 52:54:00:00:00:02"), "{line}");
        assert!(line.contains("; w1 has it"), "{line}");
        let by_serial = named("w0", "# brex-match: serial=CZ1\n");
        assert_eq!(messages(&[by_serial], &states), Vec::<String>::new());
    }

    #[test]
    fn the_operators_own_script_does_not_read_the_lines() {
        let text = b"# brex-match: serial=CZ1\n";
        let [(_, finding)] =
            check(&[Named::read(Some("w0"), Reader::Mco, text)], &[]).try_into().unwrap();
        assert_eq!(finding.severity, Severity::Warning);
    }
}
