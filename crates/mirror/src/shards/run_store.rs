//! Runs in the target registry: the plan with one part per shard, and the results of pods, each an
//! OCI artifact. No other storage is needed.
//!
//! ```text
//! TARGET/oc-mirror-runs:<name>                   plan, parts, content that was built
//! TARGET/oc-mirror-runs:<name>-of-<n>-shard-<i>  what shard i of n did
//! TARGET/oc-mirror-runs:<name>-report            the result of the run
//! TARGET/oc-mirror-runs:active                   which run mirrors to the target (`claim.rs`)
//! ```
//!
//! The plan is read by its digest, so that it cannot be replaced after it was made. The name is that
//! of the plan: an execution of the same plan with another number of shards divides it in another
//! way, and does not read the results of the first.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::num::NonZeroU32;
use std::path::Path;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use mirror_plan::{
    ContentSource, Mode, Origin, PartError, PlannedImage, RunIdentity, ShardPart, Target, split,
};
use oci::{
    Descriptor, Digest, ImageRef, Manifest, MediaType, Pointer, RawManifest, Repository, Tag,
};
use registry::{Blob, Client, Location};
use serde::Serialize;
use workspace::archive::Archives;
use workspace::{BlobError, DiskError, Workspace};

use super::delegate::read_by;
use super::{Claimed, ShardEnding, ShardReport};
use crate::plan::stored_plan::StoredPlan;

/// Repository of runs below the namespace of a target.
const REPOSITORY: &str = "oc-mirror-runs";
const RUN: &str = "application/vnd.landfall.mirror.run.v1";
const RESULT: &str = "application/vnd.landfall.mirror.result.v1";
const PLAN: &str = "application/vnd.landfall.mirror.plan.v1+json";
const PART: &str = "application/vnd.landfall.mirror.part.v1+json";
const BUILT: &str = "application/vnd.landfall.mirror.built.v1";
const FILE: &str = "application/vnd.landfall.mirror.file.v1";
const TITLE: &str = "org.opencontainers.image.title";
/// Far above anything that is stored here: parts, plans and catalogs.
const MAX_BYTES: u64 = 1 << 30;
/// Blobs whose presence is checked at the same time.
const CHECKS_AT_ONCE: usize = 8;

/// Why a run cannot be stored or read.
#[derive(Debug, thiserror::Error)]
pub enum RunStoreError {
    #[error("preparing requests to the target")]
    Client(#[source] registry::SettingsError),
    #[error("storing the run in {at}")]
    Store { at: String, source: registry::Error },
    #[error("reading the run {at}")]
    Read { at: String, source: registry::Error },
    #[error("{at} does not exist")]
    Absent { at: String },
    #[error("{at} is not a run of oc-mirror: {what}")]
    Malformed { at: String, what: String },
    #[error(transparent)]
    Part(#[from] PartError),
    #[error("images of the directory {0} cannot be mirrored by pods, which do not have it")]
    Directory(String),
    #[error("{digest} is in no archive here{}, and {at} does not hold it", in_files(files))]
    NotArchived { digest: Digest, files: Vec<String>, at: String },
    #[error(transparent)]
    Archives(#[from] workspace::archive::OpenError),
    #[error(transparent)]
    Claimed(#[from] Box<Claimed>),
    #[error("keeping what was built for the run")]
    Built(#[from] BlobError),
    #[error("reading what was built for the run")]
    Disk(#[from] DiskError),
}

fn in_files(files: &[String]) -> String {
    match files.is_empty() {
        true => String::new(),
        false => format!(" ({} is missing)", files.join(", ")),
    }
}

impl RunStoreError {
    /// Whether a later attempt may succeed.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Store { source, .. } | Self::Read { source, .. } => source.is_retryable(),
            _ => false,
        }
    }
}

/// The runs of a target.
#[derive(Debug, Clone)]
pub struct RunStore {
    client: Client,
    at: Location,
}

/// Names and contents of files.
pub type Files = BTreeMap<String, Vec<u8>>;

impl RunStore {
    /// Opens the runs of a target.
    ///
    /// # Errors
    /// No client can be opened with these settings.
    pub fn of_target(
        target: &Target,
        settings: &registry::Settings,
    ) -> Result<Self, RunStoreError> {
        let name = match &target.namespace {
            Some(namespace) => format!("{namespace}/{REPOSITORY}"),
            None => REPOSITORY.to_owned(),
        };
        let repository = name.parse::<Repository>().map_err(|error| RunStoreError::Malformed {
            at: name.clone(),
            what: error.to_string(),
        })?;
        Self::open(Location::new(target.registry.clone(), repository), settings)
    }

    /// Opens the runs beside this one.
    ///
    /// # Errors
    /// As [`RunStore::of_target`].
    pub fn of_run(run: &ImageRef, settings: &registry::Settings) -> Result<Self, RunStoreError> {
        Self::open(Location::from(run), settings)
    }

    fn open(at: Location, settings: &registry::Settings) -> Result<Self, RunStoreError> {
        let client = Client::open(settings.clone()).map_err(RunStoreError::Client)?;
        Ok(Self { client, at })
    }

    /// Stores a plan with one part for each of `shards`. `text` is the plan as it is in its file.
    /// Content that the run built, and that pods need, is read from the workspace. Returns the
    /// artifact by its digest.
    ///
    /// # Errors
    /// The plan cannot be executed by pods, or the target does not accept it.
    pub async fn store_run(
        &self,
        (plan, text): (&StoredPlan, &str),
        shards: NonZeroU32,
        program: String,
        (name, directory): (&str, &Path),
    ) -> Result<ImageRef, RunStoreError> {
        let workspace = Workspace::open(directory);
        let identity = RunIdentity { plan: Digest::of(text.as_bytes()), program };
        let documents: Vec<Digest> = plan.documents().collect();
        let plan = plan.plan();
        if plan.mode != Mode::DiskToMirror
            && let Some(path) = plan.images.iter().find_map(|image| match &image.origin {
                Origin::Layout(path) => Some(path),
                Origin::Registry(_) | Origin::Made(_) => None,
            })
        {
            return Err(RunStoreError::Directory(path.display().to_string()));
        }
        let archives = match plan.mode {
            Mode::DiskToMirror => Some(Archives::open(directory)?),
            Mode::MirrorToDisk | Mode::MirrorToMirror | Mode::Delete => None,
        };
        let is_remote = |image: &PlannedImage| matches!(image.origin, Origin::Registry(_));
        // What was built is in the artifact, and is copied when the run is published.
        let takes_part = |image: &PlannedImage| archives.is_some() || is_remote(image);
        let split = split(plan, shards, |_, image| takes_part(image));
        let mut layers = vec![self.put(PLAN, "plan.json", text.as_bytes()).await?];
        for shard in 0..split.shards() {
            let source = |origin: &Origin| match origin {
                Origin::Registry(image) if archives.is_none() => ContentSource::Registry {
                    registry: image.registry.clone(),
                    repository: image.repository.clone(),
                },
                _ => ContentSource::Built { base: None },
            };
            // A pod may be repeated, so no repository counts as new.
            let mut part = split.part(plan, shard, identity.clone(), source, |_| false);
            if let Some(archives) = &archives {
                self.find_in_archives(&mut part, archives).await?;
            }
            let title = format!("part-{shard}.json");
            layers.push(self.put(PART, &title, part.to_text()?.as_bytes()).await?);
        }
        let built = [workspace.dry_run_content(), workspace.blobs().clone()];
        let mut kept: BTreeSet<Digest> = documents.into_iter().collect();
        for image in plan.images.iter().filter(|image| !is_remote(image)) {
            let tree = plan.tree(image);
            kept.extend(tree.all_manifests().map(|node| node.digest));
            kept.extend(tree.blobs().into_keys());
        }
        for digest in kept {
            for store in &built {
                // What was not built here is read from the source.
                if store.has(&digest, None)? {
                    let bytes = store.read(&digest, MAX_BYTES)?;
                    layers.push(self.put(BUILT, &digest.to_string(), &bytes).await?);
                    break;
                }
            }
        }
        let digest = self.put_artifact(RUN, layers, name).await?;
        Ok(self.reference(Pointer::Digest(digest)))
    }

    /// Notes which ranges of archives a shard reads, and leaves out what no archive has: the target
    /// must have that already.
    async fn find_in_archives(
        &self,
        part: &mut ShardPart,
        archives: &Archives,
    ) -> Result<(), RunStoreError> {
        part.archives = read_by(part, archives);
        let known = archives.sizes();
        let is_archived: Vec<bool> =
            part.blobs.iter().map(|blob| known.contains_key(&blob.blob.digest)).collect();
        let registry = part.registry.clone();
        for need in &mut part.needs {
            let repository = &part.repositories[need.repository as usize].name;
            for blob in need.blobs.iter().filter(|blob| !is_archived[**blob as usize]) {
                let blob = &part.blobs[*blob as usize];
                let Some(registry) = registry.clone().filter(|_| blob.held.is_none()) else {
                    continue;
                };
                let at = Location::new(registry, repository.clone());
                let there = self.client.has_blob(&at, &blob.blob.digest).await;
                let there =
                    there.map_err(|source| RunStoreError::Read { at: at.to_string(), source })?;
                if !there {
                    let place = archives.whereabouts(&blob.blob.digest);
                    return Err(RunStoreError::NotArchived {
                        digest: blob.blob.digest,
                        files: place.map(|place| place.absent).unwrap_or_default(),
                        at: at.to_string(),
                    });
                }
            }
            need.blobs.retain(|blob| is_archived[*blob as usize]);
        }
        part.needs.retain(|need| !need.blobs.is_empty());
        Ok(())
    }

    /// Reads the part of a shard.
    ///
    /// # Errors
    /// The run does not have it, or it is not what was stored.
    pub async fn part(&self, run: &ImageRef, shard: u32) -> Result<ShardPart, RunStoreError> {
        let layers = self.layers(run, RUN).await?;
        let title = format!("part-{shard}.json");
        let layer = layers.iter().find(|layer| titled(layer, &title));
        let layer =
            layer.ok_or_else(|| self.malformed(&format!("it has no part for shard {shard}")))?;
        let bytes = self.get(layer).await?;
        let text = String::from_utf8(bytes).map_err(|_| self.malformed("a part is not text"))?;
        Ok(ShardPart::from_text(&text)?)
    }

    /// Reads the plan of a run, and puts the content that was built for it where the execution of a
    /// stored plan finds it. Returns the text of the plan.
    ///
    /// # Errors
    /// The run cannot be read, or the content cannot be written.
    pub async fn plan(&self, run: &ImageRef, directory: &Path) -> Result<String, RunStoreError> {
        let workspace = Workspace::open(directory);
        let store = workspace.dry_run_content();
        let mut plan = None;
        for layer in self.layers(run, RUN).await? {
            match layer.media_type.as_str() {
                PLAN => plan = Some(self.get(&layer).await?),
                BUILT => store.put(&layer.digest, &self.get(&layer).await?)?,
                _ => {}
            }
        }
        let plan = plan.and_then(|bytes| String::from_utf8(bytes).ok());
        plan.ok_or_else(|| self.malformed("it has no plan"))
    }

    /// The digest of the plan of a run, which names it.
    ///
    /// # Errors
    /// The run cannot be read.
    pub async fn plan_digest(&self, run: &ImageRef) -> Result<Digest, RunStoreError> {
        let layers = self.layers(run, RUN).await?;
        let plan = layers.iter().find(|layer| layer.media_type.as_str() == PLAN);
        plan.map(|layer| layer.digest).ok_or_else(|| self.malformed("it has no plan"))
    }

    /// The number of shards of a run.
    ///
    /// # Errors
    /// The run cannot be read.
    pub async fn shards(&self, run: &ImageRef) -> Result<u32, RunStoreError> {
        let layers = self.layers(run, RUN).await?;
        let parts = layers.iter().filter(|layer| layer.media_type.as_str() == PART).count();
        Ok(u32::try_from(parts).unwrap_or(u32::MAX))
    }

    /// Whether all blobs of a part are at the target, where they are needed.
    ///
    /// # Errors
    /// The target does not respond.
    pub async fn has_part(&self, part: &ShardPart) -> Result<bool, RunStoreError> {
        let Some(registry) = &part.registry else { return Ok(false) };
        let needed = part.needs.iter().flat_map(|need| {
            let repository = &part.repositories[need.repository as usize].name;
            let at = Location::new(registry.clone(), repository.clone());
            need.blobs.iter().map(move |blob| (at.clone(), part.blobs[*blob as usize].blob.digest))
        });
        let checks = needed.map(|(at, digest)| async move {
            let there = self.client.has_blob(&at, &digest).await;
            there.map_err(|source| RunStoreError::Read { at: at.to_string(), source })
        });
        let mut checks = stream::iter(checks).buffer_unordered(CHECKS_AT_ONCE);
        while let Some(there) = checks.try_next().await? {
            if !there {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Stores what a shard did. The name is that of the run, with the number of its shards.
    ///
    /// # Errors
    /// The target does not accept it.
    pub async fn store_shard_report(
        &self,
        run: (&str, u32),
        report: &ShardReport,
    ) -> Result<(), RunStoreError> {
        let json = serde_json::to_vec_pretty(report).map_err(|e| self.malformed(&e.to_string()))?;
        let files = Files::from([("report.json".to_owned(), json)]);
        self.store_files(&shard_tag(run, report.shard), &files).await
    }

    /// What a shard did; none if it has not ended. A report of an interrupted shard replaces a failure
    /// that was withdrawn.
    ///
    /// # Errors
    /// The report cannot be read.
    pub async fn shard_report(
        &self,
        run: (&str, u32),
        shard: u32,
    ) -> Result<Option<ShardReport>, RunStoreError> {
        let Some(mut files) = self.files(&shard_tag(run, shard)).await? else { return Ok(None) };
        let json = files.remove("report.json").unwrap_or_default();
        serde_json::from_slice(&json).map(Some).map_err(|e| self.malformed(&e.to_string()))
    }

    /// Withdraws the failures and the result of an earlier execution of the same plan, so that a new
    /// one neither ends because of them nor reports them as its own.
    ///
    /// # Errors
    /// A report cannot be read or replaced.
    pub async fn withdraw_results(&self, run: (&str, u32)) -> Result<(), RunStoreError> {
        for shard in 0..run.1 {
            let report = self.shard_report(run, shard).await?;
            let is_withdrawn = |report: &ShardReport| {
                matches!(report.ending, ShardEnding::Failed | ShardEnding::LastAttempt)
            };
            if let Some(failed) = report.filter(is_withdrawn) {
                let ending = ShardEnding::Interrupted;
                let report = ShardReport::without_transfers(failed.run, shard, ending);
                self.store_shard_report(run, &report).await?;
            }
        }
        match self.result(run.0).await? {
            Some(_) => self.store_result(run.0, &Files::new()).await,
            None => Ok(()),
        }
    }

    /// Stores the result of a run.
    ///
    /// # Errors
    /// The target does not accept it.
    pub async fn store_result(&self, name: &str, files: &Files) -> Result<(), RunStoreError> {
        self.store_files(&format!("{name}-report"), files).await
    }

    /// The result of a run; none if it has not ended, or was withdrawn.
    ///
    /// # Errors
    /// The result cannot be read.
    pub async fn result(&self, name: &str) -> Result<Option<Files>, RunStoreError> {
        let files = self.files(&format!("{name}-report")).await?;
        Ok(files.filter(|files| !files.is_empty()))
    }

    pub(super) async fn store_files(&self, tag: &str, files: &Files) -> Result<(), RunStoreError> {
        let mut layers = Vec::new();
        for (name, bytes) in files {
            layers.push(self.put(FILE, name, bytes).await?);
        }
        self.put_artifact(RESULT, layers, tag).await.map(drop)
    }

    pub(super) async fn files(&self, tag: &str) -> Result<Option<Files>, RunStoreError> {
        let at = self.reference(Pointer::Tag(self.tag(tag)?));
        let layers = match self.layers(&at, RESULT).await {
            Ok(layers) => layers,
            Err(RunStoreError::Absent { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut files = Files::new();
        for layer in layers {
            let name = layer.annotations.get(TITLE).cloned().unwrap_or_default();
            files.insert(name, self.get(&layer).await?);
        }
        Ok(Some(files))
    }

    async fn put(
        &self,
        kind: &str,
        title: &str,
        bytes: &[u8],
    ) -> Result<Descriptor, RunStoreError> {
        let mut descriptor =
            Descriptor::new(MediaType::new(kind), Digest::of(bytes), bytes.len() as u64);
        descriptor.annotations.insert(TITLE.to_owned(), title.to_owned());
        let at = &self.at;
        let failed = |source| RunStoreError::Store { at: at.to_string(), source };
        if !self.client.has_blob(at, &descriptor.digest).await.map_err(failed)? {
            let blob = Blob { digest: descriptor.digest, size: descriptor.size };
            let bytes = Bytes::copy_from_slice(bytes);
            let body = || {
                let bytes = bytes.clone();
                async move { Ok::<_, io::Error>(stream::iter([Ok::<_, io::Error>(bytes)])) }
            };
            self.client.upload(at, blob, None, body).await.map_err(failed)?;
        }
        Ok(descriptor)
    }

    async fn put_artifact(
        &self,
        kind: &str,
        layers: Vec<Descriptor>,
        tag: &str,
    ) -> Result<Digest, RunStoreError> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Document<'a> {
            schema_version: u32,
            media_type: &'a str,
            artifact_type: &'a str,
            config: Descriptor,
            layers: Vec<Descriptor>,
        }
        let mut config = self.put(MediaType::OCI_EMPTY, "", b"{}").await?;
        config.annotations.clear();
        let (schema_version, media_type) = (2, MediaType::OCI_MANIFEST);
        let document = Document { schema_version, media_type, artifact_type: kind, config, layers };
        let bytes = serde_json::to_vec(&document).map_err(|e| self.malformed(&e.to_string()))?;
        let manifest = RawManifest::new(Some(media_type), bytes)
            .map_err(|error| self.malformed(&error.to_string()))?;
        let to = self.reference(Pointer::Tag(self.tag(tag)?));
        let put = self.client.put_manifest(&to, &manifest).await;
        put.map_err(|source| RunStoreError::Store { at: to.to_string(), source })?;
        Ok(manifest.digest)
    }

    async fn layers(&self, at: &ImageRef, kind: &str) -> Result<Vec<Descriptor>, RunStoreError> {
        let read = self.client.manifest(at).await;
        let read = read.map_err(|source| RunStoreError::Read { at: at.to_string(), source })?;
        let raw = read.ok_or_else(|| RunStoreError::Absent { at: at.to_string() })?;
        match raw.parse() {
            Ok(Manifest::Image { layers, about, .. })
                if about.artifact_type.as_deref() == Some(kind) =>
            {
                Ok(layers)
            }
            Ok(_) => Err(self.malformed("it is another artifact")),
            Err(error) => Err(self.malformed(&error.to_string())),
        }
    }

    async fn get(&self, layer: &Descriptor) -> Result<Vec<u8>, RunStoreError> {
        if layer.size > MAX_BYTES {
            return Err(self.malformed(&format!("a layer has {} bytes", layer.size)));
        }
        let failed = |source| RunStoreError::Read { at: self.at.to_string(), source };
        let blob = Blob { digest: layer.digest, size: layer.size };
        let mut stream = self.client.blob(&self.at, blob, 0).await.map_err(failed)?;
        let mut bytes = Vec::new();
        while let Some(chunk) = stream.chunk().await.map_err(failed)? {
            bytes.extend_from_slice(&chunk);
        }
        let found = Digest::of(&bytes);
        if found != layer.digest {
            let what = format!("a layer was modified: expected {}, found {found}", layer.digest);
            return Err(self.malformed(&what));
        }
        Ok(bytes)
    }

    fn tag(&self, text: &str) -> Result<Tag, RunStoreError> {
        text.parse().map_err(|_| self.malformed(&format!("{text:?} is not a tag")))
    }

    fn reference(&self, pointer: Pointer) -> ImageRef {
        ImageRef {
            registry: self.at.registry.clone(),
            repository: self.at.repository.clone(),
            tag: None,
            digest: None,
        }
        .with_pointer(pointer)
    }

    pub(super) fn place_of(&self, tag: &str) -> String {
        format!("{}:{tag}", self.at)
    }

    fn malformed(&self, what: &str) -> RunStoreError {
        RunStoreError::Malformed { at: self.at.to_string(), what: what.to_owned() }
    }
}

fn titled(layer: &Descriptor, title: &str) -> bool {
    layer.annotations.get(TITLE).is_some_and(|known| known == title)
}

fn shard_tag((name, shards): (&str, u32), shard: u32) -> String {
    format!("{name}-of-{shards}-shard-{shard}")
}
