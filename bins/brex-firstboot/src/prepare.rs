//! What `stage` and `apply` have in common: choose the document, wait for a host name if necessary,
//! check the document, count the try, save the profiles.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use br_ex::{ClusterFacts, Content, Document, Severity};
use first_boot::attempt::Found;
use first_boot::report::{Chosen, Ending, Entry, FindingLine, Listed};
use first_boot::{Attempt, Candidate, ChoiceError, Machine, Scope, choice};
use node_network::{Demand, NetworkState, settings};

use crate::disk::Disk;
use crate::facts_of_boot;
use crate::layout::FLAG;
use crate::node::Node;
use crate::{rollback, saved};

const POLL: Duration = Duration::from_millis(500);
/// A state that is larger is left out of the report.
const LARGEST_STATE: usize = 256 << 10;

/// How a document is chosen.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    pub(crate) required: bool,
    pub(crate) hostname: Option<String>,
    pub(crate) hostname_timeout: Duration,
    pub(crate) tries: u32,
}

/// The document to continue with.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) candidate: Candidate,
    /// The state to apply; the captures of a policy are resolved.
    pub(crate) desired: NetworkState,
    /// The attempt of this boot with this document, when one has started.
    pub(crate) begun: Option<Attempt>,
    pub(crate) before: Option<NetworkState>,
}

/// Everything that needs no change of the disk. `None`: the entry has the reason to stop.
pub(crate) fn choose(
    disk: &Disk,
    node: &impl Node,
    boot_id: &str,
    rules: &Rules,
    entry: &mut Entry,
) -> Result<Option<Prepared>> {
    rollback::finish_earlier(disk, node, entry);
    if disk.exists(FLAG) {
        return Ok(stop(
            entry,
            Ending::NothingToDo,
            "br-ex was confirmed before; the flag is there",
        ));
    }
    // Only after a boot that started an attempt and did not end it, and only when `recover` did not
    // run before NetworkManager.
    if let Some(attempt) = saved::current(disk)?
        && attempt.boot_id != boot_id
    {
        entry.restored = Some(rollback::roll_back(disk, node, &attempt, boot_id)?);
        entry.notes.push("an attempt of an earlier boot was rolled back first".into());
    }
    let candidates = facts_of_boot::candidates(disk)?;
    entry.candidates = candidates.iter().map(listed).collect();
    let machine = wait_for_name(disk, node, rules, &candidates)?;
    let choice = match choice::choose(&machine, &candidates) {
        Ok(Some(choice)) => choice,
        Ok(None) => return Ok(no_document(entry, rules, &machine, &candidates)),
        Err(error) => return Ok(stop(entry, Ending::Refused, chain(&error))),
    };
    let candidate = choice.document.clone();
    entry.document = Some(Chosen {
        file: candidate.file.clone(),
        sha256: candidate.hash.clone(),
        because: choice.because.into(),
    });

    let before = node.state();
    if let Err(error) = &before {
        entry.notes.push(format!("{error:#}; the document is checked without it").into());
    }
    let before = before.ok();
    entry.network = before.as_ref().and_then(network_report);
    let document = Document::parse(&candidate.bytes);
    if !check(&document, before.as_ref(), entry) {
        let errors = entry.findings.iter().filter(|finding| finding.severity == "error");
        let errors: Vec<String> = errors
            .map(|f| {
                format!("{}:{}:{}: {} [{}]", candidate.file, f.line, f.column, f.message, f.rule)
            })
            .collect();
        return Ok(stop(entry, Ending::Refused, errors.join("; ")));
    }

    if facts_of_boot::would_wait_forever(disk) {
        let message = "nodeip-configuration selected no address for this node, and wait-for-node-ip \
             waits for one as soon as br-ex is confirmed: the node would not pass its next boot; \
             enable nodeip-configuration.service, or disable wait-for-node-ip.service";
        return Ok(stop(entry, Ending::Refused, message));
    }
    let desired = match desired(&document, before.as_ref()) {
        Ok(desired) => desired,
        Err(error) => {
            let message = format!("{}: {error:#}", candidate.file);
            return Ok(stop(entry, Ending::Refused, message));
        }
    };

    let begun = saved::current(disk)?;
    match begun.as_ref().map(|attempt| attempt.seen_by(boot_id, &candidate.hash)) {
        None | Some(Found::Continue) => {}
        Some(Found::Interrupted | Found::OtherDocument) => {
            let message = "another document is staged in this boot; `brex-firstboot confirm` or a reboot ends that";
            return Ok(stop(entry, Ending::Refused, message));
        }
    }
    let tried = saved::tries(disk)?.of(&candidate.hash);
    if begun.is_none() && tried >= rules.tries {
        let message = format!(
            "{} failed {tried} times and is not retried; change it, or remove {}",
            candidate.file,
            crate::layout::TRIES
        );
        return Ok(stop(entry, Ending::GaveUp, message));
    }
    entry.attempt = Some(if begun.is_none() { tried + 1 } else { tried });
    Ok(Some(Prepared { candidate, desired, begun, before }))
}

/// Counts the try and saves the profiles. From here on, a crash is rolled back.
pub(crate) fn begin(
    disk: &Disk,
    node: &impl Node,
    boot_id: &str,
    prepared: &Prepared,
    staged_as: Option<String>,
    entry: &mut Entry,
) -> Result<Attempt> {
    let active_profiles = node.active_profiles().unwrap_or_else(|error| {
        entry.notes.push(format!("{error:#}; it is not known which profiles are in use").into());
        Vec::new()
    });
    let attempt = Attempt {
        version: Attempt::VERSION,
        document: prepared.candidate.file.clone(),
        sha256: prepared.candidate.hash.clone(),
        staged_as,
        boot_id: boot_id.to_owned(),
        active_profiles,
        scope: Some(Scope::of(&prepared.desired, prepared.before.as_ref())),
        demand: Some(Demand::of(&prepared.desired, br_ex::BRIDGE)),
        settings: settings_before(prepared, entry),
    };
    let tries = saved::tries(disk)?.with_one_more(&prepared.candidate.hash);
    saved::write_tries(disk, &tries)?;
    saved::begin(disk, &attempt, &prepared.candidate.bytes)?;
    Ok(attempt)
}

/// Current values of settings that the document changes and that are not part of a profile.
fn settings_before(prepared: &Prepared, entry: &mut Entry) -> Option<NetworkState> {
    let before = prepared.before.as_ref()?;
    let found = settings::before(&prepared.desired, before).unwrap_or_else(|error| {
        let problem =
            format!("{error}; a rollback does not restore host name, Open vSwitch and OVN");
        entry.notes.push(problem.into());
        None
    });
    let Some(dns) = before.dns.as_ref().filter(|_| prepared.desired.dns.is_some()) else {
        return found;
    };
    let mut settings = found.unwrap_or_default();
    settings.dns = Some(dns.clone());
    Some(settings)
}

/// The state to apply. A policy is resolved against the network as it is.
fn desired(document: &Document, before: Option<&NetworkState>) -> Result<NetworkState> {
    match document.content().context("nmstate cannot read it")? {
        Content::State(state) => Ok((**state).clone()),
        Content::Policy(policy) => {
            let mut policy = (**policy).clone();
            policy.current = Some(before.cloned().context("a policy needs the network state")?);
            NetworkState::try_from(policy).context("resolving its captures")
        }
    }
}

/// The network for the report, without secrets; none if it is too large.
pub(crate) fn network_report(state: &NetworkState) -> Option<serde_json::Value> {
    let mut state = state.clone();
    state.hide_secrets();
    let value = serde_json::to_value(&state).ok()?;
    (value.to_string().len() <= LARGEST_STATE).then_some(value)
}

/// An error with its sources, in one line.
fn chain(error: &ChoiceError) -> String {
    let source = std::error::Error::source(error).map(|source| format!(": {source}"));
    format!("{error}{}", source.unwrap_or_default())
}

fn stop<T>(entry: &mut Entry, result: Ending, message: impl Into<String>) -> Option<T> {
    entry.result = result;
    entry.message = message.into().into();
    None
}

fn wait_for_name(
    disk: &Disk,
    node: &impl Node,
    rules: &Rules,
    candidates: &[Candidate],
) -> Result<Machine> {
    let deadline = Instant::now() + rules.hostname_timeout;
    loop {
        let hostname = rules.hostname.clone().unwrap_or_else(|| node.hostname());
        let machine = facts_of_boot::machine(disk, &hostname)?;
        if !choice::needs_name(&machine, candidates) || Instant::now() >= deadline {
            return Ok(machine);
        }
        thread::sleep(POLL);
    }
}

fn no_document(
    entry: &mut Entry,
    rules: &Rules,
    machine: &Machine,
    candidates: &[Candidate],
) -> Option<Prepared> {
    let name = machine.name.as_ref();
    let who = name.map_or("this machine".to_owned(), ToString::to_string);
    let near = name.map(|name| choice::nearest(name, candidates)).unwrap_or_default();
    let hint = if near.is_empty() {
        String::new()
    } else {
        format!("; is {} meant? The file must be called {who}.yml", near.join(" or "))
    };
    let message = format!("no document is for {who}{hint}");
    if rules.required {
        return stop(entry, Ending::Refused, format!("{message}, and --required demands one"));
    }
    stop(entry, Ending::NoDocument, format!("{message}; br-ex is left to configure-ovs"))
}

/// Whether the document may be applied. All that is found is in the entry.
fn check(document: &Document, before: Option<&NetworkState>, entry: &mut Entry) -> bool {
    let around = ClusterFacts { current: before.cloned(), ..ClusterFacts::default() };
    let findings = br_ex::check(document, &around);
    let line = |finding: &br_ex::Finding| FindingLine {
        rule: finding.rule.to_string(),
        severity: finding.severity.to_string(),
        line: finding.at.line,
        column: finding.at.column,
        message: finding.message.clone().into(),
    };
    entry.findings = findings.iter().map(line).collect();
    findings.iter().all(|finding| finding.severity != Severity::Error)
}

fn listed(candidate: &Candidate) -> Listed {
    Listed {
        file: candidate.file.clone(),
        sha256: candidate.hash.clone(),
        bytes: candidate.bytes.len(),
    }
}
