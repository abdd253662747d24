use super::*;
use crate::Scope;

fn options() -> ResourceOptions {
    ResourceOptions {
        created_at: "2026-01-02T03:04:05Z".parse().unwrap(),
        tool_version: "v1.2.3".to_owned(),
        scope: Scope::Namespace,
        content_source_policy: false,
    }
}

fn files(images: &[&str], template: Option<&CatalogSourceTemplate>) -> Vec<ResourceFile> {
    let images: Vec<ImageRef> = images.iter().map(|image| image.parse().unwrap()).collect();
    let catalogs: Vec<MirroredCatalog<'_>> =
        images.iter().map(|destination| MirroredCatalog { destination, template }).collect();
    catalog_resources(&catalogs, &options()).unwrap()
}

fn names(images: &[&str]) -> Vec<String> {
    files(images, None).into_iter().map(|file| file.name).collect()
}

#[test]
fn a_catalog_gets_a_catalog_source_and_a_cluster_catalog() {
    let files = files(&["reg.example:5000/ns/redhat/redhat-operator-index:v4.18"], None);
    let [cluster, source] = &files[..] else { panic!("{files:?}") };
    assert_eq!(source.name, "cs-redhat-operator-index-v4-18.yaml");
    assert_eq!(
        source.yaml,
        "apiVersion: operators.coreos.com/v1alpha1\n\
         kind: CatalogSource\n\
         metadata:\n  annotations:\n    createdAt: \"2026-01-02T03:04:05Z\"\n    \
         createdBy: oc-mirror v2\n    oc-mirror_version: v1.2.3\n  \
         name: cs-redhat-operator-index-v4-18\n  namespace: openshift-marketplace\n\
         spec:\n  image: reg.example:5000/ns/redhat/redhat-operator-index:v4.18\n  sourceType: grpc\n"
    );
    assert_eq!(cluster.name, "cc-redhat-operator-index-v4-18.yaml");
    assert_eq!(
        cluster.yaml,
        "apiVersion: olm.operatorframework.io/v1\n\
         kind: ClusterCatalog\n\
         metadata:\n  annotations:\n    createdAt: \"2026-01-02T03:04:05Z\"\n    \
         createdBy: oc-mirror v2\n    oc-mirror_version: v1.2.3\n  \
         name: cc-redhat-operator-index-v4-18\n\
         spec:\n  priority: 0\n  source:\n    image:\n      \
         ref: reg.example:5000/ns/redhat/redhat-operator-index:v4.18\n    type: Image\n"
    );
}

#[test]
fn names_are_labels_whatever_repository_and_tag_are() {
    let long = format!("reg.example/{}:v1", "a".repeat(100));
    let digest = format!("reg.example/a/b:sha256-{}", "0123456789abcdef".repeat(4));
    let cases = [
        ("reg.example/a/my_index.x:V4.18", "cs-my-index-x-v4-18.yaml".to_owned()),
        ("reg.example/a/index:4.18-2026-01-02", "cs-index-4-18-2026-01.yaml".to_owned()),
        ("reg.example/a/index:v4.18.0-rc1.x", "cs-index-v4-18-0-rc1.yaml".to_owned()),
        (&*digest, "cs-b-sha256-01234.yaml".to_owned()),
        (&*long, format!("cs-{}-v1.yaml", "a".repeat(57))),
    ];
    for (image, name) in cases {
        assert_eq!(names(&[image])[1], name, "{image}");
        let label = name.trim_end_matches(".yaml");
        assert!(label.len() <= 63, "{label}");
    }
}

#[test]
fn catalogs_that_would_share_a_name_do_not_overwrite_each_other() {
    let made =
        names(&["reg.example/a/index:v1", "reg.example/b/index:v1", "reg.example/c/other:v1"]);
    let unique: BTreeSet<&String> = made.iter().collect();
    assert_eq!(unique.len(), 6, "{made:?}");
    assert!(made.contains(&"cs-other-v1.yaml".to_owned()), "{made:?}");
    assert!(!made.contains(&"cs-index-v1.yaml".to_owned()), "{made:?}");
    // Requested twice, it is still one.
    assert_eq!(names(&["reg.example/a/index:v1", "reg.example/a/index:v1"]).len(), 2);
}

#[test]
fn a_template_keeps_its_settings_and_loses_what_is_about_itself() {
    let template = "apiVersion: operators.coreos.com/v1alpha1\nkind: CatalogSource\n\
        metadata:\n  name: rubbish\n  namespace: elsewhere\n  labels: {team: ours}\n  \
        annotations: {mine: yes-it-is}\n\
        spec:\n  image: rubbish\n  displayName: Ours\n  updateStrategy:\n    registryPoll:\n      interval: 30m0s\n\
        status: {message: old}\n";
    let template = CatalogSourceTemplate::parse(template).unwrap();
    let files = files(&["reg.example/a/index:v1"], Some(&template));
    let yaml = &files[1].yaml;
    for kept in ["displayName: Ours", "interval: 30m0s", "team: ours", "mine: yes-it-is"] {
        assert!(yaml.contains(kept), "{yaml}");
    }
    for ours in ["name: cs-index-v1", "namespace: openshift-marketplace", "sourceType: grpc"] {
        assert!(yaml.contains(ours), "{yaml}");
    }
    assert!(!yaml.contains("rubbish") && !yaml.contains("status"), "{yaml}");
    assert!(!files[0].yaml.contains("Ours"), "{}", files[0].yaml);
}

#[test]
fn what_is_not_a_template_is_refused_with_the_reason() {
    let source = "apiVersion: operators.coreos.com/v1alpha1\nkind: CatalogSource\n";
    let refused = |yaml: &str| CatalogSourceTemplate::parse(yaml).unwrap_err().to_string();
    let own = "it is not a CatalogSource of operators.coreos.com/v1alpha1: set apiVersion and kind";
    for yaml in ["kind: CatalogSource\n", "- a\n", "apiVersion: v1\nkind: ConfigMap\n"] {
        assert_eq!(refused(yaml), own);
    }
    assert_eq!(refused("a: [\n"), "it cannot be read as YAML");
    assert_eq!(refused(&format!("{source}spec: x\n")), "its spec is not a map of settings");
    assert!(
        refused(&format!("{source}spec: {{sourceType: configmap}}\n")).contains("\"configmap\"")
    );
    assert!(refused(&format!("{source}spec: {{configMap: x}}\n")).contains("configMap"));
    assert!(CatalogSourceTemplate::parse(source).is_ok());
}
