//! Reads reports, folders of `brex-firstboot gather` and must-gather folders. Files are told by
//! what is in them, since every version of must-gather lays them out in another way.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use br_ex::node_state;
use first_boot::summary::ANNOTATION;
use first_boot::{DocumentHash, Report};
use located_yaml::{Keys, load};
use serde::Deserialize;

use super::evidence::Evidence;
use crate::cluster::objects::node;

/// Of longer files the beginning is read; what we look for is smaller.
const LARGEST: u64 = 16 << 20;
const DEEPEST: usize = 20;
const MOST_FILES: usize = 200_000;
/// Journals that tell about br-ex, by the names their files begin with.
const JOURNALS: [&str; 5] =
    ["nmstate", "NetworkManager", "openvswitch", "ovs-vswitchd", "ovs-configuration"];
const DOCUMENTS: &str = "/etc/nmstate/openshift/";

/// What `brex-firstboot gather` says about itself.
#[derive(Deserialize)]
struct Index {
    version: u32,
    program: String,
    hostname: String,
}

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
    for file in files(path)? {
        read_file(path, &file, evidence)?;
    }
    Ok(())
}

/// A folder of `brex-firstboot gather`.
fn read_collection(top: &Path, index: &Index, evidence: &mut Evidence) -> Result<()> {
    if index.version != 1 {
        bail!("{} has version {}; this program reads 1", top.display(), index.version);
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
    if let Some(state) = bytes(&top.join("nmstate.json"))? {
        let text = String::from_utf8_lossy(&state).into_owned();
        node.state = Some(
            nmstate::NetworkState::new_from_json(&text)
                .with_context(|| format!("reading {}", top.join("nmstate.json").display()))?,
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
    Ok(())
}

fn index(folder: &Path) -> Result<Option<Index>> {
    let path = folder.join("index.json");
    if !path.is_file() {
        return Ok(None);
    }
    let index = serde_json::from_str::<Index>(&text(&path)?).ok();
    Ok(index.filter(|index| index.program.starts_with("brex-firstboot ")))
}

/// A file of a must-gather folder. Most tell nothing about br-ex, and a broken one must not hide
/// the others.
fn read_file(top: &Path, path: &Path, evidence: &mut Evidence) -> Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let below = path.strip_prefix(top).unwrap_or(path).to_string_lossy().into_owned();
    if name == "index.json" {
        let folder = path.parent().unwrap_or(top);
        if let Some(index) = index(folder)? {
            return read_collection(folder, &index, evidence);
        }
    }
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
    let telling = ["machineconfig", "nodenetworkstate", "core/nodes/"];
    let lower = below.to_ascii_lowercase();
    let is_object = name.ends_with(".yaml") || name.ends_with(".yml") || name.ends_with(".json");
    if is_object && telling.iter().any(|word| lower.contains(word)) {
        let _ = read_object(path, &text(path)?, evidence);
    }
    Ok(())
}

/// Nodes with a report, MachineConfigs, NodeNetworkStates, or the output of `nmstatectl show`.
fn read_object(path: &Path, text: &str, evidence: &mut Evidence) -> Result<()> {
    if text.contains(ANNOTATION) {
        let root = load(text, Keys::Exact).root.map(|root| root.to_json()).unwrap_or_default();
        let listed = root["items"].as_array().cloned();
        for object in listed.unwrap_or_else(|| vec![root]) {
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
