//! The console in a browser: from an empty workspace to a filled registry.

use std::fs;
use std::panic::{self, AssertUnwindSafe};

use lab::docker_registry::{DockerRegistry, Settings};
use lab::images::Image;
use lab::registry::LabRegistry;

use crate::support::browser::Browser;
use crate::support::console::Console;
use crate::support::deletion::tags;
use crate::support::{PLAIN, Site, chunks, image_set};

fn site() -> Site {
    let site = Site::new();
    fs::create_dir(site.path("data")).unwrap();
    site
}

/// The address of a page.
fn page(console: &Console, path: &str) -> String {
    format!("http://{}{path}", console.host)
}

#[test]
fn a_user_edits_saves_mirrors_and_pushes_from_a_second_console() {
    let source = LabRegistry::start(lab::registry::Settings::default()).unwrap();
    let image = Image::tiny("app").unwrap();
    source.put_image(&image, "org/app", "v1").unwrap();
    let name = source.image("org/app", "v1").unwrap();
    let browser = Browser::start();
    let connected = site();
    let console = Console::start(&connected, &format!("file://data {PLAIN}"));

    browser.open(&console.url);
    browser.until_shown("No run is in progress");
    browser.until_shown("Create a configuration");
    let address = browser.script("return location.href");
    assert!(!address.as_str().unwrap().contains("token"), "{address}");
    assert_eq!(browser.script("return document.cookie"), "", "scripts do not see the session");

    browser.click("nav a[href='/configurations']");
    browser.click("main a[href='/configuration/new']");
    browser.fill("#name", "isc.yaml");
    browser.fill("#text", &image_set(&format!("  additionalImages:\n  - nam: {name}\n")));
    browser.until_shown("unknown field \"nam\"");
    browser.picture("configuration-errors");
    browser.fill("#text", &image_set(&format!("  additionalImages:\n  - name: {name}\n")));
    browser.until_shown("No errors");
    browser.click("form.editor button[type=submit]");
    browser.until_shown("Saved.");
    let saved = connected.read("data/working-dir/configurations/isc.yaml");
    assert!(saved.contains(&name.to_string()), "{saved}");

    browser.click("nav a[href='/start']");
    browser.click("section[aria-labelledby=w-mirrorToDisk] button");
    // Without loading the page again: events report the end.
    browser.until_shown("Job 1");
    browser.until_shown("Succeeded");
    browser.picture("job");
    browser.open(&page(&console, "/images"));
    browser.until_shown(&image.digest().to_string());
    browser.use_scheme("dark");
    browser.open(&page(&console, "/runs/1"));
    browser.until_shown("Complete");
    browser.picture("run-dark");
    browser.use_scheme("light");

    let disconnected = site();
    for chunk in chunks(&connected.path("data")) {
        fs::copy(&chunk, disconnected.path("data").join(chunk.file_name().unwrap())).unwrap();
    }
    drop((console, source));
    let target = DockerRegistry::start(&Settings::default()).unwrap();
    let at = target.address().to_string();
    let console = Console::start(&disconnected, &format!("file://data {PLAIN}"));
    browser.open(&console.url);
    browser.until_shown("No run is in progress");
    browser.until_shown("Save the configuration in the newest archive");
    browser.click("nav a[href='/configurations']");
    browser.click("main a[href*=archive]");
    browser.fill("#name", "isc.yaml");
    browser.click("form.editor button[type=submit]");
    browser.until_shown("Saved.");
    browser.click("nav a[href='/start']");
    browser.fill("#push-target", &at);
    browser.click("section[aria-labelledby=w-diskToMirror] button");
    browser.until_shown("Job 1");
    browser.until_shown("Succeeded");
    assert_eq!(tags(&disconnected, &at, "org/app").get("v1"), Some(&image.digest()));

    // Reading works without scripts, and in a narrow window nothing is wider than it.
    browser.use_scripts(false);
    browser.open(&page(&console, "/resources"));
    let text = browser.text();
    assert!(text.contains("oc apply -f") && text.contains("itms-oc-mirror.yaml"), "{text}");
    browser.use_scripts(true);
    browser.resize(420, 900);
    for path in [
        "/",
        "/images",
        "/runs/1",
        "/start",
        "/configurations",
        "/archives",
        "/configuration?name=isc.yaml",
    ] {
        browser.open(&page(&console, path));
        let widths = "return [document.documentElement.scrollWidth, innerWidth]";
        let widths = browser.script(widths);
        assert!(widths[0].as_u64() <= widths[1].as_u64(), "{path}: {widths}");
    }
    browser.picture("narrow");
}

#[test]
fn a_failure_in_the_browser_reports_the_page_and_the_log_of_its_driver() {
    let browser = Browser::start();
    browser.open("data:text/html,<p>Words of the page</p>");
    let failed = panic::catch_unwind(AssertUnwindSafe(|| browser.script("throw new Error('no')")));
    let report = failed.unwrap_err().downcast::<String>().unwrap();
    for words in ["no", "the page: data:text/html", "Words of the page", "COMMAND ExecuteScript"] {
        assert!(report.contains(words), "{words}: {report}");
    }
}
