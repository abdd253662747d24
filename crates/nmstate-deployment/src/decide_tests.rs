//! Tables of decisions.

use k8s_openapi::Metadata as _;
use nmstate_api::annotations::{ADOPT, OFF};
use serde_json::json;

use super::*;
use crate::handover::Installer;

fn settings() -> Settings {
    Settings {
        image: "i".into(),
        version: "2".into(),
        default_platforms: ["BareMetal".to_owned()].into(),
    }
}

fn seen(platform: &str) -> Seen {
    Seen {
        platform: Platform { name: platform.into(), control_plane: ControlPlane::HighlyAvailable },
        nmstates: Vec::new(),
        memory: Memory::default(),
        others: Others::default(),
        record: Ok(None),
        rollout: Rollout::default(),
        cluster_operator: ClusterOperatorStatus::default(),
        tls: TlsProfile::default(),
        adoption: None,
        hindrance: None,
    }
}

fn nmstate(annotations: &[(&str, &str)]) -> NMState {
    let mut nmstate = NMState::new("nmstate");
    let pairs = annotations.iter().map(|(key, value)| ((*key).into(), (*value).into()));
    nmstate.metadata_mut().annotations = Some(pairs.collect());
    nmstate
}

fn now() -> Timestamp {
    Timestamp::from_second(1000).unwrap()
}

fn decided(seen: &Seen) -> Decision {
    decide(&settings(), seen, now())
}

fn cluster(decision: &Decision, type_: &str) -> (String, String) {
    let conditions = &decision.cluster_operator.conditions;
    let found = conditions.iter().find(|condition| condition.type_ == type_).unwrap();
    (found.status.clone(), found.reason.clone())
}

/// A cluster in which everything runs that was decided for this one.
fn complete(seen: &Seen) -> Rollout {
    let Operand::Deploy(objects) = decided(seen).operand else { panic!("nothing to deploy") };
    let of = |kind: &str| {
        let object = objects.iter().find(|object| object["kind"] == kind).unwrap();
        object["metadata"]["annotations"].clone()
    };
    let metadata = |kind: &str| json!({ "generation": 1, "annotations": of(kind) });
    let handlers = json!({ "metadata": metadata("DaemonSet"), "status": {
        "observedGeneration": 1, "desiredNumberScheduled": 3, "updatedNumberScheduled": 3,
        "numberAvailable": 3, "currentNumberScheduled": 3, "numberMisscheduled": 0, "numberReady": 3,
    }});
    let coordinator = json!({ "metadata": metadata("Deployment"), "spec": {
        "replicas": 2, "selector": {}, "template": {},
    }, "status": { "observedGeneration": 1, "updatedReplicas": 2, "availableReplicas": 2 }});
    Rollout {
        handlers: serde_json::from_value(handlers).unwrap(),
        coordinator: serde_json::from_value(coordinator).unwrap(),
        ..Rollout::default()
    }
}

#[test]
fn handlers_that_do_not_run_are_reported_and_degrade_the_cluster_after_20_minutes() {
    use crate::rollout::HandlerPod;
    let mut seen = seen("BareMetal");
    seen.nmstates = vec![nmstate(&[])];
    seen.rollout = complete(&seen);
    seen.memory = decided(&seen).memory;
    seen.rollout.pods = vec![HandlerPod {
        node: "b".into(),
        revision: "r".into(),
        is_ready: false,
        is_going: false,
        waits_for: Some("CrashLoopBackOff".into()),
    }];
    let first = decided(&seen);
    let degraded = condition::find(&first.nmstates["nmstate"], "Degraded").unwrap();
    assert_eq!(degraded.status, ConditionStatus::True);
    assert_eq!(degraded.reason.as_deref(), Some("HandlersNotReady"));
    assert!(degraded.message.as_deref().unwrap().contains("b (CrashLoopBackOff)"));
    assert!(condition::is_true(&first.nmstates["nmstate"], "Available"));
    assert_eq!(cluster(&first, "Degraded"), ("False".to_owned(), "AsExpected".to_owned()));

    let conditions = first.nmstates["nmstate"].clone();
    seen.nmstates[0].status = Some(nmstate_api::NMStateStatus { conditions });
    let later = Timestamp::from_second(1000 + 21 * 60).unwrap();
    let lasting = decide(&settings(), &seen, later);
    assert_eq!(cluster(&lasting, "Degraded"), ("True".to_owned(), "HandlersNotReady".to_owned()));

    // A node that is down is reported by the cluster itself; here it is only named.
    seen.rollout.down = ["b".to_owned()].into();
    let down = decide(&settings(), &seen, later);
    assert_eq!(cluster(&down, "Degraded").0, "False");
    let available = condition::find(&down.nmstates["nmstate"], "Available").unwrap();
    assert_eq!(available.message.as_deref(), Some("nodes that are not ready: b"));
}

#[test]
fn an_unsupported_tls_profile_is_reported_and_nothing_else_changes() {
    let mut seen = seen("BareMetal");
    seen.nmstates = vec![nmstate(&[])];
    seen.tls = TlsProfile { settings: None, not_honoured: Some("no".into()) };
    seen.rollout = complete(&seen);
    let decision = decided(&seen);
    let conditions = &decision.nmstates["nmstate"];
    let reported: Vec<_> = conditions
        .iter()
        .map(|it| (it.type_.as_str(), it.status, it.reason.as_deref().unwrap_or_default()))
        .collect();
    let done = "SuccessfullyDeployed";
    assert_eq!(
        reported,
        [
            ("Available", ConditionStatus::True, done),
            ("Progressing", ConditionStatus::False, done),
            ("Degraded", ConditionStatus::True, "TLSProfileNotFullyHonored"),
        ]
    );
    assert_eq!(cluster(&decision, "Degraded").0, "False");
}

#[test]
fn a_change_of_the_tls_profile_is_rolled_out() {
    let mut seen = seen("BareMetal");
    seen.nmstates = vec![nmstate(&[])];
    seen.rollout = complete(&seen);
    assert_eq!(cluster(&decided(&seen), "Progressing").0, "False");
    let modern = json!({ "spec": { "tlsSecurityProfile": { "type": "Modern" } } });
    seen.tls = TlsProfile::of(&modern);
    assert_eq!(cluster(&decided(&seen), "Progressing").0, "True");
}

#[test]
fn on_a_listed_platform_the_default_is_made_once() {
    let fresh = decided(&seen("BareMetal"));
    assert!(fresh.make_default);
    let mut after = seen("BareMetal");
    after.nmstates = vec![nmstate(&[])];
    let with = decided(&after);
    assert!(with.memory.had_nmstate && !with.make_default);
    assert!(matches!(with.operand, Operand::Deploy(_)));

    let mut deleted = seen("BareMetal");
    deleted.memory = with.memory;
    let off = decided(&deleted);
    assert!(!off.make_default);
    assert_eq!(off.operand, Operand::Remove);
    assert_eq!(cluster(&off, "Disabled"), ("True".into(), "NMStateDeleted".into()));
}

#[test]
fn on_other_platforms_nothing_is_done_until_requested() {
    for platform in ["None", "AWS", "", "Nutanix"] {
        let off = decided(&seen(platform));
        assert!(!off.make_default, "{platform}");
        assert_eq!(cluster(&off, "Disabled"), ("True".into(), "UnsupportedPlatform".into()));
        assert_eq!(cluster(&off, "Available").0, "True");
        let mut requested = seen(platform);
        requested.nmstates = vec![nmstate(&[])];
        assert!(matches!(decided(&requested).operand, Operand::Deploy(_)), "{platform}");
    }
}

#[test]
fn an_annotation_disables_it_and_policies_report_that() {
    let mut seen = seen("BareMetal");
    seen.nmstates = vec![nmstate(&[(OFF, "true")])];
    let off = decided(&seen);
    assert_eq!(off.operand, Operand::Remove);
    assert!(off.policies.unwrap().starts_with("No handlers run"));
    let conditions = &off.nmstates["nmstate"];
    assert!(conditions.iter().all(|held| held.status == ConditionStatus::False));
    assert!(conditions.iter().all(|held| held.reason.as_deref() == Some("TurnedOff")));
}

#[test]
fn an_annotation_that_cannot_be_honoured_changes_nothing_that_runs() {
    let mut seen = seen("BareMetal");
    seen.nmstates = vec![nmstate(&[(OFF, "maybe")])];
    let broken = decided(&seen);
    assert_eq!(broken.operand, Operand::Leave);
    assert_eq!(cluster(&broken, "Degraded"), ("True".into(), "InvalidAnnotation".into()));
    assert_eq!(cluster(&broken, "Available").0, "True");
}

#[test]
fn an_annotation_of_another_version_is_reported_and_stops_nothing() {
    let mut seen = seen("BareMetal");
    seen.nmstates = vec![nmstate(&[("nmstate.landfall.dev/of-tomorrow", "true")])];
    assert!(matches!(decided(&seen).operand, Operand::Deploy(_)));
    seen.rollout = complete(&seen);
    let decision = decided(&seen);
    assert_eq!(cluster(&decision, "Degraded").0, "False");
    let available = condition::find(&decision.nmstates["nmstate"], "Available").unwrap();
    assert_eq!(available.status, ConditionStatus::True);
    let message = available.message.as_deref().unwrap();
    assert!(message.contains("nmstate.landfall.dev/of-tomorrow is not known here"), "{message}");
}

#[test]
fn a_reverted_rollout_starts_again() {
    let mut seen = seen("BareMetal");
    seen.nmstates = vec![nmstate(&[])];
    let (old, new) = (settings(), Settings { version: "3".into(), ..settings() });
    seen.rollout = complete(&seen);
    seen.memory = decide(&old, &seen, now()).memory;
    let half_way = decide(&new, &seen, now());
    assert_eq!(cluster(&half_way, "Progressing").0, "True");
    // The DaemonSet is that of the new version now, and its pods are of both versions.
    seen.memory = half_way.memory;
    seen.rollout.handlers = None;
    let back = decide(&old, &seen, now());
    assert_eq!(cluster(&back, "Progressing").0, "True");
}

#[test]
fn reports_go_with_the_nmstate_but_not_those_of_others_nor_while_it_is_only_off() {
    let mut seen = seen("BareMetal");
    seen.nmstates = vec![nmstate(&[(OFF, "true")])];
    let off = decided(&seen);
    assert!(!off.clear_reports);
    seen.memory = off.memory;
    seen.nmstates = Vec::new();
    assert!(decided(&seen).clear_reports);
    seen.others = others();
    assert!(!decided(&seen).clear_reports);
}

#[test]
fn only_the_oldest_nmstate_counts() {
    let mut seen = seen("None");
    let aged = |name: &str, second| {
        let mut nmstate = NMState::new(name);
        let time = Time(Timestamp::from_second(second).unwrap());
        nmstate.metadata.creation_timestamp = Some(time);
        nmstate
    };
    seen.nmstates = vec![aged("a-younger", 20), aged("older", 10)];
    let decision = decided(&seen);
    let reason = |name: &str| decision.nmstates[name][0].reason.clone().unwrap();
    assert_eq!(reason("a-younger"), "NotTheOldest");
    assert_eq!(reason("older"), "Deploying");
}

#[test]
fn a_roll_out_is_progress_until_it_is_over_and_a_node_that_restarts_is_none() {
    let mut seen = seen("BareMetal");
    seen.nmstates = vec![nmstate(&[])];
    let rolling = decided(&seen);
    assert_eq!(cluster(&rolling, "Progressing").0, "True");
    assert!(rolling.cluster_operator.versions.is_empty());
    assert_eq!(rolling.policies, None);

    seen.rollout = complete(&seen);
    let done = decided(&seen);
    assert_eq!(cluster(&done, "Progressing").0, "False");
    assert_eq!(done.cluster_operator.versions[0].version, "2");
    let held = &done.nmstates["nmstate"];
    assert!(condition::is_true(held, NMStateConditionType::Available));

    // All but one handler are down, with their nodes.
    seen.memory = done.memory;
    let status = seen.rollout.handlers.as_mut().unwrap().status.as_mut().unwrap();
    status.number_available = Some(1);
    assert_eq!(cluster(&decided(&seen), "Progressing").0, "False");
}

#[test]
fn a_new_image_is_a_new_roll_out() {
    let mut seen = seen("BareMetal");
    seen.nmstates = vec![nmstate(&[])];
    seen.rollout = complete(&seen);
    seen.memory = decided(&seen).memory;
    let newer = Settings { image: "j".into(), ..settings() };
    let decision = decide(&newer, &seen, now());
    assert_eq!(cluster(&decision, "Progressing").0, "True");
}

/// kubernetes-nmstate, running from a Subscription.
fn others() -> Others {
    let subscription = Installer::of(&json!({
        "kind": "Subscription",
        "metadata": { "name": "s", "namespace": "n" },
        "spec": { "name": "kubernetes-nmstate-operator" },
    }));
    Others {
        running: vec!["the operator n/nmstate-operator".into()],
        installers: subscription.into_iter().collect(),
        ..Others::default()
    }
}

fn reported(decision: &Decision, type_: NMStateConditionType) -> (ConditionStatus, String) {
    let held = condition::find(&decision.nmstates["nmstate"], type_).unwrap();
    (held.status, held.reason.clone().unwrap())
}

#[test]
fn another_operator_of_this_api_is_left_alone() {
    let mut seen = seen("BareMetal");
    seen.others = others();
    assert!(!decided(&seen).make_default);
    seen.nmstates = vec![nmstate(&[])];
    let aside = decided(&seen);
    assert_eq!(aside.operand, Operand::Remove);
    assert_eq!(cluster(&aside, "Disabled").1, "OtherOperatorPresent");
    // The other operator owns the status of policies.
    assert_eq!(aside.policies, None);
}

#[test]
fn a_take_over_is_progress_and_policies_are_not_changed() {
    use NMStateConditionType::Progressing;
    let mut seen = seen("BareMetal");
    seen.others = others();
    seen.nmstates = vec![nmstate(&[(ADOPT, "true")])];
    // The annotation alone does not start a take-over; the command writes a record first.
    assert_eq!(cluster(&decided(&seen), "Disabled").1, "OtherOperatorPresent");
    let plan = handover::plan(HandoverRequest::TakeOver, &seen.others, None);
    assert_eq!(plan.dismiss.len(), 1);
    seen.record = Ok(plan.record);
    let taking = decided(&seen);
    assert_eq!((&taking.operand, &taking.policies), (&Operand::Remove, &None));
    assert_eq!(cluster(&taking, "Disabled"), ("True".into(), "TakingOver".into()));
    assert_eq!(cluster(&taking, "Progressing"), ("True".into(), "TakingOver".into()));
    assert_eq!(reported(&taking, Progressing), (ConditionStatus::True, "TakingOver".into()));

    // Its operator has been removed, and ours is deployed.
    seen.others = Others::default();
    let record = seen.record.clone().unwrap();
    seen.record =
        Ok(handover::plan(HandoverRequest::TakeOver, &seen.others, record.as_ref()).record);
    assert!(matches!(decided(&seen).operand, Operand::Deploy(_)));

    // The request is withdrawn, and the cluster is given back, even if everything is turned off.
    for annotations in [&[][..], &[(OFF, "true")]] {
        seen.nmstates = vec![nmstate(annotations)];
        let giving = decided(&seen);
        assert_eq!((&giving.operand, &giving.policies), (&Operand::Remove, &None));
        assert_eq!(cluster(&giving, "Disabled"), ("True".into(), "GivingBack".into()));
    }
}

#[test]
fn while_it_is_turned_off_nothing_is_taken_over() {
    let mut seen = seen("BareMetal");
    seen.others = others();
    seen.nmstates = vec![nmstate(&[(ADOPT, "true"), (OFF, "true")])];
    let off = decided(&seen);
    assert_eq!(off.handover, None);
    assert_eq!(cluster(&off, "Disabled").1, "TurnedOff");
    assert_eq!(off.policies, None);
}

#[test]
fn errors_are_reported_and_short() {
    let mut seen = seen("BareMetal");
    seen.others = others();
    seen.nmstates = vec![nmstate(&[(ADOPT, "true")])];
    seen.record = Ok(handover::plan(HandoverRequest::TakeOver, &seen.others, None).record);
    seen.hindrance = Some("e".repeat(10_000));
    let taking = decided(&seen);
    let held = &taking.nmstates["nmstate"][1];
    let message = held.message.as_deref().unwrap();
    assert!(message.contains("; the last attempt failed: eee"), "{message}");
    assert!(message.len() < 600);
}

#[test]
fn a_record_that_cannot_be_read_is_left_to_people() {
    let mut seen = seen("BareMetal");
    seen.nmstates = vec![nmstate(&[])];
    seen.record = Record::parse(&BTreeMap::new()).map(Some);
    let broken = decided(&seen);
    assert_eq!((broken.operand, broken.handover), (Operand::Leave, None));
    let message = broken.nmstates["nmstate"][2].message.clone().unwrap();
    assert!(message.ends_with("delete the ConfigMap nmstate-operator-taken-over"), "{message}");
}

#[test]
fn a_policy_without_a_handler_reports_that_and_is_written_once() {
    let mut policy = NodeNetworkConfigurationPolicy::new("p");
    policy.metadata.generation = Some(3);
    let status = ignored(&policy, "No handlers run", now()).unwrap();
    let held = condition::find(&status.conditions, PolicyConditionType::Ignored).unwrap();
    assert_eq!(held.status, ConditionStatus::True);
    assert_eq!(held.reason.as_deref(), Some("OperandNotDeployed"));
    assert!(!condition::is_true(&status.conditions, PolicyConditionType::Available));
    assert_eq!(status.observed_generation, Some(3));
    policy.status = Some(status);
    assert_eq!(ignored(&policy, "No handlers run", Timestamp::now()), None);
    assert!(ignored(&policy, "Something else", now()).is_some());
}
