//! Who keeps what.

use std::collections::BTreeSet;

use mirror_plan::{
    ChannelContent, ConfigurationRun, ImageEntry, ImageTree, ManifestNode, PackageContent,
};
use oci::MediaType;

use super::*;

#[derive(Default)]
struct World {
    record: TargetRecord,
}

fn place(text: &str) -> Destination {
    text.parse().unwrap()
}

fn target() -> Target {
    "r.io/ns".parse().unwrap()
}

impl World {
    fn image(&mut self, name: &str, kind: Kind, content: &str) -> &mut Self {
        let digest = Digest::of(content.as_bytes());
        let media_type = MediaType::new(MediaType::OCI_MANIFEST);
        let node = ManifestNode { media_type, digest, size: 1, platform: None, blobs: Vec::new() };
        let tree =
            ImageTree { manifests: vec![node], left_out: BTreeSet::new(), attachments: Vec::new() };
        let origin = Origin::Registry(format!("quay.io/{name}").parse().unwrap());
        let entry = ImageEntry { origin: &origin, kind, tree: &tree, run: 1 };
        self.record.insert(place(&format!("ns/{name}")), entry);
        self
    }

    /// `needs` has the bundles of each image.
    fn select(&mut self, config: &str, images: &[(&str, &[&str])]) -> &mut Self {
        let of = |bundle: &&str| BundleUse { package: "foo".into(), bundle: (*bundle).to_owned() };
        let selected = images
            .iter()
            .map(|(name, bundles)| (place(&format!("ns/{name}")), bundles.iter().map(of).collect()))
            .collect();
        let run = ConfigurationRun {
            name: config,
            text: config,
            number: 1,
            selected: &selected,
            complete: true,
        };
        self.record.select(&run);
        self
    }

    fn catalog(&mut self, name: &str, channels: &[(&str, &[&str])]) -> &mut Self {
        self.image(name, Kind::Catalog, name);
        let image = self.record.images.get_mut(&place(&format!("ns/{name}"))).unwrap();
        image.details.as_mut().unwrap().catalog = Some(content(channels));
        self
    }

    fn choose(&self, images: &[&str]) -> Result<Choice, ChoiceError> {
        self.choose_with(images, |request| request)
    }

    fn choose_with<'t>(
        &self,
        images: &[&str],
        change: impl FnOnce(Request<'t>) -> Request<'t>,
    ) -> Result<Choice, ChoiceError> {
        let target: &'static Target = Box::leak(Box::new(target()));
        let expected = |name: &&str| {
            let place = place(&format!("ns/{name}"));
            let known = details(&self.record, &place);
            let kind = known.map_or(Kind::Additional, |known| known.kind);
            (place, Requested { kind, origin: None, digest: None, reason: "disc.yaml".into() })
        };
        choose(
            &self.record,
            change(Request {
                target,
                images: images.iter().map(expected).collect(),
                channels: None,
                keep: Vec::new(),
                superseded: BTreeSet::new(),
                all: false,
            }),
        )
    }
}

fn content(channels: &[(&str, &[&str])]) -> CatalogContent {
    let channel = |bundles: &[&str]| ChannelContent {
        head: bundles.first().map(|head| (*head).to_owned()),
        bundles: bundles.iter().map(|bundle| (*bundle).to_owned()).collect(),
    };
    let package = PackageContent {
        default_channel: channels[0].0.to_owned(),
        channels: channels.iter().map(|(name, b)| ((*name).to_owned(), channel(b))).collect(),
        versions: channels
            .iter()
            .flat_map(|(_, bundles)| bundles.iter())
            .map(|bundle| ((*bundle).to_owned(), bundle.trim_start_matches("foo.v").to_owned()))
            .collect(),
    };
    CatalogContent {
        source: "quay.io/org/catalog:v1".into(),
        packages: [("foo".to_owned(), package)].into(),
    }
}

fn items(choice: &Choice) -> Vec<String> {
    choice.items.iter().map(|item| item.place.to_string()).collect()
}

fn kept(choice: &Choice) -> Vec<String> {
    choice.kept.iter().map(|kept| format!("{}: {}", kept.place, kept.because)).collect()
}

#[test]
fn a_request_for_a_part_of_one_configuration_is_met_and_warned_about() {
    let mut world = World::default();
    world.image("a:1", Kind::Additional, "a").image("b:1", Kind::Additional, "b");
    world.select("isc.yaml", &[("a:1", &[]), ("b:1", &[])]);
    let choice = world.choose(&["a:1"]).unwrap();
    assert_eq!(items(&choice), ["ns/a:1"]);
    assert!(choice.warnings[0].contains("isc.yaml still selects"), "{:?}", choice.warnings);
}

#[test]
fn what_another_configuration_selects_stays() {
    let mut world = World::default();
    world.image("a:1", Kind::Additional, "a").image("b:1", Kind::Additional, "b");
    world.image("c:1", Kind::Additional, "c");
    world.select("one.yaml", &[("a:1", &[]), ("b:1", &[]), ("c:1", &[])]);
    world.select("two.yaml", &[("b:1", &[])]);
    let choice = world.choose(&["a:1", "b:1"]).unwrap();
    assert_eq!(items(&choice), ["ns/a:1"]);
    assert_eq!(kept(&choice), ["ns/b:1: selected by two.yaml"]);
    // Both select all of it: neither can be preferred.
    let choice = world.choose(&["b:1"]).unwrap();
    assert_eq!(items(&choice), [""; 0]);
    assert_eq!(kept(&choice), ["ns/b:1: selected by one.yaml, two.yaml"]);
    // Unless one of them does not count any more.
    let choice = world
        .choose_with(&["b:1"], |request| Request {
            superseded: ["two.yaml".to_owned()].into(),
            ..request
        })
        .unwrap();
    assert_eq!(items(&choice), ["ns/b:1"]);
}

#[test]
fn a_configuration_keeps_what_it_selects_when_the_request_exceeds_it() {
    let mut world = World::default();
    world.image("a:1", Kind::Additional, "a").image("b:1", Kind::Additional, "b");
    world.image("c:1", Kind::Additional, "c");
    world.select("isc.yaml", &[("b:1", &[]), ("c:1", &[])]);
    let choice = world.choose(&["a:1", "b:1"]).unwrap();
    assert_eq!(items(&choice), ["ns/a:1"]);
    assert_eq!(kept(&choice), ["ns/b:1: selected by isc.yaml"]);
}

#[test]
fn the_files_of_keep_and_foreign_tags_keep_images() {
    let mut world = World::default();
    world.image("a:1", Kind::Additional, "a").image("b:1", Kind::Additional, "b");
    let keep = Keep { name: "keep.yaml".into(), images: [place("ns/b:1")].into() };
    let choice = world
        .choose_with(&["a:1", "b:1", "theirs:1"], |request| Request { keep: vec![keep], ..request })
        .unwrap();
    assert_eq!(items(&choice), ["ns/a:1"]);
    assert_eq!(
        kept(&choice),
        [
            "ns/b:1: selected by keep.yaml",
            "ns/theirs:1: it was not mirrored there from this workspace"
        ]
    );
}

#[test]
fn an_empty_selection_and_a_selection_of_everything_are_errors() {
    let mut world = World::default();
    world.image("a:1", Kind::Additional, "a").catalog("catalog:v1", &[("stable", &["foo.v1.0.0"])]);
    assert!(matches!(world.choose(&[]), Err(ChoiceError::Empty { .. })));
    assert!(matches!(world.choose(&["theirs:1"]), Err(ChoiceError::Empty { .. })));
    // Catalogs are not deleted by a selection, so they do not count.
    assert!(matches!(world.choose(&["a:1"]), Err(ChoiceError::Everything { count: 1, .. })));
    let all = world.choose_with(&["a:1"], |request| Request { all: true, ..request });
    assert_eq!(items(&all.unwrap()), ["ns/a:1"]);
}

/// Two bundles, of which one is in two channels, and images that they share.
fn operators() -> World {
    let mut world = World::default();
    world.image("foo:1", Kind::Bundle, "foo1").image("foo:2", Kind::Bundle, "foo2");
    world.image("tool:1", Kind::RelatedImage, "tool1");
    world.image("proxy:1", Kind::RelatedImage, "proxy");
    world.image("other:1", Kind::Additional, "other");
    world.catalog(
        "catalog:v1",
        &[("stable-1", &["foo.v1.0.0"]), ("stable", &["foo.v2.0.0", "foo.v1.0.0"])],
    );
    world.select(
        "isc.yaml",
        &[
            ("foo:1", &["foo.v1.0.0"]),
            ("tool:1", &["foo.v1.0.0"]),
            ("foo:2", &["foo.v2.0.0"]),
            ("proxy:1", &["foo.v1.0.0", "foo.v2.0.0"]),
            ("other:1", &[]),
            ("catalog:v1", &[]),
        ],
    );
    world
}

#[test]
fn a_bundle_in_a_channel_that_stays_stays_with_its_images() {
    let world = operators();
    let requested = vec![content(&[("stable-1", &["foo.v1.0.0"])])];
    let choice = world
        .choose_with(&["foo:1", "tool:1", "proxy:1"], |request| Request {
            channels: Some(requested),
            ..request
        })
        .unwrap();
    assert_eq!(items(&choice), [""; 0]);
    assert_eq!(
        kept(&choice),
        [
            "ns/foo:1: the bundle foo.v1.0.0 is also in the channel stable of ns/catalog:v1, which stays",
            "ns/proxy:1: needed by foo.v1.0.0, foo.v2.0.0",
            "ns/tool:1: needed by foo.v1.0.0",
        ]
    );
}

#[test]
fn images_of_a_bundle_that_stays_stay_and_a_channel_without_its_head_is_warned_about() {
    let world = operators();
    let requested = vec![content(&[("stable", &["foo.v2.0.0"])])];
    let choice = world
        .choose_with(&["foo:2", "proxy:1"], |request| Request {
            channels: Some(requested),
            ..request
        })
        .unwrap();
    assert_eq!(items(&choice), ["ns/foo:2"]);
    assert_eq!(kept(&choice), ["ns/proxy:1: needed by foo.v1.0.0"]);
    let warned = choice.warnings.join("\n");
    assert!(warned.contains("channel stable of foo in ns/catalog:v1 loses its head foo.v2.0.0"));
    let going = choice.items.iter().map(|item| item.place.clone()).collect();
    let narrowed = crate::narrowed(&world.record, &target(), &choice.bundles, &going);
    assert_eq!(narrowed.len(), 1);
    assert_eq!(narrowed[0].bundles.len(), 1);
    let text = format!("kind: ImageSetConfiguration\nmirror:\n{}", narrowed[0].operators);
    let set = image_set::parse_image_set("isc.yaml", &text).unwrap();
    let package = &set.mirror.operators[0].packages[0];
    let channels: Vec<(&str, &str)> = package
        .channels
        .iter()
        .map(|c| (c.name.as_str(), c.max_version.as_ref().unwrap().as_str()))
        .collect();
    assert_eq!(channels, [("stable", "1.0.0"), ("stable-1", "1.0.0")]);
}

#[test]
fn images_with_the_same_manifest_are_named() {
    let mut world = World::default();
    world.image("release:1-api", Kind::ReleaseComponent, "api");
    world.image("release:2-api", Kind::ReleaseComponent, "api");
    let choice = world.choose(&["release:1-api"]).unwrap();
    assert_eq!(choice.items[0].shared_with, [place("ns/release:2-api")]);
    let warning =
        "ns/release:1-api shares its manifest with ns/release:2-api: only the tag is deleted";
    assert!(
        choice.warnings.iter().any(|found| found.starts_with(warning)),
        "{:?}",
        choice.warnings
    );
}
