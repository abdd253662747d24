//! Which files belong to a program, and where each kind of artefact has them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::command;
use crate::compile::Built;
use crate::entries::Entry;
use crate::programs::Program;

/// Everything that is released with one program for one architecture.
#[derive(Debug, Clone)]
pub(crate) struct Contents {
    pub(crate) built: Built,
    /// File names such as `oc-mirror-gc.1`.
    man_pages: Vec<PathBuf>,
    /// Files `NAME`, `_NAME` and `NAME.fish`.
    completions: PathBuf,
    units: Vec<PathBuf>,
    license: PathBuf,
    /// Licenses of what is linked into the program.
    third_party: String,
    /// None for debug builds, which have no list of dependencies.
    pub(crate) sbom: Option<String>,
}

/// Documents that a program writes about itself: `man/`, `completions/`.
pub(crate) fn generate_documents(native: &Built, folder: &Path) -> Result<()> {
    let mut program = native.architecture.command(&native.path);
    command::output(program.args(["generate-docs", "--out"]).arg(folder))?;
    Ok(())
}

impl Contents {
    /// Collects the files. `documents` is the folder of [`generate_documents`].
    pub(crate) fn collect(
        root: &Path,
        built: Built,
        documents: &Path,
        third_party: String,
        sbom: Option<String>,
    ) -> Result<Self> {
        let name = built.program.name;
        let man_pages = files(&documents.join("man"), ".1")?;
        ensure!(!man_pages.is_empty(), "{name} did not write any man page");
        let units = if built.program.has_units {
            let mut units = files(&root.join("deploy/systemd"), ".service")?;
            units.retain(|path| file_name(path).starts_with(name));
            units
        } else {
            Vec::new()
        };
        Ok(Self {
            man_pages,
            completions: documents.join("completions"),
            units,
            license: root.join("LICENSE"),
            third_party,
            sbom,
            built,
        })
    }

    fn program(&self) -> Program {
        self.built.program
    }

    /// The files of the tar.gz archive, below one folder.
    pub(crate) fn archive(&self, folder: &str) -> Vec<Entry> {
        let name = self.program().name;
        let mut entries = vec![
            Entry::program(name, &self.built.path),
            Entry::file("LICENSE", &self.license),
            Entry::bytes("THIRD-PARTY-LICENSES", self.third_party.clone()),
        ];
        let completions = ["bash", "zsh", "fish"].into_iter().zip(self.completion_files());
        entries.extend(completions.map(|(shell, (file, path))| {
            Entry::file(format!("completions/{shell}/{file}"), &path)
        }));
        entries.extend(named(&self.man_pages, "man/man1"));
        entries.extend(named(&self.units, "systemd"));
        entries.extend(self.sbom.iter().map(|text| Entry::bytes("sbom.cdx.json", text.clone())));
        entries.into_iter().map(|entry| entry.below(folder)).collect()
    }

    /// The files of a package, where distributions have them.
    pub(crate) fn package(&self, layout: &Layout) -> Result<Vec<Entry>> {
        let name = self.program().name;
        let licenses = layout.licenses.replace("NAME", name);
        let [bash, zsh, fish] = self.completion_files();
        let mut entries = vec![
            Entry::program(format!("usr/bin/{name}"), &self.built.path),
            Entry::bytes(format!("{licenses}/THIRD-PARTY-LICENSES"), self.third_party.clone()),
            Entry::file(format!("usr/share/bash-completion/completions/{}", bash.0), &bash.1),
            Entry::file(format!("{}/{}", layout.zsh, zsh.0), &zsh.1),
            Entry::file(format!("usr/share/fish/vendor_completions.d/{}", fish.0), &fish.1),
        ];
        if layout.has_license_file {
            entries.push(Entry::file(format!("{licenses}/LICENSE"), &self.license));
        }
        for page in &self.man_pages {
            let text = fs::read(page).with_context(|| format!("reading {}", page.display()))?;
            let file = file_name(page);
            entries.push(Entry::bytes(format!("usr/share/man/man1/{file}.gz"), gzipped(&text)?));
        }
        entries.extend(named(&self.units, "usr/lib/systemd/system"));
        let sbom = self.sbom.iter().cloned();
        entries.extend(
            sbom.map(|text| Entry::bytes(format!("usr/share/doc/{name}/sbom.cdx.json"), text)),
        );
        Ok(entries)
    }

    /// The licenses, where images have them.
    pub(crate) fn image_licenses(&self) -> [Entry; 2] {
        let folder = format!("usr/share/licenses/{}", self.program().name);
        [
            Entry::file(format!("{folder}/LICENSE"), &self.license),
            Entry::bytes(format!("{folder}/THIRD-PARTY-LICENSES"), self.third_party.clone()),
        ]
    }

    fn completion_files(&self) -> [(String, PathBuf); 3] {
        let name = self.program().name;
        [name.to_owned(), format!("_{name}"), format!("{name}.fish")]
            .map(|file| (file.clone(), self.completions.join(file)))
    }

    pub(crate) fn unit_names(&self) -> Vec<String> {
        self.units.iter().map(|path| file_name(path)).collect()
    }
}

/// Folders that differ between distributions.
#[derive(Debug)]
pub(crate) struct Layout {
    zsh: &'static str,
    licenses: &'static str,
    /// cargo-deb writes `copyright` itself.
    has_license_file: bool,
}

pub(crate) const DEBIAN: Layout = Layout {
    zsh: "usr/share/zsh/vendor-completions",
    licenses: "usr/share/doc/NAME",
    has_license_file: false,
};

pub(crate) const RPM: Layout = Layout {
    zsh: "usr/share/zsh/site-functions",
    licenses: "usr/share/licenses/NAME",
    has_license_file: true,
};

fn named(files: &[PathBuf], folder: &str) -> Vec<Entry> {
    files.iter().map(|path| Entry::file(format!("{folder}/{}", file_name(path)), path)).collect()
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Files of a folder whose names end like this, sorted.
fn files(folder: &Path, ending: &str) -> Result<Vec<PathBuf>> {
    let listing = || format!("listing {}", folder.display());
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(listing)? {
        let path = entry.with_context(listing)?.path();
        if file_name(&path).ends_with(ending) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn gzipped(bytes: &[u8]) -> Result<Vec<u8>> {
    use std::io::Write as _;
    let mut encoder = flate2::GzBuilder::new().write(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).context("compressing a man page")?;
    encoder.finish().context("compressing a man page")
}
