//! Orders of events, and which images fail.

use super::*;
use crate::transfer::supply::SupplyError;

const EIGHT: Parallel = jobs(8, 8);

const fn jobs(images: usize, layers: usize) -> Parallel {
    Parallel { images, layers }
}

fn digest(n: u8) -> Digest {
    Digest::of(&[n])
}

/// An image with a repository and a source of its own number.
fn need(place: usize, blobs: &[(u8, u64)]) -> Option<Need> {
    let blobs = blobs.iter().map(|(n, size)| BlobRef { digest: digest(*n), size: *size }).collect();
    Some(Need { repository: place, source: place, blobs })
}

/// A schedule whose sources are all at one host.
fn schedule(needs: Vec<Option<Need>>) -> Schedule {
    Schedule::new(needs, vec![0; 40])
}

fn absent() -> TransferError {
    let cause = SupplyError::Registry(registry::Error::Absent { place: "q.io/a".into() });
    TransferError::new(Step::Copy(digest(0)), cause)
}

fn refused() -> TransferError {
    let cause = Cause::Target(registry::Error::Absent { place: "r.io/a".into() });
    TransferError::new(Step::Copy(digest(0)), cause)
}

fn too_long(blob: BlobRef) -> TransferError {
    TransferError::new(Step::Copy(blob.digest), ContentError::Long(blob))
}

fn timed_out() -> TransferError {
    TransferError::new(Step::Copy(digest(0)), Cause::TimedOut(std::time::Duration::from_secs(1)))
}

/// Runs a schedule to its end. Gives all jobs, and the images that failed with their fault.
fn run(
    mut schedule: Schedule,
    perform: impl Fn(&Job) -> Result<(), TransferError>,
) -> (Vec<Job>, Vec<(ImageId, Fault)>) {
    let (mut jobs, mut failed) = (Vec::new(), Vec::new());
    while let Some(job) = schedule.next(EIGHT) {
        let ended = schedule.done(&job, perform(&job));
        failed.extend(ended.into_iter().map(|ended| (ended.image, ended.error.fault())));
        jobs.push(job);
    }
    (jobs, failed)
}

/// A source that responded before, and does not respond now.
fn silent() -> TransferError {
    let error = registry::Error::Timeout {
        request_line: "GET https://q.io/v2/a".into(),
        wait: registry::Wait::Receive,
        route: registry::Route { proxy: None, contact: registry::Contact::Established },
        after: std::time::Duration::from_secs(60),
    };
    TransferError::new(Step::Copy(digest(0)), SupplyError::Registry(error))
}

/// Runs a schedule to its end, with the final round. `perform` gets whether that has begun.
fn run_with_final_round(
    mut schedule: Schedule,
    perform: impl Fn(&Job, bool) -> Result<(), TransferError>,
) -> (Vec<Job>, usize, Vec<(ImageId, Fault)>) {
    let (mut jobs, mut failed, mut first_round) = (Vec::new(), Vec::new(), None);
    loop {
        while let Some(job) = schedule.next(EIGHT) {
            let ended = schedule.done(&job, perform(&job, first_round.is_some()));
            failed.extend(ended.into_iter().map(|ended| (ended.image, ended.error.fault())));
            jobs.push(job);
        }
        if schedule.begin_final_round() == 0 {
            let first_round = first_round.unwrap_or(jobs.len());
            return (jobs, first_round, failed);
        }
        first_round.get_or_insert(jobs.len());
    }
}

#[test]
fn what_failed_for_a_reason_that_may_pass_is_retried_after_everything_else() {
    // The other blob of the image is larger, so it is moved first.
    let needs = vec![need(0, &[(1, 20), (2, 30)]), need(1, &[(3, 10)])];
    let (jobs, first_round, failed) =
        run_with_final_round(schedule(needs), |job, is_final| match job {
            Job::Move { blob, .. } if blob.digest == digest(1) && !is_final => Err(silent()),
            _ => Ok(()),
        });
    assert_eq!(failed, []);
    assert_eq!(finished(&jobs[..first_round]), [1]);
    // Only what is missing: the other blob arrived in the first round.
    let BlobRef { digest: again, .. } = match jobs[first_round] {
        Job::Move { blob, .. } => blob,
        job => panic!("{job:?}"),
    };
    assert_eq!(again, digest(1));
    assert_eq!(jobs[first_round + 1..], [Job::Finish { image: 0 }]);
}

#[test]
fn what_fails_again_in_the_final_round_fails_and_permanent_errors_get_none() {
    let needs = || vec![need(0, &[(1, 30)]), need(1, &[(3, 10)])];
    let perform = |error: fn() -> TransferError| {
        move |job: &Job, _| match job {
            Job::Move { blob, .. } if blob.digest == digest(1) => Err(error()),
            _ => Ok(()),
        }
    };
    let moves = |jobs: &[Job]| {
        let moved = |job: &&Job| matches!(job, Job::Move { blob, .. } if blob.digest == digest(1));
        jobs.iter().filter(moved).count()
    };
    let (jobs, _, failed) = run_with_final_round(schedule(needs()), perform(silent));
    assert_eq!((moves(&jobs), failed), (2, vec![(0, Fault::SourceRefuses)]));
    for (error, fault) in [
        (absent as fn() -> TransferError, Fault::SourceAbsent),
        (refused, Fault::TargetRefuses),
        (timed_out, Fault::TimedOut),
    ] {
        let (jobs, _, failed) = run_with_final_round(schedule(needs()), perform(error));
        assert_eq!((moves(&jobs), failed), (1, vec![(0, fault)]));
    }
}

#[test]
fn an_image_with_a_passing_and_a_permanent_failure_fails_in_the_final_round() {
    let needs = vec![need(0, &[(1, 30), (2, 20)])];
    let (_, _, failed) = run_with_final_round(schedule(needs), |job, _| match job {
        Job::Move { blob, .. } if blob.digest == digest(1) => Err(silent()),
        Job::Move { .. } => Err(absent()),
        _ => Ok(()),
    });
    assert_eq!(failed.len(), 1, "{failed:?}");
}

#[test]
fn a_mount_and_a_push_of_manifests_get_a_final_round_too() {
    let needs = vec![need(0, &[(1, 10)]), need(1, &[(1, 10)])];
    let unreachable = || {
        let error = registry::Error::Timeout {
            request_line: "PUT https://r.io/v2/a".into(),
            wait: registry::Wait::Response,
            route: registry::Route { proxy: None, contact: registry::Contact::Established },
            after: std::time::Duration::from_secs(60),
        };
        TransferError::new(Step::Publish, Cause::Target(error))
    };
    let (jobs, _, failed) = run_with_final_round(schedule(needs), |job, is_final| match job {
        Job::Mount { .. } | Job::Finish { image: 0 } if !is_final => Err(unreachable()),
        _ => Ok(()),
    });
    assert_eq!(failed, []);
    assert_eq!(jobs.iter().filter(|job| matches!(job, Job::Move { .. })).count(), 1);
    assert_eq!(jobs.iter().filter(|job| matches!(job, Job::Mount { .. })).count(), 2);
}

fn all_jobs(schedule: Schedule) -> Vec<Job> {
    run(schedule, |_| Ok(())).0
}

fn finished(jobs: &[Job]) -> Vec<ImageId> {
    let mut images: Vec<ImageId> = jobs
        .iter()
        .filter_map(|job| match job {
            Job::Finish { image } => Some(*image),
            _ => None,
        })
        .collect();
    images.sort_unstable();
    images
}

#[test]
fn a_blob_is_moved_once_and_mounted_where_else_it_is_needed() {
    let needs = vec![need(0, &[(1, 10)]), need(1, &[(1, 10)]), need(1, &[(1, 10)])];
    let jobs = all_jobs(schedule(needs));
    let moves = jobs.iter().filter(|job| matches!(job, Job::Move { .. })).count();
    let mounts = jobs.iter().filter(|job| matches!(job, Job::Mount { held: 0, to: 1, .. }));
    assert_eq!((moves, mounts.count()), (1, 1));
    assert_eq!(finished(&jobs), [0, 1, 2]);
}

#[test]
fn an_image_is_finished_only_after_its_last_blob() {
    let mut schedule = schedule(vec![need(0, &[(1, 10), (2, 20)])]);
    let first = schedule.next(EIGHT).unwrap();
    let second = schedule.next(EIGHT).unwrap();
    assert_eq!(schedule.next(EIGHT), None);
    schedule.done(&first, Ok(()));
    assert_eq!(schedule.next(EIGHT), None);
    schedule.done(&second, Ok(()));
    assert_eq!(schedule.next(EIGHT), Some(Job::Finish { image: 0 }));
}

#[test]
fn an_image_without_missing_blobs_is_finished_at_once() {
    assert_eq!(all_jobs(schedule(vec![need(0, &[])])), [Job::Finish { image: 0 }]);
    assert_eq!(all_jobs(schedule(vec![None])), []);
}

#[test]
fn large_blobs_are_first_but_leave_slots_to_small_ones() {
    let blobs: Vec<(u8, u64)> = (0..8).map(|n| (n, SMALL * u64::from(n + 1))).collect();
    let mut with_small = blobs;
    with_small.push((100, 5));
    let mut schedule = schedule(vec![need(0, &with_small)]);
    let size = |job: &Job| match job {
        Job::Move { blob, .. } => blob.size,
        _ => 0,
    };
    let under_way: Vec<Job> = (0..4).filter_map(|_| schedule.next(jobs(1, 4))).collect();
    let sizes: Vec<u64> = under_way.iter().map(size).collect();
    assert_eq!(sizes, [SMALL * 8, SMALL * 7, SMALL * 6, 5]);
    assert_eq!(schedule.next(jobs(1, 4)), None);
    schedule.done(&under_way[3], Ok(()));
    let next = schedule.next(jobs(1, 4)).unwrap();
    assert_eq!(size(&next), SMALL * 5, "with no small ones left, large ones take all slots");
}

#[test]
fn memory_bounds_how_many_large_blobs_are_under_way() {
    let blobs: Vec<(u8, u64)> = (0..40).map(|n| (n, SMALL)).collect();
    let under_way = |slots: usize| {
        let mut schedule = schedule(vec![need(0, &blobs)]);
        (0..slots).take_while(|_| schedule.next(jobs(1, slots)).is_some()).count()
    };
    assert_eq!([1, 8, 20, 60].map(under_way), [1, 8, 10, 30]);
}

#[test]
fn images_and_layers_are_limited_each_by_its_own_number() {
    // Ten images of four layers; all images share one of them.
    let needs = (0..10).map(|n| {
        let own = (0..3).map(|layer| (100 + 10 * layer + n, 50));
        need(n.into(), &[(1, 10)].into_iter().chain(own).collect::<Vec<_>>())
    });
    let mut schedule = schedule(needs.collect());
    let parallel = jobs(3, 2);
    let mut flying: VecDeque<Job> = VecDeque::new();
    let (mut most_images, mut most_layers, mut ended) = (0, 0, Vec::new());
    loop {
        while let Some(job) = schedule.next(parallel) {
            flying.push_back(job);
            let mut layers: BTreeMap<ImageId, usize> = BTreeMap::new();
            for job in flying.iter().filter(|job| matches!(job, Job::Move { .. })) {
                *layers.entry(job.image()).or_default() += 1;
            }
            most_images = most_images.max(layers.len());
            most_layers = most_layers.max(layers.into_values().max().unwrap_or_default());
        }
        let Some(job) = flying.pop_front() else { break };
        assert!(schedule.done(&job, Ok(())).is_empty());
        ended.push(job);
    }
    assert_eq!((most_images, most_layers), (3, 2));
    assert_eq!(finished(&ended), (0..10).collect::<Vec<_>>());
    let moved = ended.iter().filter(|job| matches!(job, Job::Move { .. })).count();
    assert_eq!(moved, 1 + 30, "what is shared is moved once");
}

/// On a distant registry one connection gets a fraction of the rate: images on one base must not wait
/// for it together.
#[test]
fn an_image_that_only_waits_for_a_blob_of_another_does_not_count() {
    const BASE: (u8, u64) = (100, 900);
    let needs = (0..6).map(|n: u8| need(n.into(), &[BASE, (n, 10)])).collect();
    let mut schedule = schedule(needs);
    let two = jobs(2, 2);
    let next = |schedule: &mut Schedule| match schedule.next(two) {
        Some(job @ Job::Move { blob, .. }) => Some((job, blob.digest)),
        None => None,
        Some(job) => panic!("{job:?}"),
    };
    // The first image moves the base and its own layer, the second its own layer.
    let first: Vec<_> = std::iter::from_fn(|| next(&mut schedule)).collect();
    let digests: Vec<Digest> = first.iter().map(|(_, digest)| *digest).collect();
    assert_eq!(digests, [digest(100), digest(0), digest(1)]);
    // When they have nothing else to move, the others get their turn; the base is still under way.
    let mut moved = Vec::new();
    let mut in_flight: VecDeque<_> = first.into_iter().skip(1).collect();
    while let Some((job, digest)) = in_flight.pop_front() {
        assert!(schedule.done(&job, Ok(())).is_empty());
        moved.push(digest);
        in_flight.extend(std::iter::from_fn(|| next(&mut schedule)));
        assert!(in_flight.len() <= 2, "two images at a time");
    }
    assert_eq!(moved.len(), 6, "all own layers");
}

#[test]
fn a_blob_that_one_source_lacks_is_fetched_from_the_source_of_another_image() {
    let needs = (0..5).map(|n| need(n, &[(1, 10)])).collect();
    let (jobs, failed) = run(schedule(needs), |job| match job {
        Job::Move { from: 0 | 1, .. } => Err(absent()),
        _ => Ok(()),
    });
    assert_eq!(failed, []);
    assert_eq!(finished(&jobs), [0, 1, 2, 3, 4]);
    let sources: Vec<SourceId> = jobs
        .iter()
        .filter_map(|job| match job {
            Job::Move { from, .. } => Some(*from),
            _ => None,
        })
        .collect();
    assert_eq!(sources, [0, 1, 2], "one request to each source");
}

#[test]
fn a_blob_that_no_source_has_fails_the_images_that_need_it_and_no_other() {
    let needs = vec![need(0, &[(1, 10), (2, 5)]), need(1, &[(1, 10)]), need(0, &[(3, 1)])];
    let (jobs, failed) = run(schedule(needs), |job| match job {
        Job::Move { blob, .. } if blob.digest == digest(1) => Err(absent()),
        _ => Ok(()),
    });
    assert_eq!(failed, [(0, Fault::SourceAbsent), (1, Fault::SourceAbsent)]);
    assert_eq!(finished(&jobs), [2]);
    let moved = |n| {
        jobs.iter().any(|job| matches!(job, Job::Move { blob, .. } if blob.digest == digest(n)))
    };
    assert!(!moved(2), "no image that can be completed needs it");
}

#[test]
fn a_repository_that_refuses_a_blob_fails_its_own_images_only() {
    let needs = vec![need(0, &[(1, 10)]), need(1, &[(1, 10)]), need(2, &[(1, 10)])];
    let (jobs, failed) = run(schedule(needs), |job| match job {
        Job::Move { to: 0, .. } => Err(refused()),
        _ => Ok(()),
    });
    assert_eq!(failed, [(0, Fault::TargetRefuses)]);
    assert_eq!(finished(&jobs), [1, 2]);
}

#[test]
fn a_wrong_size_fails_only_the_image_whose_manifest_declares_it() {
    for wrong in [7, 5 * SMALL] {
        // The wrong manifest is the first, and has the largest or the smallest size.
        let needs = vec![need(0, &[(1, wrong)]), need(1, &[(1, 10)]), need(2, &[(1, 10)])];
        let (jobs, failed) = run(schedule(needs), |job| match job {
            Job::Move { blob, .. } if blob.size == wrong => Err(too_long(*blob)),
            _ => Ok(()),
        });
        assert_eq!(failed, [(0, Fault::Content)]);
        assert_eq!(finished(&jobs), [1, 2]);
    }
}

#[test]
fn a_wrong_size_that_most_manifests_declare_does_not_fail_the_right_one() {
    let needs = vec![need(0, &[(1, 7)]), need(1, &[(1, 7)]), need(2, &[(1, 10)])];
    let (jobs, failed) = run(schedule(needs), |job| match job {
        Job::Move { blob, .. } if blob.size == 7 => Err(too_long(*blob)),
        _ => Ok(()),
    });
    assert_eq!(failed, [(0, Fault::Content), (1, Fault::Content)]);
    assert_eq!(finished(&jobs), [2]);
}

#[test]
fn two_sizes_of_a_blob_that_no_source_has_fail_both_images() {
    let needs = vec![need(0, &[(1, 7)]), need(1, &[(1, 10)])];
    let (jobs, mut failed) = run(schedule(needs), |_| Err(absent()));
    failed.sort_by_key(|(image, _)| *image);
    assert_eq!(failed, [(0, Fault::SourceAbsent), (1, Fault::SourceAbsent)]);
    assert!(finished(&jobs).is_empty());
}

#[test]
fn a_failing_host_gets_no_requests_for_all_its_repositories() {
    let needs: Vec<_> = (0..20).map(|n| need(n, &[(1, 10)])).collect();
    let (jobs, failed) = run(schedule(needs.clone()), |_| Err(timed_out()));
    assert_eq!((jobs.len(), failed.len()), (STRIKES, 20));
    // The last source is at another host.
    let mut hosts = vec![0; 20];
    hosts[19] = 1;
    let (jobs, failed) = run(Schedule::new(needs, hosts), |job| match job {
        Job::Move { from, .. } if *from < 19 => Err(timed_out()),
        _ => Ok(()),
    });
    assert_eq!(failed, []);
    assert_eq!(finished(&jobs).len(), 20);
}

#[test]
fn a_mount_that_is_refused_fails_only_the_images_of_that_repository() {
    let needs = vec![need(0, &[(1, 10)]), need(1, &[(1, 10)]), need(2, &[(1, 10)])];
    let (jobs, failed) = run(schedule(needs), |job| match job {
        Job::Mount { to: 1, .. } => Err(refused()),
        _ => Ok(()),
    });
    assert_eq!(failed, [(1, Fault::TargetRefuses)]);
    assert_eq!(finished(&jobs), [0, 2]);
}

#[test]
fn a_mount_whose_source_fails_is_tried_from_other_sources() {
    let needs = vec![need(0, &[(1, 10)]), need(1, &[(1, 10)]), need(2, &[(1, 10)])];
    let (jobs, failed) = run(schedule(needs), |job| match job {
        Job::Mount { from: 0, .. } => Err(absent()),
        _ => Ok(()),
    });
    assert_eq!(failed, []);
    assert_eq!(finished(&jobs), [0, 1, 2]);
}

#[test]
fn an_image_gets_the_error_of_its_own_source() {
    let needs = vec![need(0, &[(1, 10)]), need(1, &[(1, 10)])];
    let mut schedule = schedule(needs);
    let mut texts = Vec::new();
    while let Some(job) = schedule.next(EIGHT) {
        let Job::Move { from, .. } = job else { panic!("{job:?}") };
        let error = if from == 0 { absent() } else { timed_out() };
        texts.extend(schedule.done(&job, Err(error)).iter().map(|f| f.error.to_string()));
    }
    assert!(texts[0].contains("does not have it"), "{texts:?}");
    assert!(texts[1].contains("not done within"), "{texts:?}");
    assert!(texts[0].contains("none of the 2 repositories"), "{texts:?}");
}
