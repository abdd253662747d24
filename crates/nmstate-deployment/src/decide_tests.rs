//! Tables of what is decided.

use k8s_openapi::Metadata as _;
use nmstate_api::annotations::{ADOPT, OFF};
use serde_json::json;

use super::*;

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
        other: Other::None,
        rollout: Rollout::default(),
        cluster_operator: ClusterOperatorStatus::default(),
        tls: TlsProfile::default(),
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
    }
}

#[test]
fn a_tls_profile_that_cannot_be_honoured_is_said_and_takes_nothing_else_away() {
    let mut seen = seen("BareMetal");
    seen.nmstates = vec![nmstate(&[])];
    seen.tls = TlsProfile { settings: None, not_honoured: Some("no".into()) };
    seen.rollout = complete(&seen);
    let decision = decided(&seen);
    let conditions = &decision.nmstates["nmstate"];
    let told: Vec<_> = conditions
        .iter()
        .map(|it| (it.type_.as_str(), it.status, it.reason.as_deref().unwrap_or_default()))
        .collect();
    let done = "SuccessfullyDeployed";
    assert_eq!(
        told,
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
fn on_other_platforms_nothing_is_done_until_somebody_asks() {
    for platform in ["None", "AWS", "", "Nutanix"] {
        let off = decided(&seen(platform));
        assert!(!off.make_default, "{platform}");
        assert_eq!(cluster(&off, "Disabled"), ("True".into(), "UnsupportedPlatform".into()));
        assert_eq!(cluster(&off, "Available").0, "True");
        let mut asked = seen(platform);
        asked.nmstates = vec![nmstate(&[])];
        assert!(matches!(decided(&asked).operand, Operand::Deploy(_)), "{platform}");
    }
}

#[test]
fn an_annotation_turns_it_off_and_policies_are_told() {
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

    // All but one handler are away, with their nodes.
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

#[test]
fn another_operator_of_this_api_is_left_alone() {
    let mut seen = seen("BareMetal");
    seen.other = Other::Running { who: "openshift-nmstate/nmstate-operator".into() };
    assert!(!decided(&seen).make_default);
    for annotations in [&[][..], &[(ADOPT, "true")]] {
        seen.nmstates = vec![nmstate(annotations)];
        let aside = decided(&seen);
        assert_eq!(aside.operand, Operand::Remove);
        assert_eq!(cluster(&aside, "Disabled").1, "OtherOperatorPresent");
        // The status of policies is the other one's.
        assert_eq!(aside.policies, None);
    }
}

#[test]
fn what_another_operator_left_is_taken_over_only_on_request() {
    let left = Leftover {
        kind: LeftoverKind::DaemonSet,
        namespace: "openshift-nmstate".into(),
        name: "nmstate-handler".into(),
    };
    let mut seen = seen("BareMetal");
    seen.other = Other::Leftovers(vec![left.clone()]);
    seen.nmstates = vec![nmstate(&[])];
    let waiting = decided(&seen);
    assert_eq!((waiting.operand, waiting.leftovers), (Operand::Remove, vec![]));
    seen.nmstates = vec![nmstate(&[(ADOPT, "true")])];
    let taking = decided(&seen);
    assert!(matches!(taking.operand, Operand::Deploy(_)));
    assert_eq!(taking.leftovers, [left]);
}

#[test]
fn a_policy_that_nobody_acts_on_says_so_and_is_written_once() {
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
