//! `s3://BUCKET/PREFIX` as a destination or with `--from`: archives are stored in an object store
//! after a run to disk, and fetched before a run from disk. The workspace is a directory in both
//! cases.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use archive_store::{ArchiveLocation, ArchiveStore, Settings, StoreError, StoredFile};
use clap::Args;
use workspace::archive::Excerpt;

use crate::arguments::MirrorArguments;
use crate::problem::{Problem, chain};
use crate::shards::target_claim::TargetClaim;
use crate::{quantity, route};

const SCHEME: &str = "s3://";
const HEADING: &str = "Object store";
/// What the name of a signature ends with.
const SIGNATURE: &str = ".sig";
/// The first bytes of an archive name its index.
pub(crate) const START: u64 = 512;
const KEPT: &str = "the archives are in the workspace: run the same command again to store them";

#[derive(Debug, Clone, Args)]
pub(crate) struct StoreArguments {
    /// URL of the object store, such as https://s3.example [default: $AWS_ENDPOINT_URL, else AWS]
    #[arg(long, value_name = "URL", help_heading = HEADING)]
    s3_endpoint: Option<String>,
    /// Region of the bucket [default: $AWS_REGION, else us-east-1]
    #[arg(long, value_name = "NAME", help_heading = HEADING)]
    s3_region: Option<String>,
    /// Certificates of authorities (PEM) that sign for the object store, besides the system's
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    s3_ca: Option<PathBuf>,
    /// The bucket is part of the host name, instead of the path
    #[arg(long, help_heading = HEADING)]
    s3_virtual_hosted: bool,
}

/// What is done with an object store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Transfer {
    /// Archives are fetched before the run.
    Fetch(ArchiveLocation),
    /// Archives are stored after the run.
    Store(ArchiveLocation),
}

/// The places of a run, once object stores are replaced by the workspace in which their archives
/// are read or written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Places {
    pub(crate) destinations: Vec<String>,
    pub(crate) from: Option<String>,
    pub(crate) workspace: Option<String>,
    pub(crate) transfer: Option<Transfer>,
}

impl MirrorArguments {
    /// The places of a run.
    pub(crate) fn places(&self) -> Result<Places, Vec<Problem>> {
        places(&self.destinations, self.from.as_deref(), self.workspace.as_deref())
    }
}

/// Replaces object stores.
fn places(
    destinations: &[String],
    from: Option<&str>,
    workspace: Option<&str>,
) -> Result<Places, Vec<Problem>> {
    let mut places = Places {
        destinations: destinations.to_vec(),
        from: from.map(str::to_owned),
        workspace: workspace.map(str::to_owned),
        transfer: None,
    };
    let is_store = |text: &str| text.starts_with(SCHEME);
    let place = |text: &str| {
        text.parse::<ArchiveLocation>().map_err(|error| vec![Problem::new(error.to_string())])
    };
    let needs_workspace = |what: &str| {
        let workspace = workspace.filter(|text| !text.is_empty()).map(str::to_owned);
        workspace.ok_or_else(|| {
            vec![Problem::new(format!(
                "{what} of s3:// needs --workspace file://DIR: the workspace and its archives are kept there"
            ))]
        })
    };
    match (destinations, from) {
        ([destination], None) if is_store(destination) => {
            places.transfer = Some(Transfer::Store(place(destination)?));
            places.destinations = vec![needs_workspace("a destination")?];
            places.workspace = None;
        }
        (_, Some(from)) if is_store(from) => {
            places.transfer = Some(Transfer::Fetch(place(from)?));
            places.from = Some(needs_workspace("--from")?);
            places.workspace = None;
        }
        _ => {}
    }
    Ok(places)
}

impl StoreArguments {
    /// Opens a store. Sends no request.
    pub(crate) fn open(&self, place: &ArchiveLocation) -> Result<ArchiveStore, StoreError> {
        ArchiveStore::open(place, &self.settings())
    }

    /// Whether a flag names the endpoint.
    #[cfg_attr(not(feature = "cluster"), expect(dead_code, reason = "for pods"))]
    pub(crate) fn has_endpoint(&self) -> bool {
        self.s3_endpoint.is_some()
    }

    fn settings(&self) -> Settings {
        Settings {
            endpoint: self.s3_endpoint.clone(),
            region: self.s3_region.clone(),
            ca: self.s3_ca.clone(),
            virtual_hosted: self.s3_virtual_hosted,
        }
    }

    /// Fetches archives that `directory` does not have.
    pub(crate) fn fetch(&self, place: &ArchiveLocation, workspace: &str) -> Result<(), Problem> {
        let directory = route::directory("--workspace", workspace)?;
        fs::create_dir_all(&directory)
            .map_err(|error| Problem::new(format!("creating {}: {error}", directory.display())))?;
        wait(async {
            let store = open(place, &self.settings())?;
            let files = store.list().await.map_err(|error| problem(&error))?;
            let archives: Vec<StoredFile> =
                files.into_iter().filter(|file| is_archive(&file.name)).collect();
            if archives.is_empty() {
                return Err(Problem::new(format!("{place} has no archives (mirror_NNNNNN.tar)"))
                    .with_hint("check bucket and prefix"));
            }
            for file in archives {
                let path = directory.join(&file.name);
                // Of some files only parts were fetched, for planning.
                let is_whole = Excerpt::of(&path).is_ok_and(|excerpt| excerpt.is_none());
                if is_whole && is_stored(&store, &file, &path).await? {
                    continue;
                }
                tracing::info!(
                    "fetching {} ({}) from {place}",
                    file.name,
                    quantity::bytes(file.size)
                );
                store.download(&file, &directory).await.map_err(|error| problem(&error))?;
                Excerpt::forget(&path).map_err(|error| Problem::new(chain(&error)))?;
            }
            Ok(())
        })
    }

    /// Stores archives that the object store does not have, unless another run has it meanwhile. An
    /// archive of another workspace is never replaced.
    pub(crate) fn store(
        &self,
        place: &ArchiveLocation,
        directory: &Path,
        claim: Option<&TargetClaim>,
    ) -> Result<(), Problem> {
        let entries = fs::read_dir(directory)
            .map_err(|error| Problem::new(format!("reading {}: {error}", directory.display())))?;
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| is_archive(name))
            .collect();
        names.sort();
        let work = async {
            let store = open(place, &self.settings())?;
            // What a process left that was killed while it stored archives.
            store.abort_unfinished().await.map_err(|error| problem(&error))?;
            let stored = store.list().await.map_err(|error| problem(&error))?;
            for name in names {
                let path = directory.join(&name);
                let Some(size) = size(&path) else { continue };
                if let Some(file) = stored.iter().find(|file| file.name == name) {
                    if is_stored(&store, file, &path).await? {
                        continue;
                    }
                    // A signature can be made again.
                    if !name.ends_with(SIGNATURE) {
                        return Err(occupied(&name, place));
                    }
                }
                tracing::info!("storing {name} ({}) in {place}", quantity::bytes(size));
                store.upload(&path, &name).await.map_err(|error| problem(&error))?;
            }
            Ok(())
        };
        wait(async {
            let Some(claim) = claim else { return work.await };
            claim.check().await.map_err(|error| Problem::new(chain(&error)).with_hint(KEPT))?;
            tokio::select! {
                stored = work => stored,
                () = claim.keep() => unreachable!("a claim is kept until all is stored"),
            }
        })
    }

    /// Whether the object store can be used, before time is spent on a run.
    pub(crate) fn check(&self, place: &ArchiveLocation) -> Result<(), Problem> {
        wait(async {
            open(place, &self.settings())?.list().await.map(drop).map_err(|error| problem(&error))
        })
    }
}

/// Whether a file is the one that is stored: it has the same length and begins in the same way. The
/// beginning of an archive names its index by digest, which describes all of the archive.
async fn is_stored(store: &ArchiveStore, file: &StoredFile, path: &Path) -> Result<bool, Problem> {
    if size(path) != Some(file.size) {
        return Ok(false);
    }
    let here = start_of_file(path)
        .map_err(|error| Problem::new(format!("reading {}: {error}", path.display())))?;
    let there = store.start_of(&file.name, START).await.map_err(|error| problem(&error))?;
    Ok(here == there)
}

/// What tells one archive from another.
pub(crate) fn start_of_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut start = Vec::new();
    fs::File::open(path)?.take(START).read_to_end(&mut start)?;
    Ok(start)
}

fn occupied(name: &str, place: &ArchiveLocation) -> Problem {
    Problem::new(format!(
        "storing {name} in {place}: it has another archive of this name, of another workspace"
    ))
    .with_hint("use another prefix for each workspace; the archives are in the workspace: run the same command with it to store them")
}

fn open(place: &ArchiveLocation, settings: &Settings) -> Result<ArchiveStore, Problem> {
    ArchiveStore::open(place, settings).map_err(|error| problem(&error))
}

pub(crate) fn problem(error: &StoreError) -> Problem {
    let hint = match error {
        StoreError::NoBucket { .. } => {
            Some("create the bucket first; check its name and --s3-endpoint")
        }
        StoreError::Store { .. } => Some(KEPT),
        _ => None,
    };
    let problem = Problem::new(chain(error));
    match hint {
        Some(hint) => problem.with_hint(hint),
        None => problem,
    }
}

pub(crate) fn size(path: &Path) -> Option<u64> {
    fs::metadata(path).ok().filter(fs::Metadata::is_file).map(|metadata| metadata.len())
}

/// `mirror_000001.tar`, and its signature.
pub(crate) fn is_archive(name: &str) -> bool {
    let name = name.strip_suffix(SIGNATURE).unwrap_or(name);
    let digits = name.strip_prefix("mirror_").and_then(|rest| rest.strip_suffix(".tar"));
    digits
        .is_some_and(|digits| digits.len() >= 6 && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

fn wait<T>(work: impl Future<Output = Result<T, Problem>>) -> Result<T, Problem> {
    match crate::runtime() {
        Ok(runtime) => runtime.block_on(work),
        Err(error) => Err(Problem::new(format!("starting threads: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_store_is_replaced_by_the_workspace() {
        let store = ["s3://b/x".to_owned()];
        let found = places(&store, None, Some("file://d")).unwrap();
        assert_eq!((found.destinations, found.workspace), (vec!["file://d".to_owned()], None));
        assert_eq!(found.transfer, Some(Transfer::Store("s3://b/x".parse().unwrap())));
        let registry = ["docker://r".to_owned()];
        let found = places(&registry, Some("s3://b"), Some("file://d")).unwrap();
        assert_eq!((found.from.as_deref(), found.workspace), (Some("file://d"), None));
        let found = places(&registry, None, Some("file://d")).unwrap();
        assert_eq!((found.transfer, found.workspace.as_deref()), (None, Some("file://d")));
        for missing in [places(&store, None, None), places(&registry, Some("s3://b"), None)] {
            let problems = missing.unwrap_err();
            assert!(problems[0].message.contains("needs --workspace"), "{problems:?}");
        }
    }

    #[test]
    fn only_archives_are_transferred() {
        for name in ["mirror_000001.tar", "mirror_1234567.tar", "mirror_000001.tar.sig"] {
            assert!(is_archive(name), "{name}");
        }
        for name in [
            "mirror_1.tar",
            "mirror_000001.tar.part",
            "working-dir",
            "mirror_00000x.tar",
            "../mirror_000001.tar",
        ] {
            assert!(!is_archive(name), "{name}");
        }
    }
}
