//! What a configuration uses that other readers of these files do not know.

use std::fmt;

use crate::document::ImageSetConfiguration;
use crate::finding::EntryPosition;
use crate::helm::Helm;

/// A key that other readers refuse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extension {
    /// Where the section with the key starts.
    pub at: EntryPosition,
    pub key: &'static str,
    /// Whose key it is.
    pub of: String,
}

impl ImageSetConfiguration {
    /// The extensions that are used, in the order of the file. None in a file that others can read.
    pub fn extensions(&self) -> Vec<Extension> {
        let mut used = Vec::new();
        if let Some(times) = &self.transfer_times {
            let keys =
                [(times.timetable.is_some(), "timetable"), (times.timezone.is_some(), "timezone")];
            for (_, key) in keys.into_iter().filter(|(is_used, _)| *is_used) {
                used.push(Extension { at: times.at, key, of: "the configuration".to_owned() });
            }
        }
        for operator in &self.mirror.operators {
            if operator.include_dependencies {
                let of = format!("the catalog {}", operator.catalog);
                used.push(Extension { at: operator.at, key: "includeDependencies", of });
            }
            for package in &operator.packages {
                let key = "previousVersions";
                if package.previous_versions.is_some() {
                    let of = format!("the package {:?}", package.name);
                    used.push(Extension { at: package.at, key, of });
                }
                for channel in &package.channels {
                    if channel.previous_versions.is_some() {
                        let of = format!("the channel {:?} of {:?}", channel.name, package.name);
                        used.push(Extension { at: channel.at, key, of });
                    }
                }
            }
        }
        for repository in self.mirror.helm.iter().flat_map(|helm| &helm.repositories) {
            if repository.newest_only {
                let of = format!("the repository {:?}", repository.name);
                used.push(Extension { at: repository.at, key: "newestOnly", of });
            }
        }
        for chart in self.mirror.helm.iter().flat_map(Helm::charts) {
            let keys = [
                (!chart.values.is_empty(), "values"),
                (!chart.values_files.is_empty(), "valuesFiles"),
                (!chart.environment_variables.is_empty(), "environmentVariables"),
                (chart.guess_images, "guessImages"),
            ];
            for (_, key) in keys.into_iter().filter(|(is_used, _)| *is_used) {
                let of = format!("the chart {:?}", chart.name);
                used.push(Extension { at: chart.at, key, of });
            }
        }
        used
    }
}

impl fmt::Display for Extension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} of {}", self.at, self.key, self.of)
    }
}
