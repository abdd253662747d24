//! The licenses of everything that is linked into a program, with their texts. Static programs have
//! to include them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::architecture::Architecture;
use crate::command;
use crate::toolchain::Toolchain;

/// What `cargo metadata` prints, as far as it is read here.
#[derive(Debug, Deserialize)]
pub(crate) struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Debug, Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    repository: Option<String>,
    source: Option<String>,
    manifest_path: PathBuf,
}

#[derive(Debug, Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Debug, Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<Kind>,
}

#[derive(Debug, Deserialize)]
struct Kind {
    kind: Option<String>,
}

impl Metadata {
    pub(crate) fn read(root: &Path, architecture: Architecture) -> Result<Self> {
        let mut cargo = Command::new("cargo");
        cargo.args(["metadata", "--locked", "--format-version=1", "--filter-platform"]);
        cargo.arg(architecture.triple()).current_dir(root);
        let text = command::output(&mut cargo)?;
        serde_json::from_str(&text).context("reading the output of `cargo metadata`")
    }

    /// All third-party packages that a package of ours links, by name and version.
    fn linked(&self, program: &str) -> Vec<&Package> {
        let nodes: BTreeMap<&str, &Node> =
            self.resolve.nodes.iter().map(|node| (node.id.as_str(), node)).collect();
        let is_root = |package: &&Package| package.name == program && package.source.is_none();
        let mut waiting: Vec<&str> =
            self.packages.iter().filter(is_root).map(|package| package.id.as_str()).collect();
        let mut seen = BTreeSet::new();
        while let Some(id) = waiting.pop() {
            if !seen.insert(id) {
                continue;
            }
            let linked = nodes
                .get(id)
                .into_iter()
                .flat_map(|node| &node.deps)
                .filter(|one| one.dep_kinds.iter().any(|kind| kind.kind.is_none()));
            waiting.extend(linked.map(|dependency| dependency.pkg.as_str()));
        }
        let is_linked = |package: &&Package| seen.contains(package.id.as_str());
        let mut found: Vec<&Package> =
            self.packages.iter().filter(is_linked).filter(|one| one.source.is_some()).collect();
        found.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
        found
    }

    /// The text: a table, then each license once with the packages that it belongs to.
    pub(crate) fn text(&self, program: &str, toolchain: Option<&Toolchain>) -> Result<String> {
        let packages = self.linked(program);
        let mut text =
            format!("{program} is licensed under Apache-2.0. It contains the packages below.\n\n");
        let mut texts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for package in &packages {
            let Package { name, version, license, repository, .. } = package;
            let license = license.as_deref().unwrap_or("see its files");
            let repository = repository.as_deref().unwrap_or_default();
            let _ = writeln!(text, "{name} {version}: {license} {repository}");
            let folder = package.manifest_path.parent().unwrap_or(&package.manifest_path);
            for content in license_files(folder, 2)? {
                texts.entry(content).or_default().insert(format!("{name} {version}"));
            }
        }
        text.push_str(
            "Rust standard library: MIT OR Apache-2.0 https://github.com/rust-lang/rust\n",
        );
        text.push_str("musl: MIT https://musl.libc.org\n");
        if let Some(folder) = toolchain.and_then(|toolchain| toolchain.zig.parent()) {
            let path = folder.join("lib/libc/musl/COPYRIGHT");
            let content = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
            let content = String::from_utf8_lossy(&content).trim().to_owned();
            texts.entry(content).or_default().insert("musl".to_owned());
        }
        let mut sorted: Vec<(String, String)> = texts
            .into_iter()
            .map(|(content, names)| (names.into_iter().collect::<Vec<_>>().join(", "), content))
            .collect();
        sorted.sort();
        for (names, content) in sorted {
            let _ =
                write!(text, "\n{}\n{names}\n{}\n\n{content}\n", "=".repeat(80), "-".repeat(80));
        }
        Ok(text)
    }
}

/// Texts of the license files in a folder and below it: third-party C code has its own.
fn license_files(folder: &Path, depth: usize) -> Result<Vec<String>> {
    let listing = || format!("listing {}", folder.display());
    let mut found = Vec::new();
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).with_context(listing)? {
        paths.push(entry.with_context(listing)?.path());
    }
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        if path.is_dir() {
            if depth > 1 {
                found.extend(license_files(&path, depth - 1)?);
            }
        } else if ["LICENSE", "LICENCE", "COPYING", "NOTICE", "COPYRIGHT", "UNLICENSE"]
            .iter()
            .any(|start| name.starts_with(start))
        {
            let bytes = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
            found.push(String::from_utf8_lossy(&bytes).trim().to_owned());
        }
    }
    Ok(found)
}
