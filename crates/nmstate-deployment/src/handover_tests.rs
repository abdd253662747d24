//! Tables of which operator serves the cluster, and a complete take-over with a simulated cluster.

use serde_json::{Value, json};

use super::*;
use crate::leftovers::{Stage, kind};

fn subscription() -> Value {
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "Subscription",
        "metadata": { "name": "knmstate", "namespace": "openshift-nmstate", "uid": "1" },
        "spec": { "name": PACKAGE, "channel": "stable" },
    })
}

fn version() -> Value {
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {
            "name": "kubernetes-nmstate-operator.v4", "namespace": "openshift-nmstate", "uid": "2",
        },
        "spec": { "displayName": "x" },
    })
}

fn addons() -> Value {
    json!({
        "apiVersion": "networkaddonsoperator.network.kubevirt.io/v1",
        "kind": "NetworkAddonsConfig",
        "metadata": { "name": "cluster", "uid": "3" },
        "spec": { "multus": {}, "nmstate": {} },
    })
}

fn leftover(name: &str) -> Leftover {
    Leftover {
        kind: kind(name).unwrap(),
        namespace: "openshift-nmstate".into(),
        name: "nmstate-handler".into(),
        uid: "u".into(),
        is_going: false,
    }
}

/// A cluster as far as this is concerned, with OLM and the network add-ons in it.
#[derive(Clone)]
struct Cluster {
    objects: Vec<Value>,
    is_running: bool,
    leftovers: Vec<Leftover>,
    record: Option<Record>,
    ours: bool,
}

impl Cluster {
    fn with(objects: &[Value]) -> Self {
        let leftovers = vec![leftover("DaemonSet"), leftover("ClusterRole")];
        Self { objects: objects.to_vec(), is_running: true, leftovers, record: None, ours: false }
    }

    fn others(&self) -> Others {
        let mut installers: Vec<Installer> =
            self.objects.iter().filter_map(Installer::of).collect();
        installers.sort_by_key(|installer| installer.kind);
        Others {
            running: self.is_running.then(|| "the operator o".to_owned()).into_iter().collect(),
            installers,
            has_network_addons: true,
            leftovers: self.leftovers.clone(),
            namespaces: ["openshift-nmstate".to_owned()].into(),
        }
    }

    /// Performs the plan, but stops after so many steps, as if killed there.
    fn perform(&mut self, plan: &Plan, steps: usize) {
        let mut left = steps;
        let mut may = || {
            left = left.saturating_sub(1);
            left > 0
        };
        // As the server returns it.
        let record = plan.record.as_ref().map(|record| Record::parse(&record.data()).unwrap());
        assert_eq!(record, plan.record, "what was written is not written again");
        if record.is_some() && record != self.record {
            if !may() {
                return;
            }
            self.record = record;
        }
        for gone in &plan.dismiss {
            if !may() {
                return;
            }
            assert!(self.record.is_some(), "written down before anything is removed");
            self.objects.retain_mut(|object| {
                let is_it = Installer::of(object).is_some_and(|it| it.is_same(gone));
                if is_it && gone.kind == InstallerKind::NetworkAddons {
                    object["spec"]["nmstate"] = Value::Null;
                    return true;
                }
                !is_it
            });
        }
        for gone in &plan.clear {
            if !may() {
                return;
            }
            self.leftovers.retain(|left| left != gone);
        }
        self.ours = matches!(plan.state, HandoverState::Ours { .. });
        for back in &plan.give_back {
            if !may() {
                return;
            }
            self.objects.retain(|object| object["kind"] != back.copy["kind"]);
            self.objects.push(back.copy.clone());
        }
        if plan.record.is_none() && may() {
            self.record = None;
        }
    }

    /// What OLM and the add-ons do by themselves.
    fn others_act(&mut self) {
        let installers = self.others().installers;
        let wants = |kind| installers.iter().any(|it: &Installer| it.kind == kind);
        if wants(InstallerKind::Subscription) && !wants(InstallerKind::ServiceVersion) {
            self.objects.push(version());
        }
        self.is_running = !self.others().installers.is_empty();
        if self.is_running && self.leftovers.is_empty() {
            self.leftovers = vec![leftover("DaemonSet"), leftover("ClusterRole")];
        }
    }

    /// Decides repeatedly, each time killed after so many steps, until nothing changes.
    fn settle(&mut self, request: HandoverRequest, steps: usize) -> HandoverState {
        for _ in 0..50 {
            let plan = plan(request, &self.others(), self.record.as_ref());
            self.perform(&plan, steps);
            self.others_act();
        }
        plan(request, &self.others(), self.record.as_ref()).state
    }
}

#[test]
fn without_a_request_the_present_operator_stays() {
    let mut cluster = Cluster::with(&[subscription()]);
    let theirs = cluster.settle(HandoverRequest::Leave, 99);
    let HandoverState::Theirs { message } = theirs else { panic!("{theirs:?}") };
    assert_eq!(
        message,
        "The operator o serves this API in this cluster; to take over, run \
         `nmstate-operator take-over`"
    );
    assert!(cluster.record.is_none() && !cluster.ours && cluster.leftovers.len() == 2);
}

#[test]
fn a_take_over_and_the_way_back_end_well_wherever_they_are_interrupted() {
    for objects in [
        vec![subscription(), version()],
        vec![addons()],
        vec![version()],
        vec![subscription(), version(), addons()],
    ] {
        let before: Vec<Value> =
            objects.iter().filter_map(Installer::of).map(|it| it.copy).collect();
        for steps in [2, 3, 4, 99] {
            let mut cluster = Cluster::with(&objects);
            let ours = cluster.settle(HandoverRequest::TakeOver, steps);
            assert_eq!(ours, HandoverState::Ours { remark: None }, "{steps} steps: {objects:?}");
            assert!(cluster.ours && cluster.leftovers.is_empty());
            assert!(cluster.others().installers.is_empty());
            assert_eq!(cluster.record.as_ref().unwrap().phase, Phase::Done);

            let theirs = cluster.settle(HandoverRequest::Leave, steps);
            assert!(matches!(theirs, HandoverState::Theirs { .. }), "{theirs:?}");
            assert!(!cluster.ours && cluster.record.is_none());
            let mut after: Vec<Value> =
                cluster.others().installers.into_iter().map(|it| it.copy).collect();
            after.sort_by_key(|copy| before.iter().position(|held| held == copy));
            assert_eq!(after, before, "{steps} steps");
        }
    }
}

#[test]
fn network_add_ons_that_come_later_are_named_with_the_field_to_remove() {
    let running = vec!["the DaemonSet n/nmstate-handler of the NetworkAddonsConfig cluster".into()];
    let others = Others { running, ..Others::default() };
    let HandoverState::Theirs { message } = state(HandoverRequest::Leave, &others, None) else {
        panic!()
    };
    assert!(message.ends_with("remove the field spec.nmstate of the NetworkAddonsConfig"));
    // After a take-over, too.
    let record = Record { phase: Phase::Done, namespaces: BTreeSet::new(), installers: Vec::new() };
    let back = state(HandoverRequest::TakeOver, &others, Some(&record));
    let HandoverState::Theirs { message } = back else { panic!("{back:?}") };
    assert!(message.contains("remove the field spec.nmstate of the NetworkAddonsConfig, or run"));
}

/// The state that the operator derives at each step, from what runs only.
#[test]
fn the_operator_deploys_only_once_the_other_one_is_gone() {
    let mut cluster = Cluster::with(&[subscription(), version()]);
    let at = |cluster: &Cluster, request| {
        let others = Others { installers: vec![], ..cluster.others() };
        state(request, &others, cluster.record.as_ref())
    };
    assert!(matches!(at(&cluster, HandoverRequest::Leave), HandoverState::Theirs { .. }));
    assert!(
        matches!(at(&cluster, HandoverRequest::TakeOver), HandoverState::Theirs { .. }),
        "not begun"
    );
    let first = plan(HandoverRequest::TakeOver, &cluster.others(), None);
    cluster.perform(&first, 99);
    let HandoverState::TakingOver { message } = at(&cluster, HandoverRequest::TakeOver) else {
        panic!()
    };
    assert!(message.contains("waiting for the operator o to end"), "{message}");
    // Its operator ended; its leftovers are removed while ours is deployed.
    cluster.others_act();
    cluster.leftovers[0].is_going = true;
    let cleared = plan(HandoverRequest::TakeOver, &cluster.others(), cluster.record.as_ref());
    cluster.record = cleared.record;
    let HandoverState::Ours { remark: Some(_) } = at(&cluster, HandoverRequest::TakeOver) else {
        panic!()
    };
    cluster.leftovers[0].is_going = false;
    cluster.settle(HandoverRequest::TakeOver, 99);
    assert_eq!(at(&cluster, HandoverRequest::TakeOver), HandoverState::Ours { remark: None });
    assert!(matches!(at(&cluster, HandoverRequest::Leave), HandoverState::GivingBack { .. }));
    cluster.settle(HandoverRequest::Leave, 99);
    assert!(matches!(at(&cluster, HandoverRequest::Leave), HandoverState::Theirs { .. }));
}

#[test]
fn a_change_of_mind_in_the_middle_is_followed() {
    for steps in 1..6 {
        let mut cluster = Cluster::with(&[subscription(), version()]);
        // A part of the take-over, and the give-back.
        let first = plan(HandoverRequest::TakeOver, &cluster.others(), None);
        cluster.perform(&first, steps);
        cluster.others_act();
        assert!(matches!(cluster.settle(HandoverRequest::Leave, 99), HandoverState::Theirs { .. }));
        assert!(cluster.record.is_none() && cluster.is_running);
        // A take-over, a part of the give-back, and a take-over again.
        cluster.settle(HandoverRequest::TakeOver, 99);
        let back = plan(HandoverRequest::Leave, &cluster.others(), cluster.record.as_ref());
        cluster.perform(&back, steps);
        cluster.others_act();
        let ours = cluster.settle(HandoverRequest::TakeOver, 99);
        assert_eq!(ours, HandoverState::Ours { remark: None }, "{steps} steps");
    }
}

#[test]
fn what_others_installed_again_is_not_removed() {
    let mut cluster = Cluster::with(&[subscription(), version()]);
    cluster.settle(HandoverRequest::TakeOver, 99);
    cluster.objects = vec![subscription(), version()];
    cluster.others_act();
    let state = cluster.settle(HandoverRequest::TakeOver, 99);
    let HandoverState::Theirs { message } = state else { panic!("{state:?}") };
    assert!(message.starts_with("The operator o is back after"), "{message}");
    assert!(!cluster.ours && cluster.is_running);
    // Its removal is enough to continue.
    cluster.objects.clear();
    cluster.is_running = false;
    assert_eq!(cluster.settle(HandoverRequest::TakeOver, 99), HandoverState::Ours { remark: None });
}

#[test]
fn what_is_restored_at_once_is_reported_and_not_removed_repeatedly() {
    let mut config = addons();
    config["metadata"]["ownerReferences"] =
        json!([{ "kind": "HyperConverged", "name": "kubevirt-hyperconverged" }]);
    let mut cluster = Cluster::with(&[config.clone()]);
    let first = plan(HandoverRequest::TakeOver, &cluster.others(), None);
    assert!(!first.is_repeated);
    cluster.perform(&first, 99);
    cluster.objects = vec![config];
    let again = plan(HandoverRequest::TakeOver, &cluster.others(), cluster.record.as_ref());
    assert!(again.is_repeated && again.dismiss.len() == 1);
    let HandoverState::TakingOver { message } = again.state else { panic!("{again:?}") };
    let hint = "; HyperConverged kubevirt-hyperconverged may put it back: then remove it there";
    assert!(message.ends_with(hint), "{message}");
}

#[test]
fn what_cannot_be_installed_again_is_not_removed() {
    let mut cluster = Cluster::with(&[]);
    let plan = plan(HandoverRequest::TakeOver, &cluster.others(), None);
    let HandoverState::Theirs { message } = &plan.state else { panic!("{plan:?}") };
    assert!(message.contains("neither by a Subscription nor by the network add-ons"), "{message}");
    assert!(plan.record.is_none() && plan.clear.is_empty());
    // Once it is removed by hand, the take-over continues, and there is nothing to give back.
    cluster.is_running = false;
    assert_eq!(cluster.settle(HandoverRequest::TakeOver, 99), HandoverState::Ours { remark: None });
    assert_eq!(cluster.settle(HandoverRequest::Leave, 99), HandoverState::Ours { remark: None });
    assert!(cluster.record.is_none());
}

#[test]
fn leftovers_are_taken_away_only_on_request() {
    let mut cluster = Cluster::with(&[]);
    cluster.is_running = false;
    let state = cluster.settle(HandoverRequest::Leave, 99);
    let HandoverState::Theirs { message } = state else { panic!("{state:?}") };
    assert!(
        message.starts_with(
            "kubernetes-nmstate left 2 objects behind, such as DaemonSet \
             openshift-nmstate/nmstate-handler"
        ),
        "{message}"
    );
    assert_eq!(cluster.leftovers.len(), 2);
}

#[test]
fn handlers_that_are_ending_keep_their_rights_and_do_not_hold_ours_up() {
    let mut cluster = Cluster::with(&[]);
    cluster.is_running = false;
    cluster.leftovers[0].is_going = true;
    let plan = plan(HandoverRequest::TakeOver, &cluster.others(), None);
    let HandoverState::Ours { remark: Some(remark) } = &plan.state else { panic!("{plan:?}") };
    assert!(remark.contains("DaemonSet openshift-nmstate/nmstate-handler"), "{remark}");
    assert!(plan.clear.iter().all(|left| left.kind.stage != Stage::Rest));
}

#[test]
fn removed_add_ons_are_not_restored() {
    let mut cluster = Cluster::with(&[addons()]);
    cluster.settle(HandoverRequest::TakeOver, 99);
    let others = Others { has_network_addons: false, ..Others::default() };
    let plan = plan(HandoverRequest::Leave, &others, cluster.record.as_ref());
    assert_eq!(plan, Plan::new(HandoverState::Ours { remark: None }, None));
}

#[test]
fn every_message_of_both_directions_is_reported() {
    let mut cluster = Cluster::with(&[subscription(), version()]);
    let mut states = Vec::new();
    let mut record_state = |request, cluster: &mut Cluster| {
        let plan = plan(request, &cluster.others(), cluster.record.as_ref());
        cluster.perform(&plan, 99);
        states.push(match plan.state {
            HandoverState::TakingOver { message } | HandoverState::GivingBack { message } => {
                message
            }
            other => format!("{other:?}"),
        });
    };
    record_state(HandoverRequest::TakeOver, &mut cluster);
    record_state(HandoverRequest::TakeOver, &mut cluster);
    cluster.is_running = false;
    cluster.leftovers.clear();
    record_state(HandoverRequest::TakeOver, &mut cluster);
    record_state(HandoverRequest::Leave, &mut cluster);
    record_state(HandoverRequest::Leave, &mut cluster);
    assert_eq!(
        states,
        [
            "Taking over from kubernetes-nmstate: removing the Subscription \
             openshift-nmstate/knmstate and the ClusterServiceVersion \
             openshift-nmstate/kubernetes-nmstate-operator.v4",
            "Taking over from kubernetes-nmstate: waiting for the operator o to end",
            "Ours { remark: None }",
            "Giving the cluster back to kubernetes-nmstate: restoring the Subscription \
             openshift-nmstate/knmstate",
            "Giving the cluster back to kubernetes-nmstate: waiting for what the Subscription \
             openshift-nmstate/knmstate installs",
        ]
    );
}
