//! Every chart of the data, with its defaults and with optional features enabled, compared with
//! real Helm.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use helm::capabilities::ApiSet;

use crate::comparison::{
    api_versions, chart_at, differences, discovered, images_of, ours, reference, reference_with,
    switched_on,
};

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

/// What a comparison found.
#[derive(Default)]
struct Compared {
    rendered: usize,
    images: usize,
    wrong: Vec<String>,
}

fn compare_chart(path: &Path) -> Compared {
    let mut compared = Compared::default();
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    for (set, values) in value_sets(path) {
        let differences = match (reference(path, &values), ours(path, &values)) {
            (Ok(expected), Ok(found)) => {
                compared.rendered += 1;
                let (wanted_images, images) = (images_of(&expected), images_of(&found));
                compared.images += wanted_images.len();
                let mut different = differences(&expected, &expected, &found);
                if !different.is_empty() {
                    let again = reference(path, &values).expect("it rendered before");
                    different = differences(&expected, &again, &found);
                }
                let is_known = |difference: &String| {
                    let mut known = EXCEPTIONS.iter();
                    known.any(|(chart, part, _)| *chart == name && difference.contains(part))
                };
                different.retain(|difference| !is_known(difference));
                if wanted_images != images {
                    different.push(format!("images {images:?} not {wanted_images:?}"));
                }
                different.extend(compare_images(path, &values, ApiSet::Plain, &wanted_images));
                // What OpenShift adds shows in other branches.
                let apis = api_versions(ApiSet::OpenShift);
                if let Ok(expected) = reference_with(path, &values, &apis) {
                    let expected = images_of(&expected);
                    different.extend(compare_images(path, &values, ApiSet::OpenShift, &expected));
                }
                different
            }
            (Err(_), Err(_)) => Vec::new(),
            (Err(error), Ok(_)) => vec![format!("Helm fails: {error}")],
            (Ok(_), Err(error)) => vec![format!("we fail: {error}")],
        };
        let message =
            differences.into_iter().map(|difference| format!("{name}, {set}: {difference}"));
        compared.wrong.extend(message);
    }
    compared
}

/// Compares the images that the program collects with those in Helm's documents.
fn compare_images(
    path: &Path,
    values: &str,
    apis: ApiSet,
    expected: &BTreeSet<String>,
) -> Option<String> {
    let found = discovered(path, values, apis);
    (found != *expected).then(|| format!("{apis:?}: collected {found:?} not {expected:?}"))
}

#[test]
fn every_chart_of_the_data_renders_as_with_helm() {
    let Some(folder) = data_tier::data_tier("helm-charts") else { return };
    let (charts, next) = (charts(&folder), AtomicUsize::new(0));
    let work = || {
        let mut all = Compared::default();
        while let Some(path) = charts.get(next.fetch_add(1, Ordering::Relaxed)) {
            let compared = compare_chart(path);
            all.rendered += compared.rendered;
            all.images += compared.images;
            all.wrong.extend(compared.wrong);
        }
        all
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let compared: Vec<Compared> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| worker.join().expect("a comparison panicked")).collect()
    });
    let wrong: Vec<&String> = compared.iter().flat_map(|compared| &compared.wrong).collect();
    assert!(wrong.is_empty(), "{} differences\n{wrong:#?}", wrong.len());
    // The comparison means nothing if nothing is compared.
    let rendered: usize = compared.iter().map(|compared| compared.rendered).sum();
    let images: usize = compared.iter().map(|compared| compared.images).sum();
    println!("{} charts, {rendered} renderings, {images} images", charts.len());
    assert!(rendered > 80 && images > 80, "{rendered} renderings, {images} images");
}
