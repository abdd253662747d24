//! `mapping.txt` and `missing.txt`: one `source=destination` line per image,
//! with transports, as scripts around a dry run read them.

use std::fmt::Write;

use oci::{Digest, ImageRef};

use super::{Action, Plan, PlannedImage};
use crate::{Destination, Kind, Origin};

/// Where oc-mirror v2 listens with its cache during a run to disk.
const CACHE: &str = "localhost:55000";

/// How finely a mapping lists images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lines {
    /// One line per image.
    Images,
    /// One more line for each manifest that an image lists.
    Manifests,
}

impl Plan {
    /// A line for every image, and for those in `unread`: images that are selected and could not be
    /// read, under the names they get.
    ///
    /// Without a target the destination is written as a name in the cache registry of
    /// oc-mirror v2 ([`CACHE`]). There is no such registry here; scripts parse these
    /// lines as references, and find the repository and tag by it.
    pub fn mapping(&self, lines: Lines, unread: &[(Origin, Destination)]) -> String {
        self.lines(lines, |_| true) + &self.unread(unread)
    }

    /// The lines of images that the destination lacks, and of those in `unread`; `None` if it has
    /// them all, for then no file is written.
    pub fn missing(&self, lines: Lines, unread: &[(Origin, Destination)]) -> Option<String> {
        let text = self.lines(lines, |image| image.action == Action::Copy);
        let text = text + &self.unread(unread);
        (!text.is_empty()).then_some(text)
    }

    fn unread(&self, images: &[(Origin, Destination)]) -> String {
        let mut lines: Vec<String> = images
            .iter()
            .map(|(origin, name)| format!("{}={}\n", source(origin, None), self.place(name, None)))
            .collect();
        lines.sort();
        lines.concat()
    }

    fn lines(&self, lines: Lines, listed: impl Fn(&PlannedImage) -> bool) -> String {
        let mut text = String::new();
        let mut line = |source: String, destination: String| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{source}={destination}");
        };
        for image in self.images.iter().filter(|image| listed(image)) {
            line(source(&named(image), None), self.place(&image.destination, None));
            if lines == Lines::Manifests {
                for child in image.tree.manifests.iter().skip(1) {
                    let digest = Some(child.digest);
                    line(source(&image.origin, digest), self.place(&image.destination, digest));
                }
            }
        }
        text
    }

    /// A manifest inside a list has no tag of its own: under that of the list
    /// each would replace the other.
    fn place(&self, name: &Destination, child: Option<Digest>) -> String {
        let (transport, base) = match &self.target {
            Some(target) => ("docker://", format!("{}/", target.registry)),
            None => ("docker://", format!("{CACHE}/")),
        };
        match child {
            Some(digest) => format!("{transport}{base}{}@{digest}", name.repository),
            None => format!("{transport}{base}{name}"),
        }
    }
}

/// The origin with a tag or a digest, not both: Go's parser of references refuses those. A release is
/// known by its tag; other images are pulled by their digest.
fn named(image: &PlannedImage) -> Origin {
    match &image.origin {
        Origin::Registry(name) if name.tag.is_some() && name.digest.is_some() => {
            let by_tag = matches!(image.kind, Kind::ReleasePayload);
            Origin::Registry(match by_tag {
                true => ImageRef { digest: None, ..name.clone() },
                false => ImageRef { tag: None, ..name.clone() },
            })
        }
        other => other.clone(),
    }
}

fn source(origin: &Origin, child: Option<Digest>) -> String {
    match (origin, child) {
        (Origin::Registry(image), Some(digest)) => {
            format!("docker://{}", ImageRef { digest: Some(digest), ..image.clone() })
        }
        (Origin::Registry(image), None) => format!("docker://{image}"),
        (Origin::Layout(_) | Origin::Made(_), Some(digest)) => format!("{origin}@{digest}"),
        (Origin::Layout(_) | Origin::Made(_), None) => origin.to_string(),
    }
}
