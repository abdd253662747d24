//! opm's own verdict on what we read and on what we write.
//!
//! The catalogs are real ones, and not part of this repository; without them this tier does not run.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use catalog::{Catalog, Files, Filtered, filter, flaws};
use image_set::{Operator, parse_image_set};
use lab::tools::{self, Tool};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::Value;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/operator-catalogs");

/// Selections tried on each catalog. Each costs a start of opm.
const SELECTIONS: usize = 6;

/// Every folder with files below it, `None` when there is no data.
fn folders() -> Option<Vec<PathBuf>> {
    let root = Path::new(FOLDER);
    if !root.is_dir() {
        // Written past the test harness, which hides what passing tests print.
        let _ = writeln!(std::io::stderr(), "data tier: {FOLDER} is absent, not run");
        return None;
    }
    let mut folders = vec![root.to_owned()];
    let mut next = 0;
    while let Some(folder) = folders.get(next).cloned() {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        folders.extend(entries.filter(|path| path.is_dir()));
        next += 1;
    }
    folders.sort();
    Some(folders)
}

/// The files below a folder.
struct Folder(Vec<(String, Vec<u8>)>);

impl Folder {
    fn open(root: &Path) -> Self {
        let mut files = Vec::new();
        let mut pending = vec![root.to_owned()];
        while let Some(folder) = pending.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    pending.push(path);
                } else {
                    let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                    files.push((name, fs::read(path).unwrap()));
                }
            }
        }
        Self(files)
    }

    fn files(&self) -> Result<Files<'_>, catalog::LoadError> {
        Files::read(self.0.iter().map(|(path, bytes)| (path.clone(), bytes.as_slice())))
    }
}

fn opm(arguments: &[&str], folder: &Path) -> Result<Vec<u8>, String> {
    let mut command = Command::new(tools::path(Tool::Opm).unwrap());
    let output = command.args(arguments).arg(folder).output().expect("opm starts");
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// opm's verdict on every folder, asked for once; empty when there is no data.
fn verdicts() -> &'static BTreeMap<PathBuf, Result<(), String>> {
    static VERDICTS: OnceLock<BTreeMap<PathBuf, Result<(), String>>> = OnceLock::new();
    VERDICTS.get_or_init(|| {
        let folders = folders().unwrap_or_default().into_iter();
        folders
            .map(|folder| {
                let verdict = opm(&["validate"], &folder).map(drop);
                (folder, verdict)
            })
            .collect()
    })
}

/// The folders that opm accepts, without those inside of one that it accepts, too. `None` when
/// there is no data.
fn accepted() -> Option<Vec<&'static PathBuf>> {
    let good = |folder: &Path| matches!(verdicts().get(folder), Some(Ok(())));
    let folders =
        verdicts().keys().filter(|folder| good(folder) && !folder.parent().is_some_and(good));
    (!verdicts().is_empty()).then(|| folders.collect())
}

fn write(filtered: &Filtered<'_, '_>, to: &Path) {
    for file in filtered.files() {
        let path = to.join(&file.path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut out = fs::File::create(path).unwrap();
        file.write_to(&mut out).unwrap();
        assert_eq!(out.metadata().unwrap().len(), file.size());
    }
}

#[test]
fn we_read_what_opm_accepts_and_find_flaws_in_what_it_refuses() {
    let accepted = verdicts().values().filter(|verdict| verdict.is_ok()).count();
    assert!(accepted > 50 || verdicts().is_empty(), "opm accepts only {accepted} of the catalogs");
    for (folder, verdict) in verdicts() {
        let content = Folder::open(folder);
        let found = content.files().and_then(|files| {
            let catalog = Catalog::load(&files)?;
            let packages = catalog.packages.values();
            Ok(packages.flat_map(flaws).map(|flaw| flaw.to_string()).collect::<Vec<_>>())
        });
        match (verdict, &found) {
            (Ok(()), Ok(flaws)) => assert_eq!(flaws, &[""; 0], "{}", folder.display()),
            (Ok(()), Err(error)) => {
                panic!("{}: opm reads it, we do not: {error}", folder.display())
            }
            (Err(why), Ok(flaws)) => {
                assert_ne!(flaws, &[""; 0], "{}: opm refuses it: {why}", folder.display());
            }
            (Err(_), Err(_)) => {}
        }
    }
}

/// A selection from `catalog`, as a configuration would have it.
fn selection(catalog: &Catalog<'_>) -> impl Strategy<Value = String> + use<> {
    let packages: Vec<(String, Vec<String>, Vec<String>)> = catalog
        .packages
        .values()
        .map(|package| {
            let channels = package.channels.keys().map(|name| name.to_string()).collect();
            let versions = package.bundles.values().filter_map(|bundle| bundle.version.as_ref());
            (package.name.to_string(), channels, versions.map(|v| v.to_string()).collect())
        })
        .collect();
    let package = proptest::sample::select(packages).prop_flat_map(|(name, channels, versions)| {
        let bound = proptest::option::weighted(0.4, proptest::sample::select(versions));
        let count = channels.len();
        (
            Just(name),
            proptest::sample::subsequence(channels.clone(), 0..=count),
            proptest::option::of(proptest::sample::select(channels)),
            bound.clone(),
            bound,
            proptest::option::weighted(0.2, 0..4_u32),
        )
    });
    let full = proptest::bool::weighted(0.1);
    let dependencies = proptest::bool::weighted(0.3);
    (proptest::collection::vec(package, 0..4), full, dependencies).prop_map(
        |(packages, full, dependencies)| {
            let mut yaml = format!(
                "kind: ImageSetConfiguration\nmirror:\n  operators:\n  - catalog: q.io/c:1\n    \
                 full: {full}\n    includeDependencies: {dependencies}\n    packages:\n"
            );
            let mut seen = BTreeSet::new();
            for (name, channels, default, min, max, previous) in packages {
                if !seen.insert(name.clone()) {
                    continue;
                }
                yaml.push_str(&format!("    - name: {name:?}\n"));
                let default = default.filter(|it| channels.is_empty() || channels.contains(it));
                if let Some(default) = default {
                    yaml.push_str(&format!("      defaultChannel: {default:?}\n"));
                }
                let ordered = |min: &String, max: &String| {
                    let parse = |text: &String| semver::Version::parse(text).unwrap();
                    parse(min).cmp_precedence(&parse(max)).is_le()
                };
                let (min, max) = match (min, max) {
                    (Some(min), Some(max)) if !ordered(&min, &max) => (Some(max), Some(min)),
                    bounds => bounds,
                };
                if let Some(count) = previous.filter(|_| min.is_none() && max.is_none()) {
                    yaml.push_str(&format!("      previousVersions: {count}\n"));
                }
                for (key, bound) in [("minVersion", min), ("maxVersion", max)] {
                    if let Some(bound) = bound {
                        yaml.push_str(&format!("      {key}: {bound:?}\n"));
                    }
                }
                if !channels.is_empty() {
                    yaml.push_str("      channels:\n");
                }
                for channel in channels {
                    yaml.push_str(&format!("      - name: {channel:?}\n"));
                }
            }
            yaml
        },
    )
}

fn operator(yaml: &str) -> Operator {
    let mut set =
        parse_image_set("isc.yaml", yaml).unwrap_or_else(|error| panic!("{yaml}\n{error}"));
    set.mirror.operators.remove(0)
}

#[test]
fn opm_accepts_whatever_is_selected_from_what_it_accepts() {
    let Some(folders) = accepted() else { return };
    let mut runner = TestRunner::deterministic();
    let mut judged = 0;
    for folder in folders {
        let content = Folder::open(folder);
        let files = content.files().unwrap();
        let catalog = Catalog::load(&files).unwrap();
        if catalog.packages.is_empty() {
            continue;
        }
        let selection = selection(&catalog);
        for _ in 0..SELECTIONS {
            let yaml = selection.new_tree(&mut runner).unwrap().current();
            let operator = operator(&yaml);
            let filtered = filter(&catalog, &operator);
            if filtered.packages.is_empty() {
                assert!(!filtered.findings.is_empty(), "nothing selected, nothing said: {yaml}");
                continue;
            }
            let out = tempfile::tempdir().unwrap();
            write(&filtered, out.path());
            if let Err(why) = opm(&["validate"], out.path()) {
                panic!("{}\n{yaml}\n{:#?}\n{why}", folder.display(), filtered.findings);
            }
            judged += 1;
        }
    }
    assert!(judged > 80, "only {judged} selections had something to judge");
}

/// What opm renders of a folder: documents in an order of their own.
fn rendered(folder: &Path) -> Vec<Value> {
    let output = opm(&["render", "--output", "json"], folder).unwrap();
    let documents = serde_json::Deserializer::from_slice(&output).into_iter::<Value>();
    let mut documents: Vec<Value> = documents.map(|document| document.unwrap()).collect();
    documents.sort_by_key(|document| document.to_string());
    documents
}

/// What must be left of a rendered document.
fn expected(mut document: Value, filtered: &Filtered<'_, '_>) -> Option<Value> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let schema = text(&document["schema"]);
    let owner = if schema == "olm.package" { "name" } else { "package" };
    let owner = text(&document[owner]);
    if owner.is_empty() {
        return Some(document);
    }
    let kept = filtered.packages.iter().find(|kept| *kept.package.name == *owner)?;
    let bundles: BTreeSet<&str> = kept.bundles().iter().map(|bundle| &*bundle.name).collect();
    let channel = |name: &str| kept.channels.iter().find(|kept| *kept.channel.name == *name);
    match schema.as_str() {
        "olm.package" => document["defaultChannel"] = kept.default_channel.into(),
        "olm.bundle" if !bundles.contains(text(&document["name"]).as_str()) => return None,
        "olm.channel" => {
            let kept = channel(&text(&document["name"]))?;
            let names: BTreeSet<&str> = kept.entries().map(|entry| &*entry.name).collect();
            let entries = document["entries"].as_array_mut().unwrap();
            entries.retain(|entry| names.contains(entry["name"].as_str().unwrap()));
        }
        "olm.deprecations" => {
            let entries = document["entries"].as_array_mut().unwrap();
            entries.retain(|entry| {
                let name = text(&entry["reference"]["name"]);
                match entry["reference"]["schema"].as_str().unwrap() {
                    "olm.bundle" => bundles.contains(name.as_str()),
                    "olm.channel" => channel(&name).is_some(),
                    _ => true,
                }
            });
            if entries.is_empty() {
                return None;
            }
        }
        _ => {}
    }
    Some(document)
}

#[test]
fn opm_reads_from_what_we_write_what_it_reads_from_the_original() {
    let Some(folders) = accepted() else { return };
    let mut runner = TestRunner::deterministic();
    let mut compared = 0;
    for folder in folders {
        let content = Folder::open(folder);
        let files = content.files().unwrap();
        let catalog = Catalog::load(&files).unwrap();
        if catalog.packages.is_empty() {
            continue;
        }
        let yaml = selection(&catalog).new_tree(&mut runner).unwrap().current();
        let operator = operator(&yaml);
        let filtered = filter(&catalog, &operator);
        if filtered.packages.is_empty() {
            continue;
        }
        let out = tempfile::tempdir().unwrap();
        write(&filtered, out.path());
        let mut due: Vec<Value> = rendered(folder)
            .into_iter()
            .filter_map(|document| expected(document, &filtered))
            .collect();
        due.sort_by_key(|document| document.to_string());
        let got = rendered(out.path());
        assert_eq!(got.len(), due.len(), "{}\n{yaml}", folder.display());
        for (got, due) in got.iter().zip(&due) {
            assert_eq!(got, due, "{}\n{yaml}", folder.display());
        }
        compared += 1;
    }
    assert!(compared > 12, "only {compared} catalogs were compared");
}
