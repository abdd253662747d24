//! Runs that the console starts, watches and controls.

use std::fs;
use std::time::Duration;

use http::Method;
use lab::docker_registry::{DockerRegistry, Settings};
use lab::images::{Compression, Format, Image, Layer};
use lab::registry::{Effect, Fault, LabRegistry};

use crate::support::console::Console;
use crate::support::deletion::{delete_set, tags};
use crate::support::mounted::Mounted;
use crate::support::under_way::UnderWay;
use crate::support::{PLAIN, Site, chunks, image_set};

const DELAY: Effect = Effect::Delay(Duration::from_secs(24 * 60 * 60));

fn site() -> Site {
    let site = Site::new();
    fs::create_dir(site.path("data")).unwrap();
    site
}

fn additional(images: &[String]) -> String {
    let lines = images.iter().map(|image| format!("  - name: {image}\n"));
    image_set(&format!("  additionalImages:\n{}", lines.collect::<String>()))
}

/// A registry with a small image and one whose layer can be delayed, and their configuration.
fn slow_registry() -> (LabRegistry, String, String) {
    let registry = LabRegistry::start(lab::registry::Settings::default()).unwrap();
    let layer = Layer::generate("slow", 1_000_000, Compression::None).unwrap();
    let slow = format!("/blobs/{}", layer.blob.digest);
    let image = Image::new(Format::Oci, "linux/amd64".parse().unwrap(), &[layer]).unwrap();
    registry.put_image(&Image::tiny("quick").unwrap(), "org/quick", "v1").unwrap();
    registry.put_image(&image, "org/slow", "v1").unwrap();
    let images =
        ["org/quick", "org/slow"].map(|name| registry.image(name, "v1").unwrap().to_string());
    (registry, additional(&images), slow)
}

/// A run of a terminal, which waits for the second of two images.
fn slow_run() -> (LabRegistry, String, Site, UnderWay) {
    let (registry, text, slow) = slow_registry();
    registry.fault(Fault::on(Method::GET, &slow).does(DELAY));
    let site = site();
    site.write("isc.yaml", &text);
    let mut run = UnderWay::start(&site, &format!("-c isc.yaml {PLAIN} file://data"));
    run.until("the run has a workspace", || site.path("data/working-dir/.lock").exists());
    (registry, text, site, run)
}

#[test]
fn a_selection_is_saved_mirrored_transferred_and_pushed_from_a_second_console() {
    let source = LabRegistry::start(lab::registry::Settings::default()).unwrap();
    let image = Image::tiny("app").unwrap();
    source.put_image(&image, "org/app", "v1").unwrap();
    let text = additional(&[source.image("org/app", "v1").unwrap().to_string()]);

    let connected = site();
    let console = Console::start(&connected, &format!("file://data {PLAIN}"));
    console.save("isc.yaml", &text);
    assert_eq!(connected.read("data/working-dir/configurations/isc.yaml"), text);
    let job = console.start_job(&[("workflow", "mirrorToDisk"), ("config", "isc.yaml")]);
    let page = console.until_ended(&job);
    assert!(page.contains(">Succeeded<"), "{page}");
    assert!(page.contains("oc-mirror -c ") && page.contains("--src-tls-verify=false"), "{page}");
    let images = console.get("/images?q=org%2Fapp").body;
    assert!(images.contains(&image.digest().to_string()), "{images}");
    assert!(console.get("/archives").body.contains("mirror_000001.tar"));
    assert!(console.get("/runs/1").body.contains(">Complete<"));

    // Only the archive crosses the gap.
    let disconnected = site();
    for chunk in chunks(&connected.path("data")) {
        let name = chunk.file_name().unwrap();
        fs::copy(&chunk, disconnected.path("data").join(name)).unwrap();
    }
    drop((console, source));
    let target = DockerRegistry::start(&Settings::default()).unwrap();
    let at = target.address().to_string();
    let console = Console::start(&disconnected, &format!("file://data {PLAIN}"));
    assert!(console.get("/images").body.contains(&image.digest().to_string()));
    let offered = console.get("/configurations").body;
    assert!(offered.contains("The configuration in the newest archive"), "{offered}");
    let carried = console.get("/configuration/new?archive=true").body;
    assert!(carried.contains("org/app:v1"), "{carried}");
    console.save("isc.yaml", &text);
    let form = [("workflow", "diskToMirror"), ("config", "isc.yaml"), ("target", &*at)];
    let page = console.until_ended(&console.start_job(&form));
    assert!(page.contains(">Succeeded<"), "{page}");
    let pushed = tags(&disconnected, &at, "org/app");
    assert_eq!(pushed.get("v1"), Some(&image.digest()));
    let resources = console.get("/resources").body;
    assert!(resources.contains("itms-oc-mirror.yaml"), "{resources}");
    assert!(resources.contains("oc apply -f "), "{resources}");
    let resource = console.get("/resource?name=itms-oc-mirror.yaml").body;
    assert!(resource.contains("ImageTagMirrorSet"), "{resource}");

    // Verify finds what a damaged byte did.
    let page = console.until_ended(&console.start_job(&[("workflow", "verify")]));
    assert!(page.contains("no damage found"), "{page}");
}

#[test]
fn a_run_of_a_terminal_is_shown_live_and_paused_resumed_and_stopped() {
    let (_registry, _, site, mut run) = slow_run();
    let console = Console::start(&site, "file://data");
    let mut events = console.events("/events");
    events.find(|line| line.contains("1 of 2")).expect("progress of the images");
    let page = console.get("/").body;
    assert!(page.contains("Run 1") && page.contains(">Pause<"), "{page}");
    assert!(page.contains("In progress"), "blobs in progress are listed: {page}");

    assert_eq!(console.post("/control", &[("request", "pause")]).status, 303);
    events.find(|line| line.contains(": paused")).expect("the pause");
    events.find(|line| line.contains("Resume")).expect("a button that resumes");
    assert_eq!(console.post("/control", &[("request", "resume")]).status, 303);
    events.find(|line| line.contains(">Pause<")).expect("a button that pauses");
    assert_eq!(console.post("/control", &[("request", "stop")]).status, 303);
    assert_eq!(run.end().code, 130);
    events.find(|line| line.contains("Interrupted")).expect("the end");
    let refused = console.post("/control", &[("request", "stop")]);
    assert_eq!(refused.status, 500);
    assert!(refused.body.contains("no run is in progress"), "{}", refused.body);
}

#[test]
fn a_killed_run_is_reported_on_open_pages_and_continues_from_the_console() {
    let (registry, text, site, run) = slow_run();
    let console = Console::start(&site, &format!("file://data {PLAIN}"));
    let (mut one, mut two) = (console.events("/events"), console.events("/events"));
    for page in [&mut one, &mut two] {
        page.find(|line| line.contains("1 of 2")).expect("progress");
    }
    run.kill();
    for page in [&mut one, &mut two] {
        page.find(|line| line.contains("Interrupted")).expect("the end");
    }
    registry.clear_faults();
    console.save("isc.yaml", &text);
    let job = console.start_job(&[("workflow", "mirrorToDisk"), ("config", "isc.yaml")]);
    let page = console.until_ended(&job);
    assert!(page.contains(">Succeeded<"), "{page}");
    assert!(console.get("/runs/2").body.contains(">Complete<"));
}

#[test]
fn a_run_continues_when_its_console_is_killed_and_the_next_console_shows_it() {
    let (registry, text, slow) = slow_registry();
    registry.fault(Fault::on(Method::GET, &slow).does(DELAY));
    let site = site();
    let console = Console::start(&site, &format!("file://data {PLAIN}"));
    console.save("isc.yaml", &text);
    let job = console.start_job(&[("workflow", "mirrorToDisk"), ("config", "isc.yaml")]);
    console.until("/", |page| page.contains("1 of 2"));
    console.kill();

    let console = Console::start(&site, &format!("file://data {PLAIN}"));
    assert!(console.get(&job).body.contains(">Running<"));
    assert!(console.get("/").body.contains(">Pause<"));
    assert!(console.get("/jobs").body.contains("Mirror to disk"));
    // A second run of the same workspace is refused by the engine, and the page reports it.
    let second = console.start_job(&[("workflow", "mirrorToDisk"), ("config", "isc.yaml")]);
    let page = console.until_ended(&second);
    assert!(page.contains("is in use by process"), "{page}");
    assert!(page.contains(">Exit code 1<"), "{page}");
    registry.clear_faults();
    assert_eq!(console.post("/control", &[("request", "stop")]).status, 303);
    let page = console.until_ended(&job);
    assert!(page.contains("ended while no console was running"), "{page}");
    assert!(console.get("/runs/1").body.contains(">Interrupted<"));
}

#[test]
fn a_deletion_is_previewed_with_reasons_and_confirmed_by_the_name_of_its_target() {
    let source = LabRegistry::start(lab::registry::Settings::default()).unwrap();
    for (name, seed) in [("org/old", "old"), ("org/kept", "kept")] {
        source.put_image(&Image::tiny(seed).unwrap(), name, "v1").unwrap();
    }
    let target = DockerRegistry::start(&Settings::default()).unwrap();
    let at = target.address().to_string();
    let site = site();
    let images = ["org/old", "org/kept"].map(|name| source.image(name, "v1").unwrap().to_string());
    let console = Console::start(&site, &format!("file://data {PLAIN}"));
    console.save("isc.yaml", &additional(&images));
    let form = [("workflow", "mirrorToMirror"), ("config", "isc.yaml"), ("target", &*at)];
    assert!(console.until_ended(&console.start_job(&form)).contains(">Succeeded<"));

    assert!(console.get("/deletion").body.contains("No plan found"));
    let delete = delete_set(&format!("  additionalImages:\n  - name: {}\n", images[0]));
    console.save("disc.yaml", &delete);
    let draft = console.get("/configuration/new?delete=isc.yaml").body;
    assert!(draft.contains("DeleteImageSetConfiguration") && draft.contains("org/kept"), "{draft}");
    // What the configuration of the push selects is kept; then it no longer selects the old image.
    console.save_again("isc.yaml", &additional(&images[1..]));
    let form = [("workflow", "mirrorToMirror"), ("config", "isc.yaml"), ("target", &*at)];
    assert!(console.until_ended(&console.start_job(&form)).contains(">Succeeded<"));
    let form = [("workflow", "planDeletion"), ("config", "disc.yaml"), ("target", &*at)];
    let page = console.until_ended(&console.start_job(&form));
    assert!(page.contains("Review the plan"), "{page}");
    let preview = console.get("/deletion").body;
    assert!(preview.contains("org/old:v1") && preview.contains("Delete 1 image"), "{preview}");
    let digest = preview.split("name=\"digest\" value=\"").nth(1).unwrap();
    let digest = digest.split('"').next().unwrap();

    for (typed, digest) in [("", digest), ("elsewhere:5000", digest), (&*at, "sha256:0")] {
        let refused = console.post("/deletion", &[("digest", digest), ("target", typed)]);
        assert_eq!(refused.status, 400, "{}", refused.body);
        assert!(refused.body.contains("Nothing was deleted"), "{}", refused.body);
    }
    assert_eq!(tags(&site, &at, "org/old").len(), 1);
    let confirmed = console.post("/deletion", &[("digest", digest), ("target", &at)]);
    assert_eq!(confirmed.status, 303, "{}", confirmed.body);
    let page = console.until_ended(confirmed.header("location").unwrap());
    assert!(page.contains(">Succeeded<"), "{page}");
    assert_eq!(tags(&site, &at, "org/old").len(), 0);
    assert_eq!(tags(&site, &at, "org/kept").len(), 1);
}

#[test]
fn a_configuration_with_twenty_errors_is_saved_and_every_error_shown() {
    let site = site();
    let console = Console::start(&site, "file://data");
    let lines: String = (0..20).map(|number| format!("  key{number}: x\n")).collect();
    let text = image_set(&lines);
    console.save("isc.yaml", &text);
    let page = console.get("/configuration?name=isc.yaml").body;
    assert!(page.contains("20 errors"), "{page}");
    assert_eq!(page.matches("unknown field").count(), 20);
    assert!(page.contains("data-line=\"4\"") && page.contains("  key0: x"), "{page}");
    let found = console.post("/configuration/check", &[("name", "x.yaml"), ("text", &text)]);
    assert!(found.body.contains("20 errors"), "{}", found.body);
    assert!(console.get("/configurations").body.contains("20 errors"));
    let refused = console.post("/start", &[("workflow", "mirrorToDisk"), ("config", "")]);
    assert_eq!(refused.status, 400);
    assert!(refused.body.contains("expected a configuration"), "{}", refused.body);

    // Two pages: the second does not overwrite what the first saved, and its text is not lost.
    let form = [("name", "isc.yaml"), ("text", "kind: mine\n"), ("base", "sha256:0")];
    let conflict = console.post("/configuration/save", &form);
    assert_eq!(conflict.status, 409);
    assert!(conflict.body.contains("changed elsewhere") && conflict.body.contains("kind: mine"));
    assert_eq!(site.read("data/working-dir/configurations/isc.yaml"), text);

    for name in ["../isc.yaml", "isc", "a/b.yaml", ""] {
        let refused = console.post("/configuration/save", &[("name", name), ("text", "x: y\n")]);
        assert_eq!(refused.status, 400, "{name}");
        assert!(refused.body.contains("x: y"), "the text is not lost");
    }
    let script = "</textarea><script>alert(1)</script>: <img src=x onerror=alert(1)>\n";
    console.save("script.yaml", script);
    for path in ["/configuration?name=script.yaml", "/configurations"] {
        let page = console.get(path).body;
        assert!(!page.contains("<script>alert") && !page.contains("<img src=x"), "{page}");
    }
    let file = console.get("/configuration/download?name=script.yaml");
    assert_eq!(file.body, script);
    assert!(file.header("content-disposition").unwrap().starts_with("attachment"));
}

#[test]
fn a_workspace_that_cannot_be_written_is_reported_and_the_text_is_not_lost() {
    let site = site();
    let console = Console::start(&site, "file://data");
    // A file where the folder belongs: root may write to folders without permission.
    site.write("data/working-dir/configurations", "");
    let form = [("name", "isc.yaml"), ("text", "kind: mine\n"), ("base", "")];
    let failed = console.post("/configuration/save", &form);
    assert_eq!(failed.status, 500);
    assert!(failed.body.contains("not saved: "), "{}", failed.body);
    assert!(failed.body.contains("kind: mine"), "{}", failed.body);
    fs::remove_file(site.path("data/working-dir/configurations")).unwrap();
    site.write("data/working-dir/console", "");
    let failed = console.post("/start", &[("workflow", "verify")]);
    assert!(failed.status == 500 && failed.body.contains("creating"), "{}", failed.body);
}

#[test]
fn a_disk_that_fills_up_during_a_run_is_reported_and_nothing_is_lost() {
    let registry = LabRegistry::start(lab::registry::Settings::default()).unwrap();
    let layer = Layer::generate("large", 12_000_000, Compression::None).unwrap();
    let image = Image::new(Format::Oci, "linux/amd64".parse().unwrap(), &[layer]).unwrap();
    registry.put_image(&image, "org/large", "v1").unwrap();
    let site = Site::new();
    let disk = Mounted::new(&site.path("data"), 8_000);
    let console = Console::start(&site, &format!("file://data {PLAIN}"));
    let text = additional(&[registry.image("org/large", "v1").unwrap().to_string()]);
    console.save("isc.yaml", &text);
    let sized = |page: &str| page.contains("selection-title") && !page.contains("data-pending");
    let page = console.until("/configuration?name=isc.yaml", sized);
    assert!(page.contains("The free space is not enough"), "{page}");

    let form = [("workflow", "mirrorToDisk"), ("config", "isc.yaml")];
    let page = console.until_ended(&console.start_job(&form));
    assert!(page.contains("No space left on device"), "{page}");
    assert!(page.contains(">Exit code "), "{page}");
    // What was there is there, and pages can be read.
    for path in ["/", "/runs", "/images", "/archives", "/start", "/jobs"] {
        assert_eq!(console.get(path).status, 200, "{path}");
    }
    assert_eq!(site.read("data/working-dir/configurations/isc.yaml"), text);
    // A text that does not fit is not lost, and the file stays as it was.
    let long = format!("{text}# {}\n", "x".repeat(900_000));
    fs::write(site.path("data/rest"), vec![0; 8_000_000]).unwrap_err();
    let page = console.get("/configuration?name=isc.yaml").body;
    let base = page.split("name=\"base\" value=\"").nth(1).unwrap().split('"').next().unwrap();
    let form = [("name", "isc.yaml"), ("text", &*long), ("base", base)];
    let refused = console.post("/configuration/save", &form);
    assert_eq!(refused.status, 500, "{}", refused.body);
    assert!(refused.body.contains("not saved: ") && refused.body.contains("xxxxxxxx"));
    assert_eq!(site.read("data/working-dir/configurations/isc.yaml"), text);

    fs::remove_file(site.path("data/rest")).unwrap();
    disk.resize(80_000);
    let form = [("workflow", "mirrorToDisk"), ("config", "isc.yaml")];
    let page = console.until_ended(&console.start_job(&form));
    assert!(page.contains(">Succeeded<"), "{page}");
    assert!(console.get("/images").body.contains(&image.digest().to_string()));
}
