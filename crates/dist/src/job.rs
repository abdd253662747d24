//! Builds all artefacts: compile → collect → archives, packages, images, manifests → checksums.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use flate2::Compression;

use crate::architecture::Architecture;
use crate::compile::{self, Built};
use crate::contents::{self, Contents, DEBIAN, RPM};
use crate::entries::{self, Entry, FinishGzip as _};
use crate::krew::{self, Download};
use crate::licenses::Metadata;
use crate::packages::{self, Effort, Package};
use crate::programs::{self, Program};
use crate::release::Release;
use crate::toolchain::Toolchain;
use crate::{checksums, image, must_gather, sbom};

/// What is built, from where, and where to.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    /// The checkout.
    pub(crate) root: PathBuf,
    /// The build folder. It may be on another filesystem than `out`.
    pub(crate) target: PathBuf,
    pub(crate) out: PathBuf,
    pub(crate) architectures: Vec<Architecture>,
    pub(crate) programs: Vec<Program>,
    pub(crate) effort: Effort,
    /// Programs for this machine that are packaged instead of compiling any.
    pub(crate) debug_programs: Option<DebugPrograms>,
    /// Whether archives, packages and manifests are left out.
    pub(crate) only_images: bool,
    /// Where the archives will be downloaded from; part of the manifests for krew.
    pub(crate) url: String,
    /// The private key of cosign that signs the checksums.
    pub(crate) key: Option<PathBuf>,
}

/// Debug programs of a test build.
#[derive(Debug, Clone)]
pub(crate) struct DebugPrograms {
    pub(crate) folder: PathBuf,
    /// The static program for nodes, which is built for tests as it is released.
    pub(crate) node: Option<PathBuf>,
}

impl DebugPrograms {
    fn path(&self, program: Program) -> PathBuf {
        match &self.node {
            Some(path) if path.file_name().is_some_and(|name| name == program.name) => path.clone(),
            _ => self.folder.join(program.name),
        }
    }
}

/// What was built.
#[derive(Debug)]
pub(crate) struct Artefacts {
    pub(crate) release: Release,
    pub(crate) folder: PathBuf,
    pub(crate) contents: Vec<Contents>,
    /// Sums by file name.
    pub(crate) sums: BTreeMap<String, String>,
    pub(crate) images: Vec<(&'static str, PathBuf)>,
    /// Folder for intermediate files; it is removed with this value.
    pub(crate) work: tempfile::TempDir,
}

/// Folder below `out` for artefacts until all of them are complete.
const PARTIAL: &str = ".partial";

impl Job {
    pub(crate) fn run(&self) -> Result<Artefacts> {
        let release = Release::read(&self.root)?;
        if release.is_dirty {
            println!(
                "warning: the checkout has changes that are not committed; the version is {}",
                release.version()
            );
        }
        let toolchain = match &self.debug_programs {
            None => Some(Toolchain::find(&self.root, &self.architectures)?),
            Some(_) => None,
        };
        let partial = self.out.join(PARTIAL);
        let creating = || format!("creating {}", partial.display());
        if partial.exists() {
            fs::remove_dir_all(&partial).with_context(creating)?;
        }
        fs::create_dir_all(&partial).with_context(creating)?;
        let result = self.fill(&partial, &release, toolchain.as_ref()).and_then(|filled| {
            let sums = checksums::write(&partial)?;
            if let Some(key) = &self.key {
                checksums::sign(&partial, key)?;
            }
            Ok((filled, sums))
        });
        if result.is_err() {
            // A full disk is the most likely reason; what is left behind would keep it full.
            let _ = fs::remove_dir_all(&partial);
        }
        let ((contents, images, work), sums) = result?;
        if self.key.is_none() {
            println!(
                "warning: {} is not signed; --key FILE names a key of cosign",
                checksums::FILE
            );
        }
        self.publish(&partial)?;
        let images = images.into_iter().map(|(name, file)| (name, self.out.join(file))).collect();
        Ok(Artefacts { release, folder: self.out.clone(), contents, sums, images, work })
    }

    /// Replaces the artefacts of an earlier run, those that its SHA256SUMS lists, by the new ones.
    fn publish(&self, partial: &Path) -> Result<()> {
        if self.out.join(checksums::FILE).exists() {
            for name in checksums::read(&self.out)?.keys() {
                // The name is from a file that others may have written.
                ensure!(!name.contains('/'), "{}: unexpected `/` in `{name}`", checksums::FILE);
                let _ = fs::remove_file(self.out.join(name));
            }
            let _ = fs::remove_file(self.out.join(checksums::SIGNATURE));
        }
        let listing = || format!("listing {}", partial.display());
        for entry in fs::read_dir(partial).with_context(listing)? {
            let from = entry.with_context(listing)?.path();
            let to = self.out.join(from.file_name().unwrap_or_default());
            fs::rename(&from, &to).with_context(|| format!("writing {}", to.display()))?;
        }
        fs::remove_dir(partial).with_context(|| format!("removing {}", partial.display()))
    }

    fn compression(&self) -> Compression {
        match self.effort {
            Effort::Release => Compression::best(),
            Effort::Check => Compression::fast(),
        }
    }

    #[expect(clippy::type_complexity, reason = "used once, right above")]
    fn fill(
        &self,
        out: &Path,
        release: &Release,
        toolchain: Option<&Toolchain>,
    ) -> Result<(Vec<Contents>, Vec<(&'static str, String)>, tempfile::TempDir)> {
        // On the disk of the build folder: Debian trees and copies for packagers are large.
        fs::create_dir_all(&self.target)
            .with_context(|| format!("creating {}", self.target.display()))?;
        let work = tempfile::Builder::new()
            .prefix("dist-")
            .tempdir_in(&self.target)
            .with_context(|| format!("creating a folder in {}", self.target.display()))?;
        let built = self.compile(release, toolchain, work.path())?;
        let contents = self.collect(release, toolchain, &built, work.path())?;
        for one in contents.iter().filter(|_| !self.only_images) {
            self.archive(one, release, out)?;
            self.packages(one, release, out, work.path())?;
            if let Some(text) = &one.sbom {
                let name = file_name(one, release, "cdx.json");
                write(&out.join(name), text)?;
            }
        }
        if !self.only_images {
            self.krew(&contents, release, out)?;
        }
        let images = self.images(&contents, release, out, work.path())?;
        Ok((contents, images, work))
    }

    fn compile(
        &self,
        release: &Release,
        toolchain: Option<&Toolchain>,
        work: &Path,
    ) -> Result<Vec<Built>> {
        let mut all = Vec::new();
        for architecture in self.architectures.iter().copied() {
            match (&self.debug_programs, toolchain) {
                (Some(programs), _) => {
                    ensure!(architecture.is_native(), "debug programs run on this machine only");
                    for program in self.programs.iter().copied() {
                        let path = stripped(&programs.path(program), program, work)?;
                        all.push(Built { program, architecture, path });
                    }
                }
                (None, Some(toolchain)) => all.extend(compile::compile(
                    &self.root,
                    &self.target,
                    release,
                    toolchain,
                    architecture,
                    &self.programs,
                    self.effort,
                )?),
                (None, None) => anyhow::bail!("there is no compiler for {architecture}"),
            }
        }
        Ok(all)
    }

    fn collect(
        &self,
        release: &Release,
        toolchain: Option<&Toolchain>,
        built: &[Built],
        work: &Path,
    ) -> Result<Vec<Contents>> {
        let metadata: BTreeMap<Architecture, Metadata> = self
            .architectures
            .iter()
            .map(|one| Ok((*one, Metadata::read(&self.root, *one)?)))
            .collect::<Result<_>>()?;
        let mut contents = Vec::new();
        for one in built {
            let name = one.program.name;
            // Any architecture writes the same documents; the native one does it fastest.
            let writer = built.iter().filter(|other| other.program == one.program);
            let writer = writer.max_by_key(|other| other.architecture.is_native()).unwrap_or(one);
            let documents = work.join("documents").join(name);
            if !documents.exists() {
                contents::generate_documents(writer, &documents)?;
            }
            let licenses = metadata
                .get(&one.architecture)
                .context("the dependencies of this architecture were not read")?
                .text(name, toolchain)?;
            let sbom = match self.debug_programs {
                Some(_) => None,
                None => Some(sbom::document(one.program, release, &sbom::embedded(&one.path)?)),
            };
            contents.push(Contents::collect(&self.root, one.clone(), &documents, licenses, sbom)?);
        }
        Ok(contents)
    }

    fn archive(&self, contents: &Contents, release: &Release, out: &Path) -> Result<()> {
        let path = out.join(file_name(contents, release, "tar.gz"));
        let writing = || format!("writing {}", path.display());
        let file = BufWriter::new(File::create(&path).with_context(writing)?);
        let mut gzip = entries::gzip(file, self.compression());
        let entries = contents.archive(&folder_name(contents, release));
        entries::write_tar(&mut gzip, &entries, release.epoch).with_context(writing)?;
        gzip.finish().with_context(writing)
    }

    fn packages(
        &self,
        contents: &Contents,
        release: &Release,
        out: &Path,
        work: &Path,
    ) -> Result<()> {
        if !self.is_packaged(contents.built.program) {
            return Ok(());
        }
        let version = release.version();
        let package = Package::new(contents, &version, release.epoch);
        let Built { program, architecture, .. } = &contents.built;
        let folder = |format: &str| work.join(format!("{format}-{}-{architecture}", program.name));
        let deb = contents.package(&DEBIAN)?;
        packages::deb(&package, &deb, out, &folder("deb"), self.effort)?;
        let rpm = contents.package(&RPM)?;
        packages::rpm(&package, &rpm, out, &folder("rpm"), self.effort)?;
        Ok(())
    }

    /// Debug programs are large. Two of them show how packages are written: one with units and
    /// scripts, one without.
    pub(crate) fn is_packaged(&self, program: Program) -> bool {
        self.debug_programs.is_none() || ["brex-firstboot", "enhance"].contains(&program.name)
    }

    fn krew(&self, contents: &[Contents], release: &Release, out: &Path) -> Result<()> {
        for program in &self.programs {
            let Some(plugin) = program.plugin else { continue };
            let of_program = contents.iter().filter(|one| one.built.program == *program);
            let downloads = of_program
                .map(|one| {
                    let file = file_name(one, release, "tar.gz");
                    Ok(Download {
                        architecture: one.built.architecture,
                        url: format!("{}/{file}", self.url.trim_end_matches('/')),
                        sha256: checksums::of_file(&out.join(&file))?,
                        folder: folder_name(one, release),
                    })
                })
                .collect::<Result<Vec<_>>>()?;
            let text = krew::manifest(*program, plugin, &release.version(), &downloads)?;
            write(&out.join(format!("{plugin}.yaml")), &text)?;
        }
        Ok(())
    }

    fn images(
        &self,
        contents: &[Contents],
        release: &Release,
        out: &Path,
        work: &Path,
    ) -> Result<Vec<(&'static str, String)>> {
        let mut written = Vec::new();
        for name in ["oc-mirror", "nmstate-operator"] {
            let program = programs::find("--program", name)?;
            let mut roots = Vec::new();
            for one in contents.iter().filter(|one| one.built.program == program) {
                let mut root = image::base_root();
                root.push(Entry::program(format!("usr/bin/{name}"), &one.built.path));
                root.extend(one.image_licenses());
                if name == "nmstate-operator" {
                    root.extend(self.payload()?);
                }
                roots.push((one.built.architecture, root));
            }
            if roots.is_empty() {
                continue;
            }
            let labels = match name {
                // `oc adm release new` includes /manifests of images with this label in a payload.
                "nmstate-operator" => [("io.openshift.release.operator", "true".to_owned())].into(),
                _ => BTreeMap::new(),
            };
            let settings = image::Settings {
                name: program.name,
                summary: program.summary,
                user: image::USER,
                entrypoint: vec![if name == "oc-mirror" {
                    "/usr/bin/oc-mirror"
                } else {
                    "/usr/bin/nmstate-operator"
                }],
                command: Vec::new(),
                labels,
            };
            written.push((program.name, self.image(&settings, release, out, &roots)?));
        }
        // Its script collects what nmstate-operator leaves in a cluster.
        if written.iter().any(|(name, _)| *name == "nmstate-operator") {
            let settings = image::Settings {
                name: "must-gather",
                summary: "Collects what is needed to diagnose node network policies",
                // `oc adm must-gather` runs it as root.
                user: "0:0",
                entrypoint: Vec::new(),
                command: vec!["/usr/bin/gather"],
                labels: BTreeMap::new(),
            };
            let roots = self
                .architectures
                .iter()
                .map(|one| Ok((*one, must_gather::root(&self.root, *one, work)?)))
                .collect::<Result<Vec<_>>>()?;
            written.push((settings.name, self.image(&settings, release, out, &roots)?));
        }
        Ok(written)
    }

    fn image(
        &self,
        settings: &image::Settings,
        release: &Release,
        out: &Path,
        roots: &[(Architecture, Vec<Entry>)],
    ) -> Result<String> {
        let file = format!("{}-{}-oci.tar", settings.name, release.version());
        image::write(&out.join(&file), settings, release, roots, self.compression())?;
        Ok(file)
    }

    /// The files of the release payload.
    fn payload(&self) -> Result<Vec<Entry>> {
        let folder = self.root.join("deploy/nmstate-operator/payload");
        let listing = || format!("listing {}", folder.display());
        let entries = fs::read_dir(&folder).with_context(listing)?;
        entries
            .map(|entry| {
                let path = entry.with_context(listing)?.path();
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                Ok(Entry::file(format!("manifests/{name}"), &path))
            })
            .collect()
    }
}

/// `oc-mirror-0.1.0-linux-amd64`: the folder in the archive.
pub(crate) fn folder_name(contents: &Contents, release: &Release) -> String {
    let Built { program, architecture, .. } = &contents.built;
    format!("{}-{}-linux-{}", program.name, release.version(), architecture.go())
}

pub(crate) fn file_name(contents: &Contents, release: &Release, ending: &str) -> String {
    format!("{}.{ending}", folder_name(contents, release))
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}

/// A copy of a debug program without symbols, which are most of its size.
fn stripped(path: &Path, program: Program, work: &Path) -> Result<PathBuf> {
    let copy = work.join(program.name);
    let mut strip = std::process::Command::new("strip");
    crate::command::output(strip.arg("-o").arg(&copy).arg(path))?;
    Ok(copy)
}
