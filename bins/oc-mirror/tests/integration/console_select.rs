//! Selecting in the console: operators of catalogs, good and hostile, releases, single images.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lab::catalogs::{self, Shape};
use lab::images::Image;
use lab::operators::{CATALOG, HOST, Operators, TAG};
use lab::registry::{LabRegistry, Settings};
use lab::update_service::Graph;
use serde_json::json;

use crate::support::browser::Browser;
use crate::support::charts::{serve_charts, write_chart};
use crate::support::console::{Console, Response};
use crate::support::operators::{catalog_image, package};
use crate::support::releases::World;
use crate::support::{PLAIN, Site, image_set};

/// Far more than anything here takes; what takes longer hangs.
const DEADLINE: Duration = Duration::from_secs(300);
/// What a page may have at most.
const MAX_PAGE: usize = 200 * 1024;

fn site() -> Site {
    let site = Site::new();
    fs::create_dir(site.path("data")).unwrap();
    site
}

/// The list of a catalog once it was read.
fn opened(console: &Console, query: &str) -> Response {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let page = console.get(&format!("/operators?{query}"));
        if !page.body.contains("data-reload") {
            return page;
        }
        assert!(Instant::now() < deadline, "the catalog is not read");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_package_of_a_catalog_is_found_and_added_with_its_default_channel() {
    let registry = LabRegistry::start(Settings::default()).unwrap();
    Operators::generate().unwrap().put(&registry).unwrap();
    let site = site();
    site.redirect(HOST, registry.address());
    let console = Console::start(&site, &format!("file://data {PLAIN}"));
    let catalog = format!("{HOST}/{CATALOG}:{TAG}");
    let list = opened(&console, &format!("catalog={catalog}"));
    assert_eq!(list.status, 200, "{}", list.body);
    assert!(list.body.contains("3 packages, 9 bundles"), "{}", list.body);
    let found = opened(&console, &format!("catalog={catalog}&q=baz")).body;
    assert!(found.contains("name=baz") && !found.contains("name=foo"), "{found}");

    let page = console.get(&format!("/operator?catalog={catalog}&name=bar")).body;
    for words in ["alpha", "stable", "1.0.0, 0.1.0", "package foo", "list operators --catalog="] {
        assert!(page.contains(words), "{words}: {page}");
    }
    let form = [
        ("kind", "package"),
        ("catalog", &*catalog),
        ("package", "bar"),
        ("channel", "alpha"),
        ("name", ""),
    ];
    let draft = console.post("/configuration/add", &form);
    assert_eq!(draft.status, 200, "{}", draft.body);
    for words in ["not saved yet", "name: bar", "name: alpha", "defaultChannel: alpha"] {
        assert!(draft.body.contains(words), "{words}: {}", draft.body);
    }
    let diagram =
        console.get(&format!("/operator/diagram?catalog={catalog}&name=bar&channel=alpha"));
    assert_eq!(diagram.header("content-type"), Some("image/svg+xml"), "{}", diagram.body);
    assert!(diagram.header("content-security-policy").unwrap().contains("sandbox"));
    assert!(diagram.body.contains("0.2.0"), "{}", diagram.body);

    // A registry that goes down while browsing: what was read stays, what was not is reported.
    drop(registry);
    assert_eq!(opened(&console, &format!("catalog={catalog}")).status, 200);
    let failed = opened(&console, &format!("catalog={HOST}/{CATALOG}:v9"));
    assert_eq!(failed.status, 502);
    assert!(failed.body.contains("Try again"), "{}", failed.body);
    for wrong in ["catalog=quay.io/no-tag", "catalog=%3Cscript%3E"] {
        let page = console.get(&format!("/operators?{wrong}")).body;
        assert!(page.contains("role=\"alert\"") && !page.contains("<script>"), "{page}");
    }
}

#[test]
fn a_hostile_catalog_runs_no_script_and_does_not_swell_pages() {
    let registry = LabRegistry::start(Settings::default()).unwrap();
    let svg = "<svg xmlns='http://www.w3.org/2000/svg' onload='document.title=1'><script>fetch('/control')</script></svg>";
    let script =
        "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">";
    let mut hostile = package("evil", "stable", &[("1.0.0", json!({}))]);
    hostile = hostile.replacen(
        "\"schema\":\"olm.package\"",
        &format!(
            "\"schema\":\"olm.package\",\"description\":{},\"icon\":{}",
            json!(script),
            json!({"base64data": STANDARD.encode(svg), "mediatype": "image/svg+xml"})
        ),
        1,
    );
    assert!(hostile.contains("onerror"), "{hostile}");
    let long = "n".repeat(1 << 20);
    let huge = package(&long, "stable", &[("1.0.0", json!({}))]);
    let image = catalog_image(&[("evil.json", hostile.as_bytes()), ("long.json", huge.as_bytes())]);
    registry.put_image(&image, "org/evil", "v1").unwrap();
    let site = site();
    let console = Console::start(&site, &format!("file://data {PLAIN}"));
    let catalog = registry.image("org/evil", "v1").unwrap().to_string();
    let list = opened(&console, &format!("catalog={catalog}"));
    assert_eq!(list.status, 200, "{}", &list.body[..list.body.len().min(3000)]);
    let detail = console.get(&format!("/operator?catalog={catalog}&name=evil"));
    assert_eq!(detail.status, 200, "{}", detail.body);
    for page in [&list.body, &detail.body] {
        assert!(!page.contains("<script>document") && !page.contains("<img src=x"), "{page}");
        assert!(page.len() < MAX_PAGE, "{} bytes", page.len());
    }
    assert!(detail.body.contains("&lt;script&gt;"), "the description is shown as text");
    let icon = console.get(&format!("/operator/icon?catalog={catalog}&name=evil"));
    assert_eq!(icon.body, svg);
    let policy = icon.header("content-security-policy").unwrap();
    assert!(policy.contains("sandbox") && policy.contains("default-src 'none'"), "{policy}");

    // A browser agrees, even if a user opens the icon itself.
    let browser = Browser::start();
    browser.open(&console.url);
    browser.until_shown("No run is in progress");
    for path in ["/operators", "/operator", "/operator/icon"] {
        browser.open(&format!("http://{}{path}?catalog={catalog}&name=evil", console.host));
        thread::sleep(Duration::from_millis(300));
        let title = browser.script("return document.title || ''");
        let title = title.as_str().unwrap_or_default();
        assert!(!title.contains("owned") && title != "1", "{path}: {title}");
    }
}

#[test]
fn a_catalog_with_9600_bundles_is_shown_in_small_pages() {
    let site = site();
    let shape = Shape { packages: 150, bundles: 64, channels: 3, related_images: 1, text: 200 };
    catalogs::write(shape, &site.path("catalog")).unwrap();
    let mut files = Vec::new();
    for number in 0..shape.packages {
        let name = catalogs::package_name(number);
        let text = fs::read(site.path(&format!("catalog/{name}/catalog.json"))).unwrap();
        files.push((format!("{name}.json"), text));
    }
    let files: Vec<(&str, &[u8])> =
        files.iter().map(|(name, text)| (name.as_str(), text.as_slice())).collect();
    let registry = LabRegistry::start(Settings::default()).unwrap();
    registry.put_image(&catalog_image(&files), "org/large", "v1").unwrap();
    let console = Console::start(&site, &format!("file://data {PLAIN}"));
    let catalog = registry.image("org/large", "v1").unwrap().to_string();
    let list = opened(&console, &format!("catalog={catalog}"));
    assert!(list.body.contains("150 packages, 9600 bundles"), "{}", list.body);
    assert!(list.body.contains("1–50 of 150") && list.body.len() < MAX_PAGE);
    let requests = registry.requests().count();
    let last = opened(&console, &format!("catalog={catalog}&page=3"));
    assert!(last.body.contains("101–150 of 150"), "{}", last.body);
    let name = catalogs::package_name(149);
    let detail = console.get(&format!("/operator?catalog={catalog}&name={name}"));
    assert!(detail.status == 200 && detail.body.len() < MAX_PAGE, "{}", detail.body.len());
    assert_eq!(registry.requests().count(), requests, "the catalog is read once");
}

#[test]
fn releases_are_listed_with_a_diagram_of_the_path_and_added() {
    let world = World::empty();
    let payload = |version: &str| {
        format!("quay.io/openshift-release-dev/ocp-release@{}", oci::Digest::of(version.as_bytes()))
    };
    let versions = ["4.14.0", "4.14.2", "4.14.9"];
    let graph = versions.iter().fold(Graph::default(), |graph, version| {
        graph.node_in(version, &payload(version), &["stable-4.14"])
    });
    let graph = graph.edge("4.14.0", "4.14.2").edge("4.14.2", "4.14.9");
    world.service.publish("stable-4.14", "amd64", &graph);
    let site = site();
    site.write("release-key.asc", world.key.public());
    let console = Console::of(world.command(&site, "console file://data --listen 127.0.0.1:0"));
    let query = "channel=stable-4.14&from=4.14.0&to=4.14.9";
    let page = console.get(&format!("/releases?{query}")).body;
    for words in
        ["4.14.9, 4.14.2, 4.14.0", "Upgrade path", "/releases/diagram?", "upgrade-path release"]
    {
        assert!(page.contains(words), "{words}: {page}");
    }
    let diagram = console.get(&format!("/releases/diagram?{query}"));
    assert_eq!(diagram.header("content-type"), Some("image/svg+xml"), "{}", diagram.body);
    assert!(diagram.body.contains("4.14.2") && diagram.body.starts_with("<svg"));
    let form = [
        ("kind", "releases"),
        ("channel", "stable-4.14"),
        ("from", "4.14.0"),
        ("to", "4.14.9"),
        ("shortest", "true"),
        ("name", ""),
    ];
    let draft = console.post("/configuration/add", &form).body;
    for words in [
        "stable-4.14",
        "minVersion: &quot;4.14.0&quot;",
        "maxVersion: &quot;4.14.9&quot;",
        "shortestPath: true",
    ] {
        assert!(draft.contains(words), "{words}: {draft}");
    }
    // Text of a request is never taken for a flag.
    let odd = console.get("/releases?channel=--help").body;
    assert!(odd.contains("role=\"alert\"") && !odd.contains("Usage:"), "{odd}");
    let absent = console.get("/releases?channel=stable-9.99").body;
    assert!(absent.contains("role=\"alert\""), "{absent}");
}

#[test]
fn an_image_is_checked_and_added_to_a_saved_configuration() {
    let registry = LabRegistry::start(Settings::default()).unwrap();
    registry.put_image(&Image::tiny("app").unwrap(), "org/app", "v1").unwrap();
    let site = site();
    let console = Console::start(&site, &format!("file://data {PLAIN}"));
    let text = format!("# keep\n{}", image_set("  additionalImages: []\n"));
    let form = [("name", "isc.yaml"), ("text", &*text), ("base", "")];
    assert_eq!(console.post("/configuration/save", &form).status, 303);
    let add = |tag: &str| {
        let image = registry.image("org/app", tag).unwrap().to_string();
        console.post(
            "/configuration/add",
            &[("kind", "image"), ("name", "isc.yaml"), ("image", &image)],
        )
    };
    let found = add("v1").body;
    assert!(found.contains("The registry has ") && found.contains("org/app:v1"), "{found}");
    assert!(found.contains("Comments of the file are not in this text"), "{found}");
    assert!(add("v2").body.contains("The registry does not have "));
    // Nothing was saved.
    assert_eq!(site.read("data/working-dir/configurations/isc.yaml"), text);
}

#[test]
fn a_chart_of_a_repository_is_listed_and_added_with_its_version() {
    let registry = LabRegistry::start(Settings::default()).unwrap();
    let site = site();
    write_chart(&site, "web", "1.2.3", &registry);
    let repository = serve_charts(&site, &["web"]);
    let url = repository.url().to_string();
    let console = Console::start(&site, &format!("file://data {PLAIN}"));
    let list = console.get(&format!("/charts?repository={url}")).body;
    assert!(list.contains("chart=web") && list.contains("1.2.3"), "{list}");
    let chart = console.get(&format!("/charts?repository={url}&chart=web")).body;
    assert!(chart.contains("list charts --repository="), "{chart}");
    let form = [
        ("kind", "chart"),
        ("repository", &*url),
        ("package", "web"),
        ("version", "1.2.3"),
        ("name", ""),
    ];
    let draft = console.post("/configuration/add", &form).body;
    for words in ["name: web", "version: &quot;1.2.3&quot;", "charts:"] {
        assert!(draft.contains(words), "{words}: {draft}");
    }
    let absent = console.get(&format!("/charts?repository={url}none")).body;
    assert!(absent.contains("role=\"alert\""), "{absent}");
}

#[test]
fn updates_between_eus_releases_are_marked_on_the_page_and_in_the_diagram() {
    let world = World::empty();
    let payload = |version: &str| format!("quay.io/a/b@{}", oci::Digest::of(version.as_bytes()));
    let versions = ["4.12.5", "4.13.4", "4.14.2", "4.14.9"];
    let graph = versions.iter().fold(Graph::default(), |graph, version| {
        graph.node_in(version, &payload(version), &["eus-4.14"])
    });
    let pairs = versions.windows(2);
    let graph = pairs.fold(graph, |graph, pair| graph.edge(pair[0], pair[1]));
    world.service.publish("eus-4.14", "amd64", &graph);
    let site = world.site();
    fs::create_dir(site.path("data")).unwrap();
    let console = Console::of(world.command(&site, "console file://data --listen 127.0.0.1:0"));
    let query = "channel=eus-4.14&from=4.12.5&to=4.14.9";
    let page = console.get(&format!("/releases?{query}")).body;
    for words in ["EUS channel", "Extended Update Support", "EUS to EUS: ", "4.12 to 4.14"] {
        assert!(page.contains(words), "{words}: {page}");
    }
    let svg = console.get(&format!("/releases/diagram?{query}")).body;
    // The last hop stays inside 4.14.
    assert_eq!(svg.matches(">EUS 4.12 to 4.14<").count(), 2, "{svg}");
    let page = console.get("/releases?channel=eus-4.14&from=4.14.2&to=4.14.9").body;
    assert!(!page.contains("EUS to EUS: ") && !page.contains("4.12 to 4.14"), "{page}");
}
