//! What needs each image, in the list of images and on the page of one.

use std::fs;

use lab::images::Image;
use lab::operators::{CATALOG, HOST, Operators, TAG};

use crate::support::PLAIN;
use crate::support::charts::{put_images, serve_charts, write_chart};
use crate::support::console::Console;
use crate::support::image_set;
use crate::support::releases::World;

/// The words of the cells below a heading of the list, for the image whose name has `name`.
fn listed(console: &Console, name: &str) -> String {
    let page = console.get(&format!("/images?q={name}")).body;
    let row = page.split("<tr>").find(|row| row.contains("/image?origin=") && row.contains(name));
    let row = row.unwrap_or_else(|| panic!("{name}: {page}")).to_owned();
    let origin = row.split_once("href=\"").unwrap().1.split_once('"').unwrap().0;
    let page = console.get(&origin.replace("&amp;", "&")).body;
    let users = page.split_once("<h2>Used by</h2>").unwrap_or_else(|| panic!("{page}")).1;
    let users = users.split_once("<h2>").unwrap().0;
    format!("{row}\n---\n{users}")
}

#[test]
fn every_image_tells_which_bundle_release_chart_or_entry_needs_it() {
    let (world, releases) = World::with(&["4.16.1", "4.16.2"]);
    let operators = Operators::generate().unwrap();
    operators.put(&world.quay).unwrap();
    let digest = |name: &str, tag: &str| operators.image(name, tag).unwrap().digest().to_string();
    world.quay.put_image(&Image::tiny("own").unwrap(), "org/own", "v1").unwrap();
    put_images(&world.quay, &["app", "hook", "cron"]);
    let site = world.site();
    fs::create_dir(site.path("data")).unwrap();
    write_chart(&site, "web", "1.2.0", &world.quay);
    let charts = serve_charts(&site, &["web"]);
    let line = format!("console file://data --listen 127.0.0.1:0 {PLAIN}");
    let console = Console::of(world.command(&site, &line));
    let text = format!(
        "  platform:\n    channels:\n    - name: stable-4.16\n      minVersion: 4.16.1\n      maxVersion: 4.16.2\n  operators:\n  - catalog: {HOST}/{CATALOG}:{TAG}\n    packages:\n    - name: bar\n      channels:\n      - name: stable\n        minVersion: 0.1.0\n  additionalImages:\n  - name: quay.io/org/own:v1\n  helm:\n    repositories:\n    - name: lab\n      url: {}\n      charts:\n      - name: web\n",
        charts.url()
    );
    console.save("isc.yaml", &image_set(&text));
    // Nothing is known before the first run.
    assert!(console.get("/images").body.contains("There are no images here yet."));
    let job = console.start_job(&[("workflow", "mirrorToDisk"), ("config", "isc.yaml")]);
    let page = console.until_ended(&job);
    assert!(page.contains(">Succeeded<"), "{page}");

    // The list has the first user of each, its page has all.
    for (image, user) in [
        (&*digest("lab/bar-bundle", "v1.0.0"), "bundle bar.v1.0.0 of package bar"),
        (&*digest("lab/bar", "v1.0.0"), "bundle bar.v1.0.0 of package bar"),
        (&*digest("lab/bar", "v0.1.0"), "bundle bar.v0.1.0 of package bar"),
        (&*releases[1].payload.digest().to_string(), "release 4.16.2-x86_64"),
        (&*releases[0].components[0].1.digest().to_string(), "release 4.16.1-x86_64"),
        ("org/own:v1", "configuration isc.yaml, additionalImages"),
        ("org/hook:v1", "chart web 1.2.0"),
    ] {
        let found = listed(&console, image);
        let (row, users) = found.split_once("\n---\n").unwrap();
        assert!(row.contains(user), "{image} in the list: {row}");
        assert!(users.contains(&format!("<li>{user}</li>")), "{image}: {users}");
    }
    // A component that both releases have names both.
    let shared = releases[0].components.iter().map(|(_, image)| image.digest());
    let other: Vec<_> = releases[1].components.iter().map(|(_, image)| image.digest()).collect();
    for digest in shared.filter(|digest| other.contains(digest)) {
        let found = listed(&console, &digest.to_string());
        for user in ["release 4.16.1-x86_64", "release 4.16.2-x86_64"] {
            assert!(found.contains(&format!("<li>{user}</li>")), "{digest}: {found}");
        }
    }

    // An image that two configurations select has a user in each; a newer plan replaces an older one.
    let more = image_set("  additionalImages:\n  - name: quay.io/lab/bar:v1.0.0\n");
    console.save("more.yaml", &more);
    let job = console.start_job(&[("workflow", "mirrorToDisk"), ("config", "more.yaml")]);
    assert!(console.until_ended(&job).contains(">Succeeded<"));
    let found = listed(&console, "lab/bar:v1.0.0");
    for user in ["configuration more.yaml, additionalImages", "bundle bar.v1.0.0 of package bar"] {
        assert!(found.contains(&format!("<li>{user}</li>")), "{user}: {found}");
    }
    assert!(found.contains("and 1 more"), "{found}");
}
