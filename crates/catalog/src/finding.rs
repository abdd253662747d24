//! What a selection could not do, or did differently than expected.

use std::fmt;

use diagnostic::Severity;
use image_set::EntryPosition;

use crate::rules::{ChannelFlaw, FlawList};

/// One thing to know about a selection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Where the configuration requests it.
    pub at: EntryPosition,
    pub problem: Problem,
}

/// The kinds of findings. Each text states what happened, then what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error(
        "the catalog has no package {package:?}; {}",
        offer(nearest, "see `oc-mirror list operators --catalog`")
    )]
    UnknownPackage { package: String, nearest: Vec<String> },
    #[error("the package {package:?} has no channel {channel:?}; {}", offer(nearest, &listed(channels)))]
    UnknownChannel { package: String, channel: String, nearest: Vec<String>, channels: Vec<String> },
    #[error(
        "the package {package:?} is left out, as OLM would refuse the catalog with it: {flaws}"
    )]
    Flawed { package: String, flaws: FlawList },
    #[error(
        "the package {package:?} is left out: defaultChannel {channel:?} is not among what is selected of it; {}",
        listed(channels)
    )]
    NoSuchDefault { package: String, channel: String, channels: Vec<String> },
    #[error(
        "the package {package:?} is left out: its default channel is {channel:?}, which is not selected; add the channel, or set defaultChannel to one that is ({})",
        channels.join(", ")
    )]
    DefaultLeftOut { package: String, channel: String, channels: Vec<String> },
    #[error(
        "the package {package:?} is left out: {wanted} selects nothing of its default channel {channel:?}, {versions}{}",
        default_help(others)
    )]
    DefaultEmpty {
        package: String,
        channel: String,
        wanted: String,
        /// What the channel has instead.
        versions: String,
        /// Channels in which something is selected.
        others: Vec<String>,
    },
    #[error(
        "the channel {channel:?} of {package:?} is left out: {wanted} selects nothing of it, {versions}"
    )]
    EmptyChannel { package: String, channel: String, wanted: String, versions: String },
    #[error(
        "the package {package:?} is left out: full takes every version, so it cannot be combined with {what}; remove one of the two"
    )]
    FullAndSelective { package: String, what: &'static str },
    #[error("the channel {channel:?} of {package:?} cannot be selected from: it {why}")]
    BrokenChannel { package: String, channel: String, why: ChannelFlaw },
    #[error(
        "{} of {package:?} in channel {channel:?} {} left out: a version with a part after '-' is a pre-release, and a range includes pre-releases only if one of its bounds is one; write {suggestion} to include them",
        versions.join(", "),
        if versions.len() == 1 { "is" } else { "are" }
    )]
    PreReleases { package: String, channel: String, versions: Vec<String>, suggestion: String },
    #[error(
        "version {version} of {package:?} is that of several bundles in channel {channel:?}, because build metadata (after '+') does not distinguish versions: {taken} is selected, not {}; write the version with its build metadata to choose",
        others.join(", ")
    )]
    SameVersion {
        package: String,
        channel: String,
        version: String,
        taken: String,
        others: Vec<String>,
    },
    #[error("{bundle} needs {what}, which is not among what is selected{}", needed_help(provider))]
    Needs {
        bundle: String,
        what: String,
        /// The package that has it.
        provider: Option<String>,
    },
    #[error(
        "{bundle} has a constraint {kind:?}, which is not evaluated: what it needs is not searched for"
    )]
    Constraint { bundle: String, kind: String },
    #[error("a part of the catalog cannot be read and is left out: {why}")]
    Unreadable {
        why: String,
        /// Whether something that is selected may be missing.
        selected: bool,
    },
    #[error("{0}")]
    RepeatedKey(String),
    #[error("added {package:?} (channel {channel}, {bundle}), as {needed_by} needs {what}")]
    Added { package: String, channel: String, bundle: String, needed_by: String, what: String },
    #[error("left out of the catalog: {}; {why}", bundles.join(", "))]
    LeftOut { bundles: Vec<String>, why: String },
    #[error("nothing is selected of the catalog")]
    Nothing,
}

impl Problem {
    pub fn severity(&self) -> Severity {
        match self {
            Self::Added { .. } | Self::SameVersion { .. } | Self::EmptyChannel { .. } => {
                Severity::Info
            }
            Self::PreReleases { .. }
            | Self::Needs { .. }
            | Self::LeftOut { .. }
            | Self::Constraint { .. }
            | Self::RepeatedKey(_)
            | Self::Unreadable { selected: false, .. } => Severity::Warning,
            _ => Severity::Error,
        }
    }
}

impl Finding {
    pub fn severity(&self) -> Severity {
        self.problem.severity()
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.at.line == 0 {
            self.problem.fmt(f)
        } else {
            write!(f, "{}: {}", self.at, self.problem)
        }
    }
}

fn offer(nearest: &[String], otherwise: &str) -> String {
    if nearest.is_empty() {
        return otherwise.to_owned();
    }
    let quoted: Vec<String> = nearest.iter().map(|name| format!("{name:?}")).collect();
    format!("did you mean {}?", quoted.join(" or "))
}

fn listed(channels: &[String]) -> String {
    match channels {
        [] => "it has none".to_owned(),
        _ => format!("there is {}", channels.join(", ")),
    }
}

fn default_help(others: &[String]) -> String {
    match others {
        [] => String::new(),
        _ => format!("; set defaultChannel to one with something in it ({})", others.join(", ")),
    }
}

fn needed_help(provider: &Option<String>) -> String {
    match provider {
        Some(package) => {
            format!("; add the package {package:?}, or set includeDependencies: true")
        }
        None => ", and no package of the catalog has it".to_owned(),
    }
}
