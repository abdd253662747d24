//! Adds selections to a configuration. Pure: text in, text out.

use image_set::{
    AdditionalImage, Chart, Distribution, EntryPosition, Helm, HelmRepository,
    ImageSetConfiguration, ImageSource, Operator, Package, PackageChannel, PlatformSection,
    ReleaseChannel,
};
use semver::Version;

/// What is added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Addition {
    Image(ImageSource),
    Package {
        catalog: ImageSource,
        package: String,
        channel: Option<String>,
        default_channel: String,
    },
    Chart {
        repository: String,
        name: String,
        version: Option<String>,
    },
    Releases {
        channel: String,
        from: Option<Version>,
        to: Option<Version>,
        shortest_path: bool,
    },
}

/// The configuration with the addition, rewritten: keys in a fixed order, without comments.
pub(crate) fn add(text: &str, addition: Addition) -> Result<String, String> {
    let mut set = image_set::parse_image_set("the configuration", text).map_err(|findings| {
        format!("the configuration has errors; correct them first: {findings}")
    })?;
    apply(&mut set, addition)?;
    set.to_yaml().map_err(|error| error.to_string())
}

fn apply(set: &mut ImageSetConfiguration, addition: Addition) -> Result<(), String> {
    let at = EntryPosition::default();
    let mirror = &mut set.mirror;
    match addition {
        Addition::Image(name) => {
            if mirror.additional_images.iter().any(|known| known.name == name) {
                return Err(format!("{name} is in the configuration already"));
            }
            let (target_repo, target_tag, platforms) = (None, None, Vec::new());
            let image = AdditionalImage { name, target_repo, target_tag, platforms, at };
            mirror.additional_images.push(image);
        }
        Addition::Package { catalog, package, channel, default_channel } => {
            let place = match mirror.operators.iter().position(|known| known.catalog == catalog) {
                Some(place) => place,
                None => {
                    mirror.operators.push(operator(catalog));
                    mirror.operators.len() - 1
                }
            };
            let packages = &mut mirror.operators[place].packages;
            let known = match packages.iter().position(|known| known.name == package) {
                Some(place) => &mut packages[place],
                None => {
                    packages.push(Package {
                        name: package.clone(),
                        default_channel: None,
                        min_version: None,
                        max_version: None,
                        previous_versions: None,
                        channels: Vec::new(),
                        at,
                    });
                    let last = packages.len() - 1;
                    &mut packages[last]
                }
            };
            let Some(channel) = channel else { return Ok(()) };
            if known.channels.iter().any(|known| known.name == channel) {
                return Err(format!(
                    "channel {channel} of {package} is in the configuration already"
                ));
            }
            let (min_version, max_version, previous_versions) = (None, None, None);
            known.channels.push(PackageChannel {
                name: channel,
                min_version,
                max_version,
                previous_versions,
                at,
            });
            // A catalog whose default channel is left out is not accepted by OLM: another takes
            // its place.
            let has_default = known.channels.iter().any(|known| known.name == default_channel);
            known.default_channel = match has_default {
                true => None,
                false => known.channels.first().map(|first| first.name.clone()),
            };
        }
        Addition::Chart { repository, name, version } => {
            let helm = mirror.helm.get_or_insert_with(Helm::default);
            let place = match helm.repositories.iter().position(|known| known.url == repository) {
                Some(place) => place,
                None => {
                    let number = helm.repositories.len() + 1;
                    helm.repositories.push(HelmRepository {
                        name: format!("repository-{number}"),
                        url: repository,
                        charts: Vec::new(),
                        newest_only: false,
                        at,
                    });
                    helm.repositories.len() - 1
                }
            };
            let charts = &mut helm.repositories[place].charts;
            if charts.iter().any(|known| known.name == name && known.version == version) {
                return Err(format!("the chart {name} is in the configuration already"));
            }
            charts.push(chart(name, version));
        }
        Addition::Releases { channel, from, to, shortest_path } => {
            let platform = mirror.platform.get_or_insert_with(PlatformSection::default);
            platform.channels.retain(|known| known.name != channel);
            platform.channels.push(ReleaseChannel {
                name: channel,
                distribution: Distribution::Ocp,
                min_version: from,
                max_version: to,
                shortest_path,
                full: false,
                at,
            });
        }
    }
    Ok(())
}

fn chart(name: String, version: Option<String>) -> Chart {
    Chart {
        name,
        version,
        image_paths: Vec::new(),
        environment_variables: Vec::new(),
        platforms: Vec::new(),
        values_files: Vec::new(),
        values: serde_json::Map::new(),
        guess_images: false,
        at: EntryPosition::default(),
    }
}

fn operator(catalog: ImageSource) -> Operator {
    Operator {
        catalog,
        target_catalog: None,
        target_tag: None,
        full: false,
        skip_dependencies: false,
        include_dependencies: false,
        target_catalog_source_template: None,
        platforms: Vec::new(),
        packages: Vec::new(),
        at: EntryPosition::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str = "kind: ImageSetConfiguration\napiVersion: mirror.openshift.io/v2alpha1\nmirror:\n  additionalImages: []\n";

    fn parsed(text: &str) -> ImageSetConfiguration {
        image_set::parse_image_set("isc.yaml", text).unwrap()
    }

    fn package(channel: Option<&str>) -> Addition {
        Addition::Package {
            catalog: ImageSource::Registry("q.io/catalog:v1".parse().unwrap()),
            package: "foo".into(),
            channel: channel.map(str::to_owned),
            default_channel: "stable".into(),
        }
    }

    #[test]
    fn selections_of_each_kind_are_added_to_what_is_there() {
        let image = ImageSource::Registry("q.io/a/b:1".parse().unwrap());
        let text = add(EMPTY, Addition::Image(image.clone())).unwrap();
        let text = add(&text, package(None)).unwrap();
        let releases = Addition::Releases {
            channel: "stable-4.20".into(),
            from: Some("4.20.1".parse().unwrap()),
            to: None,
            shortest_path: true,
        };
        let text = add(&text, releases).unwrap();
        let chart = Addition::Chart {
            repository: "https://charts.example/x".into(),
            name: "app".into(),
            version: Some("1.2.3".into()),
        };
        let text = add(&text, chart.clone()).unwrap();
        assert!(add(&text, chart).unwrap_err().contains("already"));
        let set = parsed(&text);
        let charts = &set.mirror.helm.as_ref().unwrap().repositories[0].charts;
        assert_eq!(charts[0].version.as_deref(), Some("1.2.3"));
        assert_eq!(set.mirror.additional_images[0].name, image);
        assert_eq!(set.mirror.operators[0].packages[0].name, "foo");
        let channel = &set.mirror.platform.unwrap().channels[0];
        assert!(channel.shortest_path && channel.min_version.is_some());
        assert!(add(&text, Addition::Image(image)).unwrap_err().contains("already"));
        assert!(add("kind: x\n", package(None)).unwrap_err().contains("correct them first"));
    }

    #[test]
    fn a_selection_without_the_default_channel_gets_another_one() {
        let text = add(EMPTY, package(Some("beta"))).unwrap();
        let of = |text: &str| parsed(text).mirror.operators.remove(0).packages.remove(0);
        assert_eq!(of(&text).default_channel.as_deref(), Some("beta"));
        let text = add(&text, package(Some("stable"))).unwrap();
        let both = of(&text);
        assert_eq!((both.default_channel, both.channels.len()), (None, 2));
        assert!(add(&text, package(Some("stable"))).unwrap_err().contains("already"));
    }
}
