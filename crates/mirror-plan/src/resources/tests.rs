use super::*;

const HEX: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn options() -> ResourceOptions {
    ResourceOptions {
        created_at: "2026-02-03T04:05:06.789Z".parse().unwrap(),
        tool_version: "1.2".into(),
        scope: Scope::Namespace,
        content_source_policy: false,
    }
}

fn placed(kind: Kind, origin: &str, destination: &str) -> MirroredImage {
    let origin = match origin.strip_prefix("oci://") {
        Some(path) => Origin::Layout(path.into()),
        None => {
            Origin::Registry(origin.replace("@DIGEST", &format!("@sha256:{HEX}")).parse().unwrap())
        }
    };
    MirroredImage { kind, origin, destination: destination.parse().unwrap() }
}

/// One of everything.
fn corpus() -> Vec<MirroredImage> {
    let release = "quay.io/openshift-release-dev";
    vec![
        placed(Kind::Additional, "quay.io/org/by-digest@DIGEST", "r.io:5000/ns/org/by-digest:x"),
        placed(Kind::Additional, "quay.io/org/by-tag:1", "r.io:5000/ns/org/by-tag:1"),
        placed(Kind::Additional, "quay.io/z/both:1@DIGEST", "r.io:5000/ns/z/both:1"),
        placed(Kind::Additional, "busybox:1", "r.io:5000/ns/library/busybox:1"),
        placed(Kind::Additional, "quay.io/org/moved@DIGEST", "r.io:5000/ns/elsewhere:1"),
        placed(Kind::Additional, "oci:///srv/x", "r.io:5000/ns/srv/x:latest"),
        placed(Kind::Helm, "quay.io/org/chart@DIGEST", "r.io:5000/other/org/chart:1"),
        placed(Kind::RelatedImage, "registry.redhat.io/rhel9/x@DIGEST", "r.io:5000/ns/rhel9/x:1"),
        placed(Kind::Bundle, "registry.redhat.io/rhel9/b@DIGEST", "r.io:5000/ns/rhel9/b:1"),
        placed(Kind::Catalog, "registry.redhat.io/redhat/index:v4", "r.io:5000/ns/redhat/index:v4"),
        placed(Kind::Graph, "oci:///g", "r.io:5000/ns/openshift/graph-image:latest"),
        placed(
            Kind::ReleasePayload,
            &format!("{release}/ocp-release:4.18.1-x86_64"),
            "r.io:5000/ns/openshift/release-images:4.18.1-x86_64",
        ),
        placed(
            Kind::ReleaseComponent,
            &format!("{release}/ocp-v4.0-art-dev@DIGEST"),
            "r.io:5000/ns/openshift/release:4.18.1-x86_64-etcd",
        ),
    ]
}

fn file<'a>(files: &'a [ResourceFile], name: &str) -> &'a str {
    &files.iter().find(|file| file.name == name).unwrap_or_else(|| panic!("no {name}")).yaml
}

#[test]
fn digests_are_redirected_by_one_sorted_document_per_category() {
    let files = cluster_resources(&corpus(), &options()).unwrap();
    assert_eq!(
        file(&files, "idms-oc-mirror.yaml"),
        r#"---
apiVersion: config.openshift.io/v1
kind: ImageDigestMirrorSet
metadata:
  annotations:
    createdAt: "2026-02-03T04:05:06Z"
    createdBy: oc-mirror v2
    oc-mirror_version: "1.2"
  name: idms-release-0
spec:
  imageDigestMirrors:
  - mirrors:
    - r.io:5000/ns/openshift/release-images
    source: quay.io/openshift-release-dev/ocp-release
  - mirrors:
    - r.io:5000/ns/openshift/release
    source: quay.io/openshift-release-dev/ocp-v4.0-art-dev
---
apiVersion: config.openshift.io/v1
kind: ImageDigestMirrorSet
metadata:
  annotations:
    createdAt: "2026-02-03T04:05:06Z"
    createdBy: oc-mirror v2
    oc-mirror_version: "1.2"
  name: idms-operator-0
spec:
  imageDigestMirrors:
  - mirrors:
    - r.io:5000/ns/rhel9
    source: registry.redhat.io/rhel9
---
apiVersion: config.openshift.io/v1
kind: ImageDigestMirrorSet
metadata:
  annotations:
    createdAt: "2026-02-03T04:05:06Z"
    createdBy: oc-mirror v2
    oc-mirror_version: "1.2"
  name: idms-generic-0
spec:
  imageDigestMirrors:
  - mirrors:
    - r.io:5000/ns/org
    - r.io:5000/other/org
    source: quay.io/org
  - mirrors:
    - r.io:5000/ns/elsewhere
    source: quay.io/org/moved
  - mirrors:
    - r.io:5000/ns/z
    source: quay.io/z
"#
    );
}

#[test]
fn tags_are_redirected_too_where_the_reference_has_one() {
    let files = cluster_resources(&corpus(), &options()).unwrap();
    assert_eq!(
        file(&files, "itms-oc-mirror.yaml"),
        r#"---
apiVersion: config.openshift.io/v1
kind: ImageTagMirrorSet
metadata:
  annotations:
    createdAt: "2026-02-03T04:05:06Z"
    createdBy: oc-mirror v2
    oc-mirror_version: "1.2"
  name: itms-release-0
spec:
  imageTagMirrors:
  - mirrors:
    - r.io:5000/ns/openshift/release-images
    source: quay.io/openshift-release-dev/ocp-release
---
apiVersion: config.openshift.io/v1
kind: ImageTagMirrorSet
metadata:
  annotations:
    createdAt: "2026-02-03T04:05:06Z"
    createdBy: oc-mirror v2
    oc-mirror_version: "1.2"
  name: itms-generic-0
spec:
  imageTagMirrors:
  - mirrors:
    - r.io:5000/ns/library
    source: docker.io/library
  - mirrors:
    - r.io:5000/ns/org
    source: quay.io/org
  - mirrors:
    - r.io:5000/ns/z
    source: quay.io/z
"#
    );
}

#[test]
fn older_clusters_get_a_content_source_policy_on_request() {
    assert_eq!(cluster_resources(&corpus(), &options()).unwrap().len(), 2);
    let options = ResourceOptions { content_source_policy: true, ..options() };
    let related = &corpus()[7..8];
    let files = cluster_resources(related, &options).unwrap();
    assert_eq!(
        file(&files, "icsp-oc-mirror.yaml"),
        r#"---
apiVersion: operator.openshift.io/v1alpha1
kind: ImageContentSourcePolicy
metadata:
  annotations:
    createdAt: "2026-02-03T04:05:06Z"
    createdBy: oc-mirror v2
    oc-mirror_version: "1.2"
  name: icsp-operator-0
spec:
  repositoryDigestMirrors:
  - mirrors:
    - r.io:5000/ns/rhel9
    source: registry.redhat.io/rhel9
"#
    );
}

#[test]
fn shortened_paths_are_redirected_repository_by_repository() {
    let options = ResourceOptions { scope: Scope::Repository, ..options() };
    let files = cluster_resources(&corpus()[..1], &options).unwrap();
    let yaml = file(&files, "idms-oc-mirror.yaml");
    assert!(yaml.contains("    - r.io:5000/ns/org/by-digest\n    source: quay.io/org/by-digest\n"));
}

#[test]
fn a_resource_without_entries_has_no_file() {
    let names = |images: &[MirroredImage]| -> Vec<_> {
        cluster_resources(images, &options()).unwrap().into_iter().map(|file| file.name).collect()
    };
    assert_eq!(names(&corpus()[1..2]), ["itms-oc-mirror.yaml"]);
    assert_eq!(names(&corpus()[0..1]), ["idms-oc-mirror.yaml"]);
    assert!(names(&corpus()[9..11]).is_empty());
    assert!(names(&corpus()[5..6]).is_empty());
}

#[test]
fn the_order_of_images_does_not_show() {
    let mut backwards = corpus();
    backwards.reverse();
    let files = |images: &[MirroredImage]| cluster_resources(images, &options()).unwrap();
    assert_eq!(files(&corpus()), files(&backwards));
}

#[test]
fn a_long_repository_stays_on_its_line_and_an_odd_host_stays_a_string() {
    let long = format!("r.io/{}", "n/".repeat(60));
    let images = [
        placed(Kind::Additional, "quay.io/org/a@DIGEST", &format!("{long}org/a:1")),
        placed(Kind::Additional, "1.2:30/a@DIGEST", "[fd00::1]:5000/a:1"),
    ];
    let files = cluster_resources(&images, &options()).unwrap();
    let yaml = file(&files, "idms-oc-mirror.yaml");
    assert!(yaml.contains(&format!("    - {long}org\n")), "{yaml}");
    let read: serde_json::Value = serde_saphyr::from_str(yaml.trim_start_matches("---\n")).unwrap();
    let entry = &read["spec"]["imageDigestMirrors"][0];
    assert_eq!(entry["source"], "1.2:30");
    assert_eq!(entry["mirrors"][0], "[fd00::1]:5000");
    let refused: Vec<_> = hosts_clusters_refuse(&images).into_iter().map(|h| h.as_str()).collect();
    assert_eq!(refused, ["[fd00::1]:5000"]);
}

#[test]
fn only_the_time_of_making_may_differ_unseen() {
    let at = |time: &str, images: &[MirroredImage]| {
        let options = ResourceOptions { created_at: time.parse().unwrap(), ..options() };
        cluster_resources(images, &options).unwrap()[0].yaml.clone()
    };
    let old = at("2026-02-03T04:05:06Z", &corpus());
    assert!(same_but_for_time(&old, &at("2027-12-31T23:59:59Z", &corpus())));
    assert!(!same_but_for_time(&old, &at("2026-02-03T04:05:06Z", &corpus()[1..])));
    assert!(!same_but_for_time(&old, &old.replace("ns/z", "ns/y")));
    assert!(!same_but_for_time(&old, ""));
    let json = |time: &str, name: &str| {
        format!("{{\n  \"createdAt\": \"{time}\",\n  \"name\": \"{name}\"\n}}\n")
    };
    assert!(same_but_for_time(&json("1", "a"), &json("2", "a")));
    assert!(!same_but_for_time(&json("1", "a"), &json("1", "b")));
}
