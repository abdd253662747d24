//! The `manifests` command: writes the files of a release payload.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Args;
use nmstate_deployment::payload::{self, PayloadFile};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Folder to write to; created if it does not exist. Files with other names are kept
    #[arg(long, short_alias = 'o', alias = "output", value_name = "DIR")]
    out: PathBuf,
    /// Write what runs beside a hosted control plane, in this namespace of the management cluster
    #[arg(long, value_name = "NAMESPACE", value_parser = namespace)]
    hosted: Option<String>,
}

/// The `manifests` command.
pub(crate) fn manifests(arguments: &Arguments) -> Result<()> {
    let files = match &arguments.hosted {
        None => payload::files(),
        Some(namespace) => payload::hosted_files(namespace),
    };
    let folder = &arguments.out;
    fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    files.iter().try_for_each(|file| write(folder, file))
}

fn write(folder: &Path, file: &PayloadFile) -> Result<()> {
    let path = folder.join(&file.name);
    fs::write(&path, file.text()?).with_context(|| format!("writing {}", path.display()))
}

fn namespace(text: &str) -> Result<String, String> {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let good = !text.is_empty()
        && text.len() <= 63
        && text.bytes().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-');
    if good {
        Ok(text.to_owned())
    } else {
        Err("a namespace has 1 to 63 lowercase letters, digits and inner dashes".to_owned())
    }
}
