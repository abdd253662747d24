//! `oc-brex show`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use br_ex::{Document, node_state};
use br_ex_authoring::picture::Picture;
use clap::{Args, ValueEnum};
use command_line::{Ending, print, print_message};

use crate::cluster::ClusterArguments;
use crate::reading;

const EXAMPLES: &str = "\
Examples:
  oc-brex show worker-0.yml
  oc-brex show worker-0.example.com                    # a node of the running cluster
  oc-brex show worker-0 -o svg > worker-0.svg
  oc get nns worker-0.example.com -o yaml | oc-brex show -";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// A document, a policy or a NodeNetworkState; `-` is standard input. If the
    /// file does not exist, the node of this name in the running cluster, which must report
    /// NodeNetworkStates
    #[arg(value_name = "FILE|NODE")]
    source: PathBuf,
    #[command(flatten)]
    cluster: ClusterArguments,
    /// How it is written: text, svg, dot or mermaid
    #[arg(short, long, value_name = "FORMAT", default_value = "text", hide_possible_values = true)]
    output: Format,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    Text,
    Svg,
    Dot,
    Mermaid,
}

/// Prints the interfaces below br-ex.
pub(crate) fn show(arguments: &Arguments) -> Result<Ending> {
    let path = &arguments.source;
    let pictures = match reading::node(path) {
        Some(node) => of_node(node, &arguments.cluster).with_context(|| {
            format!("file {node} not found; reading it as a node of the cluster")
        })?,
        None => pictures(path)?,
    };
    let title = |name: &Option<String>| name.clone().unwrap_or_else(|| path.display().to_string());
    for (name, picture) in &pictures {
        let title = title(name);
        match arguments.output {
            Format::Text => {
                if pictures.len() > 1 {
                    print(format!("{title}:\n"))?;
                }
                print(format!("{}\n", picture.text().trim_end()))?;
            }
            Format::Svg => print(picture.drawing(&title).svg_without_legend())?,
            Format::Dot => print(picture.drawing(&title).dot())?,
            Format::Mermaid => print(picture.drawing(&title).mermaid())?,
        }
    }
    Ok(Ending::Good)
}

fn of_node(node: &str, cluster: &ClusterArguments) -> Result<Vec<(Option<String>, Picture)>> {
    let state = cluster.state_of(node)?;
    let picture = of_text(&serde_json::to_string(&state.state)?, Path::new(node))?;
    Ok(vec![(state.name, picture)])
}

/// The pictures of a file: one for each node of a list.
fn pictures(path: &Path) -> Result<Vec<(Option<String>, Picture)>> {
    let text = reading::text(path)?;
    if text.contains("NodeNetworkState") || text.contains("currentState") {
        let states =
            node_state::parse(&text).with_context(|| format!("reading {}", path.display()))?;
        return states
            .into_iter()
            .map(|state| Ok((state.name, of_text(&serde_json::to_string(&state.state)?, path)?)))
            .collect();
    }
    Ok(vec![(None, of_text(&text, path)?)])
}

fn of_text(text: &str, path: &Path) -> Result<Picture> {
    let document = Document::parse(text.as_bytes());
    if let Some(remedy) = container(text) {
        bail!(
            "reading {}: expected a document, a policy or a NodeNetworkState, found {remedy}",
            path.display()
        );
    }
    if document.content().is_none() {
        print_message(&format!(
            "note: {}: nmstate does not read all of it; `oc-brex check` reports why",
            path.display()
        ));
    }
    match document.layout().filter(|layout| !layout.interfaces.is_empty()) {
        Some(layout) => Ok(Picture::of(&layout)),
        None => bail!("reading {}: expected interfaces, found none", path.display()),
    }
}

/// Files that contain documents, and the command that extracts them.
fn container(text: &str) -> Option<&'static str> {
    let root = located_yaml::load(text, located_yaml::Keys::Exact).root?;
    if root.get("interfaces").is_some() {
        return None;
    }
    match root.get("kind").and_then(located_yaml::Node::text) {
        Some("MachineConfig" | "MachineConfigList") => {
            Some("a MachineConfig; `oc-brex decode --out DIR` writes its documents to files")
        }
        _ if root.get("networking").is_some_and(|it| it.get("hostConfig").is_some()) => Some(
            "an install-config; `oc-brex render --install-config` makes MachineConfigs of its documents, \
             and `oc-brex decode --out DIR` writes those to files",
        ),
        _ => None,
    }
}
