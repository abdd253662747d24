//! Handlers on real nodes, with a coordinator, at a real API server across a network.
//!
//! Each case is a test of its own, which runs in any order and alone. Starting a server and two
//! nodes takes longer than most cases, so tests take them from a [`pool`] and return them in their
//! initial state.

mod annotations;
mod basics;
mod bench;
mod canary;
mod checks;
mod cluster;
mod drift;
mod examples;
mod machines;
mod membership;
mod node_values;
mod object;
mod odd_input;
mod outages;
mod persistence;
mod pool;
mod probes;
mod several;
mod storage_networks;
mod wishes;

/// Generates a test for each case, and a list of their names.
macro_rules! shared_tests {
    ($pool:path, $setting:expr; $($name:ident => $case:path,)*) => {
        pub(super) const NAMES: &[&str] = &[$(concat!(module_path!(), "::", stringify!($name))),*];
        $(
            #[test]
            fn $name() {
                $pool.run($setting, $case);
            }
        )*
    };
}

use bench::Bench;
use pool::Pool;

/// Nodes in namespaces.
static NODES: Pool<Bench> = Pool::new(|| [nodes::NAMES, nodes_without_patience::NAMES].concat());
/// Machines with their own kernel.
static MACHINES: Pool<storage_networks::bench::Bench> =
    Pool::new(|| [machines_with_patience::NAMES, machines_without_patience::NAMES].concat());

/// Changes that are expected to succeed, by handlers with a long timeout.
mod nodes {
    use crate::rollout::bench::Deadline;
    use crate::rollout::{
        annotations, basics, canary, checks, drift, membership, node_values, odd_input, outages,
        persistence, several,
    };

    shared_tests! { crate::rollout::NODES, Deadline::Usual;
        nothing_is_applied_before_the_cluster_was_installed_once => basics::not_before_installed,
        a_policy_is_applied_to_all_nodes_as_many_at_a_time_as_it_allows => basics::one_after_the_other,
        the_canary_is_changed_first_and_the_others_follow => canary::goes_first,
        a_canary_that_does_not_exist_is_waited_for_and_the_wait_is_reported => canary::never_comes,
        a_policy_that_one_node_refuses_changes_no_node => checks::one_node_refuses,
        a_paused_policy_changes_no_node => checks::paused,
        warnings_are_reported_with_node_and_path_before_anything_changes => checks::warns,
        one_policy_gives_each_node_its_own_address => node_values::one_address_each,
        a_policy_is_reverted_on_one_node_and_applied_again => node_values::reverted_on_one_node,
        drift_is_reported_and_left_or_corrected => drift::reported_and_corrected,
        a_revert_can_be_requested_in_time_only_and_be_given_up => annotations::ways_back,
        labels_of_nodes_select_policies_immediately => membership::labels_choose,
        a_report_is_removed_although_its_handler_was_down_when_the_policy_was_deleted => membership::deleted_meanwhile,
        captures_move_the_address_of_a_node_to_a_bridge_and_back => several::captures,
        policies_that_cannot_be_applied_do_not_hinder_others => odd_input::does_not_hinder_others,
        a_report_that_is_deleted_or_damaged_is_written_again => odd_input::reports_come_back,
        edits_of_two_writers_end_with_the_last_one => several::two_writers,
        a_change_that_would_remove_br_ex_is_rejected_before_anything_changes => basics::br_ex_is_guarded,
        a_policy_with_revert_on_delete_is_reverted_when_it_is_deleted => basics::reverted_on_delete,
        a_deleted_policy_is_reverted_with_slots_and_not_delayed_by_a_node_that_is_down => basics::reverted_with_slots,
        the_checkpoint_of_another_program_is_waited_for_and_not_touched => outages::foreign_checkpoint,
        a_handler_outlives_networkmanager => outages::network_manager_restarts,
        a_networkmanager_that_hangs_is_noticed => outages::network_manager_hangs,
        a_handler_that_restarts_changes_nothing_that_is_as_desired => basics::restart_is_silent,
        policies_about_the_same_part_are_applied_in_the_order_of_their_names => several::overlap,
        a_second_handler_on_a_node_waits_for_the_first => outages::second_handler,
        a_handler_that_is_killed_during_a_change_leaves_nothing_behind => basics::killed_in_the_middle,
        an_edit_supersedes_a_change_in_progress => basics::edit_supersedes,
        changes_continue_when_the_api_server_restarts => outages::api_restarts,
        a_node_that_is_lost_during_a_change_holds_up_no_other_and_may_return => membership::node_is_lost,
        another_coordinator_continues_where_the_first_one_ended => outages::coordinator_is_killed,
        a_bad_change_is_rolled_back_although_networkmanager_restarts_during_it
            => persistence::manager_restarts_in_a_bad_change,
        a_change_is_rolled_back_after_a_power_loss_unless_it_was_confirmed => persistence::power_loss_in_a_change,
        a_change_in_memory_only_is_gone_after_a_reboot => persistence::memory_only,
    }
}

/// Changes that are expected to be rolled back, by handlers with a short timeout.
mod nodes_without_patience {
    use crate::rollout::bench::Deadline;
    use crate::rollout::{annotations, basics, canary, probes};

    shared_tests! { crate::rollout::NODES, Deadline::Short;
        a_policy_that_cuts_the_node_off_is_rolled_back_and_stops_the_others => basics::taken_back,
        a_named_canary_that_fails_leaves_the_others_untouched => canary::fails,
        the_requested_probes_decide => probes::decide,
        an_address_that_must_respond_to_a_ping_decides => probes::ping_target,
        annotations_take_effect_when_they_are_changed => annotations::take_effect,
        a_policy_that_failed_is_retried_on_request => probes::retried_on_request,
        a_node_that_loses_the_api_rolls_the_change_back_by_itself => basics::api_is_lost,
        a_node_that_is_not_ready_after_a_change_gets_its_former_network => probes::readiness,
    }
}

/// The kinds of policies that users of kubernetes-nmstate have, on a real kernel.
mod machines_with_patience {
    use crate::rollout::storage_networks::PATIENT;
    use crate::rollout::{examples, storage_networks};

    shared_tests! { crate::rollout::MACHINES, PATIENT;
        a_nic_gets_its_address_by_dhcp_on_selected_nodes => examples::dhcp_on_selected_nodes,
        a_static_address_and_routes_are_set_also_in_another_table => examples::static_address_and_routes,
        packets_are_forwarded_on_one_interface => examples::forwarding,
        a_vlan_has_a_static_address => examples::vlan,
        a_bond_with_a_vlan_is_created_and_removed => examples::bond_and_vlan,
        a_bridge_without_ports_does_not_filter_vlans => examples::bridge_without_ports,
        ports_of_a_bridge_get_the_vlans_of_their_policy => examples::bridge_vlans,
        a_port_leaves_its_bridge_and_gets_an_address => examples::detached_port,
        two_bridges_have_a_port_each => examples::two_bridges,
        an_open_vswitch_bridge_has_ports_and_an_address => examples::open_vswitch,
        an_open_vswitch_bridge_has_a_bond_of_its_own_and_one_of_the_kernel => examples::open_vswitch_bonds,
        the_address_of_the_uplink_moves_to_an_open_vswitch_bridge_and_back => examples::uplink_on_open_vswitch,
        a_vrf_and_its_route_survive_a_reboot => examples::vrf,
        name_servers_are_set_without_an_interface_and_removed => examples::dns,
        lldp_is_enabled_on_captured_interfaces_and_neighbours_are_reported => examples::lldp,
        two_policies_configure_two_nics => examples::two_policies,
        a_policy_for_a_nic_that_does_not_exist_fails => examples::missing_nic,
        the_policy_of_the_page_creates_a_bond_with_a_vlan_for_jumbo_frames => storage_networks::bond_and_vlan,
        a_bond_becomes_one_that_the_switch_negotiates => storage_networks::lacp,
        a_bridge_on_a_bond_filters_vlans => storage_networks::bridge,
        an_mtu_that_does_not_fit_is_rejected_and_nothing_changes => storage_networks::mtu_too_large,
        what_is_in_memory_only_is_gone_after_a_restart_and_all_else_is_there => storage_networks::restart,
        the_address_of_the_uplink_moves_to_a_bond_and_back => storage_networks::address_moves,
        a_vlan_that_must_be_absent_is_removed_and_its_bond_stays => storage_networks::vlan_absent,
    }
}

/// The same for changes that are expected to be rolled back.
mod machines_without_patience {
    use crate::rollout::storage_networks::IMPATIENT;
    use crate::rollout::{examples, storage_networks};

    shared_tests! { crate::rollout::MACHINES, IMPATIENT;
        a_default_route_to_a_gateway_that_does_not_respond_is_rolled_back => examples::bad_gateway,
        an_open_vswitch_bridge_with_a_wrong_address_of_the_uplink_is_rolled_back => examples::bad_open_vswitch,
        a_bond_that_takes_the_uplink_without_its_address_is_rolled_back => storage_networks::cut_off,
    }
}
