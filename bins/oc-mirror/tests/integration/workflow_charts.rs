//! Helm charts from a repository, a registry and a folder, with all their images.

use crate::support;

use std::fs;

use lab::docker_registry::{DockerRegistry, Settings};
use lab::registry::{LabRegistry, Settings as LabSettings};
use lab::releases::ReleaseKey;

use support::charts::{
    helm_fails, put_images, run_helm, serve_charts, templated_images, write_chart,
};
use support::{PLAIN, Ran, Site, chunks};

fn registry() -> LabRegistry {
    LabRegistry::start(LabSettings::default()).unwrap()
}

/// The destinations of all images of a report, without the registry.
fn destinations(ran: &Ran, registry: &str) -> Vec<String> {
    let report = ran.report();
    let images = report["images"].as_array().unwrap().iter();
    let places = images.map(|image| image["destination"].as_str().unwrap().to_owned());
    let mut places: Vec<String> =
        places.map(|place| place.replace(&format!("{registry}/"), "")).collect();
    places.sort();
    places
}

#[test]
fn charts_cross_the_gap_and_helm_pulls_and_templates_them() {
    let source = registry();
    put_images(&source, &["app", "hook", "cron", "extra"]);
    let from = source.address().to_string();
    let connected = Site::new();
    for (name, version) in [("web", "1.2.0"), ("stored", "2.0.0+b1"), ("local", "0.1.0")] {
        write_chart(&connected, name, version, &source);
    }
    let repository = serve_charts(&connected, &["web"]);
    run_helm(&connected, &["package", "stored", "-d", "pushed"]);
    let place = format!("oci://{from}/source");
    run_helm(&connected, &["push", "pushed/stored-2.0.0+b1.tgz", &place, "--plain-http"]);
    let configuration = format!(
        "  helm:
    repositories:
    - name: web
      url: {}
      charts:
      - name: web
    - name: stored
      url: oci://{from}/source
      charts:
      - name: stored
        version: '>=1.0.0'
    local:
    - name: local
      path: local
      values:
        extra:
          enabled: true
",
        repository.url()
    );
    connected.image_set("isc.yaml", &configuration);
    let ran = connected.succeeds(&format!("-c isc.yaml {PLAIN} file://data"));
    assert_eq!((ran.total("images"), ran.total("copied"), ran.total("failed")), (7, 7, 0));

    // Nothing changed: nothing is fetched again.
    repository.server.forget_requests();
    let again = connected.succeeds(&format!("-c isc.yaml {PLAIN} file://data"));
    assert_eq!((again.total("images"), again.total("copied")), (7, 0));
    let requests = repository.server.requests();
    assert_eq!(requests.count(), 1, "only the index is read again");

    // The other side has the archive and the configuration, but neither sources nor charts.
    let archives = chunks(&connected.path("data"));
    let pinned = fs::read_dir(connected.path("data/working-dir")).unwrap();
    let pinned = pinned.map(|entry| entry.unwrap().path());
    let pinned = pinned.filter(|path| path.to_string_lossy().contains("isc_pinned_")).max();
    let pinned = fs::read_to_string(pinned.unwrap()).unwrap();
    assert!(pinned.contains("version: \"1.2.0\"") && pinned.contains("2.0.0+b1"), "{pinned}");
    let disconnected = Site::new();
    fs::create_dir(disconnected.path("data")).unwrap();
    for archive in &archives {
        let name = archive.file_name().unwrap();
        fs::copy(archive, disconnected.path("data").join(name)).unwrap();
    }
    drop((source, repository, connected));
    disconnected.image_set("isc.yaml", &configuration);
    disconnected.write("pinned.yaml", &pinned);
    for configuration in ["isc.yaml", "pinned.yaml"] {
        let target = DockerRegistry::start(&Settings::default()).unwrap();
        let to = target.address().to_string();
        let ran = disconnected
            .succeeds(&format!("-c {configuration} {PLAIN} --from file://data docker://{to}/ns"));
        assert_eq!((ran.total("images"), ran.total("copied")), (7, 7), "{configuration}");
        assert_eq!(
            destinations(&ran, &to),
            [
                "ns/charts/local:0.1.0",
                "ns/charts/stored:2.0.0_b1",
                "ns/charts/web:1.2.0",
                "ns/org/app:v1",
                "ns/org/cron:v1",
                "ns/org/extra:v1",
                "ns/org/hook:v1",
            ]
        );
        let resources = disconnected.read("data/working-dir/cluster-resources/itms-oc-mirror.yaml");
        assert!(resources.contains(&format!("{to}/ns/org")), "{resources}");
        assert!(!resources.contains("charts"), "charts are not pulled by nodes: {resources}");
        for (name, version, extra) in
            [("web", "1.2.0", false), ("stored", "2.0.0+b1", false), ("local", "0.1.0", true)]
        {
            let place = format!("oci://{to}/ns/charts/{name}");
            let mut args = vec!["template", &place, "--version", version, "--plain-http"];
            if extra {
                args.extend(["--set", "extra.enabled=true"]);
            }
            let images = templated_images(&run_helm(&disconnected, &args));
            let names = ["app", "cron", "extra", "hook"];
            let names = names.iter().filter(|name| extra || **name != "extra");
            let expected: Vec<String> = names.map(|name| format!("{from}/org/{name}:v1")).collect();
            assert_eq!(images, expected, "{name}");
        }
    }
    let ran = disconnected.command("list charts --from file://data").output().unwrap();
    let listed = String::from_utf8(ran.stdout).unwrap();
    assert!(listed.contains("stored") && listed.contains("2.0.0+b1"), "{listed}");
}

/// Charts from a repository, a registry and a file, signed by `helm package --sign`.
#[test]
fn helm_verifies_signed_charts_on_the_disconnected_side() {
    let source = registry();
    put_images(&source, &["app", "hook", "cron"]);
    let from = source.address().to_string();
    let connected = Site::new();
    let (signer, stranger) = (ReleaseKey::generate().unwrap(), ReleaseKey::generate().unwrap());
    let keyring = |name: &str| connected.path(name);
    signer.write_keyrings(&keyring("secret.gpg"), &keyring("public.gpg")).unwrap();
    for (name, folder) in [("web", "packed"), ("stored", "pushed"), ("local", "signed")] {
        write_chart(&connected, name, "1.0.0", &source);
        let sign = ["--sign", "--key", "Lab Release", "--keyring", "secret.gpg"];
        run_helm(&connected, &[&["package", name, "-d", folder], &sign[..]].concat());
    }
    let place = format!("oci://{from}/source");
    run_helm(&connected, &["push", "pushed/stored-1.0.0.tgz", &place, "--plain-http"]);
    let repository = serve_charts(&connected, &[]);
    let configuration = format!(
        "  helm:
    repositories:
    - {{name: web, url: {}, charts: [{{name: web}}]}}
    - {{name: stored, url: 'oci://{from}/source', charts: [{{name: stored}}]}}
    local:
    - {{name: local, path: signed/local-1.0.0.tgz}}
",
        repository.url()
    );
    connected.image_set("isc.yaml", &configuration);
    connected.succeeds(&format!("-c isc.yaml {PLAIN} file://data"));

    let disconnected = Site::new();
    fs::create_dir(disconnected.path("data")).unwrap();
    for archive in chunks(&connected.path("data")) {
        let name = archive.file_name().unwrap();
        fs::copy(&archive, disconnected.path("data").join(name)).unwrap();
    }
    disconnected.image_set("isc.yaml", &configuration);
    fs::copy(keyring("public.gpg"), disconnected.path("public.gpg")).unwrap();
    let (unused, other) = (disconnected.path("unused.gpg"), disconnected.path("other.gpg"));
    stranger.write_keyrings(&unused, &other).unwrap();
    drop((source, repository, connected));
    let target = DockerRegistry::start(&Settings::default()).unwrap();
    let to = target.address().to_string();
    disconnected.succeeds(&format!("-c isc.yaml {PLAIN} --from file://data docker://{to}/ns"));
    for name in ["web", "stored", "local"] {
        let place = format!("oci://{to}/ns/charts/{name}");
        let pull = ["pull", &place, "--version", "1.0.0", "--plain-http", "--verify", "--keyring"];
        let verified = run_helm(&disconnected, &[&pull[..], &["public.gpg"]].concat());
        assert!(verified.contains("Signed by: Lab Release"), "{verified}");
        let file = format!("{name}-1.0.0.tgz");
        run_helm(&disconnected, &["verify", &file, "--keyring", "public.gpg"]);
        fs::remove_file(disconnected.path(&file)).unwrap();
        let error = helm_fails(&disconnected, &[&pull[..], &["other.gpg"]].concat());
        assert!(error.contains("signature made by unknown entity"), "{error}");
    }
}

#[test]
fn a_whole_repository_is_copied_directly_to_a_registry_and_planned_first() {
    let (source, target) = (registry(), registry());
    put_images(&source, &["app", "hook", "cron"]);
    let site = Site::new();
    for version in ["1.0.0", "1.1.0"] {
        write_chart(&site, "web", version, &source);
        run_helm(&site, &["package", "web", "-d", "packed"]);
    }
    site.write(
        "common/Chart.yaml",
        "apiVersion: v2\nname: common\nversion: 1.0.0\ntype: library\n",
    );
    let repository = serve_charts(&site, &["common"]);
    let configuration = |newest: &str| {
        // With and without a slash at the end.
        let slash = if newest.is_empty() { "/" } else { "" };
        format!(
            "  helm:\n    repositories:\n    - name: r\n      url: {}{slash}\n{newest}",
            repository.url()
        )
    };
    site.image_set("all.yaml", &configuration(""));
    site.image_set("newest.yaml", &configuration("      newestOnly: true\n"));
    let to = target.address().to_string();
    let line = |file: &str, more: &str| {
        format!("-c {file} {PLAIN} {more} --workspace file://ws docker://{to}")
    };
    let planned = site.succeeds(&line("all.yaml", "--dry-run"));
    assert!(target.content().is_empty());
    for warning in [
        "all 2 versions of 1 charts are mirrored with their images",
        "the `helm` section selects 2 charts with 3 images, 1 MiB in total",
    ] {
        assert!(planned.report()["warnings"].to_string().contains(warning), "{}", planned.out);
    }
    let mapping = site.read("ws/working-dir/dry-run/mapping.txt");
    assert!(mapping.contains("charts/web:1.1.0") && mapping.contains("org/cron:v1"), "{mapping}");

    let ran = site.succeeds(&line("newest.yaml", ""));
    let newest =
        ["charts/web:1.1.0", "org/app:v1", "org/cron:v1", "org/hook:v1"].map(str::to_owned);
    assert_eq!(destinations(&ran, &to), newest);
    let ran = site.succeeds(&line("all.yaml", ""));
    assert_eq!((ran.total("images"), ran.total("copied")), (5, 1));
    let place = format!("oci://{to}/charts/web");
    let text = run_helm(&site, &["template", &place, "--version", "1.0.0", "--plain-http"]);
    assert_eq!(templated_images(&text).len(), 3);
}

#[test]
fn lists_tell_what_a_repository_has_and_where_a_chart_names_images() {
    let source = registry();
    let from = source.address().to_string();
    let site = Site::new();
    for version in ["1.0.0", "1.1.0"] {
        write_chart(&site, "web", version, &source);
        run_helm(&site, &["package", "web", "-d", "packed"]);
    }
    let repository = serve_charts(&site, &[]);
    let list = |line: &str| {
        let output = site.command(&format!("list {line} --src-tls-verify=false")).output().unwrap();
        let ran = Ran::of(output);
        assert_eq!(ran.code, 0, "{line}: {}", ran.err);
        ran.out
    };
    let charts = list(&format!("charts --repository {}", repository.url()));
    assert!(charts.contains("web   1.1.0   2"), "{charts}");
    let versions = list(&format!("charts --repository {} --chart web -o json", repository.url()));
    let versions: serde_json::Value = serde_json::from_str(&versions).unwrap();
    assert_eq!(
        (&versions[0]["version"], &versions[1]["version"]),
        (&"1.1.0".into(), &"1.0.0".into())
    );

    for url in ["ftp://charts.example.com", "charts.example.com", "web"] {
        let line = format!("list charts --repository {url}");
        let ran = Ran::of(site.command(&line).output().unwrap());
        assert_eq!(ran.code, 1, "{line}: {}", ran.out);
        assert!(ran.err.contains("expected https://, http:// or oci://"), "{}", ran.err);
    }

    site.write("on.yaml", "extra: {enabled: true}\n");
    run_helm(&site, &["push", "packed/web-1.1.0.tgz", &format!("oci://{from}/c"), "--plain-http"]);
    let helm = lab::tools::path(lab::tools::Tool::Helm).unwrap();
    for chart in [
        "--chart web".to_owned(),
        "--chart packed/web-1.1.0.tgz".to_owned(),
        format!("--chart {}/web-1.1.0.tgz", repository.url()),
        format!("--chart oci://{from}/c/web:1.1.0"),
        format!("--chart oci://{from}/c/web"),
        format!("--chart web --repository {} --version ~1.0", repository.url()),
    ] {
        let line =
            format!("images {chart} --values on.yaml -o json --helm-binary {}", helm.display());
        let found: serde_json::Value = serde_json::from_str(&list(&line)).unwrap();
        let images = found["images"].as_array().unwrap();
        assert_eq!(images.len(), 4, "{chart}: {found}");
        assert_eq!(images[0]["image"], format!("{from}/org/app:v1"));
        let origin = &images[0]["origins"][0];
        assert_eq!(origin["file"], "web/templates/web.yaml");
        assert_eq!(origin["line"], 12);
        assert_eq!(origin["values"][0], "image.repository");
        assert_eq!(found["problems"], serde_json::json!([]), "Helm finds the same");
    }
    site.write(
        "web/templates/operator.yaml",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: operator}\nspec:\n  containers:\n  - name: a\n    image: \
         quay.io/a/operator:1\n    env:\n    - {name: RELATED_IMAGE_PROXY, value: 'quay.io/a/proxy:1'}\n    \
         - {name: OTHER, value: 'quay.io/a/other:1'}\n",
    );
    let named = list("images --chart web --environment-variable RELATED_IMAGE_PROXY");
    assert!(named.contains("quay.io/a/proxy:1") && !named.contains("a/other"), "{named}");
    let table = list("images --chart web");
    assert!(table.contains("quay.io/a/operator:1") && !table.contains("a/proxy"), "{table}");
    assert!(
        table.contains("web/templates/cron.yaml:13") && table.contains("CronJob/cron"),
        "{table}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn helm_installs_a_mirrored_chart_and_an_old_version_is_deleted() {
    let (source, target) = (registry(), registry());
    put_images(&source, &["app", "hook", "cron"]);
    let site = Site::new();
    for version in ["1.0.0", "1.1.0"] {
        write_chart(&site, "web", version, &source);
        run_helm(&site, &["package", "web", "-d", "packed"]);
    }
    let repository = serve_charts(&site, &[]);
    let charts = |versions: &[&str]| {
        let version = |version: &&str| format!("      - {{name: web, version: {version}}}\n");
        let versions: String = versions.iter().map(version).collect();
        let url = repository.url();
        format!(
            "  helm:\n    repositories:\n    - name: r\n      url: {url}\n      charts:\n{versions}"
        )
    };
    site.image_set("isc.yaml", &charts(&["1.0.0", "1.1.0"]));
    let to = target.address().to_string();
    site.succeeds(&format!("-c isc.yaml {PLAIN} --workspace file://ws docker://{to}"));

    let server = lab_cluster::kube::ApiServer::start().await.unwrap();
    let kubeconfig = server.kubeconfig().to_str().unwrap().to_owned();
    let place = format!("oci://{to}/charts/web");
    let install = ["install", "web", &place, "--version", "1.1.0", "--plain-http"];
    let install = [&install[..], &["--kubeconfig", &kubeconfig]].concat();
    let installed = std::thread::scope(|scope| {
        let helm = scope.spawn(|| run_helm(&site, &install));
        // No node runs the pod of the hook, so its end is reported here, as a kubelet does. Helm waits
        // for that before it creates the rest.
        let ended = "apiVersion: v1\nkind: Pod\nmetadata: {name: hook, namespace: default}\nstatus: {phase: \
                     Succeeded}\n";
        tokio::task::block_in_place(|| {
            let runtime = tokio::runtime::Handle::current();
            while !helm.is_finished()
                && runtime.block_on(server.client().apply_status(ended)).is_err()
            {}
        });
        helm.join().unwrap()
    });
    assert!(installed.contains("STATUS: deployed"), "{installed}");
    let hook = server.client().get("/api/v1/namespaces/default/pods/hook").await.unwrap();
    assert_eq!(hook["spec"]["containers"][0]["image"], format!("{}/org/hook:v1", source.address()));
    let made = server.client().get("/apis/apps/v1/namespaces/default/deployments/web").await;
    let made = made.unwrap();
    let image = &made["spec"]["template"]["spec"]["containers"][0]["image"];
    assert_eq!(*image, format!("{}/org/app:v1", source.address()));

    site.write(
        "delete.yaml",
        &format!(
            "kind: DeleteImageSetConfiguration\napiVersion: mirror.openshift.io/v2alpha1\ndelete:\n{}",
            charts(&["1.0.0"])
        ),
    );
    site.image_set("keep.yaml", &charts(&["1.1.0"]));
    let run = |line: &str| {
        let ran = Ran::of(site.command(line).output().unwrap());
        assert_eq!(ran.code, 0, "{line}: {}", ran.err);
    };
    run(&format!(
        "delete --generate -c delete.yaml --keep keep.yaml --ignore-configuration isc.yaml \
         --workspace file://ws --dest-tls-verify=false docker://{to}"
    ));
    let list = site.read("ws/working-dir/delete/delete-images.yaml");
    assert!(list.contains("charts/web:1.0.0") && !list.contains("org/app"), "{list}");
    run(&format!(
        "delete --delete-yaml-file ws/working-dir/delete/delete-images.yaml --dest-tls-verify=false docker://{to}"
    ));
    let tags =
        site.skopeo(&["list-tags", "--tls-verify=false", &format!("docker://{to}/charts/web")]);
    assert!(tags.contains("1.1.0") && !tags.contains("1.0.0"), "{tags}");
}
