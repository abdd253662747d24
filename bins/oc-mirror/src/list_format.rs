//! How lists are written: for people, or for machines.

use clap::ValueEnum;
use serde::Serialize;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ListFormat {
    #[default]
    #[value(alias = "table")]
    Text,
    Json,
    Yaml,
}

/// A list in the form that was asked for.
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
