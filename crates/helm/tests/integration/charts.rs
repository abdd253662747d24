//! Every chart of the data, with its defaults and with optional features switched on, compared with
//! real Helm.

use std::path::{Path, PathBuf};

use crate::comparison::{chart_at, differences, images_of, ours, reference, switched_on};

/// Documents that differ, with the reason. At most five.
const EXCEPTIONS: [(&str, &str, &str); 0] = [];

fn charts(folder: &Path) -> Vec<PathBuf> {
    let inside = |name: &str| std::fs::read_dir(folder.join(name)).expect("a folder");
    let paths =
        inside("charts").chain(inside("packages")).map(|entry| entry.expect("an entry").path());
    let is_chart = |path: &PathBuf| {
        path.join("Chart.yaml").is_file() || path.extension().is_some_and(|e| e == "tgz")
    };
    let mut charts: Vec<PathBuf> = paths.filter(is_chart).collect();
    charts.sort();
    charts
}

/// The chart's own examples of values beside those that are derived.
fn value_sets(path: &Path) -> Vec<(String, String)> {
    let chart = chart_at(path);
    let mut sets = vec![("defaults".to_owned(), String::new())];
    sets.extend((0..3).map(|third| (format!("third {third}"), switched_on(&chart, third))));
    for folder in ["ci", "."] {
        let Ok(entries) = std::fs::read_dir(path.join(folder)) else { continue };
        for entry in entries {
            let file = entry.expect("an entry").path();
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.ends_with(".yaml") && name.contains("values") && name != "values.yaml" {
                sets.push((name, std::fs::read_to_string(&file).expect("values")));
            }
        }
    }
    sets
}

#[test]
fn every_chart_of_the_data_renders_as_with_helm() {
    let Some(folder) = data_tier::data_tier("helm-charts") else { return };
    let mut wrong = Vec::new();
    let (mut rendered, mut images) = (0, 0);
    for path in charts(&folder) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for (set, values) in value_sets(&path) {
            match (reference(&path, &values), ours(&path, &values)) {
                (Ok(wanted), Ok(found)) => {
                    rendered += 1;
                    images += images_of(&wanted).len();
                    if images_of(&wanted) != images_of(&found) {
                        let (wanted, found) = (images_of(&wanted), images_of(&found));
                        wrong.push(format!("{name}, {set}: images {found:?} not {wanted:?}"));
                    }
                    let mut different = differences(&wanted, &wanted, &found);
                    if !different.is_empty() {
                        let again = reference(&path, &values).expect("it rendered before");
                        different = differences(&wanted, &again, &found);
                    }
                    for difference in different {
                        let is_known = |(chart, part, _): &(&str, &str, &str)| {
                            *chart == name && difference.contains(part)
                        };
                        if !EXCEPTIONS.iter().any(is_known) {
                            wrong.push(format!("{name}, {set}: {difference}"));
                        }
                    }
                }
                (Err(_), Err(_)) => {}
                (Err(error), Ok(_)) => wrong.push(format!("{name}, {set}: Helm fails: {error}")),
                (Ok(_), Err(error)) => wrong.push(format!("{name}, {set}: we fail: {error}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{} differences\n{}", wrong.len(), wrong.join("\n"));
    // The comparison means nothing if nothing is compared.
    assert!(rendered > 80 && images > 80, "{rendered} renderings, {images} images");
}
