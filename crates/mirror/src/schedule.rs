//! In which order blobs move, and when an image has all of its own.
//!
//! Pure: it hands out jobs and takes their outcomes, so that every order of
//! events can be tested without moving a byte. A blob is moved once however
//! many images want it; at a registry, the first repository that needs it gets
//! the upload and the others mount it from there.

use std::collections::{BTreeMap, VecDeque};

use oci::Digest;

/// Blobs below this size take the small lane: they cost round trips, not
/// bandwidth, so some slots are always left to them.
const SMALL: u64 = 1 << 20;

/// A large blob under way holds its buffers, a megabyte and more; so many at
/// once fill a line on which each connection gets a tenth of it.
const LARGE: usize = 10;

/// How many large blobs may be under way; who asks for many slots gets more.
fn large_at_once(slots: usize) -> usize {
    slots.min(LARGE.max(slots / 2))
}

/// An image's place in the work list.
pub(crate) type ImageId = usize;
/// A repository's place in the list of repositories. With a disk as the
/// destination there is one "repository", as a blob is stored only once.
pub(crate) type RepoId = usize;

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Job {
    /// Bring the blob to its first repository, taking it from where `image` has it.
    Move { digest: Digest, size: u64, to: RepoId, image: ImageId },
    /// The blob is at `from`; make it appear at `to`.
    Mount { digest: Digest, size: u64, from: RepoId, to: RepoId, image: ImageId },
    /// All blobs are there: put the image's manifests.
    Finish { image: ImageId },
}

impl Job {
    /// The image it is done for; others may gain from it.
    pub(crate) fn image(&self) -> ImageId {
        match self {
            Self::Move { image, .. } | Self::Mount { image, .. } | Self::Finish { image } => *image,
        }
    }
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Done {
    Well,
    Badly(String),
}

/// The state of one blob.
#[derive(Debug)]
struct Blob {
    size: u64,
    /// Repositories that need it and the images that wait for it there, in order of first need.
    places: Vec<(RepoId, Vec<ImageId>)>,
}

/// Which blobs are still to move, and which images wait for which.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    blobs: BTreeMap<Digest, Blob>,
    /// Waiting to be moved: large ones largest first, small ones in order.
    large: VecDeque<Digest>,
    small: VecDeque<Digest>,
    /// Mounts and finishes: quick, and they free images, so they go first.
    ready: VecDeque<Job>,
    /// Finishes of those that are last.
    late: VecDeque<Job>,
    /// Blobs each image still waits for; `None` once it failed or is finished.
    waiting: Vec<Option<usize>>,
    is_last: Vec<bool>,
    /// Images that are under way and not last.
    early: usize,
    failures: BTreeMap<ImageId, String>,
    large_in_flight: usize,
}

/// An image as the schedule sees it.
#[derive(Debug, Clone)]
pub(crate) struct Need {
    pub(crate) repository: RepoId,
    /// Blobs that are not at the destination yet.
    pub(crate) blobs: Vec<(Digest, u64)>,
    /// Whether it is finished after all others: a catalog must not offer what
    /// has not arrived.
    pub(crate) is_last: bool,
}

impl Schedule {
    /// A schedule for `needs`, whose positions are the image ids. `images`
    /// without a need (`None`) are not touched.
    pub(crate) fn new(needs: Vec<Option<Need>>) -> Self {
        let is_last = |need: &Option<Need>| need.as_ref().is_some_and(|need| need.is_last);
        let mut schedule = Self {
            waiting: vec![None; needs.len()],
            is_last: needs.iter().map(is_last).collect(),
            early: needs.iter().flatten().filter(|need| !need.is_last).count(),
            ..Self::default()
        };
        for (image, need) in needs.into_iter().enumerate() {
            let Some(need) = need else { continue };
            let mut count = 0;
            for (digest, size) in need.blobs {
                let blob =
                    schedule.blobs.entry(digest).or_insert(Blob { size, places: Vec::new() });
                let waiters = match blob.places.iter().position(|(at, _)| *at == need.repository) {
                    Some(known) => &mut blob.places[known].1,
                    None => {
                        blob.places.push((need.repository, Vec::new()));
                        let last = blob.places.len() - 1;
                        &mut blob.places[last].1
                    }
                };
                if !waiters.contains(&image) {
                    waiters.push(image);
                    count += 1;
                }
            }
            schedule.waiting[image] = Some(count);
            if count == 0 {
                schedule.complete(image);
            }
        }
        let mut order: Vec<(u64, Digest)> =
            schedule.blobs.iter().map(|(digest, blob)| (blob.size, *digest)).collect();
        order.sort_unstable_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
        for (size, digest) in order {
            let lane = if size < SMALL { &mut schedule.small } else { &mut schedule.large };
            lane.push_back(digest);
        }
        schedule
    }

    /// The next job, when fewer than `slots` are in flight. Large blobs leave a
    /// quarter of the slots (at least one, when there are two) to small ones,
    /// and there are never more of them than [`large_at_once`].
    pub(crate) fn next(&mut self, slots: usize) -> Option<Job> {
        if let Some(job) = self.ready.pop_front() {
            return Some(job);
        }
        if self.early == 0
            && let Some(job) = self.late.pop_front()
        {
            return Some(job);
        }
        let for_large = if self.small.is_empty() { slots } else { (slots - slots / 4).max(1) };
        let for_large = for_large.min(large_at_once(slots));
        let large_first = self.large_in_flight < for_large;
        loop {
            let (digest, is_large) = match (large_first, self.large.pop_front()) {
                (true, Some(digest)) => (digest, true),
                (_, unused) => {
                    if let Some(digest) = unused {
                        self.large.push_front(digest);
                    }
                    // What is large waits for one of its kind to arrive.
                    (self.small.pop_front()?, false)
                }
            };
            let blob = &self.blobs[&digest];
            // Everyone who wanted it may have failed meanwhile.
            let first = blob.places.iter().find_map(|(at, waiters)| {
                let image = waiters.iter().find(|image| self.waiting[**image].is_some())?;
                Some((*at, *image))
            });
            let Some((to, image)) = first else { continue };
            self.large_in_flight += usize::from(is_large);
            return Some(Job::Move { digest, size: blob.size, to, image });
        }
    }

    /// Takes the outcome of a job. Returns the images that failed by it.
    pub(crate) fn done(&mut self, job: &Job, done: &Done) -> Vec<ImageId> {
        match *job {
            Job::Move { digest, size, to, .. } => {
                if size >= SMALL {
                    self.large_in_flight = self.large_in_flight.saturating_sub(1);
                }
                match done {
                    Done::Well => {
                        self.placed(digest, to);
                        self.mount_elsewhere(digest, size, to);
                        Vec::new()
                    }
                    // Nobody can have it: all who wait for it fail.
                    Done::Badly(why) => self.fail(digest, None, why),
                }
            }
            Job::Mount { digest, to, .. } => match done {
                Done::Well => {
                    self.placed(digest, to);
                    Vec::new()
                }
                Done::Badly(why) => self.fail(digest, Some(to), why),
            },
            Job::Finish { image } => {
                self.close(image);
                match done {
                    Done::Well => Vec::new(),
                    Done::Badly(why) => {
                        self.failures.insert(image, why.clone());
                        vec![image]
                    }
                }
            }
        }
    }

    /// Why images failed.
    pub(crate) fn failure(&self, image: ImageId) -> Option<&str> {
        self.failures.get(&image).map(String::as_str)
    }

    fn placed(&mut self, digest: Digest, at: RepoId) {
        let Some(blob) = self.blobs.get(&digest) else { return };
        let waiters = blob.places.iter().filter(|(place, _)| *place == at).flat_map(|(_, w)| w);
        for image in waiters.copied().collect::<Vec<_>>() {
            if let Some(count) = &mut self.waiting[image] {
                *count -= 1;
                if *count == 0 {
                    self.complete(image);
                }
            }
        }
    }

    /// All blobs of an image are there.
    fn complete(&mut self, image: ImageId) {
        let queue = if self.is_last[image] { &mut self.late } else { &mut self.ready };
        queue.push_back(Job::Finish { image });
    }

    /// An image is finished, or failed. False when it was before.
    fn close(&mut self, image: ImageId) -> bool {
        let was_open = self.waiting[image].take().is_some();
        self.early -= usize::from(was_open && !self.is_last[image]);
        was_open
    }

    fn mount_elsewhere(&mut self, digest: Digest, size: u64, from: RepoId) {
        let Some(blob) = self.blobs.get(&digest) else { return };
        for (to, waiters) in blob.places.iter().filter(|(place, _)| *place != from) {
            let alive = waiters.iter().find(|image| self.waiting[**image].is_some());
            if let Some(&image) = alive {
                self.ready.push_back(Job::Mount { digest, size, from, to: *to, image });
            }
        }
    }

    fn fail(&mut self, digest: Digest, at: Option<RepoId>, why: &str) -> Vec<ImageId> {
        let Some(blob) = self.blobs.get(&digest) else { return Vec::new() };
        let mut failed = Vec::new();
        let places = blob.places.iter().filter(|(place, _)| at.is_none_or(|at| at == *place));
        let waiters: Vec<ImageId> = places.flat_map(|(_, waiters)| waiters).copied().collect();
        for image in waiters {
            if self.close(image) {
                self.failures.insert(image, why.to_owned());
                failed.push(image);
            }
        }
        failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(n: u8) -> Digest {
        Digest::of(&[n])
    }

    fn need(repository: RepoId, blobs: &[(u8, u64)]) -> Option<Need> {
        let blobs = blobs.iter().map(|(n, size)| (digest(*n), *size)).collect();
        Some(Need { repository, blobs, is_last: false })
    }

    /// Runs a schedule to its end with every job going well.
    fn all_jobs(mut schedule: Schedule) -> Vec<Job> {
        let mut jobs = Vec::new();
        while let Some(job) = schedule.next(8) {
            schedule.done(&job, &Done::Well);
            jobs.push(job);
        }
        jobs
    }

    #[test]
    fn a_blob_is_moved_once_and_mounted_where_else_it_is_needed() {
        let needs = vec![need(0, &[(1, 10)]), need(1, &[(1, 10)]), need(1, &[(1, 10)])];
        let jobs = all_jobs(Schedule::new(needs));
        let moves = jobs.iter().filter(|job| matches!(job, Job::Move { .. })).count();
        let mounts = jobs.iter().filter(|job| matches!(job, Job::Mount { from: 0, to: 1, .. }));
        assert_eq!((moves, mounts.count()), (1, 1));
        assert_eq!(jobs.iter().filter(|job| matches!(job, Job::Finish { .. })).count(), 3);
    }

    #[test]
    fn an_image_is_finished_only_after_its_last_blob() {
        let mut schedule = Schedule::new(vec![need(0, &[(1, 10), (2, 20)])]);
        let first = schedule.next(8).unwrap();
        let second = schedule.next(8).unwrap();
        assert_eq!(schedule.next(8), None);
        schedule.done(&first, &Done::Well);
        assert_eq!(schedule.next(8), None);
        schedule.done(&second, &Done::Well);
        assert_eq!(schedule.next(8), Some(Job::Finish { image: 0 }));
    }

    #[test]
    fn what_is_last_is_finished_after_all_others_be_they_finished_or_failed() {
        let last = |blobs| need(0, blobs).map(|need| Need { is_last: true, ..need });
        let needs = vec![last(&[]), need(0, &[(1, 10)]), last(&[(1, 10)]), need(0, &[(2, 20)])];
        let mut schedule = Schedule::new(needs);
        let mut ended = Vec::new();
        while let Some(job) = schedule.next(8) {
            let second = matches!(job, Job::Move { size: 20, .. });
            let done = if second { Done::Badly("gone".to_owned()) } else { Done::Well };
            ended.extend(schedule.done(&job, &done));
            if let Job::Finish { image } = job {
                ended.push(image);
            }
        }
        ended[..2].sort_unstable();
        assert_eq!(ended, [1, 3, 0, 2]);
    }

    #[test]
    fn an_image_without_missing_blobs_is_finished_at_once() {
        assert_eq!(all_jobs(Schedule::new(vec![need(0, &[])])), [Job::Finish { image: 0 }]);
        assert_eq!(all_jobs(Schedule::new(vec![None])), []);
    }

    #[test]
    fn large_blobs_go_first_but_leave_slots_to_small_ones() {
        let blobs: Vec<(u8, u64)> = (0..8).map(|n| (n, SMALL * u64::from(n + 1))).collect();
        let mut with_small = blobs;
        with_small.push((100, 5));
        let mut schedule = Schedule::new(vec![need(0, &with_small)]);
        let sizes: Vec<u64> = (0..5)
            .filter_map(|_| match schedule.next(4) {
                Some(Job::Move { size, .. }) => Some(size),
                _ => None,
            })
            .collect();
        assert_eq!(sizes[..4], [SMALL * 8, SMALL * 7, SMALL * 6, 5]);
        assert_eq!(sizes[4], SMALL * 5, "with no small ones left, large ones take all slots");
    }

    #[test]
    fn memory_bounds_how_many_large_blobs_are_under_way() {
        let blobs: Vec<(u8, u64)> = (0..40).map(|n| (n, SMALL)).collect();
        let under_way = |slots: usize| {
            let mut schedule = Schedule::new(vec![need(0, &blobs)]);
            (0..slots).take_while(|_| schedule.next(slots).is_some()).count()
        };
        assert_eq!([1, 8, 20, 60].map(under_way), [1, 8, 10, 30]);
    }

    #[test]
    fn a_blob_that_fails_fails_every_image_that_wants_it_and_no_other() {
        let needs = vec![need(0, &[(1, 10), (2, 5)]), need(1, &[(1, 10)]), need(0, &[(3, 1)])];
        let mut schedule = Schedule::new(needs);
        let job = schedule.next(8).unwrap();
        assert!(matches!(job, Job::Move { digest: d, .. } if d == digest(1)));
        assert_eq!(schedule.done(&job, &Done::Badly("gone".into())), [0, 1]);
        assert_eq!(schedule.failure(0), Some("gone"));
        // Blob 2 is wanted by nobody alive any more.
        let rest = all_jobs(schedule);
        assert_eq!(rest.len(), 2);
        assert_eq!(rest[1], Job::Finish { image: 2 });
    }

    #[test]
    fn a_mount_that_fails_fails_only_the_images_of_that_repository() {
        let needs = vec![need(0, &[(1, 10)]), need(1, &[(1, 10)])];
        let mut schedule = Schedule::new(needs);
        let job = schedule.next(8).unwrap();
        schedule.done(&job, &Done::Well);
        assert_eq!(schedule.next(8), Some(Job::Finish { image: 0 }));
        let mount = schedule.next(8).unwrap();
        assert_eq!(schedule.done(&mount, &Done::Badly("refused".into())), [1]);
    }
}
