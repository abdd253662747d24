//! The file beside a list of images to delete: why each item goes, why others stay, what it frees.

use std::collections::BTreeMap;

use mirror_plan::{Destination, Target};
use oci::{Digest, Repository};
use serde::{Deserialize, Serialize};

use crate::choose::{Choice, Item, Kept};
use crate::savings::RepositoryBytes;

const KIND: &str = "DeleteReasons";

/// The explanation of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reasons {
    kind: String,
    api_version: String,
    pub target: Target,
    /// What each image is expected to be. A list without it, or with other items, is compared with
    /// the record of the target instead.
    pub items: Vec<ItemReason>,
    #[serde(default)]
    pub kept: Vec<KeptReason>,
    #[serde(default)]
    pub warnings: Vec<String>,
    /// Reclaimable bytes by repository.
    #[serde(default)]
    pub repositories: BTreeMap<Repository, RepositoryBytes>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ItemReason {
    pub image: Destination,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    pub reason: String,
    pub bytes: u64,
    /// Images that have the same manifest and stay: only the tag is deleted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shared_with: Vec<Destination>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptReason {
    pub image: Destination,
    pub reason: String,
}

#[derive(Debug, thiserror::Error)]
pub enum ReasonsError {
    #[error("it does not explain a list of images to delete")]
    Yaml(#[source] serde_saphyr::Error),
    #[error("expected kind {KIND}, found {0:?}")]
    Kind(String),
}

impl Reasons {
    pub fn new(
        target: &Target,
        choice: &Choice,
        bytes: impl Fn(&Destination) -> u64,
        repositories: BTreeMap<Repository, RepositoryBytes>,
    ) -> Self {
        let item = |item: &Item| ItemReason {
            image: item.place.clone(),
            digest: item.digest,
            reason: item.reason.clone(),
            bytes: bytes(&item.place),
            shared_with: item.shared_with.clone(),
        };
        let kept = |kept: &Kept| KeptReason {
            image: kept.place.clone(),
            reason: kept.because.to_string(),
        };
        Self {
            kind: KIND.to_owned(),
            api_version: image_set::API_VERSION.to_owned(),
            target: target.clone(),
            items: choice.items.iter().map(item).collect(),
            kept: choice.kept.iter().map(kept).collect(),
            warnings: choice.warnings.clone(),
            repositories,
        }
    }

    pub fn parse(text: &str) -> Result<Self, ReasonsError> {
        let reasons: Self = serde_saphyr::from_str(text).map_err(ReasonsError::Yaml)?;
        match reasons.kind == KIND {
            true => Ok(reasons),
            false => Err(ReasonsError::Kind(reasons.kind)),
        }
    }

    pub fn to_yaml(&self) -> Result<String, serde_saphyr::ser::Error> {
        Ok(format!("{}\n", serde_saphyr::to_string(self)?.trim_end()))
    }

    /// The digests that images are expected to have.
    pub fn digests(&self) -> BTreeMap<Destination, Digest> {
        self.items.iter().filter_map(|item| Some((item.image.clone(), item.digest?))).collect()
    }
}
