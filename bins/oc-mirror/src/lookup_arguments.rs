//! Flags of the commands that list content instead of mirroring it.

use std::path::PathBuf;

use anyhow::{Context as _, anyhow};
use clap::Args;
use image_set::Architecture;
use mirror::{CatalogLookup, ChartLookup, ReleaseLookup, SignatureCheck};
use registry::Side;

use crate::problem::Problem;
use crate::request::ProcessEnvironment;
use crate::retry_arguments::RetryArguments;
use crate::route;
use crate::side_arguments::SourceArguments;

#[derive(Debug, Args)]
pub(crate) struct LookupArguments {
    /// Credentials file of podman or docker [default: $REGISTRY_AUTH_FILE, else the default files of podman and docker]
    #[arg(long, value_name = "FILE")]
    pub(crate) authfile: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) source: SourceArguments,
    #[command(flatten)]
    pub(crate) retry: RetryArguments,
}

impl LookupArguments {
    /// Opens the sources that flags and environment select. `carried` is a transferred directory
    /// and the flag that named it; with it, no request is sent.
    pub(crate) fn open(
        &self,
        carried: (&str, Option<&str>),
        process: &ProcessEnvironment,
    ) -> anyhow::Result<ReleaseLookup> {
        let variables = &process.releases;
        let sources =
            variables.sources(SignatureCheck::Enforce).map_err(|problems| all(&problems))?;
        if let Some(directory) = directory(carried)? {
            return Ok(ReleaseLookup::held(&directory, sources)?);
        }
        let settings = self.registries(process)?;
        ReleaseLookup::remote(settings, sources).context("preparing requests to registries")
    }

    /// The same for catalogs.
    pub(crate) fn catalogs(
        &self,
        carried: (&str, Option<&str>),
        process: &ProcessEnvironment,
    ) -> anyhow::Result<CatalogLookup> {
        if let Some(directory) = directory(carried)? {
            return Ok(CatalogLookup::held(&directory)?);
        }
        let settings = self.registries(process)?;
        CatalogLookup::remote(settings).context("preparing requests to registries")
    }

    /// The same for chart repositories.
    pub(crate) fn charts(&self, process: &ProcessEnvironment) -> anyhow::Result<ChartLookup> {
        let settings = self.registries(process)?;
        ChartLookup::remote(settings).context("preparing requests to repositories")
    }

    fn registries(&self, process: &ProcessEnvironment) -> anyhow::Result<registry::Settings> {
        let authfile = self.authfile.as_ref().filter(|path| !path.as_os_str().is_empty());
        let side = self.source.side(authfile).map_err(|problems| all(&problems))?;
        Ok(registry::Settings {
            retry: self.retry.retry(),
            timeouts: self.retry.timeouts(),
            ..side.settings(Side::Source, process)
        })
    }
}

/// The transferred directory, if a flag names one.
pub(crate) fn directory(
    (flag, directory): (&str, Option<&str>),
) -> anyhow::Result<Option<PathBuf>> {
    let Some(directory) = directory.filter(|directory| !directory.is_empty()) else {
        return Ok(None);
    };
    let directory = route::served_directory(directory).map_err(|problem| anyhow!("{problem}"))?;
    anyhow::ensure!(
        directory.is_dir(),
        "{flag} names {}, which is not a directory",
        directory.display()
    );
    Ok(Some(directory))
}

pub(crate) fn all(problems: &[Problem]) -> anyhow::Error {
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    anyhow!("{}", lines.join("\n"))
}

/// Reads an architecture that releases have.
pub(crate) fn architecture(text: &str) -> Result<Architecture, String> {
    let found = Architecture::ALL.into_iter().find(|known| known.as_str() == text);
    found.ok_or_else(|| {
        let known: Vec<&str> = Architecture::ALL.iter().map(|known| known.as_str()).collect();
        let hint = match text {
            "x86_64" => " (x86_64 is amd64)",
            "aarch64" => " (aarch64 is arm64)",
            _ => "",
        };
        format!("expected one of {}{hint}", known.join(", "))
    })
}

/// Reads a release: `4.16.3`.
pub(crate) fn full_version(text: &str) -> Result<semver::Version, String> {
    text.parse().map_err(|_| "expected a release with its patch number, such as 4.16.3".to_owned())
}

/// Reads a minor version: `4.16`.
pub(crate) fn minor(text: &str) -> Result<release::channel::Minor, String> {
    let channel = format!("stable-{text}");
    match release::channel::ChannelName::parse(&channel) {
        Some(name) => Ok(name.minor),
        None => Err("expected a minor version, such as 4.16".to_owned()),
    }
}

/// Runs a future to its end.
pub(crate) fn wait<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    crate::runtime().context("starting threads")?.block_on(work)
}
