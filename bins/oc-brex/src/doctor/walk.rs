//! Reads reports, folders of `brex-firstboot gather` and must-gather folders. Files are
//! recognized by their content, because the layout differs between versions of must-gather.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use br_ex::{Document, node_state};
use command_line::print_message;
use first_boot::summary::ANNOTATION;
use first_boot::{DocumentHash, Report};
use located_yaml::{Keys, load};
use node_collection::{INDEX, Index, STATE};
use serde_json::Value;

use super::evidence::Evidence;
use crate::cluster::objects::node;
use crate::cluster::{Kind, Objects};

/// Of longer files the beginning is read; the relevant files are smaller.
const LARGEST: u64 = 16 << 20;
const DEEPEST: usize = 20;
const MOST_FILES: usize = 200_000;
/// Journals that concern br-ex, by the beginning of their file names.
const JOURNALS: [&str; 5] =
    ["nmstate", "NetworkManager", "openvswitch", "ovs-vswitchd", "ovs-configuration"];
/// Of folders with so few files all are read, whatever they are called.
const SMALL: usize = 200;
/// Parts of the paths of objects that concern br-ex.
const TELLING: [&str; 6] = [
    "machineconfig",
    "nodenetwork",
    "core/nodes",
    "nodes.yaml",
    "config.openshift.io/networks",
    "config.openshift.io/infrastructures",
];
const DOCUMENTS: &str = "/etc/nmstate/openshift/";

/// Reads a file or folder.
pub(super) fn read(path: &Path, evidence: &mut Evidence) -> Result<()> {
    let known = fs::metadata(path).with_context(|| format!("reading {}", path.display()))?;
    if !known.is_dir() {
        let text = text(path)?;
        if let Ok(report) = serde_json::from_str::<Report>(&text) {
            if report.version != Report::VERSION {
                bail!(
                    "{} has version {}; this program reads {}",
                    path.display(),
                    report.version,
                    Report::VERSION
                );
            }
            evidence.add_report(report);
            return Ok(());
        }
        return read_object(path, &text, evidence);
    }
    if let Some(index) = index(path)? {
        return read_collection(path, &index, evidence);
    }
    // What a must-gather folder has of the cluster is evaluated as a running cluster is.
    let mut objects: Vec<(Kind, Vec<Value>)> =
        Kind::ALL.into_iter().map(|kind| (kind, Vec::new())).collect();
    let all = files(path)?;
    let mut collections: Vec<&Path> = Vec::new();
    for folder in all.iter().filter(|file| file.ends_with(INDEX)).filter_map(|it| it.parent()) {
        if let Some(index) = index(folder)? {
            read_collection(folder, &index, evidence)?;
            collections.push(folder);
        }
    }
    let is_collected = |file: &&PathBuf| collections.iter().any(|it| file.starts_with(it));
    let is_small = all.len() <= SMALL;
    for file in all.iter().filter(|file| !is_collected(file)) {
        read_file(path, file, is_small, evidence, &mut objects)?;
    }
    let mut cluster = Objects::default();
    for (kind, items) in objects {
        cluster.add(kind, items)?;
    }
    for note in &cluster.notes {
        print_message(&format!("note: {}: {note}", path.display()));
    }
    evidence.add_cluster(&cluster);
    Ok(())
}

/// A collection of a node: by `brex-firstboot gather`, or by a handler for must-gather.
fn read_collection(top: &Path, index: &Index, evidence: &mut Evidence) -> Result<()> {
    if index.version != Index::VERSION {
        bail!(
            "reading {}: expected version {} of a collection, found {}; use an oc-brex of the same release",
            top.display(),
            Index::VERSION,
            index.version
        );
    }
    let node = evidence.node(&index.hostname);
    node.knows_flag = true;
    let bytes = |path: &Path| -> Result<Option<Vec<u8>>> {
        match fs::read(path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("reading {}", path.display())),
        }
    };
    let documents = top.join("files").join(DOCUMENTS.trim_start_matches('/'));
    node.flag = bytes(&documents.join("applied"))?.as_deref().map(DocumentHash::of);
    for file in files(&documents).unwrap_or_default() {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.ends_with(".yml") || name.ends_with(".yaml") {
            node.documents.insert(name, fs::read(&file).unwrap_or_default());
        }
    }
    // A node has the documents of all hosts of its role, also of those that never joined.
    let all = node.documents.clone();
    if let Some(state) = bytes(&top.join(STATE))? {
        let text = String::from_utf8_lossy(&state).into_owned();
        node.state = Some(
            nmstate::NetworkState::new_from_json(&text)
                .with_context(|| format!("reading {}", top.join(STATE).display()))?,
        );
    }
    for file in files(&top.join("journal")).unwrap_or_default() {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        node.journals.insert(name, text(&file)?);
    }
    for file in files(&top.join("files/var/log/brex-firstboot")).unwrap_or_default() {
        if let Ok(report) = serde_json::from_str::<Report>(&text(&file)?) {
            evidence.add_report(report);
        }
    }
    evidence.documents.extend(all);
    Ok(())
}

fn index(folder: &Path) -> Result<Option<Index>> {
    let path = folder.join(INDEX);
    if !path.is_file() {
        return Ok(None);
    }
    let index = serde_json::from_str::<Index>(&text(&path)?).ok();
    Ok(index.filter(Index::is_ours))
}

/// A file of a must-gather folder. Most do not concern br-ex, and a damaged one must not hide the
/// others.
fn read_file(
    top: &Path,
    path: &Path,
    is_small: bool,
    evidence: &mut Evidence,
    objects: &mut [(Kind, Vec<Value>)],
) -> Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let below = path.strip_prefix(top).unwrap_or(path).to_string_lossy().into_owned();
    if name.ends_with(".json")
        && let Ok(report) = serde_json::from_str::<Report>(&text(path)?)
    {
        evidence.add_report(report);
        return Ok(());
    }
    if JOURNALS.iter().any(|journal| name.starts_with(journal)) && name.ends_with(".log") {
        // `oc adm node-logs` puts them into a folder named after the node, or its role.
        let node = path.parent().and_then(Path::file_name).unwrap_or_default();
        let node = node.to_string_lossy().into_owned();
        evidence.node(&node).journals.insert(below, text(path)?);
        return Ok(());
    }
    let lower = below.to_ascii_lowercase();
    let is_object = name.ends_with(".yaml") || name.ends_with(".yml") || name.ends_with(".json");
    if is_object && (is_small || TELLING.iter().any(|word| lower.contains(word))) {
        for object in listed(&text(path)?) {
            let kind = Kind::of(&object).filter(|kind| kind.is_of_interest(&object));
            if let Some((_, items)) = objects.iter_mut().find(|(it, _)| Some(*it) == kind) {
                items.push(object);
            }
        }
    }
    Ok(())
}

/// The objects of a text: one, or the items of a list. None if it is not YAML.
fn listed(text: &str) -> Vec<Value> {
    let root = load(text, Keys::Exact).root.map(|root| root.to_json()).unwrap_or_default();
    match root.get("items") {
        Some(Value::Array(items)) => items.clone(),
        _ => vec![root],
    }
}

/// Nodes with a report, MachineConfigs, NodeNetworkStates, or the output of `nmstatectl show`.
fn read_object(path: &Path, text: &str, evidence: &mut Evidence) -> Result<()> {
    if text.contains(ANNOTATION) {
        for object in listed(text) {
            if object["metadata"]["annotations"][ANNOTATION].is_string() {
                evidence.add_node(&node(&object));
            }
        }
        return Ok(());
    }
    if text.contains("MachineConfig") {
        let read = machine_config::parse_all(text)
            .with_context(|| format!("reading {}", path.display()))?;
        for config in read.machine_configs.iter().filter(|config| !config.is_rendered()) {
            for file in &config.files {
                if let Some(name) = file.path.as_str().strip_prefix(DOCUMENTS) {
                    let bytes = file.contents.bytes().to_vec();
                    evidence.documents.insert(name.to_owned(), bytes);
                }
            }
        }
        return Ok(());
    }
    // What `nmstatectl show` prints has the running routes; a document never has.
    let is_state = text.contains("NodeNetworkState") || text.contains("running");
    if !is_state && Document::parse(text.as_bytes()).content().is_some() {
        bail!(
            "reading {}: expected a report or the state of a node, found a document; `oc-brex check` \
             evaluates documents",
            path.display()
        );
    }
    let states = node_state::parse(text).with_context(|| format!("reading {}", path.display()))?;
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    for state in states {
        evidence.node(&state.name.unwrap_or_else(|| stem.clone())).state = Some(state.state);
    }
    Ok(())
}

/// All files below a folder, sorted. Links are not followed: they may lead anywhere.
fn files(top: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut waiting = vec![(top.to_owned(), 0)];
    while let Some((folder, depth)) = waiting.pop() {
        let reading = || format!("reading {}", folder.display());
        for entry in fs::read_dir(&folder).with_context(reading)? {
            let entry = entry.with_context(reading)?;
            let kind = entry.file_type().with_context(reading)?;
            if kind.is_dir() && depth < DEEPEST {
                waiting.push((entry.path(), depth + 1));
            } else if kind.is_file() {
                found.push(entry.path());
            }
        }
        if found.len() > MOST_FILES {
            bail!("{} holds more than {MOST_FILES} files", top.display());
        }
    }
    found.sort();
    Ok(found)
}

fn text(path: &Path) -> Result<String> {
    let reading = || format!("reading {}", path.display());
    let mut bytes = Vec::new();
    let file = File::open(path).with_context(reading)?;
    file.take(LARGEST).read_to_end(&mut bytes).with_context(reading)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
