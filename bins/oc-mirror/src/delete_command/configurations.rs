//! Configurations of what to delete, as the engine selects by them.

use std::path::{Path, PathBuf};

use image_set::{Delete, ImageSetConfiguration, Mirror, PackageVersion};
use mirror::Configuration;

use super::Refusal;
use crate::configuration::{self, Checked, Compatibility, ConfigurationError};
use crate::problem::{Problem, chain};

/// A file with a `prune` section.
pub(super) struct PruneFile {
    /// What is deleted.
    pub(super) prune: Configuration,
    /// What the same file mirrors, which stays.
    pub(super) mirror: Option<Configuration>,
}

/// Reads a delete image set configuration.
pub(super) fn delete(path: &Path) -> Result<Configuration, Refusal> {
    let text = configuration::read_text(path).map_err(refused)?;
    let file = path.display().to_string();
    let document = image_set::parse_delete(&file, &text).map_err(|findings| invalid(&findings))?;
    let mut delete = document.delete;
    choose_default_channels(&mut delete);
    let set = ImageSetConfiguration { mirror: as_mirror(delete), ..Default::default() };
    configuration::check_sections(&file, &set.mirror).map_err(refused)?;
    Ok(Configuration { path: path.to_owned(), text, set })
}

/// Reads an image set configuration with a `prune` section.
pub(super) fn prune(path: &Path) -> Result<PruneFile, Refusal> {
    let text = configuration::read_text(path).map_err(refused)?;
    let file = path.display().to_string();
    let mut set =
        image_set::parse_image_set(&file, &text).map_err(|findings| invalid(&findings))?;
    let Some(prune) = set.prune.take() else {
        return Err(Problem::new(format!("{file} has no prune section, which lists what to delete"))
            .with_hint("list what to delete below `prune:`, or give the file with --keep to delete all that it does not select")
            .into());
    };
    let mut prune = *prune;
    choose_default_channels(&mut prune);
    select_whole_channels(&mut prune);
    let pruned = ImageSetConfiguration { mirror: as_mirror(prune), ..Default::default() };
    configuration::check_sections(&file, &pruned.mirror).map_err(refused)?;
    configuration::check_sections(&file, &set.mirror).map_err(refused)?;
    let has_content = set.mirror != Mirror::default();
    let of = |set| Configuration { path: path.to_owned(), text: text.clone(), set };
    Ok(PruneFile { mirror: has_content.then(|| of(set)), prune: of(pruned) })
}

/// Reads the configurations of `--keep`.
pub(super) fn keep(paths: &[PathBuf]) -> Result<Vec<Configuration>, Refusal> {
    let mut kept = Vec::new();
    for path in paths {
        let Checked { configuration, warnings } =
            configuration::read(path, Compatibility::Extended).map_err(refused)?;
        warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
        kept.push(configuration);
    }
    Ok(kept)
}

fn as_mirror(delete: Delete) -> Mirror {
    let Delete { platform, operators, additional_images, helm, blocked_images, samples } = delete;
    Mirror { platform, operators, additional_images, helm, blocked_images, samples }
}

/// A catalog must have the default channel of each package; a deletion need not name it.
fn choose_default_channels(delete: &mut Delete) {
    for package in delete.operators.iter_mut().flat_map(|operator| &mut operator.packages) {
        if package.default_channel.is_none() {
            package.default_channel = package.channels.first().map(|channel| channel.name.clone());
        }
    }
}

/// Below `prune`, a channel without bounds means all of it, not only its newest version.
fn select_whole_channels(prune: &mut Delete) {
    for channel in prune.platform.iter_mut().flat_map(|platform| &mut platform.channels) {
        channel.full |= channel.min_version.is_none() && channel.max_version.is_none();
    }
    // The lowest version there is: all others are above.
    let lowest = || PackageVersion::parse("0.0.0-0");
    for operator in &mut prune.operators {
        let is_bounded = |package: &image_set::Package| {
            let channels = package.channels.iter();
            package.min_version.is_some()
                || package.max_version.is_some()
                || package.previous_versions.is_some()
                || channels.into_iter().any(|channel| {
                    channel.min_version.is_some()
                        || channel.max_version.is_some()
                        || channel.previous_versions.is_some()
                })
        };
        if !operator.packages.iter().any(is_bounded) {
            operator.full = true;
            continue;
        }
        for package in &mut operator.packages {
            if package.min_version.is_some()
                || package.max_version.is_some()
                || package.previous_versions.is_some()
            {
                continue;
            }
            if package.channels.is_empty() {
                package.min_version = lowest();
            }
            for channel in &mut package.channels {
                let is_open = channel.max_version.is_none() && channel.previous_versions.is_none();
                if is_open && channel.min_version.is_none() {
                    channel.min_version = lowest();
                }
            }
        }
    }
}

fn invalid(findings: &image_set::Findings) -> Refusal {
    let count = crate::quantity::count(findings.iter().count(), "problem");
    Problem::new(format!("invalid configuration: {count} in {}\n{findings}", findings.file()))
        .into()
}

fn refused(error: ConfigurationError) -> Refusal {
    match error {
        ConfigurationError::Invalid(findings) => invalid(&findings),
        error => Problem::new(chain(&error)).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_of_the_proposal_selects_all_bundles_of_its_channel() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("image-set-config.yaml");
        let text = "apiVersion: mirror.openshift.io/v1alpha2\nkind: ImageSetConfiguration\nprune:\n  platform:\n    channels:\n      - name: stable-4.11\n        minVersion: 4.11.1\n        maxVersion: 4.11.13\n  operators:\n    - catalog: registry.redhat.io/redhat/redhat-operator-index:v4.11\n      packages:\n        - name: elasticsearch-operator\n          channels: \n          - name: stable-4.11\n";
        std::fs::write(&path, text).unwrap();
        let Ok(file) = prune(&path) else { panic!("the sample is rejected") };
        assert!(file.mirror.is_none());
        let mirror = &file.prune.set.mirror;
        let channel = &mirror.platform.as_ref().unwrap().channels[0];
        assert!(!channel.full, "it has bounds");
        assert!(mirror.operators[0].full);
        let package = &mirror.operators[0].packages[0];
        assert_eq!(package.default_channel.as_deref(), Some("stable-4.11"));
    }

    #[test]
    fn a_channel_beside_one_with_bounds_is_selected_whole() {
        let text = "kind: ImageSetConfiguration\nmirror:\n  additionalImages:\n  - name: quay.io/a/b:1\nprune:\n  operators:\n  - catalog: r.io/c:v1\n    packages:\n    - name: foo\n      channels:\n      - name: a\n        maxVersion: 1.2.3\n      - name: b\n";
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("isc.yaml");
        std::fs::write(&path, text).unwrap();
        let Ok(file) = prune(&path) else { panic!("it is rejected") };
        assert_eq!(file.mirror.unwrap().set.mirror.additional_images.len(), 1);
        let operator = &file.prune.set.mirror.operators[0];
        assert!(!operator.full);
        let channels = &operator.packages[0].channels;
        assert_eq!(channels[0].min_version, None);
        assert_eq!(channels[1].min_version.as_ref().unwrap().as_str(), "0.0.0-0");
    }
}
