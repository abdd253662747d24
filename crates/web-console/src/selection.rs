//! What a configuration selects, item by item, and the configuration without one of them. Pure.

use std::fmt;
use std::str::FromStr;

use image_set::{
    Chart, HelmRepository, ImageSetConfiguration, Operator, Package, PackageChannel,
    PlatformSection, ReleaseChannel,
};

use crate::sizes::parts::PartKind;

/// Something that is selected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) place: ItemPlace,
    pub(crate) name: String,
    /// Versions, channels and so on, in words.
    pub(crate) detail: String,
}

/// Where an item is in a configuration, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ItemPlace {
    Channel(usize),
    /// One release by its image.
    Release,
    Catalog(usize),
    Package(usize, usize),
    Image(usize),
    Repository(usize),
    Chart(usize, usize),
    LocalChart(usize),
}

impl ItemPlace {
    /// The part whose size it is in.
    pub(crate) fn part(self) -> PartKind {
        match self {
            Self::Channel(_) | Self::Release => PartKind::Releases,
            Self::Catalog(catalog) | Self::Package(catalog, _) => PartKind::Catalog(catalog),
            Self::Image(_) => PartKind::Images,
            Self::Repository(_) | Self::Chart(..) | Self::LocalChart(_) => PartKind::Charts,
        }
    }
}

/// As forms send it.
impl fmt::Display for ItemPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Channel(at) => write!(f, "channel.{at}"),
            Self::Release => f.write_str("release"),
            Self::Catalog(at) => write!(f, "catalog.{at}"),
            Self::Package(catalog, at) => write!(f, "package.{catalog}.{at}"),
            Self::Image(at) => write!(f, "image.{at}"),
            Self::Repository(at) => write!(f, "repository.{at}"),
            Self::Chart(repository, at) => write!(f, "chart.{repository}.{at}"),
            Self::LocalChart(at) => write!(f, "local.{at}"),
        }
    }
}

impl FromStr for ItemPlace {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (word, rest) = text.split_once('.').unwrap_or((text, ""));
        let numbers: Result<Vec<usize>, _> =
            rest.split('.').filter(|part| !part.is_empty()).map(str::parse).collect();
        Ok(match (word, numbers.map_err(|_| ())?.as_slice()) {
            ("channel", [at]) => Self::Channel(*at),
            ("release", []) => Self::Release,
            ("catalog", [at]) => Self::Catalog(*at),
            ("package", [catalog, at]) => Self::Package(*catalog, *at),
            ("image", [at]) => Self::Image(*at),
            ("repository", [at]) => Self::Repository(*at),
            ("chart", [repository, at]) => Self::Chart(*repository, *at),
            ("local", [at]) => Self::LocalChart(*at),
            _ => return Err(()),
        })
    }
}

/// Every item, in the order of the configuration.
pub(crate) fn items(set: &ImageSetConfiguration) -> Vec<Item> {
    let mirror = &set.mirror;
    let mut items = Vec::new();
    if let Some(platform) = &mirror.platform {
        items.extend(releases(platform));
    }
    for (place, operator) in mirror.operators.iter().enumerate() {
        items.push(catalog(place, operator));
        let package = |(at, package): (usize, &Package)| Item {
            place: ItemPlace::Package(place, at),
            name: package.name.clone(),
            detail: package_detail(package),
        };
        items.extend(operator.packages.iter().enumerate().map(package));
    }
    items.extend(mirror.additional_images.iter().enumerate().map(|(at, image)| Item {
        place: ItemPlace::Image(at),
        name: image.name.to_string(),
        detail: image.platforms.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    }));
    if let Some(helm) = &mirror.helm {
        for (place, repository) in helm.repositories.iter().enumerate() {
            items.push(chart_repository(place, repository));
            let chart =
                |(at, chart): (usize, &Chart)| chart_item(ItemPlace::Chart(place, at), chart);
            items.extend(repository.charts.iter().enumerate().map(chart));
        }
        let local = helm.local.iter().enumerate();
        items.extend(local.map(|(at, local)| chart_item(ItemPlace::LocalChart(at), &local.chart)));
    }
    items
}

fn releases(platform: &PlatformSection) -> Vec<Item> {
    let range = |channel: &ReleaseChannel| {
        let path = if channel.shortest_path { ", shortest path" } else { "" };
        match (&channel.min_version, &channel.max_version) {
            _ if channel.full => "every release".to_owned(),
            (None, None) => "the newest release".to_owned(),
            (Some(min), None) => format!("{min} to the newest{path}"),
            (None, Some(max)) => format!("up to {max}{path}"),
            (Some(min), Some(max)) if min == max => min.to_string(),
            (Some(min), Some(max)) => format!("{min} to {max}{path}"),
        }
    };
    let release = platform.release.iter().map(|image| Item {
        place: ItemPlace::Release,
        name: image.to_string(),
        detail: "one release".to_owned(),
    });
    let channels = platform.channels.iter().enumerate().map(|(at, channel)| Item {
        place: ItemPlace::Channel(at),
        name: channel.name.clone(),
        detail: range(channel),
    });
    release.chain(channels).collect()
}

fn catalog(place: usize, operator: &Operator) -> Item {
    let mut detail = match (operator.packages.is_empty(), operator.full) {
        (true, true) => "every version of all packages".to_owned(),
        (true, false) => "the newest version of all packages".to_owned(),
        (false, true) => "every version of:".to_owned(),
        (false, false) => String::new(),
    };
    if operator.include_dependencies {
        detail = [detail.as_str(), "with dependencies"].join(" ").trim().to_owned();
    }
    Item { place: ItemPlace::Catalog(place), name: operator.catalog.to_string(), detail }
}

fn package_detail(package: &Package) -> String {
    let range = |min: Option<String>, max: Option<String>, before: Option<u32>| {
        let bounds = match (min, max) {
            (None, None) => String::new(),
            (Some(min), None) => format!(" from {min}"),
            (None, Some(max)) => format!(" to {max}"),
            (Some(min), Some(max)) => format!(" {min} to {max}"),
        };
        match before {
            Some(count) => format!("{bounds} and {count} before"),
            None => bounds,
        }
    };
    let text =
        |version: &Option<image_set::PackageVersion>| version.as_ref().map(ToString::to_string);
    let channel = |channel: &PackageChannel| {
        let (min, max) = (text(&channel.min_version), text(&channel.max_version));
        format!("{}{}", channel.name, range(min, max, channel.previous_versions))
    };
    let (min, max) = (text(&package.min_version), text(&package.max_version));
    let mut detail = match package.channels.as_slice() {
        [] => format!("all channels{}", range(min, max, package.previous_versions)),
        channels => channels.iter().map(channel).collect::<Vec<_>>().join(", "),
    };
    if let Some(default) = &package.default_channel {
        detail += &format!("; default channel {default}");
    }
    detail
}

fn chart_repository(place: usize, repository: &HelmRepository) -> Item {
    let detail = match (repository.charts.is_empty(), repository.newest_only) {
        (false, _) => "",
        (true, true) => "the newest version of all charts",
        (true, false) => "all charts",
    };
    let name = repository.url.clone();
    Item { place: ItemPlace::Repository(place), name, detail: detail.to_owned() }
}

fn chart_item(place: ItemPlace, chart: &Chart) -> Item {
    let detail = chart.version.clone().unwrap_or_else(|| "the newest version".to_owned());
    Item { place, name: chart.name.clone(), detail }
}

/// The configuration without the item at `place`, rewritten. `name` is the item's: where the
/// text was edited since, another one may be there.
pub(crate) fn remove(text: &str, place: ItemPlace, name: &str) -> Result<String, String> {
    let mut set = image_set::parse_image_set("the configuration", text).map_err(|findings| {
        format!("the configuration has errors; correct them first: {findings}")
    })?;
    let is_there = items(&set).iter().any(|item| item.place == place && item.name == name);
    if !is_there {
        return Err(format!("{name} is not in the configuration"));
    }
    let mirror = &mut set.mirror;
    match place {
        ItemPlace::Channel(_) | ItemPlace::Release => {
            if let Some(platform) = &mut mirror.platform {
                match place {
                    ItemPlace::Channel(at) => drop(platform.channels.remove(at)),
                    _ => platform.release = None,
                }
            }
            // A graph alone selects nothing.
            let is_empty = |platform: &PlatformSection| {
                platform.channels.is_empty() && platform.release.is_none()
            };
            mirror.platform.take_if(|platform| is_empty(platform));
        }
        ItemPlace::Catalog(at) => drop(mirror.operators.remove(at)),
        ItemPlace::Package(catalog, at) => {
            let packages = &mut mirror.operators[catalog].packages;
            packages.remove(at);
            // A catalog without packages would select all of them.
            if packages.is_empty() {
                mirror.operators.remove(catalog);
            }
        }
        ItemPlace::Image(at) => drop(mirror.additional_images.remove(at)),
        ItemPlace::Repository(_) | ItemPlace::Chart(..) | ItemPlace::LocalChart(_) => {
            let Some(helm) = &mut mirror.helm else {
                return Err(format!("{name} no longer exists"));
            };
            match place {
                ItemPlace::Chart(repository, at) => {
                    let charts = &mut helm.repositories[repository].charts;
                    charts.remove(at);
                    if charts.is_empty() {
                        helm.repositories.remove(repository);
                    }
                }
                ItemPlace::LocalChart(at) => drop(helm.local.remove(at)),
                ItemPlace::Repository(at) => drop(helm.repositories.remove(at)),
                _ => {}
            }
            mirror.helm.take_if(|helm| helm.repositories.is_empty() && helm.local.is_empty());
        }
    }
    set.to_yaml().map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
kind: ImageSetConfiguration
apiVersion: mirror.openshift.io/v2alpha1
mirror:
  platform:
    channels:
    - name: stable-4.20
      minVersion: 4.20.1
      maxVersion: 4.20.3
      shortestPath: true
  operators:
  - catalog: q.io/c:1
    packages:
    - name: foo
      channels:
      - name: stable
        minVersion: 1.0.0
    - name: bar
  - catalog: q.io/d:1
  additionalImages:
  - name: q.io/a:1
  - name: q.io/b:1
  helm:
    repositories:
    - name: r
      url: https://charts.example
      charts:
      - name: web
        version: 1.2.3
";

    fn of(text: &str) -> Vec<Item> {
        items(&image_set::parse_image_set("isc.yaml", text).unwrap())
    }

    #[test]
    fn every_selection_is_an_item_with_its_range() {
        let lines: Vec<String> =
            of(TEXT).iter().map(|item| format!("{}: {}", item.name, item.detail)).collect();
        assert_eq!(
            lines,
            [
                "stable-4.20: 4.20.1 to 4.20.3, shortest path",
                "q.io/c:1: ",
                "foo: stable from 1.0.0",
                "bar: all channels",
                "q.io/d:1: the newest version of all packages",
                "q.io/a:1: ",
                "q.io/b:1: ",
                "https://charts.example: ",
                "web: 1.2.3",
            ]
        );
    }

    #[test]
    fn places_are_read_as_they_are_written() {
        for item in of(TEXT) {
            assert_eq!(item.place.to_string().parse(), Ok(item.place));
        }
        for text in ["", "image", "image.x", "image.1.2", "package.1", "release.1", "image.-1"] {
            assert_eq!(text.parse::<ItemPlace>(), Err(()), "{text}");
        }
    }

    #[test]
    fn each_item_can_be_removed_and_nothing_else_is_removed() {
        let all = of(TEXT);
        for item in &all {
            let text = remove(TEXT, item.place, &item.name).unwrap();
            let left: Vec<String> = of(&text).into_iter().map(|left| left.name).collect();
            // A catalog goes with its packages, a repository with its only chart and back.
            let gone: &[&str] = match item.name.as_str() {
                "q.io/c:1" => &["q.io/c:1", "foo", "bar"],
                "https://charts.example" | "web" => &["https://charts.example", "web"],
                name => &[name],
            };
            let expected = all.iter().map(|item| item.name.clone());
            let expected: Vec<String> =
                expected.filter(|name| !gone.contains(&name.as_str())).collect();
            assert_eq!(left, expected, "without {}", item.name);
        }
    }

    #[test]
    fn a_place_that_has_another_item_by_now_is_refused() {
        assert!(remove(TEXT, ItemPlace::Image(0), "q.io/b:1").unwrap_err().contains("is not in"));
        assert!(remove(TEXT, ItemPlace::Package(7, 0), "foo").is_err());
        assert!(remove("kind: x\n", ItemPlace::Release, "x").unwrap_err().contains("errors"));
    }

    #[test]
    fn the_last_package_takes_its_catalog_along_which_would_select_all_otherwise() {
        let text = remove(TEXT, ItemPlace::Package(0, 1), "bar").unwrap();
        let text = remove(&text, ItemPlace::Package(0, 0), "foo").unwrap();
        assert!(!text.contains("q.io/c:1") && text.contains("q.io/d:1"), "{text}");
    }
}
