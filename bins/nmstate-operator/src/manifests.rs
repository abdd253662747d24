//! The `manifests` command: writes the files of a release payload, or those of another cluster.

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
    /// Write what a Kubernetes cluster other than OpenShift needs, with this image; apply the folder
    /// with kubectl
    #[arg(long, value_name = "IMAGE", conflicts_with = "hosted", value_parser = image)]
    kubernetes: Option<String>,
}

/// The `manifests` command.
pub(crate) fn manifests(arguments: &Arguments) -> Result<()> {
    let files = match (&arguments.hosted, &arguments.kubernetes) {
        (Some(namespace), _) => payload::hosted_files(namespace),
        (None, Some(image)) => payload::kubernetes_files(image, build_info::VERSION),
        (None, None) => payload::files(),
    };
    let folder = &arguments.out;
    fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    files.iter().try_for_each(|file| write(folder, file))
}

fn write(folder: &Path, file: &PayloadFile) -> Result<()> {
    let path = folder.join(&file.name);
    fs::write(&path, file.text()?).with_context(|| format!("writing {}", path.display()))
}

fn image(text: &str) -> Result<String, String> {
    let is_good = |byte: u8| byte.is_ascii_graphic();
    match !text.is_empty() && text.bytes().all(is_good) {
        true => Ok(text.to_owned()),
        false => Err("expected the reference of an image".to_owned()),
    }
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
