//! Every page of the console: accessible in light and dark mode, readable without scripts, small,
//! and usable with a keyboard. The pictures of the documentation are made here.

use std::fs;

use lab::docker_registry::{self, DockerRegistry};
use lab::images::Image;
use lab::operators::{CATALOG, HOST, Operators, TAG};
use lab::registry::{LabRegistry, Settings};

use crate::support::browser::{Browser, ENTER, TAB};
use crate::support::console::Console;
use crate::support::deletion::delete_set;
use crate::support::releases::World;
use crate::support::{PLAIN, Site, image_set};

/// What a page may have at most.
const MAX_PAGE: usize = 200 * 1024;

/// A page that does not change by itself any more: a catalog that is being read loads its page again,
/// and sizes add the rows of dependencies once they are determined.
const SETTLED: &str = "!document.querySelector('[data-reload], [data-pending]')";

/// A connected side with releases, operators and an image, and a target that has them.
struct Scene {
    world: World,
    target: DockerRegistry,
    console: Console,
    _site: Site,
}

impl Scene {
    fn new() -> Self {
        let (world, _) = World::with(&["4.16.1", "4.16.2", "4.16.3"]);
        Operators::generate().unwrap().put(&world.quay).unwrap();
        for name in ["app", "tool", "base"] {
            let image = Image::tiny(name).unwrap();
            world.quay.put_image(&image, &format!("org/{name}"), "v1").unwrap();
        }
        let target = DockerRegistry::start(&docker_registry::Settings::default()).unwrap();
        let site = world.site();
        fs::create_dir(site.path("data")).unwrap();
        let line = format!("console file://data --listen 127.0.0.1:0 {PLAIN}");
        let console = Console::of(world.command(&site, &line));
        Self { world, target, console, _site: site }
    }

    fn page(&self, path: &str) -> String {
        format!("http://{}{path}", self.console.host)
    }

    /// Mirrors to disk and to the target, and plans a deletion, so that no page is empty.
    fn fill(&self) {
        let console = &self.console;
        let at = self.target.address().to_string();
        let platform = "  platform:\n    channels:\n    - name: stable-4.16\n      minVersion: 4.16.2\n      maxVersion: 4.16.3\n";
        let operators = format!(
            "  operators:\n  - catalog: {HOST}/{CATALOG}:{TAG}\n    includeDependencies: true\n    packages:\n    - name: bar\n      channels:\n      - name: stable\n"
        );
        let images = |names: &[&str]| {
            let lines = names.iter().map(|name| format!("  - name: quay.io/org/{name}:v1\n"));
            format!("  additionalImages:\n{}", lines.collect::<String>())
        };
        let all = images(&["app", "tool", "base"]);
        let text = image_set(&format!("{platform}{operators}{all}"));
        console.save("isc.yaml", &text.replace("mirror:\n", "archiveSize: 4\nmirror:\n"));
        console.save("images.yaml", &image_set(&all));
        console.save("broken.yaml", &image_set("  additionalImage: []\n"));
        console.save("delete.yaml", &delete_set("  additionalImages:\n  - name: quay.io/org/tool:v1\n  - name: quay.io/org/app:v1\n"));
        let run = |form: &[(&str, &str)]| {
            let page = console.until_ended(&console.start_job(form));
            assert!(page.contains(">Succeeded<"), "{page}");
        };
        run(&[("workflow", "mirrorToDisk"), ("config", "isc.yaml"), ("dryRun", "true")]);
        run(&[("workflow", "mirrorToDisk"), ("config", "isc.yaml")]);
        let push = [("workflow", "mirrorToMirror"), ("config", "images.yaml"), ("target", &*at)];
        run(&push);
        // What the configuration of a target no longer selects can be deleted.
        console.save_again("images.yaml", &image_set(&images(&["app", "base"])));
        run(&push);
        run(&[("workflow", "planDeletion"), ("config", "delete.yaml"), ("target", &*at)]);
        let page = "/configuration?name=isc.yaml";
        console.until(page, |page| !page.contains("data-pending"));
        let catalog = format!("/operators?catalog={HOST}/{CATALOG}:{TAG}");
        for catalog in [format!("{catalog}&carried=true"), catalog] {
            console.until(&catalog, |page| !page.contains("data-reload"));
        }
        let catalog = format!("{HOST}/{CATALOG}:{TAG}");
        let form = [("catalog", &*catalog), ("name", "bar"), ("channel", "stable")];
        let location = console.post("/operator/measure", &form);
        console.until(location.header("location").unwrap(), |page| !page.contains("data-reload"));
    }
}

/// Every page, in all its states.
fn pages() -> Vec<String> {
    let catalog = format!("catalog={HOST}/{CATALOG}:{TAG}");
    let image = format!("origin={HOST}/lab/bar:v1.0.0");
    let mut pages = [
        "/",
        "/configurations",
        "/configuration/new",
        "/configuration/new?run=2",
        "/configuration/new?delete=isc.yaml",
        "/configuration?name=isc.yaml",
        "/configuration?name=broken.yaml",
        "/configuration?name=absent.yaml",
        "/operators",
        "/operators?catalog=no-tag",
        "/releases",
        "/releases?channel=stable-4.16",
        "/releases?channel=stable-4.16&from=4.16.1&to=4.16.3",
        "/releases?channel=stable-9.99",
        "/charts",
        "/charts?repository=http://127.0.0.1:1/",
        "/start",
        "/jobs",
        "/jobs/1",
        "/plan",
        "/deletion",
        "/runs",
        "/runs/1",
        "/images",
        "/archives",
        "/resources",
        "/resource?name=itms-oc-mirror.yaml",
        "/none",
    ]
    .map(str::to_owned)
    .to_vec();
    pages.push(format!("/operators?{catalog}"));
    pages.push(format!("/operators?{catalog}&carried=true"));
    pages.push(format!("/operator?{catalog}&name=bar"));
    pages.push(format!("/operator?{catalog}&name=bar&channel=alpha"));
    pages.push(format!("/image?{image}"));
    pages
}

#[test]
fn every_page_is_small_and_accessible_in_light_and_dark_mode() {
    let scene = Scene::new();
    scene.fill();
    let browser = Browser::start();
    browser.open(&scene.page("/"));
    assert_eq!(browser.violations(None), [""; 0], "the login");
    browser.open(&scene.console.url);
    browser.until_shown("No run is in progress");
    // What is wrong is found: a page without a language, and letters that cannot be read.
    browser.script("document.documentElement.removeAttribute('lang'); document.querySelector('h1').style.color = '#eee'");
    let wrong = browser.violations(None);
    for rule in ["html-has-lang: ", "color-contrast: "] {
        assert!(wrong.iter().any(|line| line.starts_with(rule)), "{rule}: {wrong:?}");
    }
    let mut found = Vec::new();
    for path in pages() {
        let response = scene.console.get(&path);
        assert!(response.body.len() < MAX_PAGE, "{path}: {} bytes", response.body.len());
        let has_command = response.body.contains("The same in a terminal");
        let is_fault = response.status >= 400 || path == "/charts" || path == "/releases";
        assert!(has_command || is_fault || path.contains("/new"), "{path} has no command line");
        browser.use_scheme("light");
        browser.open(&scene.page(&path));
        browser.until(SETTLED);
        found.extend(browser.violations(None).into_iter().map(|line| format!("{path}: {line}")));
        // The same elements in other colors.
        browser.use_scheme("dark");
        let dark = browser.violations(Some(&["color-contrast", "link-in-text-block"]));
        found.extend(dark.into_iter().map(|line| format!("{path}, dark: {line}")));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// What is read with scripts is there without them: the headings, the rows of tables and the texts.
#[test]
fn every_page_is_readable_without_scripts_and_after_registries_are_stopped() {
    let scene = Scene::new();
    scene.fill();
    let browser = Browser::start();
    browser.open(&scene.console.url);
    let outline = "return [...document.querySelectorAll('h1, h2, caption, tbody th, textarea')].map((e) => e.textContent.trim()).join('|')";
    browser.use_scheme("light");
    for path in pages() {
        browser.open(&scene.page(&path));
        browser.until(SETTLED);
        let with_scripts = browser.script(outline);
        browser.use_scripts(false);
        browser.open(&scene.page(&path));
        let without = browser.script(outline);
        browser.use_scripts(true);
        assert_eq!(with_scripts, without, "{path}");
    }

    pictures(&scene, &browser);

    // Registries and update service are stopped: what was read stays, everything else is reported.
    let Scene { world, console, .. } = scene;
    drop(world);
    for path in pages() {
        let status = console.get(&path).status;
        assert!(matches!(status, 200 | 404 | 502), "{path}: {status}");
    }
}

/// The pictures of docs/console.md.
fn pictures(scene: &Scene, browser: &Browser) {
    browser.resize(1280, 900);
    for (name, path) in [
        ("overview", "/".to_owned()),
        ("configuration", "/configuration?name=isc.yaml".to_owned()),
        ("operator", format!("/operator?catalog={HOST}/{CATALOG}:{TAG}&name=bar&channel=alpha")),
        ("releases", "/releases?channel=stable-4.16&from=4.16.1&to=4.16.3".to_owned()),
        ("plan", "/plan".to_owned()),
        ("deletion", "/deletion".to_owned()),
        ("start", "/start".to_owned()),
    ] {
        browser.open(&scene.page(&path));
        browser.picture(&format!("console-{name}"));
    }
    browser.use_scheme("dark");
    browser.open(&scene.page("/runs/1"));
    browser.picture("console-run-dark");
}

#[test]
fn forms_fit_into_wide_and_narrow_windows() {
    let site = Site::new();
    fs::create_dir(site.path("data")).unwrap();
    let console = Console::start(&site, &format!("file://data {PLAIN}"));
    console.save("isc.yaml", &image_set("  additionalImages:\n  - name: quay.io/org/app:v1\n"));
    let browser = Browser::start();
    browser.open(&console.url);
    for width in [1280, 800, 360] {
        browser.use_width(width);
        for path in ["/start", "/releases", "/charts", "/operators", "/configurations"] {
            browser.open(&format!("http://{}{path}", console.host));
            // A line of text is 24 pixels high.
            let wrapped = browser.script(
                "return [...document.querySelectorAll('main button')].filter((e) => e.offsetHeight >= 48).map((e) => e.textContent)",
            );
            assert_eq!(wrapped, serde_json::json!([]), "{path}, {width} pixels");
            let wide = "return document.documentElement.scrollWidth - document.documentElement.clientWidth";
            assert_eq!(browser.script(wide), 0, "{path}, {width} pixels");
        }
        browser.open(&format!("http://{}/start", console.host));
        browser.picture(&format!("narrow-start-{width}"));
    }
}

#[test]
fn files_are_uploaded_and_dropped_and_everything_can_be_done_with_a_keyboard() {
    let registry = LabRegistry::start(Settings::default()).unwrap();
    registry.put_image(&Image::tiny("app").unwrap(), "org/app", "v1").unwrap();
    let app = registry.image("org/app", "v1").unwrap().to_string();
    let site = Site::new();
    fs::create_dir(site.path("data")).unwrap();
    let text = image_set(&format!("  additionalImages:\n  - name: {app}\n"));
    let file = site.write("my isc.yaml", &text);
    let console = Console::start(&site, &format!("file://data {PLAIN}"));
    let browser = Browser::start();
    browser.open(&console.url);
    browser.until_shown("No run is in progress");

    // The keyboard: the first stop skips the navigation.
    browser.press(TAB);
    assert_eq!(focused(&browser), "Skip to content");
    browser.press(ENTER);
    let target = browser.script("return document.activeElement.id");
    assert_eq!(target, "content");
    browser.open(&format!("http://{}/configurations", console.host));
    for _ in 0..3 {
        browser.press(TAB);
    }
    assert_eq!(focused(&browser), "Configurations");
    until_focused(&browser, "Empty");
    browser.press(ENTER);
    browser.until_shown("Not saved yet");

    // The script of the page is there.
    browser.until("!document.getElementById('upload').hidden");
    browser.choose_file("#upload", &file);
    browser.until_shown("No errors");
    assert_eq!(browser.script("return document.getElementById('name').value"), "my-isc.yaml");
    assert_eq!(browser.script("return document.getElementById('text').value"), text.as_str());
    // The selection follows the text, without loading the page.
    browser.until_shown("Not shared");

    // Dropping a file replaces the text after a confirmation.
    let other = text.replace("org/app:v1", "org/dropped:v1");
    let drop_file = format!(
        "window.confirm = () => true;
         const data = new DataTransfer();
         data.items.add(new File([{other:?}], 'dropped.yaml', {{type: 'text/yaml'}}));
         const event = new DragEvent('drop', {{dataTransfer: data, bubbles: true, cancelable: true}});
         document.getElementById('text').dispatchEvent(event);"
    );
    browser.script(&drop_file);
    browser.until_shown("org/dropped:v1");

    // Enter in the field of images adds the image; the form is not saved.
    browser.fill("#image", &app);
    browser.press(ENTER);
    browser.until_shown("Added, not saved yet. The registry has");
    let selected = browser.script("return document.getElementById('selection').innerText");
    let selected = selected.as_str().unwrap();
    assert!(selected.contains("org/dropped:v1") && selected.contains("org/app:v1"), "{selected}");
    let remove = "button[aria-label$='org/dropped:v1']";
    browser.click(remove);
    browser.until_shown("Removed, not saved yet.");
    let left = browser.script("return document.getElementById('text').value");
    assert!(!left.as_str().unwrap().contains("dropped"), "{left}");
    assert!(!site.path("data/working-dir/configurations").exists(), "nothing was saved");
    until_focused(&browser, "Save");
    browser.press(ENTER);
    browser.until_shown("Saved.");
    // Sizes arrive while the page is open.
    browser.until_shown("Determined ");
    assert!(!browser.text().contains("at least"), "{}", browser.text());

    // An inventory is taken from a file as well.
    let inventory = site.write("cluster.json", "{\"kind\": \"ClusterInventory\"}");
    browser.open(&format!("http://{}/configurations", console.host));
    browser.until("!document.getElementById('inventory-file').hidden");
    browser.choose_file("#inventory-file", &inventory);
    browser.until("document.getElementById('inventory').value.includes('ClusterInventory')");
}

/// The text of the element that has the focus.
fn focused(browser: &Browser) -> String {
    let text = browser.script("return document.activeElement.textContent.trim()");
    text.as_str().unwrap_or_default().to_owned()
}

/// Presses Tab until an element has the focus.
fn until_focused(browser: &Browser, text: &str) {
    for _ in 0..80 {
        browser.press(TAB);
        if focused(browser) == text {
            return;
        }
    }
    panic!("{text} cannot be reached with the keyboard");
}
