//! Formats of upgrade paths: as a table, for machines, or as a picture.

use clap::{Args, ValueEnum};
use drawing::Drawing;
use mirror::{CatalogLookup, ReleaseLookup};
use serde::Serialize;

use crate::list_format::{json, yaml};
use crate::lookup_arguments::LookupArguments;
use crate::request::ProcessEnvironment;

/// The format of the path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum PathFormat {
    #[default]
    Table,
    Json,
    Yaml,
    Dot,
    Mermaid,
    Svg,
}

/// Flags of all commands that print upgrade paths.
#[derive(Debug, Args)]
pub(crate) struct PathOptions {
    /// Output format: table, json, yaml, dot (Graphviz), mermaid or svg
    #[arg(
        short,
        long,
        value_enum,
        default_value_t,
        hide_possible_values = true,
        value_name = "FORMAT"
    )]
    output: PathFormat,
    /// Read archives or a transferred workspace in this directory, without network access
    #[arg(long, value_name = "file://DIR")]
    pub(crate) workspace: Option<String>,
    #[command(flatten)]
    lookup: LookupArguments,
}

impl PathOptions {
    pub(crate) fn releases(&self, process: &ProcessEnvironment) -> anyhow::Result<ReleaseLookup> {
        self.lookup.open(("--workspace", self.workspace.as_deref()), process)
    }

    pub(crate) fn catalogs(&self, process: &ProcessEnvironment) -> anyhow::Result<CatalogLookup> {
        self.lookup.catalogs(("--workspace", self.workspace.as_deref()), process)
    }

    /// The path in the requested format.
    pub(crate) fn render(
        &self,
        paths: &impl Serialize,
        table: impl FnOnce() -> String,
        drawing: impl FnOnce() -> Drawing,
    ) -> anyhow::Result<String> {
        Ok(match self.output {
            PathFormat::Table => table(),
            PathFormat::Json => json(paths)?,
            PathFormat::Yaml => yaml(paths)?,
            PathFormat::Dot => drawing().dot(),
            PathFormat::Mermaid => drawing().mermaid(),
            PathFormat::Svg => drawing().svg(),
        })
    }
}
