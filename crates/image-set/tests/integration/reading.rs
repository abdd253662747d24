//! A configuration that uses everything, and what is read from it.

use std::path::Path;

use image_set::{
    Architecture, Distribution, ImageSetConfiguration, ImageSource, parse_delete, parse_image_set,
};
use oci::Platform;

const EVERYTHING: &str = "\
# Comments are not content.
kind: ImageSetConfiguration
apiVersion: mirror.openshift.io/v2alpha1
archiveSize: 8
mirror:
  platform:
    graph: yes
    kubeVirtContainer: on
    architectures: [amd64, ppc64le]
    release: quay.io/openshift-release-dev/ocp-release:4.18.1-x86_64
    channels:
    - name: stable-4.18
      minVersion: 4.18.1
      maxVersion: '4.18.10'
      shortestPath: true
    - name: 4-stable
      type: okd
      full: true
  operators:
  - catalog: registry.redhat.io/redhat/redhat-operator-index:v4.18
    targetCatalog: my/index
    targetTag: v4
    full: true
    skipDependencies: true
    targetCatalogSourceTemplate: /etc/template.yaml
    platforms: &arm
    - {os: linux, architecture: arm64}
    packages:
    - name: odf-operator
      defaultChannel: stable-4.18
      channels:
      - name: stable-4.18
        minVersion: v4.18.2-rhodf
    - name: nfd
      maxVersion: '4.18'
  - catalog: oci:///var/catalog
  additionalImages:
  - name: docker://registry.redhat.io/ubi9/ubi:latest
  - name: oci://layouts/x
    targetRepo: tools/x
    targetTag: '1'
    platforms: *arm
  helm:
    repositories:
    - name: podinfo
      url: https://stefanprodan.github.io/podinfo
      charts:
      - name: podinfo
        version: 5.0.0
        imagePaths: ['{.spec.image}']
    local:
    - name: mine
      path: /charts/mine.tgz
  blockedImages:
  - name: (aws|gcp)
  samples:
  - name: ruby
";

fn everything() -> ImageSetConfiguration {
    parse_image_set("isc.yaml", EVERYTHING).unwrap_or_else(|findings| panic!("{findings}"))
}

#[test]
fn releases_are_read() {
    let platform = everything().mirror.platform.expect("a platform section");
    assert!(platform.graph && platform.kube_virt_container);
    assert_eq!(platform.architectures, [Architecture::Amd64, Architecture::Ppc64le]);
    let release = platform.release.expect("a release").to_string();
    assert_eq!(release, "quay.io/openshift-release-dev/ocp-release:4.18.1-x86_64");
    let [stable, okd] = &platform.channels[..] else { panic!("two channels") };
    assert_eq!((stable.name.as_str(), stable.distribution), ("stable-4.18", Distribution::Ocp));
    assert_eq!(stable.min_version, Some(semver::Version::new(4, 18, 1)));
    assert_eq!(stable.max_version, Some(semver::Version::new(4, 18, 10)));
    assert!(stable.shortest_path && !stable.full);
    assert_eq!((okd.name.as_str(), okd.distribution), ("4-stable", Distribution::Okd));
    assert!(okd.full && okd.min_version.is_none());
}

#[test]
fn operators_are_read() {
    let operators = everything().mirror.operators;
    let [index, layout] = &operators[..] else { panic!("two catalogs") };
    let name = "registry.redhat.io/redhat/redhat-operator-index:v4.18";
    assert_eq!(index.catalog, ImageSource::Registry(name.parse().expect("a reference")));
    assert_eq!(index.target_catalog.as_ref().map(|path| path.as_str()), Some("my/index"));
    assert_eq!(index.target_tag.as_ref().map(|tag| tag.as_str()), Some("v4"));
    assert!(index.full && index.skip_dependencies);
    let template = index.target_catalog_source_template.as_deref();
    assert_eq!(template, Some(Path::new("/etc/template.yaml")));
    assert_eq!(index.platforms, [Platform::new("linux", "arm64")]);
    let [odf, nfd] = &index.packages[..] else { panic!("two packages") };
    assert_eq!(odf.default_channel.as_deref(), Some("stable-4.18"));
    let min = odf.channels[0].min_version.as_ref().expect("a bound");
    assert_eq!((min.as_str(), min.version().to_string()), ("v4.18.2-rhodf", "4.18.2-rhodf".into()));
    assert_eq!(nfd.max_version.as_ref().expect("a bound").version().to_string(), "4.18.0");
    assert_eq!(layout.catalog, ImageSource::Layout("/var/catalog".into()));
    assert!(layout.packages.is_empty() && !layout.full);
}

#[test]
fn images_are_read_with_their_places() {
    let configuration = everything();
    assert_eq!(configuration.archive_size, Some(8));
    let images = &configuration.mirror.additional_images;
    let [ubi, layout] = &images[..] else { panic!("two images") };
    let name = "registry.redhat.io/ubi9/ubi:latest";
    assert_eq!(ubi.name, ImageSource::Registry(name.parse().expect("a reference")));
    assert_eq!((ubi.at.line, ubi.at.column), (38, 5));
    assert_eq!(layout.name, ImageSource::Layout("layouts/x".into()));
    assert_eq!(layout.target_repo.as_ref().map(|path| path.as_str()), Some("tools/x"));
    assert_eq!(layout.target_tag.as_ref().map(|tag| tag.as_str()), Some("1"));
    assert_eq!(layout.platforms, [Platform::new("linux", "arm64")]);
    assert_eq!((layout.at.line, layout.at.column), (39, 5));
    let blocked = &configuration.mirror.blocked_images[0];
    assert!(blocked.pattern.is_match("quay.io/openshift/release:4.18.1-x86_64-aws-ebs"));
    assert!(!blocked.pattern.is_match("quay.io/openshift/release:4.18.1-x86_64-azure"));
    assert_eq!(configuration.mirror.samples[0].name, "ruby");
}

#[test]
fn charts_are_read() {
    let helm = everything().mirror.helm.expect("a helm section");
    let repository = &helm.repositories[0];
    assert_eq!(repository.url, "https://stefanprodan.github.io/podinfo");
    let chart = &repository.charts[0];
    assert_eq!((chart.name.as_str(), chart.version.as_deref()), ("podinfo", Some("5.0.0")));
    assert_eq!(chart.image_paths, ["{.spec.image}"]);
    assert_eq!(helm.local[0].chart.name, "mine");
    assert_eq!(helm.local[0].path, Path::new("/charts/mine.tgz"));
}

#[test]
fn values_and_extensions_of_charts_are_read() {
    let text = "kind: ImageSetConfiguration\napiVersion: mirror.openshift.io/v2alpha1\nmirror:\n  \
                helm:\n    repositories:\n    - {name: all, url: 'oci://quay.io/charts', newestOnly: \
                true}\n    local:\n    - name: mine\n      path: mine\n      valuesFiles: [a.yaml, \
                b.yaml]\n      values: {replicas: 2, image: {tag: v1, off: true}}\n      guessImages: \
                true\n      environmentVariables: [RELATED_IMAGE_A]\n";
    let set = parse_image_set("isc.yaml", text).unwrap_or_else(|findings| panic!("{findings}"));
    let helm = set.mirror.helm.as_ref().expect("a helm section");
    assert!(helm.repositories[0].newest_only);
    let chart = &helm.local[0].chart;
    assert_eq!(chart.values_files, [Path::new("a.yaml"), Path::new("b.yaml")]);
    assert_eq!(
        (&chart.values["replicas"], &chart.values["image"]["tag"]),
        (&2.into(), &"v1".into())
    );
    assert!(chart.guess_images);
    assert_eq!(chart.environment_variables, ["RELATED_IMAGE_A"]);
    let keys: Vec<&str> = set.extensions().iter().map(|extension| extension.key).collect();
    assert_eq!(
        keys,
        ["newestOnly", "values", "valuesFiles", "environmentVariables", "guessImages"]
    );
}

#[test]
fn what_an_image_set_selects_can_be_deleted() {
    let selected = everything();
    let delete = selected.to_delete().to_yaml().expect("YAML");
    let read = parse_delete("disc.yaml", &delete).unwrap_or_else(|findings| panic!("{findings}"));
    assert_eq!(read.delete.platform, selected.mirror.platform);
    assert_eq!(read.delete.operators, selected.mirror.operators);
    assert_eq!(read.delete.additional_images, selected.mirror.additional_images);
    assert_eq!(read.delete.helm, selected.mirror.helm);
}
