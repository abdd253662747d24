//! The environment of measurements: the corpus, the source registry that serves it, and empty folders
//! for the results of each run.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use lab::corpus::Corpus;
use lab::docker_registry::{DockerRegistry, Settings, Storage};
use oci::RegistryHost;
use tempfile::TempDir;

/// Prefix of folders of single benchmarks; the process ID follows.
const WORK: &str = "work-";

/// Which content the source serves under its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Edition {
    First,
    /// One image has other content under its old name.
    Changed,
}

pub(crate) struct TestBed {
    pub(crate) corpus: Corpus,
    /// The corpus with one image changed.
    pub(crate) changed: Corpus,
    pub(crate) source: DockerRegistry,
    storage: PathBuf,
    is_short: bool,
    work: TempDir,
    /// Released last.
    _lock: File,
}

/// An empty registry. It is removed with its content when dropped.
pub(crate) struct Destination {
    pub(crate) registry: DockerRegistry,
    _storage: TempDir,
}

impl TestBed {
    /// Generates the corpus into the user's cache folder, unless it exists, and serves it.
    pub(crate) fn prepare(shrink: u64) -> Result<Self> {
        println!("generating the corpus");
        let corpus = Corpus::shaped(shrink)?;
        let mut changed = corpus.clone();
        changed.change_one(1)?;
        // Not a temporary folder: that may be in memory, and the benchmark measures a disk.
        let cache = cache_folder()?;
        let storage = cache.join(format!("corpus-{shrink}"));
        fs::create_dir_all(&storage).with_context(|| format!("creating {}", storage.display()))?;
        let lock = lock(&cache, shrink)?;
        remove_leftovers(&cache)?;
        let work = tempfile::Builder::new()
            .prefix(&format!("{WORK}{}-", process::id()))
            .tempdir_in(&cache)
            .with_context(|| format!("creating a folder in {}", cache.display()))?;
        let stored = Storage::new(&storage);
        stored.put_corpus(&changed)?;
        stored.put_corpus(&corpus)?;
        let settings = Settings { storage: Some(storage.clone()), ..Settings::default() };
        let test_bed = Self {
            corpus,
            changed,
            source: DockerRegistry::start(&settings)?,
            storage,
            is_short: shrink > 1,
            work,
            _lock: lock,
        };
        test_bed.fill_page_cache()?;
        test_bed.settle();
        Ok(test_bed)
    }

    pub(crate) fn source_host(&self) -> Result<RegistryHost> {
        self.source.host()
    }

    /// Makes the source serve this edition.
    pub(crate) fn serve(&self, edition: Edition) -> Result<()> {
        let corpus = match edition {
            Edition::First => &self.corpus,
            Edition::Changed => &self.changed,
        };
        let Some(entry) = corpus.entries.first() else { return Ok(()) };
        self.source.storage().put_image(&entry.image, &entry.repository, &entry.tag)
    }

    /// An empty folder on the disk that is measured. It is removed with its content when dropped.
    pub(crate) fn folder(&self) -> Result<TempDir> {
        tempfile::tempdir_in(self.work.path())
            .with_context(|| format!("creating a folder in {}", self.work.path().display()))
    }

    pub(crate) fn destination(&self) -> Result<Destination> {
        let storage = self.folder()?;
        let settings = Settings { storage: Some(storage.path().to_owned()), ..Settings::default() };
        Ok(Destination { registry: DockerRegistry::start(&settings)?, _storage: storage })
    }

    /// Writes the data of earlier cases from memory to the disk, so that it does not slow down the
    /// next case. Returns how long that took. A short run does not do this: it measures nothing, and
    /// would wait for the data of other programs.
    pub(crate) fn settle(&self) -> Duration {
        let start = Instant::now();
        if !self.is_short {
            rustix::fs::sync();
        }
        start.elapsed()
    }

    /// The paths of the corpus' blobs.
    pub(crate) fn blob_files(&self) -> Result<Vec<String>> {
        let blobs = self.storage.join("docker/registry/v2/blobs/sha256");
        let file = |hex: String| blobs.join(&hex[..2]).join(&hex).join("data");
        Ok(self
            .corpus
            .blobs()
            .keys()
            .map(|digest| file(digest.hex()).display().to_string())
            .collect())
    }

    /// Reads the content, so that the source responds from memory in the first run, too.
    fn fill_page_cache(&self) -> Result<()> {
        for path in self.blob_files()? {
            let reading = || format!("reading {path}");
            let mut file = File::open(&path).with_context(reading)?;
            io::copy(&mut file, &mut io::sink()).with_context(reading)?;
        }
        Ok(())
    }
}

/// Waits until no other benchmark uses the corpus: each changes what it serves.
fn lock(cache: &Path, shrink: u64) -> Result<File> {
    let path = cache.join(format!("corpus-{shrink}.lock"));
    let file = File::create(&path).with_context(|| format!("creating {}", path.display()))?;
    file.lock().with_context(|| format!("locking {}", path.display()))?;
    Ok(file)
}

/// Removes folders of benchmarks that were killed: each has gigabytes.
fn remove_leftovers(cache: &Path) -> Result<()> {
    let reading = || format!("reading {}", cache.display());
    for entry in fs::read_dir(cache).with_context(reading)? {
        let path = entry.with_context(reading)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let Some(owner) = name.strip_prefix(WORK) else { continue };
        let process = owner.split('-').next().and_then(|process| process.parse::<u32>().ok());
        let is_running = process.is_some_and(|id| Path::new("/proc").join(id.to_string()).exists());
        if !is_running {
            fs::remove_dir_all(&path).with_context(|| format!("removing {}", path.display()))?;
        }
    }
    Ok(())
}

/// `${XDG_CACHE_HOME:-~/.cache}/landfall/bench`.
fn cache_folder() -> Result<PathBuf> {
    let set = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    set("XDG_CACHE_HOME")
        .or_else(|| set("HOME").map(|home| home.join(".cache")))
        .map(|cache| cache.join("landfall/bench"))
        .context("cannot determine a folder for the corpus: neither XDG_CACHE_HOME nor HOME is set")
}

/// Removes the cache in which skopeo records known blobs: it would save requests in a cold run.
///
/// Other users have theirs below `XDG_DATA_HOME`, which is set for each command. For root the path
/// is fixed; it is a cache, and skopeo rebuilds it.
pub(crate) fn remove_blob_info_cache() -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let cache = Path::new("/var/lib/containers/cache/blob-info-cache-v1.boltdb");
    match fs::remove_file(cache) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("removing {}", cache.display()))
        }
        _ => Ok(()),
    }
}
