//! `platform`: which OpenShift releases to mirror.

use std::ops::Not;

use oci::{ImageRef, Platform};
use semver::Version;
use serde::Serialize;

use crate::finding::{EntryPosition, Problem, nearest};
use crate::image::{pinned, platform};
use crate::section::{LocatedValue, Section, Unique};
use crate::version::release_range;

/// The `platform` section.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlatformSection {
    /// Whether the graph of updates is mirrored as an image.
    #[serde(skip_serializing_if = "Not::not")]
    pub graph: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub channels: Vec<ReleaseChannel>,
    /// Release payloads by architecture; empty means amd64 unless `platforms`
    /// sets another.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub architectures: Vec<Architecture>,
    /// Which images of the multi-architecture payload to take.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub platforms: Vec<Platform>,
    /// One payload, by its own name; `channels` are ignored then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release: Option<ImageRef>,
    #[serde(skip_serializing_if = "Not::not")]
    pub kube_virt_container: bool,
    #[serde(skip)]
    pub at: EntryPosition,
}

/// A channel of releases, and the part of it that is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseChannel {
    pub name: String,
    #[serde(rename = "type", skip_serializing_if = "Distribution::is_ocp")]
    pub distribution: Distribution,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_version: Option<Version>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_version: Option<Version>,
    #[serde(skip_serializing_if = "Not::not")]
    pub shortest_path: bool,
    #[serde(skip_serializing_if = "Not::not")]
    pub full: bool,
    #[serde(skip)]
    pub at: EntryPosition,
}

/// Who makes the releases of a channel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Distribution {
    #[default]
    Ocp,
    Okd,
}

/// An architecture that there are release payloads for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Architecture {
    Amd64,
    Arm64,
    Ppc64le,
    S390x,
    Multi,
}

impl Architecture {
    pub const ALL: [Self; 5] = [Self::Amd64, Self::Arm64, Self::Ppc64le, Self::S390x, Self::Multi];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
            Self::Ppc64le => "ppc64le",
            Self::S390x => "s390x",
            Self::Multi => "multi",
        }
    }

    fn read(place: LocatedValue<'_>) -> Option<Self> {
        let known = Self::ALL.map(Self::as_str);
        place.text()?.parse(|_, text| {
            let found = Self::ALL.into_iter().find(|architecture| architecture.as_str() == text);
            found.ok_or_else(|| {
                let nearest = match text {
                    "x86_64" => vec!["amd64".to_owned()],
                    "aarch64" => vec!["arm64".to_owned()],
                    text => nearest(text, &known),
                };
                unknown_word("architecture".to_owned(), text, nearest, &known)
            })
        })
    }
}

impl Distribution {
    fn is_ocp(&self) -> bool {
        *self == Self::Ocp
    }

    fn parse(key: String, text: &str) -> Result<Self, Problem> {
        let known = ["ocp", "okd"];
        match text {
            "ocp" => Ok(Self::Ocp),
            "okd" => Ok(Self::Okd),
            text => Err(unknown_word(key, text, nearest(text, &known), &known)),
        }
    }
}

fn unknown_word(key: String, text: &str, nearest: Vec<String>, known: &[&str]) -> Problem {
    let known = known.iter().map(|word| (*word).to_owned()).collect();
    Problem::Word { key, text: text.to_owned(), nearest, known }
}

impl PlatformSection {
    pub(crate) fn read(place: LocatedValue<'_>) -> Option<Self> {
        let mut section = Section::open(place, |_| "write `channels:` below it".to_owned())?;
        let at = section.at;
        let graph = section.flag("graph");
        let mut names = Unique::new("release channel");
        let channels = section.list("channels", |place| ReleaseChannel::read(place, &mut names));
        let architectures = section.list("architectures", Architecture::read);
        let platforms = section.list("platforms", platform);
        let release = section.text("release").and_then(|text| text.parse(pinned));
        let kube_virt_container = section.flag("kubeVirtContainer");
        match (architectures.is_empty(), platforms.is_empty()) {
            (false, false) => {
                section.report_key("architectures", Problem::PlatformsAndArchitectures);
            }
            (false, true) => section.warn_key("architectures", Problem::ArchitecturesDeprecated),
            (true, _) => {}
        }
        section.finish();
        Some(Self { graph, channels, architectures, platforms, release, kube_virt_container, at })
    }
}

impl ReleaseChannel {
    fn read(place: LocatedValue<'_>, names: &mut Unique) -> Option<Self> {
        let mut section = Section::open(place, |text| format!("write `name: {text}`"))?;
        let at = section.at;
        let name = section.required("name", "stable-4.18");
        let distribution = section.text("type").and_then(|text| text.parse(Distribution::parse));
        let (min_version, max_version) = release_range(&mut section);
        let shortest_path = section.flag("shortestPath");
        let full = section.flag("full");
        section.finish();
        let name = name?;
        names.check(&name, name.text);
        let distribution = distribution.unwrap_or_default();
        let name = name.owned();
        Some(Self { name, distribution, min_version, max_version, shortest_path, full, at })
    }
}
