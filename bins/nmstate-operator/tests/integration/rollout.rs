//! Handlers on real nodes, with a coordinator, at a real API server across a wire.
//!
//! One server and two nodes serve all cases, which run one after the other: starting them takes
//! longer than most cases.

mod annotations;
mod basics;
mod bench;
mod canary;
mod checks;
mod cluster;
mod drift;
mod machines;
mod membership;
mod node_values;
mod object;
mod odd_input;
mod outages;
mod persistence;
mod probes;
mod several;
mod storage_networks;
mod wishes;

use bench::Bench;

type Case = (&'static str, fn(&mut Bench));

/// In this order. Those that start handlers again come late: a wait that lasts is told by a handler
/// that lasts. Changes that are to be rolled back come together, so that only they are hurried.
const CASES: &[Case] = &[
    ("nothing is applied before the cluster was installed once", basics::not_before_installed),
    ("a canary that never comes is waited for", canary::never_comes),
    ("a policy comes to all nodes, as many at a time as it says", basics::one_after_the_other),
    ("the canary goes first, and the others follow", canary::goes_first),
    ("a policy that one node refuses changes no node", checks::one_node_refuses),
    ("a paused policy changes no node", checks::paused),
    ("one policy gives each node its own address", node_values::one_address_each),
    ("a policy is reverted on one node and applied again", node_values::reverted_on_one_node),
    ("drift is reported and left, or put right", drift::reported_and_corrected),
    ("a way back can be asked for in time only, and be given up", annotations::ways_back),
    ("labels of nodes choose policies at once", membership::labels_choose),
    ("captures move the address of a node to a bridge, and back", several::captures),
    ("policies that nobody can act on hinder no others", odd_input::hinders_nobody),
    ("a report that is deleted or spoilt is written again", odd_input::reports_come_back),
    ("edits of two writers end with the last one", several::two_writers),
    (
        "what would take br-ex from a node is refused before anything is touched",
        basics::br_ex_is_guarded,
    ),
    ("a policy with revert-on-delete is reverted when it is deleted", basics::reverted_on_delete),
    ("who waits for long says so", canary::wait_is_told),
    ("(handlers become impatient)", Bench::be_impatient),
    ("a policy that cuts the node off is rolled back and stops the others", basics::taken_back),
    ("a canary that fails, by name, leaves the others untouched", canary::fails),
    ("probes that were asked for decide", probes::decide),
    ("annotations take effect when they are changed", annotations::take_effect),
    ("a policy that failed is tried again on request", probes::retried_on_request),
    ("a node that loses the API takes the change back by itself", basics::api_is_lost),
    ("a node that is not ready after a change gets its network back", probes::readiness),
    ("(handlers become patient)", Bench::be_patient),
    ("another program's checkpoint is waited for and not touched", outages::foreign_checkpoint),
    ("a handler outlives NetworkManager", outages::network_manager_restarts),
    ("a NetworkManager that hangs is noticed", outages::network_manager_hangs),
    (
        "a handler that starts again does nothing about what is as it should be",
        basics::restart_is_silent,
    ),
    ("policies about the same part come in the order of their names", several::overlap),
    ("a second handler on a node waits for the first", outages::second_handler),
    ("a handler that is killed in the middle leaves nothing behind", basics::killed_in_the_middle),
    ("an edit supersedes what is under way", basics::edit_supersedes),
    ("changes go on when the API server comes back", outages::api_restarts),
    (
        "a node that is lost in the middle holds up nobody, and may come back",
        membership::node_is_lost,
    ),
    ("another coordinator goes on where the first one ended", outages::coordinator_is_killed),
    (
        "NetworkManager restarts in the middle of a bad change",
        persistence::manager_restarts_in_a_bad_change,
    ),
    ("the power fails in the middle of a change", persistence::power_loss_in_a_change),
    ("what is not to last is gone after a reboot", persistence::memory_only),
];

/// Parts of names, separated by `|`: only these cases are run, for work on one of them.
const CHOICE: &str = "NODE_CASES";

fn chosen(choice: Option<&str>) -> Vec<&'static Case> {
    let Some(choice) = choice else { return CASES.iter().collect() };
    let is_chosen = |name: &str| choice.split('|').any(|part| name.contains(part));
    let chosen: Vec<&Case> = CASES.iter().filter(|(name, _)| is_chosen(name)).collect();
    assert!(!chosen.is_empty(), "{CHOICE} chooses no case");
    eprintln!("{CHOICE}: {} of {} cases are run", chosen.len(), CASES.len());
    chosen
}

#[test]
fn policies_roll_out_on_real_nodes() {
    let chosen = chosen(std::env::var(CHOICE).ok().as_deref());
    let mut bench = Bench::start();
    for (name, case) in chosen {
        let began = std::time::Instant::now();
        case(&mut bench);
        bench.delete_policies();
        eprintln!("{name}: {:.1} s", began.elapsed().as_secs_f32());
    }
}
