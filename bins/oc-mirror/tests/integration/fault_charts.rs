//! Charts and repositories that are broken: each has its own error, and affects nothing else.

use crate::support;

use std::fs;

use lab::registry::{LabRegistry, Settings};

use support::charts::{put_images, run_helm, serve_charts, write_chart};
use support::{PLAIN, Site};

/// A packed chart with a path that points outside of it.
fn escaping(site: &Site) {
    site.write("evil/Chart.yaml", "apiVersion: v2\nname: evil\nversion: 1.0.0\n");
    site.write("outside", "x");
    let script = "s,^outside,evil/../../outside,";
    let args = ["-czf", "evil.tgz", "-P", "--transform", script, "evil/Chart.yaml", "outside"];
    site.judge("tar", &args);
}

#[test]
fn what_is_broken_is_reported_with_its_reason_and_the_rest_arrives() {
    let (source, target) = (
        LabRegistry::start(Settings::default()).unwrap(),
        LabRegistry::start(Settings::default()).unwrap(),
    );
    put_images(&source, &["app", "hook", "cron"]);
    let site = Site::new();
    write_chart(&site, "web", "1.2.0", &source);
    let repository = serve_charts(&site, &["web"]);
    repository.offer("html/index.yaml", "<!DOCTYPE html>\n<html></html>\n");
    let index = site.read("packed/index.yaml");
    let digest = index.lines().find_map(|line| line.trim().strip_prefix("digest: ")).unwrap();
    let other =
        index.replace(digest, &"ab".repeat(32)).replace("web-1.2.0.tgz", "../web-1.2.0.tgz");
    repository.offer("changed/index.yaml", other);
    site.write("list.yaml", "- not\n- a map\n");
    escaping(&site);
    site.write("loop/Chart.yaml", "apiVersion: v2\nname: loop\nversion: 0.1.0\n");
    site.write(
        "loop/templates/a.yaml",
        "{{ define \"a\" }}{{ include \"a\" . }}{{ end }}{{ include \"a\" . }}\n",
    );
    site.write("grow/Chart.yaml", "apiVersion: v2\nname: grow\nversion: 0.1.0\n");
    site.write(
        "grow/templates/a.yaml",
        "{{ range until 100000 }}{{ range until 100000 }}xxxxxxxxxxxxxxxx{{ end }}{{ end }}\n",
    );
    site.write("needs/Chart.yaml", "apiVersion: v2\nname: needs\nversion: 0.1.0\n");
    site.write("needs/values.yaml", "image: {}\n");
    site.write(
        "needs/templates/a.yaml",
        "kind: Pod\nspec:\n  host: {{ required \"a host is required\" .Values.image.host }}\n",
    );
    site.write(
        "parent/Chart.yaml",
        "apiVersion: v2\nname: parent\nversion: 0.1.0\ndependencies:\n- {name: redis, version: 1.x, \
         repository: 'https://r'}\n",
    );
    let url = repository.url();
    site.image_set(
        "isc.yaml",
        &format!(
            "  helm:
    repositories:
    - name: down
      url: http://127.0.0.1:9
      charts: [{{name: web}}]
    - name: html
      url: {url}/html
    - name: changed
      url: {url}/changed
      charts: [{{name: web}}]
    - name: absent
      url: {url}/absent
    - name: registry
      url: oci://{}/charts
    - name: good
      url: {url}
      charts:
      - name: web
      - {{name: web, version: 1.3.0}}
      - {{name: wep}}
      - {{name: web, valuesFiles: [list.yaml]}}
      - {{name: web, imagePaths: ['{{.spec[']}}
    local:
    - {{name: evil, path: evil.tgz}}
    - {{name: loop, path: loop}}
    - {{name: grow, path: grow}}
    - {{name: needs, path: needs}}
    - {{name: parent, path: parent}}
    - {{name: none, path: none}}
  additionalImages:
  - name: {}/org/app:v1
",
            source.address(),
            source.address()
        ),
    );
    let to = target.address().to_string();
    let ran = site
        .run(&format!("-c isc.yaml {PLAIN} --retry-times 1 --workspace file://ws docker://{to}"));
    assert_eq!(ran.code, 16, "{}", ran.err);
    let errors = ran.errors();
    for part in [
        "the chart web of http://127.0.0.1:9/: fetching http://127.0.0.1:9/index.yaml",
        "/html/index.yaml: expected index.yaml, found an HTML page",
        "the archive of web-1.2.0 has the digest sha256:",
        "/absent/index.yaml does not exist; check the URL of the repository",
        "name each chart below `charts`",
        "the chart \"web\" has no version \"1.3.0\"; nearest: 1.2.0",
        "the repository has no chart \"wep\"; nearest: web",
        "list.yaml: the values are a list, expected a map",
        "\"{.spec[\" is not a JSONPath",
        "evil/../../outside\", which leads out of the chart",
        "loop/templates/a.yaml:1: the template exceeds a limit: templates are nested deeper",
        "grow/templates/a.yaml:1: the template exceeds a limit",
        "needs/templates/a.yaml:3: the chart requires values (image.host): a host is required",
        "not in charts/: redis; run `helm dependency update`",
        "isc.yaml:32:7: the chart none: reading none: No such file or directory",
    ] {
        assert!(errors.contains(part), "{part}\n{errors}");
    }
    for image in ["org/app", "org/hook", "org/cron"] {
        site.pull(&format!("docker://{to}/{image}:v1"), &["--src-tls-verify=false"]);
    }
    let place = format!("oci://{to}/charts/web");
    fs::create_dir(site.path("pulled")).unwrap();
    run_helm(&site, &["pull", &place, "--version", "1.2.0", "--plain-http", "-d", "pulled"]);
    let sent = fs::read(site.path("packed/web-1.2.0.tgz")).unwrap();
    assert_eq!(fs::read(site.path("pulled/web-1.2.0.tgz")).unwrap(), sent);
}

#[test]
fn a_chart_that_did_not_come_along_is_named_with_those_that_did() {
    let (source, target) = (
        LabRegistry::start(Settings::default()).unwrap(),
        LabRegistry::start(Settings::default()).unwrap(),
    );
    put_images(&source, &["app", "hook", "cron"]);
    let site = Site::new();
    write_chart(&site, "web", "1.2.0", &source);
    let repository = serve_charts(&site, &["web"]);
    let configuration = |more: &str| {
        format!(
            "  helm:\n    repositories:\n    - name: r\n      url: {}\n      charts:\n      - name: web\n{more}",
            repository.url()
        )
    };
    site.image_set("isc.yaml", &configuration(""));
    site.image_set("other.yaml", &configuration("        version: 1.1.0\n      - name: web\n"));
    site.succeeds(&format!("-c isc.yaml {PLAIN} file://data"));
    let to = target.address().to_string();
    let ran = site.run(&format!("-c other.yaml {PLAIN} --from file://data docker://{to}"));
    assert_eq!(ran.code, 16, "{}", ran.err);
    assert!(ran.errors().contains("here are: web 1.2.0"), "{}", ran.errors());
    assert_eq!(ran.total("copied"), 4, "the chart in the archive is pushed");
}
