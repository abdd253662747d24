//! `s3://BUCKET/PREFIX` as a destination or with `--from`: archives are stored in an object store
//! after a run to disk, and fetched before a run from disk. The workspace is a directory in both
//! cases.

use std::fs;
use std::path::{Path, PathBuf};

use archive_store::{ArchiveLocation, ArchiveStore, Settings, StoreError, StoredFile};
use clap::Args;
use workspace::archive::Excerpt;

use crate::arguments::MirrorArguments;
use crate::problem::{Problem, chain};
use crate::{quantity, route};

const SCHEME: &str = "s3://";
const HEADING: &str = "Object store";

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
                if size(&path) == Some(file.size) && is_whole {
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

    /// Stores archives that the object store does not have.
    pub(crate) fn store(&self, place: &ArchiveLocation, directory: &Path) -> Result<(), Problem> {
        let entries = fs::read_dir(directory)
            .map_err(|error| Problem::new(format!("reading {}: {error}", directory.display())))?;
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| is_archive(name))
            .collect();
        names.sort();
        wait(async {
            let store = open(place, &self.settings())?;
            // What a process left that was killed while it stored archives.
            store.abort_unfinished().await.map_err(|error| problem(&error))?;
            let stored = store.list().await.map_err(|error| problem(&error))?;
            for name in names {
                let path = directory.join(&name);
                let Some(size) = size(&path) else { continue };
                if stored.iter().any(|file| file.name == name && file.size == size) {
                    continue;
                }
                tracing::info!("storing {name} ({}) in {place}", quantity::bytes(size));
                store.upload(&path, &name).await.map_err(|error| problem(&error))?;
            }
            Ok(())
        })
    }

    /// Whether the object store can be used, before time is spent on a run.
    pub(crate) fn check(&self, place: &ArchiveLocation) -> Result<(), Problem> {
        wait(async {
            open(place, &self.settings())?.list().await.map(drop).map_err(|error| problem(&error))
        })
    }
}

fn open(place: &ArchiveLocation, settings: &Settings) -> Result<ArchiveStore, Problem> {
    ArchiveStore::open(place, settings).map_err(|error| problem(&error))
}

pub(crate) fn problem(error: &StoreError) -> Problem {
    let hint = match error {
        StoreError::NoBucket { .. } => {
            Some("create the bucket first; check its name and --s3-endpoint")
        }
        StoreError::Store { .. } => {
            Some("the archives are in the workspace: run the same command again to store them")
        }
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
    let name = name.strip_suffix(".sig").unwrap_or(name);
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
