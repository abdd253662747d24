//! Archives that were damaged in transit, or are not ours: the file is
//! named before anything is pushed, and `--allow-incomplete` pushes the rest.

use crate::support;

use std::fs;
use std::path::PathBuf;

use http::Method;
use lab::images::{Blob, Compression, Format, Image, Layer};
use lab::registry::{LabRegistry, Settings};
use support::{PLAIN, Ran, Site, chunks};

/// Three runs, each of which adds an image; what they archived is in `carried`.
struct Carried {
    site: Site,
    target: LabRegistry,
    layers: Vec<Blob>,
}

const NAMES: [&str; 3] = ["org/one", "org/two", "org/three"];
const FIRST: &str = "carried/mirror_000001.tar";
const SECOND: &str = "carried/mirror_000002.tar";

fn registry() -> LabRegistry {
    LabRegistry::start(Settings::default()).unwrap()
}

impl Carried {
    fn new() -> Self {
        Self::filled_with("ours")
    }

    /// Images whose content depends on `seed`.
    fn filled_with(seed: &str) -> Self {
        let (site, source, target) = (Site::new(), registry(), registry());
        let mut layers = Vec::new();
        let mut images = Vec::new();
        for name in NAMES {
            let layer =
                Layer::generate(&format!("{seed} {name}"), 200_000, Compression::None).unwrap();
            layers.push(layer.blob.clone());
            let image = Image::new(Format::Oci, "linux/amd64".parse().unwrap(), &[layer]).unwrap();
            source.put_image(&image, name, "v1").unwrap();
            images.push(source.image(name, "v1").unwrap());
            site.images("isc.yaml", &images);
            site.succeeds(&format!("-c isc.yaml {PLAIN} file://data"));
        }
        fs::create_dir(site.path("made")).unwrap();
        for chunk in chunks(&site.path("data")) {
            fs::rename(&chunk, site.path("made").join(chunk.file_name().unwrap())).unwrap();
        }
        assert_eq!(chunks(&site.path("made")).len(), 3);
        support::copy(&site.path("made"), &site.path("carried"));
        Self { site, target, layers }
    }

    /// The archives are transferred again, to another target.
    fn again(&mut self) {
        fs::remove_dir_all(self.site.path("carried")).unwrap();
        support::copy(&self.site.path("made"), &self.site.path("carried"));
        self.target = registry();
    }

    /// As if none of the archives had been transferred.
    fn without_archives(&self) {
        for chunk in chunks(&self.site.path("carried")) {
            fs::remove_file(chunk).unwrap();
        }
    }

    fn push(&self, options: &str) -> Ran {
        let to = self.target.address();
        self.site.run(&format!(
            "-c isc.yaml {PLAIN} {options} --retry-times 0 --from file://carried docker://{to}"
        ))
    }

    /// The push is refused with a message that has all of `wanted`, and
    /// nothing has left this machine.
    fn refused(&self, what: &str, expected: &[&str]) -> Ran {
        let ran = self.push("");
        assert_eq!(ran.code, 1, "{what}: {}\n{}", ran.out, ran.err);
        let message = ran.errors();
        for text in expected {
            assert!(message.contains(text), "{what}: {message}");
        }
        let requested = self.target.requests();
        let writes =
            requested.0.iter().filter(|r| r.method != Method::HEAD && r.method != Method::GET);
        assert_eq!(writes.count(), 0, "{what}: nothing is pushed");
        ran
    }

    /// These images are at the target, whole; the others are not.
    fn pulls(&self, names: &[&str]) {
        let to = self.target.address();
        for name in NAMES {
            let reference = format!("docker://{to}/{name}:v1");
            if names.contains(&name) {
                self.site.pull(&reference, &["--src-tls-verify=false"]);
            } else {
                let args = ["inspect", "--tls-verify=false", &reference];
                assert!(!self.site.try_judge("skopeo", &args).status.success(), "{name}");
            }
        }
    }

    fn chunk(&self, name: &str) -> Vec<u8> {
        fs::read(self.site.path(name)).unwrap()
    }

    fn damage(&self, name: &str, damage: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = self.chunk(name);
        damage(&mut bytes);
        fs::write(self.site.path(name), bytes).unwrap();
    }

    /// Where the content of the second image's layer begins in its chunk.
    fn layer_at(&self) -> usize {
        let content = self.layers[1].bytes().unwrap();
        let chunk = self.chunk(SECOND);
        chunk.windows(4096).position(|window| window == &content[..4096]).unwrap()
    }
}

#[test]
fn whole_archives_of_several_runs_are_pushed_together() {
    let carried = Carried::new();
    let ran = carried.push("");
    assert_eq!(ran.code, 0, "{}", ran.err);
    carried.pulls(&NAMES);
}

#[test]
fn a_damaged_file_is_named_before_anything_is_pushed() {
    type Damage = fn(&Carried);
    let damages: [(&str, Damage, &str); 7] = [
        (
            "a bit in a blob",
            |c| {
                let at = c.layer_at() + 150_000;
                c.damage(SECOND, |bytes| bytes[at] ^= 4);
            },
            "damaged",
        ),
        ("a bit in the index", |c| c.damage(SECOND, |bytes| bytes[700] ^= 1), "damaged"),
        (
            "a bit in the first header",
            |c| c.damage(SECOND, |bytes| bytes[3] ^= 1),
            "not an archive",
        ),
        (
            "cut short",
            |c| c.damage(SECOND, |bytes| bytes.truncate(bytes.len() - 1000)),
            "should be",
        ),
        ("cut to a header", |c| c.damage(SECOND, |bytes| bytes.truncate(512)), "damaged"),
        ("too long", |c| c.damage(SECOND, |bytes| bytes.extend([0; 512])), "should be"),
        ("empty", |c| c.damage(SECOND, Vec::clear), "empty"),
    ];
    let mut carried = Carried::new();
    for (what, damage, expected) in damages {
        carried.again();
        damage(&carried);
        carried.refused(what, &["mirror_000002.tar", expected]);
        // What does not depend on that file is available.
        let ran = carried.push("--allow-incomplete");
        assert_eq!(ran.code, 8, "{what}: {}\n{}", ran.out, ran.err);
        assert_eq!(ran.image("org/two")["outcome"], "failed", "{what}");
        carried.pulls(&["org/one", "org/three"]);
    }
}

#[test]
fn a_missing_file_is_named_before_anything_is_pushed() {
    let mut carried = Carried::new();
    for missing in 1..=3 {
        carried.again();
        let name = format!("mirror_00000{missing}.tar");
        fs::rename(carried.site.path("carried").join(&name), carried.site.path(&name)).unwrap();
        // Without the last, it is not known that there was another run.
        if missing < 3 {
            carried.refused(&name, &[&name, "--allow-incomplete"]);
            let ran = carried.push("--allow-incomplete");
            assert_eq!(ran.code, 8, "{name}: {}", ran.err);
            let rest: Vec<&str> = NAMES
                .iter()
                .enumerate()
                .filter(|(n, _)| n + 1 != missing)
                .map(|(_, n)| *n)
                .collect();
            carried.pulls(&rest);
        } else {
            let ran = carried.push("");
            assert_eq!(ran.code, 8, "{name}: {}", ran.err);
            let error = ran.image("org/three")["error"].to_string();
            assert!(error.contains("neither in an archive here"), "{error}");
        }
        // It turns up, and the rest is pushed.
        fs::rename(carried.site.path(&name), carried.site.path("carried").join(&name)).unwrap();
        let ran = carried.push("");
        assert_eq!(ran.code, 0, "{name}: {}", ran.err);
        carried.pulls(&NAMES);
    }
}

#[test]
fn files_may_be_renamed_and_copied_in_any_order() {
    let carried = Carried::new();
    let (first, second) = (carried.site.path(FIRST), carried.site.path(SECOND));
    let aside = carried.site.path("aside");
    fs::rename(&first, &aside).unwrap();
    fs::rename(&second, &first).unwrap();
    fs::rename(&aside, &second).unwrap();
    let ran = carried.push("");
    assert_eq!(ran.code, 0, "{}", ran.err);
    carried.pulls(&NAMES);
}

#[test]
fn a_file_of_another_workspace_in_place_of_ours_does_not_help() {
    let carried = Carried::new();
    let other = Carried::filled_with("theirs");
    fs::copy(other.site.path(SECOND), carried.site.path(SECOND)).unwrap();
    let ran = carried.refused("another workspace", &["mirror_000002.tar"]);
    assert!(ran.errors().contains("run 2"), "{}", ran.errors());
}

/// A tar header whose checksum is right, whatever else it contains.
fn header(name: &str, size: &str) -> Vec<u8> {
    let mut block = vec![0; 512];
    let mut put = |at: usize, text: &[u8]| block[at..at + text.len()].copy_from_slice(text);
    put(0, name.as_bytes());
    put(100, b"0000644\0");
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    put(124, size.as_bytes());
    put(136, b"00000000000\0");
    put(148, b"        ");
    put(156, b"0");
    put(257, b"ustar\x0000");
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

#[test]
fn tar_files_that_are_not_ours_are_refused_and_write_nothing() {
    let index = format!("index/000001.sha256-{}.json", "a".repeat(64));
    let files: [(&str, Vec<u8>, &str); 6] = [
        (
            "traversal",
            [header("../../../evil", "00000000005\0"), b"hello".to_vec()].concat(),
            "not an archive",
        ),
        (
            "absolute",
            [header("/tmp/evil", "00000000005\0"), b"hello".to_vec()].concat(),
            "not an archive",
        ),
        ("huge entry", header("blobs/sha256/x", "77777777777\0"), "not an archive"),
        ("huge index", header(&index, "77777777777\0"), ""),
        (
            "index of rubbish",
            [header(&index, "00000000005\0"), b"hello".to_vec(), vec![0; 2000]].concat(),
            "",
        ),
        ("no tar at all", b"PK\x03\x04 some zip".repeat(100), "not an archive"),
    ];
    let mut carried = Carried::new();
    for (what, bytes, expected) in files {
        carried.again();
        carried.without_archives();
        fs::write(carried.site.path(FIRST), bytes).unwrap();
        carried.refused(what, &["mirror_000001.tar", expected]);
        let evil: Vec<PathBuf> =
            ["evil", "carried/evil"].map(|name| carried.site.path(name)).into();
        assert!(evil.iter().all(|path| !path.exists()));
    }
}

#[test]
fn an_archive_of_oc_mirror_v2_without_the_images_fails_them_by_name() {
    let carried = Carried::new();
    carried.without_archives();
    let name = "docker/registry/v2/blobs/sha256/aa/data";
    fs::write(carried.site.path(FIRST), [header(name, "00000000000\0"), vec![0; 1024]].concat())
        .unwrap();
    let ran = carried.push("");
    assert_eq!(ran.code, 8, "{}\n{}", ran.out, ran.err);
    let message = &ran.out;
    for image in NAMES {
        assert!(message.contains(image), "{image}: {message}");
    }
    assert!(message.contains("is neither in an archive here nor in the workspace"), "{message}");
    let requested = carried.target.requests();
    let writes = requested.0.iter().filter(|r| r.method != Method::HEAD && r.method != Method::GET);
    assert_eq!(writes.count(), 0, "nothing is pushed");
}

#[test]
fn without_archives_the_error_names_what_to_copy() {
    let carried = Carried::new();
    carried.without_archives();
    carried.refused("nothing", &["carried", "copy the mirror_*.tar files there"]);
    let to = carried.target.address();
    let ran = carried.site.run(&format!("-c isc.yaml {PLAIN} --from file://nowhere docker://{to}"));
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.err.contains("nowhere"), "{}", ran.err);
    assert!(!carried.site.path("nowhere").exists());
}

#[test]
fn a_workspace_damaged_in_transit_is_reported_like_an_archive() {
    let carried = Carried::new();
    support::copy(&carried.site.path("data"), &carried.site.path("moved"));
    let blob = carried.site.path("moved/blobs/sha256").join(carried.layers[1].digest.hex());
    let mut bytes = fs::read(&blob).unwrap();
    bytes[5000] ^= 1;
    fs::write(&blob, bytes).unwrap();
    let to = carried.target.address();
    let push = format!("-c isc.yaml {PLAIN} --retry-times 0 --from file://moved docker://{to}");
    let ran = carried.site.run(&push);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.errors().contains(&carried.layers[1].digest.hex()), "{}", ran.errors());
    let ran = carried.site.run(&format!("--allow-incomplete {push}"));
    assert_eq!(ran.code, 8, "{}", ran.err);
    carried.pulls(&["org/one", "org/three"]);
}
