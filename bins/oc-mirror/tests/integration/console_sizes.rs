//! Sizes of what is selected in the console, and changes of the selection.

use std::collections::BTreeMap;
use std::fs;

use lab::images::{Compression, Format, Image, Layer};
use lab::operators::{CATALOG, HOST, Operators, TAG};
use lab::registry::{LabRegistry, Settings};
use oci::Digest;
use serde_json::json;

use crate::support::charts::{put_images, serve_charts, write_chart};
use crate::support::console::Console;
use crate::support::releases::World;
use crate::support::{PLAIN, Site, image_set};

const PAGE: &str = "/configuration?name=isc.yaml";

fn site() -> Site {
    let site = Site::new();
    fs::create_dir(site.path("data")).unwrap();
    site
}

/// The page of the configuration once all sizes are known, or are known to be unknown.
fn sized(console: &Console) -> String {
    let page = console.until(PAGE, |page| !page.contains("data-pending"));
    assert!(page.contains("selection-title"), "{page}");
    page
}

/// The bytes in a cell or fact, which pages have as a title beside the rounded size.
fn bytes_after(page: &str, label: &str) -> u64 {
    let after = page.split_once(label).unwrap_or_else(|| panic!("{label} is not in {page}")).1;
    let title = after.split_once("title=\"").unwrap().1;
    title.split(' ').next().unwrap().parse().unwrap()
}

/// What images consist of, shared content once, as a registry would have to store it.
fn unique_bytes(images: &[&Image]) -> u64 {
    let mut content: BTreeMap<Digest, u64> = BTreeMap::new();
    for image in images {
        content.extend(image.blobs.values().map(|blob| (blob.digest, blob.size)));
        let manifests = image.manifests.iter();
        content.extend(manifests.map(|raw| (Digest::of(&raw.bytes), raw.bytes.len() as u64)));
    }
    content.values().sum()
}

fn image(layers: &[(&str, u64)]) -> Image {
    let layers: Vec<Layer> = layers
        .iter()
        .map(|(name, size)| Layer::generate(name, *size, Compression::None).unwrap())
        .collect();
    Image::new(Format::Oci, "linux/amd64".parse().unwrap(), &layers).unwrap()
}

#[test]
fn shared_content_counts_once_and_what_was_determined_is_kept() {
    let registry = LabRegistry::start(Settings::default()).unwrap();
    let one = image(&[("base", 2_000_000), ("one", 300_000)]);
    let two = image(&[("base", 2_000_000), ("two", 50_000)]);
    registry.put_image(&one, "org/one", "v1").unwrap();
    registry.put_image(&two, "org/two", "v1").unwrap();
    let [first, second] = ["org/one", "org/two"].map(|name| registry.image(name, "v1").unwrap());
    let site = site();
    let console = Console::start(&site, &format!("file://data {PLAIN}"));
    let text = image_set(&format!("  additionalImages:\n  - name: {first}\n  - name: {second}\n"));
    console.save("isc.yaml", &format!("archiveSize: 1\n{text}"));
    let page = sized(&console);
    let all = unique_bytes(&[&one, &two]);
    assert_eq!(bytes_after(&page, "<dt>Selected</dt>"), all, "{page}");
    assert_eq!(bytes_after(&page, "<dt>Not here yet</dt>"), all);
    assert!(!page.contains("at least"), "{page}");
    assert!(page.contains("<dt>Archive files</dt>") && page.contains("<dt>Free space</dt>"));
    // Each row: the whole image, and what only it has.
    let row = page.split_once("<table class=\"selection\"").unwrap().1;
    let row = row.split_once(&first.to_string()).unwrap().1;
    assert_eq!(bytes_after(row, "<td>"), unique_bytes(&[&one]));
    let alone = row.split_once("</td>").unwrap().1;
    assert_eq!(bytes_after(alone, "<td>"), all - unique_bytes(&[&two]));

    // The workspace was not touched: no lock, no run, no plan.
    let names = fs::read_dir(site.path("data/working-dir")).unwrap();
    let mut names: Vec<String> =
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["configurations", "console"]);

    // Another console reads the stored sizes; typing sends no request either.
    drop(console);
    registry.forget_requests();
    let console = Console::start(&site, &format!("file://data {PLAIN}"));
    assert_eq!(bytes_after(&sized(&console), "<dt>Selected</dt>"), all);
    let typed = console.post("/configuration/check", &[("name", "x.yaml"), ("text", &text)]).body;
    assert_eq!(bytes_after(&typed, "<dt>Selected</dt>"), all, "{typed}");
    let listed = console.get("/configurations").body;
    assert!(listed.contains(&format!("title=\"{all} bytes\"")), "{listed}");
    assert_eq!(registry.requests().count(), 0);

    // After a run everything is here.
    let job = console.start_job(&[("workflow", "mirrorToDisk"), ("config", "isc.yaml")]);
    assert!(console.until_ended(&job).contains(">Succeeded<"));
    let page = sized(&console);
    assert_eq!(bytes_after(&page, "<dt>Not here yet</dt>"), 0, "{page}");
}

#[test]
fn sizes_are_a_lower_bound_where_something_could_not_be_read() {
    let registry = LabRegistry::start(Settings::default()).unwrap();
    let known = image(&[("known", 100_000)]);
    registry.put_image(&known, "org/known", "v1").unwrap();
    let there = registry.image("org/known", "v1").unwrap();
    let absent = registry.image("org/absent", "v1").unwrap();
    let site = site();
    let console = Console::start(&site, &format!("file://data {PLAIN}"));
    let images = format!("  additionalImages:\n  - name: {there}\n  - name: {absent}\n");
    let catalog = "  operators:\n  - catalog: 127.0.0.1:1/none:v1\n";
    console.save("isc.yaml", &image_set(&format!("{catalog}{images}")));
    let page = sized(&console);
    assert!(page.contains("at least"), "{page}");
    assert_eq!(bytes_after(&page, "<dt>Selected</dt>"), unique_bytes(&[&known]));
    assert!(page.contains("The size could not be determined: "), "{page}");
    assert!(page.contains("Not part of the size:") && page.contains("org/absent"), "{page}");
    // It is not retried periodically, only when the user requests it.
    registry.put_image(&known, "org/absent", "v1").unwrap();
    let before = registry.requests().count();
    sized(&console);
    assert_eq!(registry.requests().count(), before);
    let text = site.read("data/working-dir/configurations/isc.yaml");
    let form = [("name", "isc.yaml"), ("text", &*text), ("base", "")];
    assert_eq!(console.post("/configuration/measure", &form).status, 200);
    assert!(!sized(&console).contains("Not part of the size:"));
    let broken = console.post("/configuration/measure", &[("text", "kind: x\n")]);
    assert_eq!(broken.status, 400);
    assert!(broken.body.contains("kind: x"), "the text is not lost: {}", broken.body);
}

/// A registry with operators, and a console that finds it under the host of their catalog.
fn with_operators() -> (LabRegistry, Operators, Console, Site) {
    let registry = LabRegistry::start(Settings::default()).unwrap();
    let operators = Operators::generate().unwrap();
    operators.put(&registry).unwrap();
    let site = site();
    site.redirect(HOST, registry.address());
    let console = Console::start(&site, &format!("file://data {PLAIN}"));
    (registry, operators, console, site)
}

#[test]
fn packages_have_sizes_of_their_own_and_dependencies_are_shown() {
    let (_registry, operators, console, _site) = with_operators();
    let text = format!(
        "  operators:\n  - catalog: {HOST}/{CATALOG}:{TAG}\n    includeDependencies: true\n    packages:\n    - name: bar\n      channels:\n      - name: stable\n        minVersion: 1.0.0\n"
    );
    console.save("isc.yaml", &image_set(&text));
    let page = sized(&console);
    let images = [("lab/bar-bundle", "v1.0.0"), ("lab/bar", "v1.0.0"), ("lab/shared", "v1")];
    let images = images.map(|(name, tag)| operators.image(name, tag).unwrap());
    let row = page.split_once("aria-label=\"Operators\"").unwrap().1;
    let row = row.split_once(">bar<").unwrap().1;
    assert_eq!(bytes_after(row, "<td>"), unique_bytes(&images), "{page}");
    assert!(page.contains("foo <span class=\"badge active\">dependency</span>"), "{page}");
}

#[test]
fn releases_and_their_channels_have_sizes_of_their_own() {
    let (world, releases) = World::with(&["4.16.1", "4.16.2", "4.16.3"]);
    let site = world.site();
    fs::create_dir(site.path("data")).unwrap();
    let console = Console::of(world.command(&site, "console file://data --listen 127.0.0.1:0"));
    let channel = "  platform:\n    channels:\n    - name: stable-4.16\n      minVersion: 4.16.2\n      maxVersion: 4.16.3\n";
    console.save("isc.yaml", &image_set(channel));
    let page = sized(&console);
    let table = page.split_once("aria-label=\"Releases\"").unwrap().1;
    let images = |release: &'static str| {
        let release = releases.iter().find(|known| known.version == release).unwrap();
        let components = release.components.iter().map(|(_, image)| image);
        components.chain([&release.payload]).collect::<Vec<&Image>>()
    };
    let (second, third) = (images("4.16.2"), images("4.16.3"));
    let both = unique_bytes(&[second.clone(), third.clone()].concat());
    let row = |name: &str| table.split_once(name).unwrap_or_else(|| panic!("{name}: {table}")).1;
    assert_eq!(bytes_after(row("stable-4.16"), "<td>"), both, "{table}");
    for (name, own, other) in
        [("4.16.2-x86_64", &second, &third), ("4.16.3-x86_64", &third, &second)]
    {
        let row = row(name);
        assert_eq!(bytes_after(row, "<td>"), unique_bytes(own), "{name}: {table}");
        let alone = row.split_once("</td>").unwrap().1;
        assert_eq!(bytes_after(alone, "<td>"), both - unique_bytes(other), "{name}: {table}");
    }
    assert!(!table.contains("4.16.1-x86_64"), "{table}");
}

#[test]
fn charts_and_their_repositories_have_sizes_of_their_own() {
    let registry = LabRegistry::start(Settings::default()).unwrap();
    put_images(&registry, &["app", "hook", "cron"]);
    let site = site();
    write_chart(&site, "web", "1.2.0", &registry);
    write_chart(&site, "worker", "2.0.0", &registry);
    let repository = serve_charts(&site, &["web", "worker"]);
    let console = Console::start(&site, &format!("file://data {PLAIN}"));
    let text = format!(
        "  helm:\n    repositories:\n    - name: lab\n      url: {}\n      charts:\n      - name: web\n        version: 1.2.0\n      - name: worker\n        version: 2.0.0\n",
        repository.url()
    );
    console.save("isc.yaml", &image_set(&text));
    let page = sized(&console);
    let table = page.split_once("aria-label=\"Charts\"").unwrap().1;
    let images = ["app", "hook", "cron"].map(|name| Image::tiny(name).unwrap());
    let images = unique_bytes(&images.each_ref());
    let sizes = |name: &str| {
        let row = table.split_once(name).unwrap_or_else(|| panic!("{name}: {table}")).1;
        let alone = row.split_once("</td>").unwrap().1;
        (bytes_after(row, "<td>"), bytes_after(alone, "<td>"))
    };
    let mut charts = 0;
    for (name, file) in [(">web<", "web-1.2.0.tgz"), (">worker<", "worker-2.0.0.tgz")] {
        let (size, alone) = sizes(name);
        // Both use the same images; only the chart itself is not shared.
        assert_eq!(size - images, alone, "{name}: {table}");
        let packed = fs::metadata(site.path(&format!("packed/{file}"))).unwrap().len();
        assert!(alone > packed && alone < packed + 4096, "{name}: {alone} of {packed}");
        charts += alone;
    }
    assert_eq!(sizes(repository.url()), (images + charts, images + charts));
    assert_eq!(bytes_after(&page, "<dt>Selected</dt>"), images + charts, "{page}");
}

#[test]
fn the_size_of_a_channel_is_determined_on_request_before_it_is_added() {
    let (registry, operators, console, _site) = with_operators();
    let catalog = format!("{HOST}/{CATALOG}:{TAG}");
    let is_read = |page: &str| !page.contains("data-reload");
    console.until(&format!("/operators?catalog={catalog}"), is_read);
    // Opening the page requests nothing from a registry.
    registry.forget_requests();
    let path = format!("/operator?catalog={catalog}&name=bar");
    let page = console.get(&path).body;
    assert!(page.contains("aria-label=\"Determine: size of stable\""), "{page}");
    assert_eq!(registry.requests().count(), 0);

    let form = [("catalog", &*catalog), ("name", "bar"), ("channel", "stable")];
    let started = console.post("/operator/measure", &form);
    assert_eq!(started.status, 303, "{}", started.body);
    let page = console.until(started.header("location").unwrap(), is_read);
    let images = [("lab/bar-bundle", "v1.0.0"), ("lab/bar", "v1.0.0"), ("lab/shared", "v1")];
    let images = images.map(|(name, tag)| operators.image(name, tag).unwrap());
    let row = page.split_once("scope=\"row\">stable").unwrap_or_else(|| panic!("{page}")).1;
    assert_eq!(bytes_after(row, "<td>"), unique_bytes(&images), "{page}");
    // Of others nothing is known yet.
    assert!(page.contains("aria-label=\"Determine: size of alpha\""), "{page}");

    let (absent, none) = ([form[0], form[1], ("channel", "none")], [form[0], ("name", "none")]);
    assert_eq!(console.post("/operator/measure", &absent).status, 404);
    assert_eq!(console.post("/operator/measure", &none).status, 404);
    // What cannot be determined is reported where it was requested.
    drop(registry);
    let form = [form[0], form[1], ("channel", "alpha")];
    assert_eq!(console.post("/operator/measure", &form).status, 303);
    let page = console.until(&path, is_read);
    assert!(page.contains("aria-label=\"Try again: size of alpha\""), "{page}");
}

#[test]
fn the_text_changes_with_the_selection_and_nothing_is_saved_by_that() {
    let registry = LabRegistry::start(Settings::default()).unwrap();
    registry.put_image(&Image::tiny("app").unwrap(), "org/app", "v1").unwrap();
    let app = registry.image("org/app", "v1").unwrap().to_string();
    let site = site();
    let console = Console::start(&site, &format!("file://data {PLAIN}"));
    // A text of the editor that was never saved.
    let text = image_set("  additionalImages:\n  - name: quay.io/a/b:1\n");
    let form = |change: &str, text: &str| {
        console.post(
            "/configuration/change",
            &[("name", "new.yaml"), ("text", text), ("image", &app), ("change", change)],
        )
    };
    let added = form("image", &text);
    assert_eq!(added.status, 200, "{}", added.body);
    assert!(added.body.contains("The registry has ") && added.body.contains(&app));
    let removed = form("remove image.0 quay.io/a/b:1", &text);
    assert!(removed.body.contains("Nothing is selected yet"), "{}", removed.body);
    for wrong in ["remove image.0 quay.io/other:1", "remove image.9 x", "remove", "reboot", ""] {
        let refused = form(wrong, &text);
        assert_eq!(refused.status, 400, "{wrong}");
        assert!(refused.body.contains("quay.io/a/b:1"), "the text is not lost");
    }
    assert!(!site.path("data/working-dir/configurations").exists());
}

#[test]
fn a_configuration_is_made_from_the_inventory_of_a_cluster() {
    let (world, _) = World::with(&["4.16.1", "4.16.2", "4.16.3"]);
    let site = world.site();
    fs::create_dir(site.path("data")).unwrap();
    let console = Console::of(world.command(&site, "console file://data --listen 127.0.0.1:0"));
    let cluster = json!({
        "kind": "ClusterInventory",
        "schema": 1,
        "cluster": { "version": "4.16.1", "channel": "stable-4.16", "architecture": "amd64" },
    });
    let make = |inventory: &str, to: &str| {
        console.post("/configuration/inventory", &[("inventory", inventory), ("to", to)])
    };
    let newest = make(&cluster.to_string(), "").body;
    for words in ["minVersion: 4.16.1", "maxVersion: 4.16.3", "Created from the inventory"] {
        assert!(newest.contains(words), "{words}: {newest}");
    }
    assert!(make(&cluster.to_string(), "4.16.2").body.contains("maxVersion: 4.16.2"));
    for (inventory, to) in [("{}", ""), ("not JSON", ""), (&*cluster.to_string(), "--help")] {
        let refused = make(inventory, to);
        assert_eq!(refused.status, 500, "{}", refused.body);
        assert!(refused.body.contains("role=\"alert\"") && !refused.body.contains("Usage:"));
        assert!(!refused.body.contains("/tmp/inventory-"), "{}", refused.body);
    }
}
