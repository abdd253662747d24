//! In which order blobs move, from which source, and when an image has all of its own.
//!
//! Pure: it returns jobs and accepts their outcomes, so that every order of events can be tested
//! without moving a byte. A blob is moved once however many images need it; at a registry, the
//! first repository that needs it gets the upload and the others mount it from there.
//!
//! At most so many images are under way at once, and of each so many layers. An image is under way
//! from its first layer until it is finished or has failed.
//!
//! A failure is isolated to the images that cannot be completed. A blob that one source does not
//! supply is requested from the sources of all other images that have it; a repository that
//! refuses a blob fails the images of that repository only.
//!
//! Images that fail for a reason that may pass get a final round after all others.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use mirror_plan::BlobRef;
use oci::Digest;

use crate::fault::{EngineError, Fault};
use crate::transfer::transfer_error::{Cause, ContentError, ImageError, Step, TransferError};

/// Blobs below this size take the small lane: they cost round trips, not bandwidth, so some slots
/// are always left to them.
const SMALL: u64 = 1 << 20;

/// A large blob under way holds its buffers, a megabyte and more; so many at once fill a link on
/// which each connection gets a tenth of it.
const LARGE: usize = 10;

/// How many images may be under way for each that may be active, those that wait for blobs of others
/// included.
const OPEN_FOR_EACH: usize = 8;

/// After so many failures that are the host's rather than the content's, its other repositories
/// get no requests for the same blob: each request waits for all its retries.
const STRIKES: usize = 3;

/// How many large blobs may be under way; with many slots there are more.
fn large_at_once(slots: usize) -> usize {
    slots.min(LARGE.max(slots / 2))
}

/// An image's place in the work list.
pub(crate) type ImageId = usize;
/// A repository's place in the list of repositories. With a disk as the destination there is one
/// "repository", as a blob is stored only once.
pub(crate) type RepoId = usize;
/// A place that content comes from.
pub(crate) type SourceId = usize;
/// The host of a source.
pub(crate) type HostId = usize;

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Job {
    /// Transfer the blob from a source to its first repository.
    Move { blob: BlobRef, from: SourceId, to: RepoId, image: ImageId },
    /// The blob is at `held`; make it appear at `to`. A target that cannot mount gets it from `from`.
    Mount { blob: BlobRef, held: RepoId, from: SourceId, to: RepoId, image: ImageId },
    /// All blobs are there: put the image's manifests.
    Finish { image: ImageId },
}

impl Job {
    /// The image it is done for; others may benefit from it.
    pub(crate) fn image(&self) -> ImageId {
        match self {
            Self::Move { image, .. } | Self::Mount { image, .. } | Self::Finish { image } => *image,
        }
    }

    /// What it does, for an error.
    pub(crate) fn step(&self) -> Step {
        match self {
            Self::Move { blob, .. } => Step::Copy(blob.digest),
            Self::Mount { blob, .. } => Step::Mount(blob.digest),
            Self::Finish { .. } => Step::Publish,
        }
    }
}

/// An image that cannot be completed, and why.
#[derive(Debug, Clone)]
pub(crate) struct FailedImage {
    pub(crate) image: ImageId,
    pub(crate) error: ImageError,
}

/// How much may be under way at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parallel {
    pub(crate) images: usize,
    /// Of each image.
    pub(crate) layers: usize,
}

impl Parallel {
    /// Jobs at once, at most.
    pub(crate) fn jobs(self) -> usize {
        self.images.saturating_mul(self.layers)
    }
}

/// One digest that images need.
#[derive(Debug, Default)]
struct Blob {
    /// Its sizes according to manifests, the most frequent first. One of them at most is right.
    claims: Vec<Claim>,
    /// Where it may come from, in the order of images.
    sources: Vec<SourceId>,
    /// Sources that did not supply it, and why.
    failed: Vec<(SourceId, Arc<TransferError>)>,
    is_large: bool,
    /// The image that it is being moved for.
    moving_for: Option<ImageId>,
    /// The repository that it was moved to, and the source it came from.
    held: Option<(RepoId, SourceId)>,
}

impl Blob {
    /// Whether it is neither at the destination nor being moved.
    fn is_idle(&self) -> bool {
        self.moving_for.is_none() && self.held.is_none()
    }
}

/// The images whose manifests agree on a size.
#[derive(Debug)]
struct Claim {
    size: u64,
    /// Repositories that need it, in order of first need.
    places: Vec<Needed>,
}

/// A repository that needs a blob.
#[derive(Debug)]
struct Needed {
    at: RepoId,
    /// The images that wait for it there.
    waiters: Vec<ImageId>,
    /// Whether it is there, or being mounted.
    is_provided: bool,
    is_there: bool,
}

impl Claim {
    fn waiters(&self) -> impl Iterator<Item = ImageId> {
        self.places.iter().flat_map(|place| &place.waiters).copied()
    }
}

/// Which blobs are still to move, and which images wait for which.
///
/// Pure: it returns jobs and accepts their outcomes, in any order. It has no errors: a failed job is an
/// outcome, and an image that cannot be completed is returned with its cause.
///
/// # Guarantees
///
/// - A blob is moved once, however many images need it; into further repositories it is mounted.
/// - An image is finished after all its blobs are there, and at most once.
/// - A blob that one source does not supply is requested from every other source that has it before
///   an image fails.
/// - Small blobs always have some of the slots, so that large ones do not delay them.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    blobs: BTreeMap<Digest, Blob>,
    /// Images that are not under way yet: those with the largest blobs first.
    order: VecDeque<ImageId>,
    /// Images that are under way.
    open: Vec<ImageId>,
    /// Mounts and finishes: quick, and they free images, so they go first.
    ready: VecDeque<Job>,
    images: Vec<Image>,
    /// The host of each source.
    hosts: Vec<HostId>,
    large_in_flight: usize,
    /// Images that failed for a reason that may pass.
    for_final_round: Vec<FailedImage>,
    is_final_round: bool,
}

#[derive(Debug, Clone, Default)]
struct Image {
    /// Blobs it still waits for; `None` once it failed or is finished.
    waiting: Option<usize>,
    source: SourceId,
    /// Its blobs, the largest first.
    blobs: Box<[Digest]>,
    /// How many of them are being moved for it.
    moving: usize,
}

/// Adds to a list that has one item for most of many thousand blobs; room for more is taken from the
/// second on.
fn push<T>(list: &mut Vec<T>, item: T) {
    if list.is_empty() {
        list.reserve_exact(1);
    }
    list.push(item);
}

/// An image as the schedule sees it.
#[derive(Debug, Clone)]
pub(crate) struct Need {
    pub(crate) repository: RepoId,
    pub(crate) source: SourceId,
    /// Blobs that are not at the destination yet.
    pub(crate) blobs: Vec<BlobRef>,
}

impl Schedule {
    /// A schedule for `needs`, whose positions are the image ids. Images without a need (`None`)
    /// are not touched. `hosts` has the host of each source.
    pub(crate) fn new(needs: Vec<Option<Need>>, hosts: Vec<HostId>) -> Self {
        let mut schedule =
            Self { images: vec![Image::default(); needs.len()], hosts, ..Self::default() };
        let mut order = Vec::new();
        for (image, need) in needs.into_iter().enumerate() {
            let Some(need) = need else { continue };
            let Need { repository, source, mut blobs } = need;
            blobs.sort_unstable_by(|a, b| b.size.cmp(&a.size).then(a.digest.cmp(&b.digest)));
            blobs.dedup();
            let waiting = Some(blobs.len());
            for blob in &blobs {
                schedule.add(*blob, image, repository, source);
            }
            let largest = blobs.first().map_or(0, |blob| blob.size);
            order.push((std::cmp::Reverse(largest), image));
            let blobs = blobs.into_iter().map(|blob| blob.digest).collect();
            schedule.images[image] = Image { waiting, source, blobs, moving: 0 };
        }
        for blob in schedule.blobs.values_mut() {
            blob.claims.sort_by_key(|claim| std::cmp::Reverse(claim.waiters().count()));
            blob.is_large = blob.claims.first().is_some_and(|claim| claim.size >= SMALL);
        }
        order.sort_unstable();
        schedule.order = order.into_iter().map(|(_, image)| image).collect();
        schedule
    }

    fn add(&mut self, need: BlobRef, image: ImageId, at: RepoId, source: SourceId) {
        let blob = self.blobs.entry(need.digest).or_default();
        if !blob.sources.contains(&source) {
            push(&mut blob.sources, source);
        }
        let claim = match blob.claims.iter().position(|claim| claim.size == need.size) {
            Some(known) => known,
            None => {
                push(&mut blob.claims, Claim { size: need.size, places: Vec::new() });
                blob.claims.len() - 1
            }
        };
        let places = &mut blob.claims[claim].places;
        match places.iter_mut().find(|place| place.at == at) {
            Some(place) => place.waiters.push(image),
            None => {
                let (is_provided, is_there) = (false, false);
                push(places, Needed { at, waiters: vec![image], is_provided, is_there });
            }
        }
    }

    /// The next job. Large blobs leave a quarter of all jobs (at least one, when there are two) to
    /// small ones, and there are never more of them than [`large_at_once`].
    pub(crate) fn next(&mut self, parallel: Parallel) -> Option<Job> {
        let jobs = parallel.jobs();
        loop {
            if let Some(job) = self.ready.pop_front() {
                return Some(job);
            }
            let has_small = self.open.iter().any(|image| self.small_waits(*image));
            let for_large = if has_small { (jobs - jobs / 4).max(1) } else { jobs };
            let takes_large = self.large_in_flight < for_large.min(large_at_once(jobs));
            for image in self.open.clone() {
                if self.images[image].moving < parallel.layers
                    && let Some(job) = self.layer(image, takes_large)
                {
                    return Some(job);
                }
            }
            let active = self.open.iter().filter(|image| self.is_active(**image)).count();
            let most = parallel.images.saturating_mul(OPEN_FOR_EACH);
            if active >= parallel.images || self.open.len() >= most {
                return None;
            }
            let image = self.order.pop_front()?;
            self.open(image);
        }
    }

    /// Begins an image, unless it has failed already.
    fn open(&mut self, image: ImageId) {
        let Some(waiting) = self.images[image].waiting else { return };
        self.open.push(image);
        if waiting == 0 {
            self.complete(image);
            return;
        }
        // What other images transferred to the target meanwhile is mounted.
        for digest in self.images[image].blobs.clone() {
            if let Some((held, from)) = self.blobs.get(&digest).and_then(|blob| blob.held) {
                self.mount(digest, held, from);
            }
        }
    }

    /// Whether an image under way has something to do. One that only waits for blobs that are moved for
    /// others does not count: images on one base would wait for it together, and one connection would
    /// be used.
    fn is_active(&self, image: ImageId) -> bool {
        let Image { waiting, moving, blobs, .. } = &self.images[image];
        let mut blobs = blobs.iter().map(|digest| &self.blobs[digest]);
        *moving > 0 || *waiting == Some(0) || blobs.any(Blob::is_idle)
    }

    /// Whether a small blob of an image can be moved.
    fn small_waits(&self, image: ImageId) -> bool {
        let mut blobs = self.images[image].blobs.iter().rev().map(|digest| &self.blobs[digest]);
        blobs.any(|blob| !blob.is_large && blob.is_idle())
    }

    /// Moves the next blob of an image.
    fn layer(&mut self, image: ImageId, takes_large: bool) -> Option<Job> {
        let waits = |digest: &&Digest| {
            let blob = &self.blobs[*digest];
            blob.is_idle()
                && (takes_large || !blob.is_large)
                && self.movement(digest, image).is_some()
        };
        let digest = *self.images[image].blobs.iter().find(waits)?;
        let job = self.movement(&digest, image)?;
        let blob = self.blobs.get_mut(&digest)?;
        blob.moving_for = Some(image);
        self.large_in_flight += usize::from(blob.is_large);
        self.images[image].moving += 1;
        Some(job)
    }

    /// The job that transfers a blob to a repository where an image waits for it: that of
    /// `preferred`, if its manifest agrees with most others on the size.
    fn movement(&self, digest: &Digest, preferred: ImageId) -> Option<Job> {
        let blob = self.blobs.get(digest)?;
        for claim in &blob.claims {
            let waiting = claim.places.iter().filter_map(|place| {
                let prefers =
                    place.waiters.contains(&preferred) && self.images[preferred].waiting.is_some();
                let image = if prefers { preferred } else { self.first_waiting(&place.waiters)? };
                Some((!prefers, place.at, image))
            });
            let Some((_, to, image)) = waiting.min_by_key(|(other, ..)| *other) else { continue };
            let from = self.usable_source(blob, self.images[image].source)?;
            let blob = BlobRef { digest: *digest, size: claim.size };
            return Some(Job::Move { blob, from, to, image });
        }
        None
    }

    fn first_waiting(&self, waiters: &[ImageId]) -> Option<ImageId> {
        waiters.iter().copied().find(|image| self.images[*image].waiting.is_some())
    }

    /// A source that may still supply the blob; `preferred` if it does.
    fn usable_source(&self, blob: &Blob, preferred: SourceId) -> Option<SourceId> {
        let host = |source: SourceId| self.hosts.get(source).copied().unwrap_or_default();
        let is_usable = |source: &SourceId| {
            let strikes = blob.failed.iter().filter(|(failed, error)| {
                host(*failed) == host(*source) && error.a_later_attempt_can_help()
            });
            blob.failed.iter().all(|(failed, _)| failed != source) && strikes.count() < STRIKES
        };
        Some(preferred)
            .filter(|source| blob.sources.contains(source))
            .into_iter()
            .chain(blob.sources.iter().copied())
            .find(is_usable)
    }

    /// Takes the outcome of a job. Returns the images that cannot be completed because of it.
    pub(crate) fn done(
        &mut self,
        job: &Job,
        outcome: Result<(), TransferError>,
    ) -> Vec<FailedImage> {
        if let Job::Move { blob, .. } = job
            && let Some(known) = self.blobs.get_mut(&blob.digest)
        {
            self.large_in_flight = self.large_in_flight.saturating_sub(usize::from(known.is_large));
            if let Some(image) = known.moving_for.take() {
                self.images[image].moving -= 1;
            }
        }
        match (*job, outcome) {
            (Job::Move { blob, from, to, .. }, Ok(())) => {
                if let Some(known) = self.blobs.get_mut(&blob.digest) {
                    known.held = Some((to, from));
                    // Images whose manifests declare another size fail below.
                    known.claims.sort_by_key(|claim| claim.size != blob.size);
                }
                self.mark_held(blob, to);
                self.mount(blob.digest, to, from);
                self.refute(blob)
            }
            (Job::Mount { blob, to, .. }, Ok(())) => {
                self.mark_held(blob, to);
                Vec::new()
            }
            (Job::Finish { image }, Ok(())) => {
                self.close(image);
                Vec::new()
            }
            (Job::Move { blob, from, to, .. }, Err(error)) => self.not_moved(blob, from, to, error),
            (Job::Mount { blob, held, from, to, image }, Err(error)) => {
                if !error.another_source_can_help() {
                    return self.fail(blob, Some(to), &Arc::new(error));
                }
                let error = self.note(blob.digest, from, error);
                match self.blobs.get(&blob.digest).and_then(|b| self.usable_source(b, from)) {
                    Some(from) => {
                        self.ready.push_back(Job::Mount { blob, held, from, to, image });
                        Vec::new()
                    }
                    None => self.fail(blob, Some(to), &error),
                }
            }
            (Job::Finish { image }, Err(error)) => {
                let error = ImageError::new(Arc::new(error), 1);
                let was_open = self.close(image);
                let failed = was_open.then_some(FailedImage { image, error });
                failed.and_then(|failed| self.unless_final_round(failed)).into_iter().collect()
            }
        }
    }

    /// A blob that did not arrive: which images fail by that now.
    fn not_moved(
        &mut self,
        blob: BlobRef,
        from: SourceId,
        to: RepoId,
        error: TransferError,
    ) -> Vec<FailedImage> {
        match error.fault() {
            // Another repository may accept it, from this source or any other.
            Fault::TargetRefuses => self.fail(blob, Some(to), &Arc::new(error)),
            fault if !fault.another_source_can_help() => self.fail(blob, None, &Arc::new(error)),
            _ => {
                let error = self.note(blob.digest, from, error);
                if self.has_usable_source(&blob.digest) {
                    return Vec::new();
                }
                let mut failed = self.fail(blob, None, &error);
                // The same content may be right with the size that other manifests declare.
                if let Some(known) = self.blobs.get_mut(&blob.digest) {
                    known.failed.retain(|(_, error)| error.fault() != Fault::Content);
                }
                if !self.has_usable_source(&blob.digest) {
                    let claims = self.blobs.get(&blob.digest).into_iter().flat_map(|b| &b.claims);
                    for size in claims.map(|claim| claim.size).collect::<Vec<_>>() {
                        failed.extend(self.fail(BlobRef { size, ..blob }, None, &error));
                    }
                }
                failed
            }
        }
    }

    fn has_usable_source(&self, digest: &Digest) -> bool {
        let blob = self.blobs.get(digest);
        blob.is_some_and(|blob| self.usable_source(blob, SourceId::MAX).is_some())
    }

    /// Remembers that a source did not supply a blob.
    fn note(
        &mut self,
        digest: Digest,
        source: SourceId,
        error: TransferError,
    ) -> Arc<TransferError> {
        let error = Arc::new(error);
        if let Some(blob) = self.blobs.get_mut(&digest) {
            blob.failed.retain(|(failed, _)| *failed != source);
            blob.failed.push((source, Arc::clone(&error)));
        }
        error
    }

    fn mark_held(&mut self, blob: BlobRef, at: RepoId) {
        let Some(known) = self.blobs.get_mut(&blob.digest) else { return };
        let claims = known.claims.iter_mut().filter(|claim| claim.size == blob.size);
        let mut waiters = Vec::new();
        for place in claims.flat_map(|claim| &mut claim.places).filter(|place| place.at == at) {
            (place.is_provided, place.is_there) = (true, true);
            waiters.extend_from_slice(&place.waiters);
        }
        for image in waiters {
            if let Some(count) = &mut self.images[image].waiting {
                *count -= 1;
                if *count == 0 {
                    self.complete(image);
                }
            }
        }
    }

    /// All blobs of an image are there.
    fn complete(&mut self, image: ImageId) {
        if self.open.contains(&image) {
            self.ready.push_back(Job::Finish { image });
        }
    }

    /// An image is finished, or failed. False when it was before.
    fn close(&mut self, image: ImageId) -> bool {
        self.open.retain(|open| *open != image);
        self.images[image].waiting.take().is_some()
    }

    /// Mounts a blob that is at `held` in the other repositories where images under way need it.
    fn mount(&mut self, digest: Digest, held: RepoId, from: SourceId) {
        let Some(known) = self.blobs.get_mut(&digest) else { return };
        // The first claim is the right one, now that the content is known.
        let Some(claim) = known.claims.first_mut() else { return };
        let blob = BlobRef { digest, size: claim.size };
        for place in claim.places.iter_mut().filter(|place| !place.is_provided) {
            let waits = |image: &&ImageId| {
                self.open.contains(image) && self.images[**image].waiting.is_some()
            };
            if let Some(image) = place.waiters.iter().find(waits) {
                place.is_provided = true;
                let (to, image) = (place.at, *image);
                self.ready.push_back(Job::Mount { blob, held, from, to, image });
            }
        }
    }

    /// The content of a digest has one size: images whose manifests declare another are wrong.
    fn refute(&mut self, right: BlobRef) -> Vec<FailedImage> {
        let Some(known) = self.blobs.get(&right.digest) else { return Vec::new() };
        let wrong: Vec<u64> = known
            .claims
            .iter()
            .map(|claim| claim.size)
            .filter(|size| *size != right.size)
            .collect();
        let mut failed = Vec::new();
        for declared in wrong {
            let cause = Cause::Content(ContentError::Size { declared, actual: right.size });
            let error = Arc::new(TransferError::new(Step::Copy(right.digest), cause));
            let blob = BlobRef { digest: right.digest, size: declared };
            failed.extend(self.fail(blob, None, &error));
        }
        failed
    }

    /// Fails the images that wait for a blob of this size, at one repository or at all. Each gets
    /// the error of its own source, if that was requested.
    fn fail(
        &mut self,
        blob: BlobRef,
        at: Option<RepoId>,
        error: &Arc<TransferError>,
    ) -> Vec<FailedImage> {
        let Some(known) = self.blobs.get(&blob.digest) else { return Vec::new() };
        let claims = known.claims.iter().filter(|claim| claim.size == blob.size);
        let places = claims.flat_map(|claim| &claim.places);
        let places = places.filter(|place| at.is_none_or(|at| at == place.at));
        let own = |image: ImageId| {
            let source = self.images[image].source;
            let by_source = known.failed.iter().rev().find(|(failed, _)| *failed == source);
            match by_source.filter(|_| error.another_source_can_help()) {
                Some((_, own)) => ImageError::new(Arc::clone(own), known.failed.len()),
                None => ImageError::new(Arc::clone(error), 1),
            }
        };
        let waiters: Vec<(ImageId, ImageError)> =
            places.flat_map(|place| &place.waiters).map(|image| (*image, own(*image))).collect();
        let mut failed = Vec::new();
        for (image, error) in waiters {
            if self.close(image) {
                failed.extend(self.unless_final_round(FailedImage { image, error }));
            }
        }
        failed
    }

    /// Keeps an image whose failure may pass for the final round; returns all others.
    fn unless_final_round(&mut self, failed: FailedImage) -> Option<FailedImage> {
        if self.is_final_round || !failed.error.may_pass_soon() {
            return Some(failed);
        }
        self.for_final_round.push(failed);
        None
    }

    /// Begins the final round, once nothing is under way: images that failed for a reason that may
    /// have passed are retried, with the blobs they have. Returns how many.
    pub(crate) fn begin_final_round(&mut self) -> usize {
        self.is_final_round = true;
        let again = std::mem::take(&mut self.for_final_round);
        for FailedImage { image, .. } in &again {
            let mut waiting = 0;
            for digest in self.images[*image].blobs.clone() {
                let Some(blob) = self.blobs.get_mut(&digest) else { continue };
                let places = blob.claims.iter_mut().flat_map(|claim| &mut claim.places);
                for place in places.filter(|place| place.waiters.contains(image) && !place.is_there)
                {
                    place.is_provided = false;
                    waiting += 1;
                    // Every source gets its chance again: an image that waits for a blob without a
                    // usable source would neither finish nor fail.
                    blob.failed.clear();
                }
            }
            self.images[*image].waiting = Some(waiting);
            self.order.push_back(*image);
        }
        again.len()
    }

    /// The images that wait for the final round, when there will be none.
    pub(crate) fn give_up_final_round(&mut self) -> Vec<FailedImage> {
        self.is_final_round = true;
        std::mem::take(&mut self.for_final_round)
    }
}

#[cfg(test)]
mod tests;
