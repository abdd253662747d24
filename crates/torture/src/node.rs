//! Kills the handler, NetworkManager and the node while the network of the node is changed.
//!
//! The node reaches its API server only through the network that is changed. Good changes and
//! changes that cut the node off take turns at random. Whatever is killed, the node must have the
//! network that it reports, and must not be cut off for longer than its checkpoint lasts.
//!
//! An outage is the time between two replies to pings. It includes the restart of a handler or of
//! NetworkManager that was killed. The time without power and the boot are not part of it: it ends when
//! the power is cut, and another one starts when NetworkManager runs after the boot.

mod change;
mod progress;
mod reachability;
mod report;
mod site;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use node_policy::Phase;

use crate::random::Random;
use change::{Change, FIRST, Shape};
use progress::{Progress, ProgressFile};
use reachability::Outage;
use report::{Claim, Report};
use site::{CHECKPOINT, PATIENCE, Site};

/// What may be added to the life of a checkpoint, besides the time that applying takes: starting the
/// handler, noticing what happened, and the time between pings.
const GRACE: Duration = Duration::from_secs(10);
/// A node that has power reaches its API server within this time without any help of ours.
const BOOT: Duration = Duration::from_secs(20);
/// A change that takes this long hangs.
const HANGS: Duration = Duration::from_secs(600);
const MOST_KILLS_PER_ROUND: u64 = 3;
/// The victims of a short campaign: during a good change all of them, during a bad change those whose end
/// is the end of a checkpoint.
const SHORT: [&[Victim]; 2] = [
    &[Victim::Handler, Victim::NetworkManager, Victim::Node],
    &[Victim::NetworkManager, Victim::Node],
];
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// What is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    Handler,
    NetworkManager,
    Node,
}

/// What a campaign does.
#[derive(Debug)]
pub(crate) struct Plan<'a> {
    pub(crate) program: &'a Path,
    pub(crate) kills: u64,
    pub(crate) seed: Option<u64>,
    /// Where progress is stored, to be continued by another run.
    pub(crate) progress: Option<&'a Path>,
    /// Whether the victims are those of [`SHORT`], not random ones.
    pub(crate) is_short: bool,
}

/// `torture node`.
pub(crate) fn run(plan: &Plan<'_>) -> Result<()> {
    let file = ProgressFile::new(plan.progress);
    let mut progress = match file.read()? {
        Some(earlier) => {
            ensure!(
                plan.seed.is_none_or(|seed| seed == earlier.seed),
                "the campaign to continue has seed {}, expected the same after --seed",
                earlier.seed
            );
            println!("continuing after {} kills", earlier.kills());
            earlier
        }
        None => Progress { seed: plan.seed.unwrap_or_else(Random::seed), ..Progress::default() },
    };
    let seed = progress.seed;
    println!("{} kills; repeat with --seed {seed}", plan.kills);
    let mut site = Site::start(plan.program)?;
    let (mut shape, takes) = undisturbed(&mut site)
        .with_context(|| format!("a change that nothing disturbs\n{}", site.logs()))?;
    println!("a change that nothing disturbs takes {:.1} s", takes.as_secs_f32());
    if takes > CHECKPOINT {
        println!(
            "warning: this is longer than a checkpoint lasts ({} s): the machine is too busy for a \
             verdict about outages, which are judged by {:.1} s",
            CHECKPOINT.as_secs(),
            longest_outage(takes).as_secs_f32()
        );
    }
    while progress.kills() < plan.kills {
        let mut round = Round {
            site: &mut site,
            number: progress.rounds,
            before: shape,
            random: Random::of_round(seed, progress.rounds),
            is_short: plan.is_short,
            takes,
        };
        let left = plan.kills - progress.kills();
        let ended = round.run(left, &mut progress).and_then(|()| round.finish());
        shape = ended
            .with_context(|| format!("round {} (seed {seed})\n{}", progress.rounds, site.logs()))?;
        progress.rounds += 1;
        file.write(&progress)?;
    }
    println!(
        "{} kills of the handler, {} of NetworkManager, {} of the node, in {} changes: {} made, {} \
         rolled back, {} good ones rolled back as they were late; no wrong result; the API server \
         was out of reach for at most {:.1} s, and for at most {:.1} s without a kill in between; at \
         most {:.1} s are allowed: a checkpoint lasts {} s, and a change that nothing disturbs takes \
         {:.1} s",
        progress.handler,
        progress.network_manager,
        progress.node,
        progress.rounds,
        progress.made,
        progress.rolled_back,
        progress.late,
        progress.longest_outage.as_secs_f32(),
        progress.longest_undisturbed_outage.as_secs_f32(),
        longest_outage(takes).as_secs_f32(),
        CHECKPOINT.as_secs(),
        takes.as_secs_f32()
    );
    file.remove();
    Ok(())
}

/// The longest outage that is allowed. nmstate extends the life of its checkpoint while it applies.
fn longest_outage(takes: Duration) -> Duration {
    CHECKPOINT + takes + GRACE
}

/// Makes a change without killing anything. Returns the network, and how long it took: the moments of
/// kills and the limits depend on how busy the machine is. The start of the handler is not part of it.
fn undisturbed(site: &mut Site) -> Result<(Shape, Duration)> {
    let started = Instant::now();
    while !site.is_network_reported()? {
        ensure!(started.elapsed() < HANGS, "no report of the network within {HANGS:?}");
        std::thread::sleep(POLL_INTERVAL);
    }
    let mut round = Round {
        site,
        number: u64::MAX,
        before: FIRST,
        random: Random::new(0),
        is_short: false,
        takes: HANGS,
    };
    let change = round.before.good_change(&mut round.random);
    let begun = Instant::now();
    round.site.create_policy(&round.policy(), &change.desired)?;
    let report = round.watch(&change, |it| it.is_some_and(|it| it.phase.is_settled()))?;
    let takes = begun.elapsed();
    let is_made = report.as_ref().is_some_and(|it| it.phase == Phase::Available);
    ensure!(is_made, "it was not made: {report:?}");
    Ok((round.finish()?, takes))
}

/// One change, and what is killed meanwhile.
struct Round<'a> {
    site: &'a mut Site,
    number: u64,
    before: Shape,
    random: Random,
    is_short: bool,
    /// How long a change takes that nothing disturbs.
    takes: Duration,
}

impl Round<'_> {
    fn policy(&self) -> String {
        match self.number {
            u64::MAX => "undisturbed".to_owned(),
            number => format!("round-{number}"),
        }
    }

    /// Makes a change, kills, and checks what is reported until the change has ended.
    fn run(&mut self, kills_left: u64, progress: &mut Progress) -> Result<()> {
        let is_good =
            if self.is_short { self.number.is_multiple_of(2) } else { self.random.is_heads() };
        let change = match is_good {
            true => self.before.good_change(&mut self.random),
            false => self.before.bad_change(&mut self.random),
        };
        self.site.reachability.restart();
        self.site.create_policy(&self.policy(), &change.desired)?;
        let kills = match self.is_short {
            true => u64::try_from(self.short_victims().len()).unwrap_or(u64::MAX),
            false => 1 + self.random.pick(MOST_KILLS_PER_ROUND),
        };
        // A bad change is probed for as long as the network may take to work. A short campaign does not
        // wait for the end of that.
        let is_patient = !is_good && !self.is_short;
        let takes = if is_patient { self.takes + PATIENCE } else { self.takes };
        let mut victims = Vec::new();
        for _ in 0..kills.min(kills_left) {
            let moment = Instant::now() + self.random.below(takes);
            let report = self.watch(&change, |report| {
                Instant::now() >= moment || report.is_some_and(|it| it.phase.is_settled())
            })?;
            let is_made = report.as_ref().is_some_and(|it| it.phase == Phase::Available);
            let is_settled = report.is_some_and(|it| it.phase.is_settled());
            let victim = match is_settled {
                // What was reported as made must survive a power loss right afterwards.
                true if is_made => Victim::Node,
                true => break,
                false => self.victim(victims.len()),
            };
            self.kill(victim, &change, is_made, progress)?;
            victims.push(victim);
            if is_settled {
                break;
            }
        }
        let settled = self.watch(&change, |it| it.is_some_and(|it| it.phase.is_settled()))?;
        let report = settled.context("a settled change without a report")?;
        self.conclude(&change, &report, progress)?;
        println!(
            "{}: {}; killed: {victims:?}; {:?}; out of reach for {:.1} s",
            self.policy(),
            change.about,
            report.phase,
            self.site.reachability.outage().longest.as_secs_f32()
        );
        Ok(())
    }

    fn short_victims(&self) -> &'static [Victim] {
        SHORT[usize::from(!self.number.is_multiple_of(2))]
    }

    fn victim(&mut self, kill: usize) -> Victim {
        if self.is_short {
            let victims = self.short_victims();
            return victims[kill % victims.len()];
        }
        match self.random.pick(3) {
            0 => Victim::Handler,
            1 => Victim::NetworkManager,
            _ => Victim::Node,
        }
    }

    fn kill(
        &mut self,
        victim: Victim,
        change: &Change,
        is_made: bool,
        progress: &mut Progress,
    ) -> Result<()> {
        match victim {
            Victim::Handler => {
                progress.handler += 1;
                self.site.reachability.note_kill();
                self.site.kill_handler()
            }
            Victim::NetworkManager => {
                progress.network_manager += 1;
                self.site.reachability.note_kill();
                self.site.kill_network_manager()
            }
            Victim::Node => {
                progress.node += 1;
                self.note_outage(progress)?;
                self.site.lose_power()?;
                self.site.reachability.restart();
                self.boot(change, is_made)
            }
        }
    }

    /// The node was powered on: it must reach its API server before any handler runs, because the
    /// kubelet gets the handler's pod from there. Then its network is checked, and the handler starts.
    fn boot(&self, change: &Change, is_made: bool) -> Result<()> {
        let deadline = Instant::now() + BOOT + self.takes;
        while !self.site.is_connected()? {
            ensure!(
                Instant::now() < deadline,
                "after a power loss during the change \"{}\" the node does not reach its API \
                 server; it has {:#?}",
                change.about,
                self.site.links()?
            );
        }
        let found = self.site.links()?;
        let is_former = found == self.before.links();
        let is_new = change.result.is_some_and(|shape| found == shape.links());
        // A confirmed change that was being saved may be half on the disk: the handler ends that.
        // Neither a change that is not confirmed nor one that is reported may.
        let is_half_saved = change.result.is_some() && !is_made && !is_former && !is_new;
        if is_half_saved {
            println!("{}: the power failed while a confirmed change was saved", self.policy());
        }
        ensure!(
            is_new || is_half_saved || (is_former && !is_made),
            "after a power loss during the change \"{}\" (reported as made: {is_made}) the network \
             is neither the former nor the confirmed new one: {found:#?}",
            change.about
        );
        self.site.start_handler()
    }

    /// Reads reports and checks each, until `is_enough`.
    fn watch(
        &self,
        change: &Change,
        is_enough: impl Fn(Option<&Report>) -> bool,
    ) -> Result<Option<Report>> {
        let begun = Instant::now();
        let mut checked = None;
        loop {
            let report = self.site.report(&self.policy())?;
            if let Some(report) = &report
                && checked.as_ref() != Some(&report.version)
            {
                self.check(change, report)?;
                checked = Some(report.version.clone());
            }
            if is_enough(report.as_ref()) {
                return Ok(report);
            }
            ensure!(
                begun.elapsed() < HANGS,
                "the change \"{}\" did not end within {HANGS:?}; last report: {report:?}",
                change.about
            );
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Compares what is reported with what the kernel has, unless another report came meanwhile: the
    /// network changes only after that was reported.
    fn check(&self, change: &Change, report: &Report) -> Result<()> {
        let expected = match report.claim() {
            Claim::Nothing => return Ok(()),
            Claim::Former => self.before,
            Claim::New => match change.result {
                Some(shape) => shape,
                None => bail!("wrong result: \"{}\" is reported as made: {report:?}", change.about),
            },
        };
        let found = self.site.links()?;
        let now = self.site.report(&self.policy())?;
        let is_current = now.is_some_and(|it| it.version == report.version);
        ensure!(
            !is_current || found == expected.links(),
            "wrong result: {report:?} during \"{}\", expected {:#?}, found {found:#?}",
            change.about,
            expected.links()
        );
        Ok(())
    }

    /// The change has ended: what is reported holds, and the node was not cut off for too long.
    fn conclude(&self, change: &Change, report: &Report, progress: &mut Progress) -> Result<()> {
        self.check(change, report)?;
        match (report.phase, change.result) {
            (Phase::Available, _) => progress.made += 1,
            (_, None) => progress.rolled_back += 1,
            (_, Some(_)) => {
                println!("{}: a good change was rolled back: {}", self.policy(), report.message);
                progress.late += 1;
            }
        }
        self.note_outage(progress)
    }

    fn note_outage(&self, progress: &mut Progress) -> Result<()> {
        let Outage { longest, undisturbed } = self.site.reachability.outage();
        progress.longest_outage = progress.longest_outage.max(longest);
        progress.longest_undisturbed_outage = progress.longest_undisturbed_outage.max(undisturbed);
        let limit = longest_outage(self.takes);
        ensure!(
            longest <= limit,
            "the node did not reach its API server for {longest:.1?}, expected at most {limit:.1?}; \
             a checkpoint lasts {CHECKPOINT:?}"
        );
        Ok(())
    }

    /// Deletes the policy. Returns the network for the next round.
    fn finish(&mut self) -> Result<Shape> {
        let found = self.site.links()?;
        self.site.delete_policy(&self.policy())?;
        let begun = Instant::now();
        while self.site.report(&self.policy())?.is_some() {
            ensure!(begun.elapsed() < HANGS, "the report about {} remains", self.policy());
            std::thread::sleep(POLL_INTERVAL);
        }
        let shapes = [FIRST, Shape::Nic { mtu: 1400 }, Shape::Bond];
        let known = shapes.into_iter().find(|shape| shape.links() == found);
        known.with_context(|| format!("the network is {found:#?}"))
    }
}
