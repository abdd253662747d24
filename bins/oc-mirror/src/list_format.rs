//! Flags for the format of lists, and how these are written: for people, or for machines.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use mirror::{CatalogLookup, ChartLookup, ReleaseLookup};
use serde::Serialize;

use crate::lookup_arguments::{LookupArguments, directory};
use crate::request::ProcessEnvironment;

/// Flags of every list.
#[derive(Debug, Args)]
pub(crate) struct ListOptions {
    /// Output format: text, json or yaml
    #[arg(
        short,
        long,
        value_enum,
        default_value_t,
        hide_possible_values = true,
        value_name = "FORMAT"
    )]
    pub(crate) output: ListFormat,
    /// Read archives or a transferred workspace in this directory, without network access
    #[arg(long, value_name = "file://DIR")]
    pub(crate) from: Option<String>,
    #[command(flatten)]
    lookup: LookupArguments,
}

impl ListOptions {
    pub(crate) fn releases(&self, process: &ProcessEnvironment) -> anyhow::Result<ReleaseLookup> {
        self.lookup.open(("--from", self.from.as_deref()), process)
    }

    pub(crate) fn catalogs(&self, process: &ProcessEnvironment) -> anyhow::Result<CatalogLookup> {
        self.lookup.catalogs(("--from", self.from.as_deref()), process)
    }

    pub(crate) fn charts(&self, process: &ProcessEnvironment) -> anyhow::Result<ChartLookup> {
        self.lookup.charts(process)
    }

    /// The directory that `--from` names.
    pub(crate) fn carried_directory(&self) -> anyhow::Result<PathBuf> {
        let directory = directory(("--from", self.from.as_deref()))?;
        directory.ok_or_else(|| anyhow::anyhow!("expected --repository or --from"))
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ListFormat {
    #[default]
    #[value(alias = "table")]
    Text,
    Json,
    Yaml,
}

/// A list in the form that was requested.
pub(crate) fn rendered(
    format: ListFormat,
    list: &impl Serialize,
    text: impl FnOnce() -> String,
) -> anyhow::Result<String> {
    match format {
        ListFormat::Text => Ok(text()),
        ListFormat::Json => json(list),
        ListFormat::Yaml => yaml(list),
    }
}

pub(crate) fn json(value: &impl Serialize) -> anyhow::Result<String> {
    Ok(format!("{}\n", serde_json::to_string_pretty(value)?))
}

pub(crate) fn yaml(value: &impl Serialize) -> anyhow::Result<String> {
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    let mut text = String::new();
    serde_saphyr::to_fmt_writer_with_options(&mut text, value, options)?;
    Ok(text)
}
