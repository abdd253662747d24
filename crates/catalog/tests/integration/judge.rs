//! opm's own verdict on what we read and on what we write.
//!
//! Each check runs on generated catalogs and, as data tier, on published ones.

mod generated;
mod selection;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use catalog::{Catalog, Files, Filtered, LoadError, filter, flaws};
use lab::data_tier;
use lab::tools::{self, Tool};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use serde_json::Value;

use selection::{operator, selection};

/// Selections tried on each published catalog. Each starts opm.
const SELECTIONS: usize = 6;
/// There are fewer generated catalogs, hence more selections on each.
const SELECTIONS_OF_GENERATED: usize = 12;

/// Every folder below this one, and itself.
fn folders(root: &Path) -> Vec<PathBuf> {
    let mut folders = vec![root.to_owned()];
    let mut next = 0;
    while let Some(folder) = folders.get(next).cloned() {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        folders.extend(entries.filter(|path| path.is_dir()));
        next += 1;
    }
    folders.sort();
    folders
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

type Verdicts = BTreeMap<PathBuf, Result<(), String>>;

fn verdicts(folders: Vec<PathBuf>) -> Verdicts {
    let judged = folders.into_iter().map(|folder| {
        let verdict = opm(&["validate"], &folder).map(drop);
        (folder, verdict)
    });
    judged.collect()
}

/// opm's verdict on every folder of published catalogs, requested once.
fn published() -> Option<&'static Verdicts> {
    static VERDICTS: OnceLock<Verdicts> = OnceLock::new();
    let root = data_tier("operator-catalogs")?;
    Some(VERDICTS.get_or_init(|| verdicts(folders(&root))))
}

/// The folders that opm accepts, without those inside of one that it also accepts.
fn accepted(verdicts: &Verdicts) -> Vec<PathBuf> {
    let good = |folder: &Path| matches!(verdicts.get(folder), Some(Ok(())));
    let folders =
        verdicts.keys().filter(|folder| good(folder) && !folder.parent().is_some_and(good));
    folders.cloned().collect()
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

/// Checks that we read what opm accepts, and find flaws in what it refuses.
fn agrees(folder: &Path, verdict: &Result<(), String>) {
    let content = Folder::open(folder);
    let found = content.files().and_then(|files| {
        let catalog = Catalog::load(&files)?;
        let packages = catalog.packages.values();
        Ok(packages.flat_map(flaws).map(|flaw| flaw.to_string()).collect::<Vec<_>>())
    });
    match (verdict, &found) {
        (Ok(()), Ok(flaws)) => assert_eq!(flaws, &[""; 0], "{}", folder.display()),
        (Ok(()), Err(LoadError::Template { .. })) => {}
        (Ok(()), Err(error)) => {
            panic!("{}: opm reads it, we do not: {error}", folder.display())
        }
        (Err(why), Ok(flaws)) => {
            assert_ne!(flaws, &[""; 0], "{}: opm refuses it: {why}", folder.display());
        }
        (Err(_), Err(_)) => {}
    }
}

#[test]
fn we_read_what_opm_accepts() {
    let root = tempfile::tempdir().unwrap();
    for (folder, verdict) in verdicts(generated::good(root.path())) {
        assert_eq!(verdict, Ok(()), "{}", folder.display());
        agrees(&folder, &verdict);
    }
}

#[test]
fn we_find_flaws_in_what_opm_refuses() {
    let root = tempfile::tempdir().unwrap();
    for (folder, verdict) in verdicts(generated::flawed(root.path())) {
        assert!(verdict.is_err(), "opm accepts {}", folder.display());
        agrees(&folder, &verdict);
    }
}

#[test]
fn we_read_what_opm_accepts_and_find_flaws_in_what_it_refuses_of_published_catalogs() {
    let Some(verdicts) = published() else { return };
    let accepted = verdicts.values().filter(|verdict| verdict.is_ok()).count();
    assert!(accepted > 50, "opm accepts only {accepted} of the catalogs");
    for (folder, verdict) in verdicts {
        agrees(folder, verdict);
    }
}

#[test]
fn opm_accepts_whatever_is_selected_from_what_it_accepts() {
    let root = tempfile::tempdir().unwrap();
    let judged = selections_are_accepted(&generated::good(root.path()), SELECTIONS_OF_GENERATED);
    assert!(judged > 60, "only {judged} selections had something to judge");
}

#[test]
fn opm_accepts_whatever_is_selected_from_published_catalogs() {
    let Some(verdicts) = published() else { return };
    let judged = selections_are_accepted(&accepted(verdicts), SELECTIONS);
    assert!(judged > 80, "only {judged} selections had something to judge");
}

/// Calls `check` with every catalog of these folders that has packages.
fn each_catalog(folders: &[PathBuf], mut check: impl FnMut(&Path, &Catalog<'_>)) {
    for folder in folders {
        let content = Folder::open(folder);
        let files = content.files().unwrap();
        // A folder with nothing but a template of a catalog: opm reads it as documents of an unknown
        // schema, we report what it is.
        let catalog = match Catalog::load(&files) {
            Err(LoadError::Template { .. }) => continue,
            loaded => loaded.unwrap(),
        };
        if !catalog.packages.is_empty() {
            check(folder, &catalog);
        }
    }
}

/// How many selections had something for opm to validate.
fn selections_are_accepted(folders: &[PathBuf], selections: usize) -> usize {
    let mut runner = TestRunner::deterministic();
    let mut judged = 0;
    each_catalog(folders, |folder, catalog| {
        let selection = selection(catalog);
        for _ in 0..selections {
            let yaml = selection.new_tree(&mut runner).unwrap().current();
            let operator = operator(&yaml);
            let filtered = filter(catalog, &operator);
            if filtered.packages.is_empty() {
                assert!(!filtered.findings.is_empty(), "nothing selected and no finding: {yaml}");
                continue;
            }
            let out = tempfile::tempdir().unwrap();
            write(&filtered, out.path());
            if let Err(why) = opm(&["validate"], out.path()) {
                panic!("{}\n{yaml}\n{:#?}\n{why}", folder.display(), filtered.findings);
            }
            judged += 1;
        }
    });
    judged
}

/// What opm renders of a folder: documents in opm's own order.
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
    let root = tempfile::tempdir().unwrap();
    let compared = written_reads_as_the_original(&generated::good(root.path()), 3);
    assert!(compared > 12, "only {compared} selections were compared");
}

#[test]
fn opm_reads_from_what_we_write_what_it_reads_from_published_catalogs() {
    let Some(verdicts) = published() else { return };
    let compared = written_reads_as_the_original(&accepted(verdicts), 1);
    assert!(compared > 12, "only {compared} selections were compared");
}

/// How many selections were compared.
fn written_reads_as_the_original(folders: &[PathBuf], selections: usize) -> usize {
    let mut runner = TestRunner::deterministic();
    let mut compared = 0;
    each_catalog(folders, |folder, catalog| {
        let original = rendered(folder);
        for _ in 0..selections {
            let yaml = selection(catalog).new_tree(&mut runner).unwrap().current();
            let operator = operator(&yaml);
            let filtered = filter(catalog, &operator);
            if filtered.packages.is_empty() {
                continue;
            }
            let out = tempfile::tempdir().unwrap();
            write(&filtered, out.path());
            let mut wanted: Vec<Value> = original
                .iter()
                .filter_map(|document| expected(document.clone(), &filtered))
                .collect();
            wanted.sort_by_key(|document| document.to_string());
            let found = rendered(out.path());
            assert_eq!(found.len(), wanted.len(), "{}\n{yaml}", folder.display());
            for (found, wanted) in found.iter().zip(&wanted) {
                assert_eq!(found, wanted, "{}\n{yaml}", folder.display());
            }
            compared += 1;
        }
    });
    compared
}
