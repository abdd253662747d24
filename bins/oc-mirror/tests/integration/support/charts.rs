//! Charts, made and verified by real Helm.

use std::process::Command;

use lab::chart_repository::ChartRepository;
use lab::images::Image;
use lab::registry::LabRegistry;
use lab::tools::{self, Tool};

use super::Site;

/// Where images of charts are in a cluster; `--plain-http` registries replace it.
pub(crate) fn put_images(registry: &LabRegistry, names: &[&str]) {
    for name in names {
        let image = Image::tiny(name).unwrap();
        registry.put_image(&image, &format!("org/{name}"), "v1").unwrap();
    }
}

/// Writes the folder of a chart. Its templates have a deployment, a hook, a CronJob, and one more
/// image where `extra.enabled` is set; all images are in `registry`.
pub(crate) fn write_chart(site: &Site, name: &str, version: &str, registry: &LabRegistry) {
    let host = registry.address();
    let file = |path: &str, text: &str| {
        site.write(&format!("{name}/{path}"), text);
    };
    file("Chart.yaml", &format!("apiVersion: v2\nname: {name}\nversion: {version}\n"));
    file(
        "values.yaml",
        &format!("image: {{repository: {host}/org/app, tag: v1}}\nextra: {{enabled: false}}\n"),
    );
    file(
        "templates/web.yaml",
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\nspec:\n  selector: {matchLabels: \
         {app: web}}\n  template:\n    metadata: {labels: {app: web}}\n    spec:\n      containers:\n      - name: web\n        image: \"{{ \
         .Values.image.repository }}:{{ .Values.image.tag }}\"\n",
    );
    file(
        "templates/hook.yaml",
        &format!(
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: hook\n  annotations: {{helm.sh/hook: \
             pre-install}}\nspec:\n  containers:\n  - {{name: a, image: '{host}/org/hook:v1'}}\n"
        ),
    );
    file(
        "templates/cron.yaml",
        &format!(
            "apiVersion: batch/v1\nkind: CronJob\nmetadata:\n  name: cron\nspec:\n  \
             schedule: '0 0 * * *'\n  jobTemplate:\n    spec:\n      template:\n        spec:\n          \
             restartPolicy: Never\n          containers:\n          \
             - {{name: a, image: '{host}/org/cron:v1'}}\n"
        ),
    );
    file(
        "templates/extra.yaml",
        &format!(
            "{{{{- if .Values.extra.enabled }}}}\napiVersion: v1\nkind: Pod\nmetadata:\n  name: \
             extra\nspec:\n  containers:\n  - {{name: a, image: '{host}/org/extra:v1'}}\n{{{{- end \
             }}}}\n"
        ),
    );
}

/// Runs Helm and returns what it printed.
pub(crate) fn run_helm(site: &Site, args: &[&str]) -> String {
    let helm = tools::path(Tool::Helm).unwrap();
    String::from_utf8(site.judge(helm.to_str().unwrap(), args)).unwrap()
}

/// Runs Helm, which must fail, and returns its error.
pub(crate) fn helm_fails(site: &Site, args: &[&str]) -> String {
    let helm = tools::path(Tool::Helm).unwrap();
    let output = Command::new(helm).current_dir(site.path("")).args(args).output().unwrap();
    assert!(!output.status.success(), "helm {args:?} succeeds");
    String::from_utf8(output.stderr).unwrap()
}

/// Packs charts into a folder with an index, and serves them.
pub(crate) fn serve_charts(site: &Site, charts: &[&str]) -> ChartRepository {
    for chart in charts {
        run_helm(site, &["package", chart, "-d", "packed"]);
    }
    run_helm(site, &["repo", "index", "packed"]);
    let repository = ChartRepository::start().unwrap();
    repository.offer_folder(&site.path("packed")).unwrap();
    repository
}

/// The images that Helm's rendering of a chart names, in order.
pub(crate) fn templated_images(text: &str) -> Vec<String> {
    let named = text.lines().filter_map(|line| line.split("image: ").nth(1));
    let mut images: Vec<String> = named
        .map(|image| image.trim_matches(|c| matches!(c, '"' | '\'' | '}' | ' ')).to_owned())
        .collect();
    images.sort();
    images
}
