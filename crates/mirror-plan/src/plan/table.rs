//! A plan as a table for users.

use std::collections::BTreeSet;
use std::fmt;

use super::{Action, Plan, PlannedImage, Totals};

impl Plan {
    /// A row per image with the size of its blobs, and the sums below.
    pub fn table(&self) -> String {
        let rows: Vec<[String; 4]> = self
            .images
            .iter()
            .map(|image| {
                let action = match image.action {
                    Action::Copy => "copy",
                    Action::Present => "present",
                };
                let destination = match &self.target {
                    Some(target) => format!("{}/{}", target.registry, image.destination),
                    None => image.destination.to_string(),
                };
                [action.into(), size_text(self.size(image)), image.origin.to_string(), destination]
            })
            .collect();
        let head = ["ACTION", "SIZE", "IMAGE", "DESTINATION"].map(str::to_owned);
        let mut widths = [0; 4];
        for row in std::iter::once(&head).chain(&rows) {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.len());
            }
        }
        let [action_width, size_width, image_width, _] = widths;
        let mut text = String::new();
        for [action, size, image, destination] in std::iter::once(&head).chain(&rows) {
            text.push_str(&format!(
                "{action:action_width$}  {size:>size_width$}  {image:image_width$}  {destination}\n"
            ));
        }
        text.push_str(&format!("{}\n", self.totals));
        text
    }

    /// The bytes of an image's blobs, each counted once.
    pub fn size(&self, image: &PlannedImage) -> u64 {
        let indexes: BTreeSet<usize> = image.tree.blob_indexes().map(|i| i.get()).collect();
        indexes.into_iter().fold(0, |sum, i| sum.saturating_add(self.blobs[i].blob.size))
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} images, {} to copy; {} blobs of {}, {} of {} to move",
            self.images,
            self.images_to_copy,
            self.blobs,
            size_text(self.bytes),
            self.blobs_to_move,
            size_text(self.bytes_to_move)
        )
    }
}

/// `bytes` in the largest unit that leaves something before the point.
pub fn size_text(bytes: u64) -> String {
    let mut unit = "B";
    let mut scale = 1_u64;
    for larger in ["KiB", "MiB", "GiB", "TiB"] {
        if bytes / scale < 1024 {
            break;
        }
        unit = larger;
        scale *= 1024;
    }
    if scale == 1 {
        return format!("{bytes} B");
    }
    let tenths = u128::from(bytes) * 10 / u128::from(scale);
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_written_in_binary_units_and_never_rounded_up() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (1024 * 1024 - 1, "1023.9 KiB"),
            (5 * 1024 * 1024 * 1024, "5.0 GiB"),
            (u64::MAX, "16777215.9 TiB"),
        ] {
            assert_eq!(size_text(bytes), text);
        }
    }
}
