//! What is written reads back as the same configuration.

use std::fmt::Debug;
use std::path::PathBuf;
use std::str::FromStr;

use image_set::{
    AdditionalImage, Architecture, BlockedImage, Chart, DeleteImageSetConfiguration, Distribution,
    Document, EntryPosition, Helm, HelmRepository, ImageSetConfiguration, ImageSource, LocalChart,
    Mirror, Operator, Package, PackageChannel, PackageVersion, PlatformSection, ReleaseChannel,
    Sample, parse,
};
use oci::{ImageRef, Platform, Repository, Tag};
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use regex::Regex;

/// Text that a careless writer would leave unquoted, and any other.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        proptest::sample::select(vec![
            "y",
            "no",
            "On",
            "true",
            "null",
            "~",
            "4.18",
            "1e3",
            "0x1f",
            "0o7",
            "1_000",
            "017",
            ".inf",
            "<<",
            "=",
            "- x",
            "a: b",
            "a #b",
            "*a",
            "&a",
            "!a",
            "%a",
            "@a",
            "`a",
            "{a}",
            "[a",
            "'",
            "\"",
            "\\",
            "-",
            "?",
            ":",
            "1:30",
            "2024-01-01",
            "a\nb",
            "a\tb",
            " a ",
            "---",
            "...",
            "a\n",
            "\u{85}",
            "\u{feff}",
            "ünï",
            "🚢",
            "|",
            ">",
            "a\r\nb",
        ])
        .prop_map(str::to_owned),
        "[a-z0-9.-]{1,12}",
        "\\PC{1,8}",
    ]
}

fn parsed<T: FromStr<Err: Debug> + Debug>(form: &'static str) -> impl Strategy<Value = T> {
    proptest::string::string_regex(form)
        .expect("a pattern")
        .prop_map(|text| text.parse().expect("text of the form"))
}

fn tag() -> impl Strategy<Value = Tag> {
    parsed("[a-z0-9_][a-z0-9._-]{0,5}")
}

fn repository() -> impl Strategy<Value = Repository> {
    parsed("[a-z0-9]{1,3}(/[a-z0-9]{1,3}){0,2}")
}

fn image() -> impl Strategy<Value = ImageRef> {
    parsed("[a-z]{1,4}\\.io(:[1-9][0-9]{0,3})?/[a-z0-9]{1,4}(:[a-z0-9]{1,4}|@sha256:[0-9a-f]{64})")
}

fn source() -> impl Strategy<Value = ImageSource> {
    prop_oneof![
        image().prop_map(ImageSource::Registry),
        text().prop_map(|path| ImageSource::Layout(PathBuf::from(path))),
    ]
}

fn platforms() -> impl Strategy<Value = Vec<Platform>> {
    vec((text(), text()).prop_map(|(os, architecture)| Platform::new(&os, &architecture)), 0..3)
}

fn additional_image() -> impl Strategy<Value = AdditionalImage> {
    (source(), of(repository()), of(tag()), platforms()).prop_map(
        |(name, target_repo, target_tag, platforms)| AdditionalImage {
            name,
            target_repo,
            target_tag,
            platforms,
            at: EntryPosition::default(),
        },
    )
}

fn release_channel() -> impl Strategy<Value = ReleaseChannel> {
    (text(), any::<bool>(), of(0..50u64), any::<bool>(), any::<bool>()).prop_map(
        |(name, okd, min, shortest_path, full)| ReleaseChannel {
            name,
            distribution: if okd { Distribution::Okd } else { Distribution::Ocp },
            min_version: min.map(|patch| semver::Version::new(4, 18, patch)),
            max_version: min.map(|patch| semver::Version::new(4, 19, patch)),
            shortest_path,
            full,
            at: EntryPosition::default(),
        },
    )
}

fn platform_section() -> impl Strategy<Value = PlatformSection> {
    let where_for = prop_oneof![
        vec(proptest::sample::select(Architecture::ALL.to_vec()), 0..3).prop_map(|a| (a, vec![])),
        platforms().prop_map(|p| (vec![], p)),
    ];
    (any::<bool>(), vec(release_channel(), 0..3), where_for, of(image()), any::<bool>()).prop_map(
        |(graph, mut channels, (architectures, platforms), release, kube_virt_container)| {
            channels.sort_by(|a, b| a.name.cmp(&b.name));
            channels.dedup_by(|a, b| a.name == b.name);
            PlatformSection {
                graph,
                channels,
                architectures,
                platforms,
                release,
                kube_virt_container,
                at: EntryPosition::default(),
            }
        },
    )
}

fn bounds() -> impl Strategy<Value = (Option<PackageVersion>, Option<PackageVersion>)> {
    let of_form = |form| of(parsed::<String>(form)).prop_map(|v| v.and_then(|v| version(&v)));
    (of_form("v?[0-4]\\.[0-9]{1,3}"), of_form("v?[5-9](\\.[0-9]){2}(-rhodf)?"))
}

fn version(text: &str) -> Option<PackageVersion> {
    Some(PackageVersion::parse(text).expect("a version"))
}

fn package() -> impl Strategy<Value = Package> {
    let channel = (text(), bounds()).prop_map(|(name, (min_version, max_version))| {
        let previous_versions =
            (min_version.is_none() && max_version.is_none() && name.len() % 2 == 0).then_some(3);
        PackageChannel {
            name,
            min_version,
            max_version,
            previous_versions,
            at: EntryPosition::default(),
        }
    });
    (text(), any::<bool>(), vec(channel, 0..3)).prop_map(|(name, has_default, mut channels)| {
        channels.sort_by(|a, b| a.name.cmp(&b.name));
        channels.dedup_by(|a, b| a.name == b.name);
        Package {
            name,
            default_channel: channels.last().filter(|_| has_default).map(|c| c.name.clone()),
            min_version: None,
            max_version: None,
            previous_versions: None,
            channels,
            at: EntryPosition::default(),
        }
    })
}

fn operator() -> impl Strategy<Value = Operator> {
    let packages = vec(package(), 0..3);
    (source(), of(repository()), of(tag()), any::<bool>(), of(text()), platforms(), packages)
        .prop_map(
            |(catalog, target_catalog, target_tag, skip, template, platforms, mut packages)| {
                packages.sort_by(|a, b| a.name.cmp(&b.name));
                packages.dedup_by(|a, b| a.name == b.name);
                Operator {
                    catalog,
                    target_catalog,
                    target_tag,
                    full: packages.is_empty(),
                    skip_dependencies: skip,
                    include_dependencies: !skip,
                    target_catalog_source_template: template.map(PathBuf::from),
                    platforms,
                    packages,
                    at: EntryPosition::default(),
                }
            },
        )
}

fn chart() -> impl Strategy<Value = Chart> {
    let values = vec(("[a-z]{1,4}", text()), 0..3);
    let more = (vec(text(), 0..2), values, any::<bool>(), vec(text(), 0..2));
    (text(), of(text()), vec(text(), 0..3), platforms(), more).prop_map(
        |(name, version, image_paths, platforms, (files, values, guess_images, variables))| Chart {
            name,
            version,
            image_paths,
            environment_variables: variables,
            platforms,
            values_files: files.into_iter().map(PathBuf::from).collect(),
            values: values.into_iter().map(|(key, value)| (key, value.into())).collect(),
            guess_images,
            at: EntryPosition::default(),
        },
    )
}

fn helm() -> impl Strategy<Value = Helm> {
    let url = "(https?|oci)://[a-z]{1,5}/[#a-z :]{0,5}";
    let repository = (text(), url, vec(chart(), 0..3), any::<bool>()).prop_map(
        |(name, url, charts, newest_only)| {
            let newest_only = newest_only && charts.is_empty();
            HelmRepository { name, url, charts, newest_only, at: EntryPosition::default() }
        },
    );
    let local =
        (chart(), text()).prop_map(|(chart, path)| LocalChart { chart, path: PathBuf::from(path) });
    (vec(repository, 0..3), vec(local, 0..3)).prop_map(|(repositories, local)| Helm {
        repositories,
        local,
        at: EntryPosition::default(),
    })
}

fn blocked_image() -> impl Strategy<Value = BlockedImage> {
    text().prop_map(|text| BlockedImage {
        pattern: Regex::new(&regex::escape(&text)).expect("escaped text"),
        at: EntryPosition::default(),
    })
}

fn configuration() -> impl Strategy<Value = ImageSetConfiguration> {
    let samples = vec(text().prop_map(|name| Sample { name, at: EntryPosition::default() }), 0..3);
    (
        of(1..1000u64),
        of(platform_section()),
        of(operator()),
        vec(additional_image(), 0..4),
        of(helm()),
        vec(blocked_image(), 0..3),
        samples,
    )
        .prop_map(
            |(archive_size, platform, operator, additional_images, helm, blocked, samples)| {
                let mirror = Mirror {
                    platform,
                    operators: operator.into_iter().collect(),
                    additional_images,
                    helm,
                    blocked_images: blocked,
                    samples,
                };
                ImageSetConfiguration { archive_size, mirror, transfer_times: None, prune: None }
            },
        )
}

fn read(yaml: &str) -> Document {
    parse("written.yaml", yaml).unwrap_or_else(|findings| panic!("{findings}\n{yaml}"))
}

proptest! {
    #[test]
    fn an_image_set_reads_back_as_it_was_written(configuration in configuration()) {
        let yaml = configuration.to_yaml().expect("YAML");
        prop_assert_eq!(read(&yaml), Document::ImageSet(configuration), "{}", yaml);
    }

    #[test]
    fn its_deletion_reads_back_as_it_was_written(configuration in configuration()) {
        let delete: DeleteImageSetConfiguration = configuration.to_delete();
        let yaml = delete.to_yaml().expect("YAML");
        prop_assert_eq!(read(&yaml), Document::Delete(delete), "{}", yaml);
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "(kind|mirror|[ -:\\[\\]{}&*!|>'\"<\n]|\\PC){0,60}") {
        if let Err(findings) = parse("x", &text) {
            prop_assert!(findings.iter().next().is_some());
        }
    }
}

#[test]
fn keys_are_written_in_a_fixed_order_and_defaults_are_left_out() {
    let text = "\
mirror:
  blockedImages: [{name: 'a.*'}]
  additionalImages:
  - platforms: [{architecture: amd64, os: linux}]
    targetTag: '4.18'
    targetRepo: x/y
    name: docker://busybox:1
  - name: oci:///var/x
  operators:
  - full: no
    catalog: quay.io/a/b:1
    packages: [{channels: [{maxVersion: '2', minVersion: v1.0, name: stable}], name: p}]
  platform: {graph: true, channels: [{type: ocp, name: stable-4.18, minVersion: 4.18.1}]}
archiveSize: 4
apiVersion: mirror.openshift.io/v1alpha2
kind: ImageSetConfiguration
";
    let Document::ImageSet(configuration) = read(text) else { panic!("an image set") };
    let written = "\
kind: ImageSetConfiguration
apiVersion: mirror.openshift.io/v2alpha1
archiveSize: 4
mirror:
  platform:
    graph: true
    channels:
    - name: stable-4.18
      minVersion: \"4.18.1\"
  operators:
  - catalog: quay.io/a/b:1
    packages:
    - name: p
      channels:
      - name: stable
        minVersion: v1.0
        maxVersion: \"2\"
  additionalImages:
  - name: docker.io/library/busybox:1
    targetRepo: x/y
    targetTag: \"4.18\"
    platforms:
    - os: linux
      architecture: amd64
  - name: oci:///var/x
  blockedImages:
  - name: a.*
";
    assert_eq!(configuration.to_yaml().expect("YAML"), written);
    let deleting = "\
kind: DeleteImageSetConfiguration
apiVersion: mirror.openshift.io/v2alpha1
delete:
  platform:
";
    let delete = configuration.to_delete().to_yaml().expect("YAML");
    assert!(delete.starts_with(deleting), "{delete}");
    assert!(!delete.contains("blocked") && !delete.contains("archiveSize"), "{delete}");
}

#[test]
fn an_empty_image_set_is_written_and_read() {
    let empty = ImageSetConfiguration::default();
    assert_eq!(read(&empty.to_yaml().expect("YAML")), Document::ImageSet(empty));
}
