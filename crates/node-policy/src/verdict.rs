//! The evaluation of an attempt: what is reported, and whether to retry.

use std::time::Duration;

use nmstate_api::Failure;
use nmstate_api::annotations::ProbeKind;
use node_network::probe::CheckReport;
use node_network::{Cause, Message, Outcome, Recovery};

use crate::phase::Phase;
use crate::secrets::Secrets;

/// The maximum number of attempts at one generation of a policy, the first one included.
pub const MOST_ATTEMPTS: u32 = 5;
/// The maximum number of attempts during which only the API server did not respond.
pub const MOST_OUTAGES: u32 = 3;
/// The delay before the attempt after such an outage.
const OUTAGE_WAIT: Duration = Duration::from_secs(60);
/// The longest delay between attempts while the API server is down. No attempt starts before the API
/// server responds, so this is not a load on it.
const LONGEST_OUTAGE_WAIT: Duration = Duration::from_secs(600);
/// The first delay between attempts; it doubles with each one.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// Bytes of a message. Conditions are watched by every client of the API.
pub const MESSAGE_LIMIT: usize = 1024;

/// Whether the API server itself may have been down during an attempt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Outage {
    /// Something else did not respond either.
    #[default]
    No,
    /// Only the API server did not respond, and it responds since the change was rolled back. The
    /// change may be the cause, or a short outage.
    Possible,
    /// Only the API server did not respond, and it does not respond without the change either. The
    /// change is not the cause.
    Certain,
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attempt {
    /// The node matches the policy; no change was necessary.
    NothingDiffers,
    /// The change is made and confirmed.
    Applied,
    /// The desired state of this node could not be computed.
    NotRendered { why: String },
    /// The change is not allowed on a running node.
    Forbidden { rule: String, interface: Option<String>, why: String },
    /// The policy cannot be applied to this node, according to nmstate or to our own checks.
    Invalid { why: String },
    /// The change could not be started; nothing was modified.
    NotBegun { why: String },
    /// The change was made and rolled back.
    RolledBack {
        cause: Cause,
        /// The probe that failed.
        probe: Option<ProbeKind>,
        outage: Outage,
        why: String,
        recovery: Recovery,
    },
    /// The handler, NetworkManager or the node ended in the middle of it, and the change was
    /// rolled back.
    Interrupted,
}

/// Why a change was rolled back, in the terms of policies.
fn words(cause: Cause, outage: Outage) -> &'static str {
    match cause {
        Cause::Apply => "NetworkManager could not make the change",
        Cause::Verification => "after the change, the network was not as the policy requires",
        Cause::Facts | Cause::Probes => match outage {
            Outage::No => "the node was cut off by the change",
            Outage::Possible => "the API server did not respond after the change",
            Outage::Certain => "the API server does not respond, with or without the change",
        },
        Cause::Expired => "the change was not confirmed in time",
        Cause::Persist => "the change could not be saved to disk",
    }
}

/// What to report, and what to do next.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    pub phase: Phase,
    pub message: String,
    pub failure: Option<Failure>,
    /// When to retry.
    pub again_after: Option<Duration>,
}

impl Attempt {
    /// The meaning of a transaction's outcome for a policy.
    pub fn of(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Committed { .. } => Self::Applied,
            Outcome::Refused { reason } => Self::NotBegun { why: reason.to_string() },
            Outcome::RolledBack { cause, message, after, recovery } => {
                let is_probed = matches!(cause, Cause::Facts | Cause::Probes);
                let silent = after.probes.iter().find(|check| is_probed && !check.holds);
                Self::RolledBack {
                    cause: *cause,
                    probe: silent.and_then(probe_kind),
                    outage: match cause {
                        Cause::Probes => outage(&after.probes, recovery),
                        _ => Outage::No,
                    },
                    why: message.to_string(),
                    recovery: recovery.clone(),
                }
            }
        }
    }

    /// Whether the API server was down, whatever the change does. Such attempts are counted
    /// separately: they are no reason to end.
    pub fn is_api_down(&self) -> bool {
        matches!(self, Self::RolledBack { outage: Outage::Certain, .. })
    }

    /// Judges the attempt to apply a policy with this number, counted from one. Attempts for which
    /// [`Self::is_api_down`] holds have numbers of their own.
    pub fn judge(&self, number: u32) -> Verdict {
        self.verdict(number, self.can_change())
    }

    /// Judges the attempt to revert a deleted policy with this number, counted from one. An edit
    /// cannot start another attempt once the policy is deleted, so a node that did not respond is
    /// not a reason to stop.
    pub fn judge_revert(&self, number: u32) -> Verdict {
        let was_rolled_back = matches!(self, Self::RolledBack { .. });
        self.verdict(number, was_rolled_back || self.can_change())
    }

    fn verdict(&self, number: u32, can_change: bool) -> Verdict {
        let Some(kind) = self.failure_kind() else {
            let message = match self {
                Self::NothingDiffers => "the node is as the policy requires; nothing was changed",
                _ => "successfully reconciled",
            };
            let message = message.to_owned();
            return Verdict { phase: Phase::Available, message, failure: None, again_after: None };
        };
        let mut failure = Failure { kind: kind.to_owned(), ..Failure::default() };
        match self {
            Self::Forbidden { rule, interface, .. } => {
                failure.rule = Some(rule.clone());
                failure.interface.clone_from(interface);
            }
            Self::RolledBack { probe, outage, .. } => {
                failure.probe = probe.map(|probe| probe.name().to_owned());
                failure.possible_outage = (*outage != Outage::No).then_some(true);
            }
            _ => {}
        }
        let most = match self {
            // A change that only disconnects the API server looks the same as a short outage.
            Self::RolledBack { outage: Outage::Possible, .. } => MOST_OUTAGES,
            Self::RolledBack { outage: Outage::Certain, .. } => u32::MAX,
            _ => MOST_ATTEMPTS,
        };
        let again_after = (can_change && number < most).then(|| self.wait(number));
        let phase = if again_after.is_some() { Phase::Retrying } else { Phase::Failed };
        let message = match phase {
            _ if self.is_api_down() => format!("it is tried again: {}", self.text()),
            Phase::Retrying => format!("attempt {number} of {most}: {}", self.text()),
            _ if can_change => format!("after {number} attempts: {}", self.text()),
            _ => self.text(),
        };
        Verdict { phase, message: bounded(message), failure: Some(failure), again_after }
    }

    /// The same without secrets in its messages. To be done before any text is truncated, so that
    /// no part of a secret remains.
    pub fn without(self, secrets: &Secrets) -> Self {
        let hide = |text: String| secrets.hide(text);
        match self {
            Self::NothingDiffers | Self::Applied | Self::Interrupted => self,
            Self::NotRendered { why } => Self::NotRendered { why: hide(why) },
            Self::Forbidden { rule, interface, why } => {
                Self::Forbidden { rule, interface, why: hide(why) }
            }
            Self::Invalid { why } => Self::Invalid { why: hide(why) },
            Self::NotBegun { why } => Self::NotBegun { why: hide(why) },
            Self::RolledBack { cause, probe, outage, why, recovery } => {
                let hidden = |message: Message| Message::new(hide(message.to_string()));
                let recovery = match recovery {
                    Recovery::Works => Recovery::Works,
                    Recovery::Differs { message, failed } => {
                        Recovery::Differs { message: hidden(message), failed }
                    }
                    Recovery::Pending { message } => Recovery::Pending { message: hidden(message) },
                };
                Self::RolledBack { cause, probe, outage, why: hide(why), recovery }
            }
        }
    }

    /// Why a change was rolled back, in a few words.
    pub fn rolled_back(&self) -> Option<&'static str> {
        match self {
            Self::RolledBack { cause, outage, .. } => Some(words(*cause, *outage)),
            _ => None,
        }
    }

    /// Whether the previous network has not been restored yet.
    pub fn is_unfinished(&self) -> bool {
        matches!(self, Self::RolledBack { recovery: Recovery::Pending { .. }, .. })
    }

    /// Whether the same attempt may have a different result next time.
    fn can_change(&self) -> bool {
        match self {
            Self::NothingDiffers | Self::Applied => false,
            // Only an edit of the policy helps.
            Self::NotRendered { .. } | Self::Forbidden { .. } | Self::Invalid { .. } => false,
            Self::NotBegun { .. } | Self::Interrupted => true,
            Self::RolledBack {
                cause: Cause::Facts | Cause::Probes,
                outage: Outage::No,
                recovery,
                ..
            } => match recovery {
                // The node responds again without the change, so the change was the cause. To
                // repeat it would disconnect the node again.
                Recovery::Works => false,
                // There is another problem as well.
                Recovery::Differs { .. } | Recovery::Pending { .. } => true,
            },
            Self::RolledBack { .. } => true,
        }
    }

    fn wait(&self, number: u32) -> Duration {
        match self {
            Self::RolledBack { outage: Outage::Possible, .. } => OUTAGE_WAIT,
            Self::RolledBack { outage: Outage::Certain, .. } => {
                doubled(OUTAGE_WAIT, number, LONGEST_OUTAGE_WAIT)
            }
            _ => doubled(FIRST_WAIT, number, LONGEST_WAIT),
        }
    }

    /// A machine-readable name, none if it succeeded.
    fn failure_kind(&self) -> Option<&'static str> {
        Some(match self {
            Self::NothingDiffers | Self::Applied => return None,
            Self::NotRendered { .. } => "NotRendered",
            Self::Forbidden { .. } => "Forbidden",
            Self::Invalid { .. } => "Invalid",
            Self::NotBegun { .. } => "NotBegun",
            Self::RolledBack { cause, .. } => match cause {
                Cause::Apply => "ApplyFailed",
                Cause::Verification => "VerificationFailed",
                Cause::Facts | Cause::Probes => "ProbeFailed",
                Cause::Expired => "CheckpointExpired",
                Cause::Persist => "PersistFailed",
            },
            Self::Interrupted => "Interrupted",
        })
    }

    fn text(&self) -> String {
        match self {
            Self::NothingDiffers | Self::Applied => String::new(),
            Self::NotRendered { why } => {
                format!("nothing was changed: the policy cannot be evaluated on this node: {why}")
            }
            Self::Forbidden { rule, why, .. } => {
                format!("nothing was changed: forbidden on a node that runs ({rule}): {why}")
            }
            Self::Invalid { why } => {
                format!("nothing was changed: the node cannot be made so: {why}")
            }
            Self::NotBegun { why } => format!("nothing was changed: {why}"),
            Self::RolledBack { cause, outage, why, recovery, .. } => {
                let fault = words(*cause, *outage);
                // Where it ends must not be cut off by a long reason.
                let why = cut(why.clone(), MESSAGE_LIMIT / 2);
                match recovery {
                    Recovery::Works => {
                        format!(
                            "{fault}; it was rolled back, and the node has its former network again: {why}"
                        )
                    }
                    Recovery::Differs { message: left, .. } => {
                        format!("{fault}; it was rolled back, but {left}: {why}")
                    }
                    Recovery::Pending { message: left } => format!(
                        "{fault}; the roll-back failed and is repeated ({left}): {why}"
                    ),
                }
            }
            Self::Interrupted => {
                "the change was interrupted and rolled back: the handler, NetworkManager or the node \
                 restarted".to_owned()
            }
        }
    }
}

/// The probe that a report is about.
pub fn probe_kind(report: &CheckReport) -> Option<ProbeKind> {
    ProbeKind::ALL.into_iter().find(|kind| kind.name() == report.id)
}

/// Whether the API server was down, given the probes after the change and after the rollback.
fn outage(after: &[CheckReport], recovery: &Recovery) -> Outage {
    let failed: Vec<&str> =
        after.iter().filter(|check| !check.holds).map(|check| check.id.as_str()).collect();
    let is_down = match recovery {
        // With its previous network the node reaches everything else that it reached before.
        Recovery::Differs { failed: left, .. } => {
            let left: Vec<&str> = left.iter().map(String::as_str).collect();
            is_only_the_api_server(&failed) && is_only_the_api_server(&left)
        }
        Recovery::Works | Recovery::Pending { .. } => false,
    };
    match (is_down, only_the_api_server_is_silent(after)) {
        (true, _) => Outage::Certain,
        (false, true) => Outage::Possible,
        (false, false) => Outage::No,
    }
}

/// Whether these failed checks are that of the API server, and at most that of readiness, which the API
/// server reports.
fn is_only_the_api_server(failed: &[&str]) -> bool {
    let (api, readiness) = (ProbeKind::ApiServer.name(), ProbeKind::NodeReadiness.name());
    failed.contains(&api) && failed.iter().all(|id| *id == api || *id == readiness)
}

/// Whether the node reaches everything else: the API server itself may be down then. Readiness is
/// reported by the API server, so it is ignored.
fn only_the_api_server_is_silent(reports: &[CheckReport]) -> bool {
    let is = |report: &CheckReport, kind: ProbeKind| probe_kind(report) == Some(kind);
    let depends =
        |it: &CheckReport| is(it, ProbeKind::ApiServer) || is(it, ProbeKind::NodeReadiness);
    let (of_api, others): (Vec<_>, Vec<_>) = reports.iter().partition(|it| depends(it));
    let is_silent = of_api.iter().any(|it| is(it, ProbeKind::ApiServer) && !it.holds);
    is_silent && !others.is_empty() && others.iter().all(|it| it.holds)
}

/// Whether a failure of this kind was found before anything was changed: the policy cannot be
/// applied to the node as it is.
pub fn is_refusal(kind: &str) -> bool {
    matches!(kind, "NotRendered" | "Forbidden" | "Invalid")
}

/// A delay that doubles with each attempt, counted from one.
fn doubled(first: Duration, number: u32, longest: Duration) -> Duration {
    let factor = 1_u32.checked_shl(number.saturating_sub(1)).unwrap_or(u32::MAX);
    first.saturating_mul(factor).min(longest)
}

/// Text that fits into a condition.
pub fn bounded(text: impl Into<String>) -> String {
    cut(text.into(), MESSAGE_LIMIT)
}

fn cut(mut text: String, limit: usize) -> String {
    const MARK: &str = " … (cut)";
    if text.len() > limit {
        let mut end = limit - MARK.len();
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push_str(MARK);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rolled_back(cause: Cause, recovery: Recovery) -> Attempt {
        let why = "as the test requires".into();
        Attempt::RolledBack { cause, probe: None, outage: Outage::No, why, recovery }
    }

    #[test]
    fn what_only_another_policy_can_change_is_not_tried_again() {
        let why = || "why".to_owned();
        let hopeless = [
            Attempt::NotRendered { why: why() },
            Attempt::Forbidden { rule: "forbidden".into(), interface: None, why: why() },
            Attempt::Invalid { why: why() },
            rolled_back(Cause::Probes, Recovery::Works),
        ];
        for attempt in hopeless {
            let verdict = attempt.judge(1);
            assert_eq!(verdict.phase, Phase::Failed, "{attempt:?}");
            assert_eq!(verdict.again_after, None);
            assert!(verdict.failure.is_some());
        }
    }

    #[test]
    fn what_is_refused_was_not_begun() {
        let why = || "why".to_owned();
        let kind = |attempt: &Attempt| attempt.judge(1).failure.unwrap().kind;
        for refused in [
            Attempt::NotRendered { why: why() },
            Attempt::Forbidden { rule: "forbidden".into(), interface: None, why: why() },
            Attempt::Invalid { why: why() },
        ] {
            assert!(is_refusal(&kind(&refused)), "{refused:?}");
            assert!(refused.judge(1).message.starts_with("nothing was changed"));
        }
        for other in [Attempt::Interrupted, rolled_back(Cause::Apply, Recovery::Works)] {
            assert!(!is_refusal(&kind(&other)), "{other:?}");
        }
    }

    #[test]
    fn a_revert_is_repeated_although_the_node_did_not_respond_after_it() {
        let attempt = rolled_back(Cause::Probes, Recovery::Works);
        assert_eq!(attempt.judge(1).again_after, None);
        assert_eq!(attempt.judge_revert(1).again_after, Some(FIRST_WAIT));
        let last = attempt.judge_revert(MOST_ATTEMPTS);
        assert_eq!((last.phase, last.again_after), (Phase::Failed, None));
        let invalid = Attempt::Invalid { why: "no such NIC".into() };
        assert_eq!(invalid.judge_revert(1).again_after, None, "repeating it cannot help");
    }

    #[test]
    fn what_may_pass_is_tried_again_with_longer_and_longer_waits() {
        let passing = [
            Attempt::NotBegun { why: "why".into() },
            Attempt::Interrupted,
            rolled_back(Cause::Apply, Recovery::Works),
            rolled_back(Cause::Verification, Recovery::Works),
            rolled_back(Cause::Expired, Recovery::Works),
            rolled_back(Cause::Persist, Recovery::Works),
            rolled_back(
                Cause::Probes,
                Recovery::Differs { message: "no DNS".into(), failed: vec!["dns".into()] },
            ),
        ];
        for attempt in passing {
            let waits: Vec<_> = (1..MOST_ATTEMPTS)
                .map(|number| attempt.judge(number).again_after.unwrap())
                .collect();
            assert_eq!(waits, [1, 2, 4, 8].map(Duration::from_secs));
            assert_eq!(attempt.judge(1).phase, Phase::Retrying);
            let last = attempt.judge(MOST_ATTEMPTS);
            assert_eq!((last.phase, last.again_after), (Phase::Failed, None));
        }
    }

    #[test]
    fn an_outage_of_the_api_server_is_not_attributed_to_the_change_at_once() {
        let attempt = Attempt::RolledBack {
            cause: Cause::Probes,
            probe: Some(ProbeKind::ApiServer),
            outage: Outage::Possible,
            why: "why".into(),
            recovery: Recovery::Works,
        };
        let first = attempt.judge(1);
        assert_eq!((first.phase, first.again_after), (Phase::Retrying, Some(OUTAGE_WAIT)));
        assert_eq!(first.failure.unwrap().probe.as_deref(), Some("api-server"));
        assert_eq!(attempt.judge(MOST_OUTAGES).phase, Phase::Failed);
    }

    /// The outcome of a change after which these checks fail, and these after the rollback.
    fn silent(after: &[ProbeKind], left: &[ProbeKind]) -> Attempt {
        let probes = [ProbeKind::ApiServer, ProbeKind::Gateway, ProbeKind::NodeReadiness];
        let probes = probes.map(|kind| check(kind, !after.contains(&kind))).to_vec();
        let failed: Vec<String> = left.iter().map(|kind| kind.name().to_owned()).collect();
        let recovery = match failed.is_empty() {
            true => Recovery::Works,
            false => Recovery::Differs { message: "no answer".into(), failed },
        };
        Attempt::of(&Outcome::RolledBack {
            cause: Cause::Probes,
            message: "no answer".into(),
            after: node_network::Observation { probes, ..Default::default() },
            recovery,
        })
    }

    #[test]
    fn an_api_server_that_is_down_without_the_change_too_does_not_count_against_it() {
        use ProbeKind::{ApiServer, Gateway, NodeReadiness};
        let down = silent(&[ApiServer, NodeReadiness], &[ApiServer]);
        assert!(down.is_api_down());
        for (number, minutes) in [(1, 1), (2, 2), (4, 8), (5, 10), (1000, 10)] {
            let verdict = down.judge(number);
            assert_eq!(verdict.phase, Phase::Retrying, "attempt {number}");
            assert_eq!(verdict.again_after, Some(Duration::from_secs(minutes * 60)));
            assert!(verdict.message.contains("with or without the change"), "{}", verdict.message);
        }
        // The change also took the gateway, or the API server is back as soon as the change is gone.
        for other in [
            silent(&[ApiServer, Gateway], &[ApiServer]),
            silent(&[ApiServer], &[ApiServer, Gateway]),
            silent(&[ApiServer], &[]),
        ] {
            assert!(!other.is_api_down(), "{other:?}");
            assert_eq!(other.judge(MOST_ATTEMPTS).phase, Phase::Failed);
        }
    }

    #[test]
    fn waits_have_an_end() {
        assert_eq!(doubled(FIRST_WAIT, 40, LONGEST_WAIT), LONGEST_WAIT);
    }

    #[test]
    fn success_needs_no_explanation_of_a_failure() {
        for attempt in [Attempt::Applied, Attempt::NothingDiffers] {
            let verdict = attempt.judge(1);
            assert_eq!((verdict.phase, verdict.failure), (Phase::Available, None));
        }
    }

    #[test]
    fn no_secret_is_left_where_a_message_is_cut() {
        let document = serde_json::json!({"interfaces": [{"802.1x": {"password": "hunter2"}}]});
        let secrets = Secrets::of(&serde_json::from_value(document).unwrap());
        for before in 480..530 {
            let why = format!("{}hunter2 and more", "x".repeat(before));
            let attempts = [
                Attempt::Invalid { why: why.clone() },
                Attempt::RolledBack {
                    cause: Cause::Apply,
                    probe: None,
                    outage: Outage::No,
                    why,
                    recovery: Recovery::Works,
                },
            ];
            for attempt in attempts {
                let message = attempt.without(&secrets).judge(1).message;
                assert!(!message.contains("hunt"), "{message}");
            }
        }
    }

    #[test]
    fn a_message_states_the_result_however_long_the_reason_is() {
        let attempt = Attempt::RolledBack {
            cause: Cause::Probes,
            probe: Some(ProbeKind::ApiServer),
            outage: Outage::No,
            why: "ä".repeat(100_000),
            recovery: Recovery::Works,
        };
        let verdict = attempt.judge(1);
        assert!(verdict.message.len() <= MESSAGE_LIMIT);
        assert!(verdict.message.contains("the node has its former network again"));
        assert_eq!(verdict.failure.unwrap().probe.as_deref(), Some("api-server"));
    }

    fn check(kind: ProbeKind, holds: bool) -> CheckReport {
        let id = kind.name().to_owned();
        CheckReport { id, about: "the text does not matter".into(), holds, probes: vec![] }
    }

    #[test]
    fn an_api_server_that_is_down_differs_from_a_node_that_is_cut_off() {
        let silent = |others: &[(ProbeKind, bool)]| {
            let mut reports = vec![check(ProbeKind::ApiServer, false)];
            reports.extend(others.iter().map(|(kind, holds)| check(*kind, *holds)));
            only_the_api_server_is_silent(&reports)
        };
        assert!(silent(&[(ProbeKind::Gateway, true), (ProbeKind::NodeReadiness, false)]));
        assert!(!silent(&[(ProbeKind::Gateway, true), (ProbeKind::Dns, false)]));
        assert!(!silent(&[]), "no other probe tells that the network works");
    }

    #[test]
    fn a_change_that_was_rolled_back_names_the_probe_that_failed() {
        let after = node_network::Observation {
            probes: vec![check(ProbeKind::ApiServer, true), check(ProbeKind::Gateway, false)],
            ..Default::default()
        };
        let outcome = Outcome::RolledBack {
            cause: Cause::Probes,
            message: "why".into(),
            after,
            recovery: Recovery::Works,
        };
        let expected = Attempt::RolledBack {
            cause: Cause::Probes,
            probe: Some(ProbeKind::Gateway),
            outage: Outage::No,
            why: "why".into(),
            recovery: Recovery::Works,
        };
        assert_eq!(Attempt::of(&outcome), expected);
    }
}
