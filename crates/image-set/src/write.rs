//! Configurations written back as YAML, and turned into each other.

use serde::Serialize;

use crate::API_VERSION;
use crate::document::{Delete, DeleteImageSetConfiguration, ImageSetConfiguration, Mirror};

/// A configuration could not be written as YAML.
#[derive(Debug, thiserror::Error)]
#[error("writing a configuration as YAML")]
pub struct WriteError(#[from] serde_saphyr::SerializeError);

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Written<'a> {
    kind: &'static str,
    api_version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    archive_size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timetable: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timezone: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mirror: Option<&'a Mirror>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delete: Option<&'a Delete>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prune: Option<&'a Delete>,
}

impl ImageSetConfiguration {
    /// The configuration as YAML that reads back as an equal one. Keys come in
    /// a fixed order; what has its default is left out.
    pub fn to_yaml(&self) -> Result<String, WriteError> {
        let times = self.transfer_times.as_ref();
        Ok(serde_saphyr::to_string(&Written {
            kind: "ImageSetConfiguration",
            api_version: API_VERSION,
            archive_size: self.archive_size,
            timetable: times.and_then(|times| times.timetable_text.as_deref()),
            timezone: times.and_then(|times| times.timezone.as_deref()),
            mirror: Some(&self.mirror),
            delete: None,
            prune: self.prune.as_deref(),
        })?)
    }

    /// The configuration that deletes what this one selects. Blocked images are left out: they
    /// were not mirrored, and oc-mirror v2 does not accept them below `delete`.
    pub fn to_delete(&self) -> DeleteImageSetConfiguration {
        let Mirror { platform, operators, additional_images, helm, blocked_images: _, samples } =
            self.mirror.clone();
        DeleteImageSetConfiguration {
            delete: Delete {
                platform,
                operators,
                additional_images,
                helm,
                blocked_images: Vec::new(),
                samples,
            },
        }
    }
}

impl DeleteImageSetConfiguration {
    /// The configuration as YAML that reads back as an equal one.
    pub fn to_yaml(&self) -> Result<String, WriteError> {
        Ok(serde_saphyr::to_string(&Written {
            kind: "DeleteImageSetConfiguration",
            api_version: API_VERSION,
            archive_size: None,
            timetable: None,
            timezone: None,
            mirror: None,
            delete: Some(&self.delete),
            prune: None,
        })?)
    }
}
