//! Images that the configuration keeps out.

use std::fmt;

use oci::ImageRef;
use regex::Regex;

use crate::Origin;

/// The first pattern that keeps an image out, if one does.
///
/// Patterns match anywhere in the origin or in the destination, both without
/// transport. An origin on docker.io is also tried by its short name, since
/// that is what a configuration with `busybox:1` shows its reader.
pub fn blocked_by<'a>(
    origin: &Origin,
    destination: &impl fmt::Display,
    patterns: &'a [Regex],
) -> Option<&'a Regex> {
    if patterns.is_empty() {
        return None;
    }
    let mut names = vec![destination.to_string()];
    match origin {
        Origin::Registry(image) => {
            names.push(image.to_string());
            names.extend(short_name(image));
        }
        Origin::Layout(path) => names.push(path.display().to_string()),
        Origin::Made(name) => names.push(name.to_string()),
    }
    patterns.iter().find(|pattern| names.iter().any(|name| pattern.is_match(name)))
}

fn short_name(image: &ImageRef) -> Option<String> {
    let whole = image.to_string();
    let path = whole.strip_prefix("docker.io/")?;
    Some(path.strip_prefix("library/").unwrap_or(path).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(pattern: &str, origin: &str, destination: &str) -> bool {
        let origin = match origin.strip_prefix("oci://") {
            Some(path) => Origin::Layout(path.into()),
            None => Origin::Registry(origin.parse().unwrap()),
        };
        blocked_by(&origin, &destination, &[Regex::new(pattern).unwrap()]).is_some()
    }

    #[test]
    fn a_pattern_matches_anywhere_in_origin_or_destination() {
        let (origin, destination) = ("quay.io/org/tool:v1", "r.io/ns/org/tool:v1");
        for (pattern, blocked) in [
            ("tool", true),
            ("quay", true),
            ("^quay.io/org/", true),
            ("r.io/ns", true),
            ("^r.io", true),
            ("v1$", true),
            ("tool:v2", false),
            ("^tool", false),
            ("docker://", false),
            ("q..y", true),
        ] {
            assert_eq!(blocks(pattern, origin, destination), blocked, "{pattern}");
        }
    }

    #[test]
    fn a_release_component_is_blocked_by_the_name_it_gets() {
        let origin = format!("quay.io/o/ocp-v4.0-art-dev@sha256:{}", "a".repeat(64));
        let destination = "r.io/openshift/release:4.18.1-x86_64-aws-machine-controllers";
        assert!(blocks("(aws|gcp|azure)", &origin, destination));
    }

    #[test]
    fn short_names_and_layouts_are_matched_as_they_are_written() {
        assert!(blocks("^busybox:1$", "busybox:1", "r.io/library/busybox:1"));
        assert!(blocks("^docker.io/library/busybox", "busybox:1", "r.io/x:1"));
        assert!(blocks("^ubuntu/", "ubuntu/nginx:1", "r.io/x:1"));
        assert!(blocks("^/srv/", "oci:///srv/layout", "r.io/srv/layout:latest"));
        assert!(!blocks("oci://", "oci:///srv/layout", "r.io/srv/layout:latest"));
    }

    #[test]
    fn the_pattern_that_blocked_is_reported() {
        let patterns = ["x", "tool"].map(|text| Regex::new(text).unwrap());
        let origin = Origin::Registry("quay.io/org/tool:v1".parse().unwrap());
        let by = blocked_by(&origin, &"r.io/org/tool:v1", &patterns);
        assert_eq!(by.map(Regex::as_str), Some("tool"));
    }
}
