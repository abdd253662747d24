//! Flags of the commands that look something up instead of mirroring it.

use std::path::PathBuf;

use anyhow::{Context as _, anyhow};
use clap::Args;
use image_set::Architecture;
use mirror::{ReleaseLookup, SignatureCheck};
use registry::Side;

use crate::problem::Problem;
use crate::request::Surroundings;
use crate::route;
use crate::side_arguments::SourceArguments;

#[derive(Debug, Args)]
pub(crate) struct LookupArguments {
    /// Credentials, in the format of podman and docker [default: $REGISTRY_AUTH_FILE, else theirs]
    #[arg(long, value_name = "FILE")]
    pub(crate) authfile: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) source: SourceArguments,
}

impl LookupArguments {
    /// Opens what the flags and the environment say: `carried` is a directory
    /// that was carried over, and the flag that named it. Then nobody is asked.
    pub(crate) fn open(
        &self,
        carried: (&str, Option<&str>),
        surroundings: &Surroundings,
    ) -> anyhow::Result<ReleaseLookup> {
        let variables = &surroundings.releases;
        let sources =
            variables.sources(SignatureCheck::Enforce).map_err(|problems| all(&problems))?;
        let (flag, directory) = carried;
        if let Some(directory) = directory.filter(|directory| !directory.is_empty()) {
            let directory =
                route::served_directory(directory).map_err(|problem| anyhow!("{problem}"))?;
            anyhow::ensure!(
                directory.is_dir(),
                "{flag} names {}, which is no directory",
                directory.display()
            );
            return Ok(ReleaseLookup::held(&directory, sources)?);
        }
        let authfile = self.authfile.as_ref().filter(|path| !path.as_os_str().is_empty());
        let side = self.source.side(authfile).map_err(|problems| all(&problems))?;
        let defaults = registry::Settings::new(surroundings.registries.clone(), Side::Source);
        let settings = registry::Settings {
            tls_verify: side.tls_verify,
            credentials: side.credentials,
            cert_dir: side.cert_dir,
            user_agent: format!("oc-mirror/{}", crate::version::NUMBER),
            ..defaults
        };
        ReleaseLookup::asking(settings, sources).context("preparing to ask registries")
    }
}

fn all(problems: &[Problem]) -> anyhow::Error {
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
        format!("one of {} is due{hint}", known.join(", "))
    })
}

/// Reads a minor version: `4.16`.
pub(crate) fn minor(text: &str) -> Result<release::channel::Minor, String> {
    let channel = format!("stable-{text}");
    match release::channel::ChannelName::parse(&channel) {
        Some(name) => Ok(name.minor),
        None => Err("a minor version is due, such as 4.16".to_owned()),
    }
}

/// Runs what waits for answers.
pub(crate) fn wait<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    crate::runtime().context("starting threads")?.block_on(work)
}
