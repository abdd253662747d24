use super::*;

const NOW: i64 = 1_000_000;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn node(phase: Phase) -> NodeView {
    NodeView {
        is_ready: true,
        enactment: Some("uid".into()),
        phase,
        generation: Some(2),
        reported_at: Some(at(NOW)),
        used: None,
        is_free: true,
        refusal: None,
        is_reverted: false,
    }
}

fn nodes(list: &[(&str, NodeView)]) -> BTreeMap<String, NodeView> {
    list.iter().map(|(name, node)| ((*name).to_owned(), node.clone())).collect()
}

fn slot(node: &str, generation: i64, expires: i64) -> Slot {
    Slot { node: node.to_owned(), generation, expires: at(expires), enactment: Some("uid".into()) }
}

fn input<'a>(
    nodes: &'a BTreeMap<String, NodeView>,
    held: &'a [Slot],
    limit: usize,
) -> RolloutInput<'a> {
    RolloutInput {
        generation: 2,
        limit: MaxUnavailable::Nodes(limit),
        canary: None,
        nodes,
        leaving: const { &BTreeMap::new() },
        held,
        was_aborted: false,
        is_taken_over: false,
        has_begun: true,
        awaits_reports: false,
        is_paused: false,
        are_reverts_paused: false,
        now: at(NOW),
    }
}

fn holders(rollout: &Rollout) -> Vec<&str> {
    rollout.slots.iter().map(|slot| slot.node.as_str()).collect()
}

#[test]
fn slots_are_given_in_the_order_of_names_up_to_the_limit() {
    let nodes = nodes(&[
        ("c", node(Phase::Unknown)),
        ("a", node(Phase::Pending)),
        ("b", node(Phase::Unknown)),
    ]);
    let rollout = input(&nodes, &[], 2).decide();
    assert_eq!(holders(&rollout), ["a", "b"]);
    assert!(rollout.slots.iter().all(|slot| slot.generation == 2 && slot.expires > at(NOW)));
}

#[test]
fn a_decision_taken_again_changes_nothing() {
    let nodes = nodes(&[("a", node(Phase::Unknown)), ("b", node(Phase::Unknown))]);
    let first = input(&nodes, &[], 1).decide();
    let mut again = input(&nodes, &first.slots, 1);
    again.now = at(NOW + 5);
    assert_eq!(again.decide(), first);
}

#[test]
fn a_slot_is_free_once_its_holder_is_done() {
    let nodes = nodes(&[("a", node(Phase::Available)), ("b", node(Phase::Pending))]);
    let rollout = input(&nodes, &[slot("a", 2, NOW + 60)], 1).decide();
    assert_eq!(holders(&rollout), ["b"]);
}

#[test]
fn a_node_that_retries_keeps_its_slot() {
    let nodes = nodes(&[("a", node(Phase::Retrying)), ("b", node(Phase::Pending))]);
    let rollout = input(&nodes, &[slot("a", 2, NOW + 60)], 1).decide();
    assert_eq!(holders(&rollout), ["a"]);
    assert!(!rollout.is_aborted);
}

#[test]
fn as_many_failures_as_the_limit_stop_the_rest() {
    let two = nodes(&[
        ("a", node(Phase::Failed)),
        ("b", node(Phase::Pending)),
        ("c", node(Phase::Pending)),
    ]);
    let rollout = input(&two, &[slot("a", 2, NOW + 60)], 1).decide();
    assert!(rollout.is_aborted && rollout.slots.is_empty(), "{rollout:?}");
    let rollout = input(&two, &[slot("a", 2, NOW + 60)], 2).decide();
    assert_eq!(holders(&rollout), ["b"], "one of two slots is left");
    assert!(!rollout.is_aborted);
}

#[test]
fn a_stopped_generation_stays_stopped_when_the_failed_node_leaves() {
    let nodes = nodes(&[("b", node(Phase::Aborted)), ("c", node(Phase::Pending))]);
    let mut input = input(&nodes, &[], 1);
    input.was_aborted = true;
    let rollout = input.decide();
    assert!(rollout.is_aborted && rollout.slots.is_empty(), "{rollout:?}");
}

#[test]
fn nodes_that_left_the_cluster_hold_nothing() {
    let nodes = nodes(&[("b", node(Phase::Pending))]);
    let rollout = input(&nodes, &[slot("a", 2, NOW + 60)], 1).decide();
    assert_eq!(holders(&rollout), ["b"]);
}

#[test]
fn a_silent_holder_keeps_its_slot_and_is_named() {
    let silent = |phase| NodeView { reported_at: Some(at(NOW - 10_000)), ..node(phase) };
    for phase in [Phase::Unknown, Phase::Pending, Phase::Progressing, Phase::Retrying] {
        let nodes = nodes(&[("a", silent(phase)), ("b", node(Phase::Pending))]);
        let rollout = input(&nodes, &[slot("a", 2, NOW - 1)], 1).decide();
        assert_eq!(holders(&rollout), ["a"], "{phase:?}");
        assert_eq!(rollout.silent, ["a"]);
        assert!(!rollout.is_aborted, "it is ready, and may report at any time");
    }
}

#[test]
fn a_holder_that_reports_is_not_silent() {
    let nodes = nodes(&[("a", node(Phase::Progressing)), ("b", node(Phase::Pending))]);
    let rollout = input(&nodes, &[slot("a", 2, NOW - 1)], 1).decide();
    assert_eq!((holders(&rollout), rollout.silent.len()), (vec!["a"], 0));
}

#[test]
fn a_slot_is_kept_until_its_holder_reports_that_it_used_it() {
    let used = |seconds| NodeView { used: Some(at(seconds)), ..node(Phase::Available) };
    let unaware = nodes(&[("a", used(0)), ("b", node(Phase::Pending))]);
    let held = [slot("a", 2, NOW + 60)];
    assert_eq!(holders(&input(&unaware, &held, 1).decide()), ["a"]);
    let done = nodes(&[("a", used(NOW + 60)), ("b", node(Phase::Pending))]);
    assert_eq!(holders(&input(&done, &held, 1).decide()), ["b"]);
}

#[test]
fn a_node_that_used_its_slot_gets_one_that_differs() {
    let expires = NOW + SLOT_LIFE.as_secs();
    let drifted = NodeView { used: Some(at(expires)), ..node(Phase::Pending) };
    let nodes = nodes(&[("a", drifted)]);
    let rollout = input(&nodes, &[slot("a", 2, expires)], 1).decide();
    assert!(rollout.slots[0].expires > at(expires), "{rollout:?}");
}

#[test]
fn a_recreated_report_cannot_use_the_slot_of_the_former_one() {
    let new = NodeView { enactment: Some("other".into()), ..node(Phase::Unknown) };
    let nodes = nodes(&[("a", node(Phase::Pending)), ("b", new)]);
    let rollout = input(&nodes, &[slot("b", 2, NOW + 60)], 1).decide();
    assert_eq!(holders(&rollout), ["a"]);
}

#[test]
fn nodes_that_are_being_changed_count_while_they_leave() {
    let matching = nodes(&[("b", node(Phase::Pending))]);
    let leaving = nodes(&[("a", node(Phase::Progressing))]);
    for held in [vec![slot("a", 2, NOW + 60)], vec![]] {
        let mut input = input(&matching, &held, 1);
        input.leaving = &leaving;
        let rollout = input.decide();
        assert_eq!((&rollout.slots, rollout.unavailable), (&held, 1));
    }
}

#[test]
fn nodes_that_an_earlier_generation_changes_count_while_a_canary_goes_first() {
    let canary = Canary::Nodes(["b".parse().unwrap()].into());
    let old = NodeView { generation: Some(1), ..node(Phase::Progressing) };
    let nodes = nodes(&[("a", old), ("b", node(Phase::Pending))]);
    for held in [vec![slot("a", 1, NOW + 60)], vec![]] {
        let mut input = input(&nodes, &held, 1);
        input.canary = Some(&canary);
        let rollout = input.decide();
        assert_eq!((&rollout.slots, rollout.unavailable), (&held, 1), "it waits for the canary");
    }
}

#[test]
fn a_node_that_vanished_while_it_was_changed_stops_the_rest() {
    let lost = NodeView {
        is_ready: false,
        reported_at: Some(at(NOW - 10_000)),
        ..node(Phase::Progressing)
    };
    let nodes = nodes(&[("a", lost), ("b", node(Phase::Pending))]);
    let rollout = input(&nodes, &[slot("a", 2, NOW - 1)], 1).decide();
    assert!(rollout.is_aborted, "{rollout:?}");
}

#[test]
fn an_edit_is_applied_first_to_nodes_that_are_being_changed() {
    let old = |phase| NodeView { generation: Some(1), ..node(phase) };
    let nodes = nodes(&[
        ("a", old(Phase::Pending)),
        ("b", old(Phase::Progressing)),
        ("c", old(Phase::Failed)),
    ]);
    let held = [slot("b", 1, NOW + 60)];
    let rollout = input(&nodes, &held, 1).decide();
    assert_eq!(holders(&rollout), ["b"]);
    assert_eq!(rollout.slots[0].generation, 2);
    assert!(!rollout.is_aborted, "failures of an older generation do not count");
}

#[test]
fn nodes_that_are_not_ready_or_busy_with_earlier_policies_get_no_slot() {
    let away = NodeView { is_ready: false, ..node(Phase::Unknown) };
    let busy = NodeView { is_free: false, ..node(Phase::Unknown) };
    let nodes = nodes(&[("a", away), ("b", busy), ("c", node(Phase::Unknown))]);
    assert_eq!(holders(&input(&nodes, &[], 3).decide()), ["c"]);
}

#[test]
fn a_node_that_has_not_taken_note_of_the_generation_gets_no_slot() {
    let new = NodeView { enactment: None, generation: None, ..node(Phase::Unknown) };
    let behind = NodeView { generation: Some(1), ..node(Phase::Available) };
    let created = NodeView { generation: None, ..node(Phase::Unknown) };
    let nodes = nodes(&[("a", new), ("b", behind), ("c", created)]);
    assert_eq!(holders(&input(&nodes, &[], 3).decide()), ["c"]);
}

#[test]
fn one_canary_is_changed_alone_and_the_others_follow() {
    let canary = Canary::Count(1.try_into().unwrap());
    let fresh = nodes(&[("a", node(Phase::Unknown)), ("b", node(Phase::Unknown))]);
    let mut first = input(&fresh, &[], 2);
    first.canary = Some(&canary);
    assert_eq!(holders(&first.decide()), ["a"]);
    let done = nodes(&[("a", node(Phase::Available)), ("b", node(Phase::Unknown))]);
    let mut second = input(&done, &[], 2);
    second.canary = Some(&canary);
    assert_eq!(holders(&second.decide()), ["b"]);
}

#[test]
fn a_canary_that_fails_stops_the_rest_whatever_the_limit() {
    let canary = Canary::Count(1.try_into().unwrap());
    let nodes = nodes(&[("a", node(Phase::Failed)), ("b", node(Phase::Unknown))]);
    let mut input = input(&nodes, &[], 10);
    input.canary = Some(&canary);
    assert!(input.decide().is_aborted);
}

#[test]
fn named_canaries_go_first_and_one_that_is_missing_is_waited_for() {
    let named =
        |names: &[&str]| Canary::Nodes(names.iter().map(|name| name.parse().unwrap()).collect());
    let (there, missing) = (named(&["b"]), named(&["z"]));
    let nodes = nodes(&[("a", node(Phase::Unknown)), ("b", node(Phase::Unknown))]);
    let mut one = input(&nodes, &[], 2);
    one.canary = Some(&there);
    assert_eq!(holders(&one.decide()), ["b"]);
    let mut other = input(&nodes, &[], 2);
    other.canary = Some(&missing);
    let rollout = other.decide();
    assert!(rollout.slots.is_empty());
    assert_eq!(rollout.missing_canaries, ["z"]);
}

#[test]
fn the_limit_is_never_exceeded_whatever_the_nodes_report() {
    let phases = [
        Phase::Unknown,
        Phase::Pending,
        Phase::Progressing,
        Phase::Retrying,
        Phase::Failed,
        Phase::Available,
    ];
    // Every state of three nodes, starting without slots: nodes in progress had a slot before.
    for (i, a) in phases.into_iter().enumerate() {
        for b in &phases[i..] {
            for c in phases {
                let nodes = nodes(&[("a", node(a)), ("b", node(*b)), ("c", node(c))]);
                let under_way = nodes.values().filter(|node| node.phase.is_under_way()).count();
                let failed = nodes.values().filter(|node| node.phase == Phase::Failed).count();
                for limit in 1..=3 {
                    let rollout = input(&nodes, &[], limit).decide();
                    let most = limit.max(under_way + failed);
                    assert!(rollout.unavailable <= most, "{nodes:?} {limit} {rollout:?}");
                    assert!(rollout.slots.len() + failed <= rollout.unavailable);
                }
            }
        }
    }
}

#[test]
fn no_node_is_changed_while_the_policy_cannot_be_applied_to_one_of_them() {
    let refused = NodeView { refusal: Some("no NIC".into()), ..node(Phase::Failed) };
    let nodes = nodes(&[("a", refused), ("b", node(Phase::Pending)), ("c", node(Phase::Unknown))]);
    let mut first = input(&nodes, &[], 3);
    first.has_begun = false;
    let rollout = first.decide();
    assert_eq!(holders(&rollout), Vec::<&str>::new());
    assert_eq!(rollout.refusals, [("a".to_owned(), "no NIC".to_owned())]);
    assert!(!rollout.is_aborted && !rollout.has_begun, "it may be corrected on the node, too");
    // A limit of one does not make it final either.
    let mut strict = input(&nodes, &[], 1);
    strict.has_begun = false;
    assert!(!strict.decide().is_aborted);
    // A node that joins later stops no roll-out that has begun; it counts as failed.
    let rollout = input(&nodes, &[], 2).decide();
    assert_eq!(holders(&rollout), ["b"]);
    assert!(rollout.refusals.is_empty() && rollout.has_begun);
}

#[test]
fn the_first_slot_waits_until_every_ready_node_has_compared_the_policy() {
    let new = NodeView { enactment: None, generation: None, ..node(Phase::Unknown) };
    let behind = NodeView { generation: Some(1), ..node(Phase::Available) };
    let down = NodeView { is_ready: false, ..new.clone() };
    let waits = |list: &[(&str, NodeView)]| {
        let nodes = nodes(list);
        let mut input = input(&nodes, &[], 2);
        (input.has_begun, input.awaits_reports) = (false, true);
        let rollout = input.decide();
        assert_eq!(rollout.is_checking, rollout.slots.is_empty());
        input.awaits_reports = false;
        assert!(!input.decide().slots.is_empty(), "a handler that hangs stops no other node");
        rollout.is_checking
    };
    let follows = NodeView { generation: Some(0), ..node(Phase::Unknown) };
    let ready = ("a", node(Phase::Pending));
    assert!(waits(&[ready.clone(), ("b", follows)]));
    assert!(waits(&[ready.clone(), ("b", new)]));
    assert!(waits(&[ready.clone(), ("b", behind)]));
    assert!(!waits(&[ready.clone(), ("b", down)]));
    assert!(!waits(&[ready, ("b", node(Phase::Available))]));
}

#[test]
fn an_edit_takes_no_slot_over_before_every_node_has_compared_it() {
    let behind = NodeView { generation: Some(1), ..node(Phase::Progressing) };
    let nodes = nodes(&[("a", behind)]);
    let held = [slot("a", 1, NOW + 60)];
    let mut edited = input(&nodes, &held, 1);
    (edited.has_begun, edited.awaits_reports) = (false, true);
    let rollout = edited.decide();
    assert_eq!(rollout.slots, held, "what is under way keeps its place");
    assert!(!rollout.has_begun);
}

#[test]
fn a_paused_policy_begins_on_no_further_node() {
    let nodes = nodes(&[("a", node(Phase::Progressing)), ("b", node(Phase::Pending))]);
    let mut paused = input(&nodes, &[], 2);
    paused.is_paused = true;
    let held = [slot("a", 2, NOW + 60)];
    paused.held = &held;
    assert_eq!(holders(&paused.decide()), ["a"]);
    paused.is_paused = false;
    assert_eq!(holders(&paused.decide()), ["a", "b"]);
}

#[test]
fn a_handler_accepts_only_slots_that_are_bound_to_its_report() {
    let bound = slot("a", 2, NOW + 60);
    let own = |slot: &Slot, uid: &str, used: Option<i64>| {
        own_slot([slot], "a", 2, uid, used.map(at)).is_some()
    };
    assert!(own(&bound, "uid", None));
    assert!(own(&bound, "uid", Some(NOW)), "an earlier one was used");
    assert!(!own(&bound, "uid", Some(NOW + 60)), "it was used");
    assert!(!own(&bound, "another", None), "it was given to an earlier report");
    let unbound = Slot { enactment: None, ..bound };
    assert!(!own(&unbound, "uid", None), "a coordinator of the previous version may take it back");
}

#[test]
fn a_slot_of_the_previous_version_is_replaced_and_its_node_still_counts() {
    let nodes = nodes(&[("a", node(Phase::Pending)), ("b", node(Phase::Pending))]);
    let held = [Slot { enactment: None, ..slot("a", 2, NOW + 60) }];
    let rollout = input(&nodes, &held, 1).decide();
    assert_eq!(holders(&rollout), ["a"]);
    assert_eq!(rollout.slots[0].enactment.as_deref(), Some("uid"));
    assert!(rollout.slots[0].expires > held[0].expires, "it is another slot");
    let again = input(&nodes, &rollout.slots, 1).decide();
    assert_eq!(again.slots, rollout.slots);
}

#[test]
fn nodes_that_revert_the_policy_take_slots_within_the_same_limit() {
    let reverts = NodeView { is_reverted: true, used: Some(at(0)), ..node(Phase::Available) };
    let matching = nodes(&[("a", node(Phase::Pending)), ("b", node(Phase::Pending))]);
    let leaving = nodes(&[("x", reverts.clone()), ("y", reverts)]);
    let decide = |held: &[Slot], limit| {
        let rollout = RolloutInput { leaving: &leaving, ..input(&matching, held, limit) }.decide();
        rollout.slots
    };
    let names = |slots: &[Slot]| slots.iter().map(|it| it.node.clone()).collect::<Vec<_>>();
    assert_eq!(names(&decide(&[], 1)), ["a"]);
    assert_eq!(names(&decide(&[], 3)), ["a", "b", "x"]);
    let held = decide(&[], 3);
    assert_eq!(decide(&held, 3), held, "a decision taken again changes nothing");
    // A node that failed is not being changed.
    let failed = nodes(&[("a", node(Phase::Failed))]);
    let mut input = RolloutInput { leaving: &leaving, ..input(&failed, &[], 1) };
    assert_eq!(names(&input.decide().slots), ["x"]);
    input.are_reverts_paused = true;
    assert_eq!(names(&input.decide().slots), [""; 0]);
}
