//! Runs the program against registries, disks and API servers.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot continue")]

mod command_line;
mod delete_images;
mod delete_interrupted;
mod delete_operators;
mod delete_releases;
mod documents;
mod fault_archives;
mod fault_charts;
mod fault_connections;
mod fault_credentials;
mod fault_destination;
mod fault_disk;
mod fault_interrupted;
mod fault_isolation;
mod fault_network;
mod fault_operators;
mod fault_release_signatures;
mod fault_releases;
mod fault_requests;
mod fault_table;
mod fault_uploads;
mod journey_across_the_gap;
mod journey_charts;
mod journey_cluster_resources;
mod journey_dry_run;
mod journey_incremental;
mod journey_inventory;
mod journey_list;
mod journey_maintenance;
mod journey_mirror_to_mirror;
mod journey_names;
mod journey_operators;
mod journey_platforms;
mod journey_policy;
mod journey_release_resources;
mod journey_releases;
mod journey_signatures;
mod journey_status;
mod journey_transfer_times;
mod journey_upgrade_path;
mod journey_workspace;
mod known_texts;
mod prune;
mod support;
