//! `oc-brex status`: br-ex of every node of a cluster, one line each.

mod rows;

use anyhow::Result;
use clap::{Args, ValueEnum};
use command_line::{Ending, print, print_message};
use serde::Serialize;

use crate::cluster::ClusterArguments;
pub(crate) use rows::{Attention, Row, rows};

const NOTES: &str = "\
Columns:
  DOCUMENT    the document in the MachineConfigs of the node's pool that the node selects
  FIRST-BOOT  how br-ex was configured, as brex-report wrote it to the Node
  MARKER      whether br-ex was configured from this document
  POLICY      the NodeNetworkConfigurationPolicy for br-ex, and its state on the node
  DRIFT       whether the network of the node differs from the document
Exit code: 0 no node needs attention; 1 a node does; 2 the cluster could not be read.

The necessary rights are in examples/brex-cluster-reader.yaml. Nothing is changed.";

#[derive(Debug, Args)]
#[command(after_help = NOTES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    cluster: ClusterArguments,
    /// How the result is written: text, wide (with hashes, reasons and messages) or json
    #[arg(short, long, value_name = "FORMAT", default_value = "text", hide_possible_values = true)]
    output: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Wide,
    Json,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    version: u32,
    nodes: &'a [Row],
    /// What could not be read.
    notes: &'a [String],
}

pub(crate) fn status(arguments: &Arguments) -> Result<Ending> {
    let objects = arguments.cluster.read()?;
    let rows = rows(&objects);
    if rows.is_empty() {
        print_message("note: the cluster has no nodes");
    }
    match arguments.output {
        Format::Text => print(text(&rows))?,
        Format::Wide => print(wide(&rows))?,
        Format::Json => {
            let document = Document { version: 1, nodes: &rows, notes: &objects.notes };
            print(format!("{}\n", serde_json::to_string_pretty(&document)?))?;
        }
    }
    let needs_attention = rows.iter().any(|row| row.attention == Attention::Required);
    Ok(if needs_attention { Ending::Findings } else { Ending::Good })
}

fn text(rows: &[Row]) -> String {
    let head = ["NODE", "ROLE", "DOCUMENT", "FIRST-BOOT", "MARKER", "POLICY", "DRIFT", "NEXT STEP"];
    let line = |row: &Row| {
        [
            row.node.clone(),
            row.role.clone().unwrap_or_else(none),
            row.document.clone().unwrap_or_else(none),
            row.first_boot.clone(),
            row.marker.to_string(),
            row.policy_text(),
            row.drift.to_string(),
            row.next_step.clone().unwrap_or_else(none),
        ]
    };
    drawing::columns(head, &rows.iter().map(line).collect::<Vec<_>>())
}

fn wide(rows: &[Row]) -> String {
    let head = [
        "NODE",
        "ROLE",
        "READY",
        "DOCUMENT",
        "SHA256",
        "FIRST-BOOT",
        "MARKER",
        "POLICY",
        "DRIFT",
        "NEXT STEP",
        "MESSAGE",
    ];
    let line = |row: &Row| {
        [
            row.node.clone(),
            row.role.clone().unwrap_or_else(none),
            row.is_ready.to_string(),
            row.document.clone().unwrap_or_else(none),
            row.sha256.clone().unwrap_or_else(none),
            row.first_boot.clone(),
            row.marker.to_string(),
            row.policy_text(),
            row.drift.with_reason(),
            row.next_step.clone().unwrap_or_else(none),
            row.message.clone().unwrap_or_else(none),
        ]
    };
    drawing::columns(head, &rows.iter().map(line).collect::<Vec<_>>())
}

fn none() -> String {
    "-".to_owned()
}
