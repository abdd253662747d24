//! Bad configurations, and the exact findings of each.

use image_set::{Document, parse, parse_delete, parse_image_set, parse_image_set_with_warnings};

/// An image set with `body` as the lines below `mirror:`, which start on line 4.
fn image_set(body: &str) -> String {
    format!(
        "kind: ImageSetConfiguration\napiVersion: mirror.openshift.io/v2alpha1\nmirror:\n{body}"
    )
}

#[track_caller]
fn assert_found(text: &str, expected: &[&str]) {
    let found = match parse("isc.yaml", text) {
        Ok(document) => panic!("{text}\nwas read as {document:?}"),
        Err(findings) => findings.to_string(),
    };
    let expected: Vec<String> = expected.iter().map(|line| format!("isc.yaml:{line}")).collect();
    assert_eq!(found.lines().collect::<Vec<_>>(), expected, "{text}");
}

#[test]
fn the_head_of_a_document_is_checked() {
    for (text, expected) in [
        (
            "",
            "1:1: nothing to read; an image set starts with `kind: ImageSetConfiguration` and \
             `apiVersion: mirror.openshift.io/v2alpha1`",
        ),
        (
            "just words",
            "1:1: the configuration: expected a map, found text; write `kind: \
             ImageSetConfiguration`",
        ),
        ("- kind: x", "1:1: the configuration: expected a map, found a list"),
        (
            "mirror: {}\n",
            "1:1: the configuration has no \"kind\"; add it, for example `kind: \
             ImageSetConfiguration`",
        ),
        (
            "kind: ImageSet\nmirror: {}\n",
            "1:7: kind \"ImageSet\" is unknown; write ImageSetConfiguration, or \
             DeleteImageSetConfiguration to delete",
        ),
        (
            "kind: ImageSetConfiguration\n",
            "1:1: the configuration has no \"mirror\"; add it, for example `mirror: \
             {additionalImages: []}`",
        ),
        (
            "kind: ImageSetConfiguration\nmiror:\n",
            "2:1: unknown field \"miror\" in the configuration; did you mean \"mirror\"?",
        ),
        (
            "kind: ImageSetConfiguration\napiVersion: mirror.openshift.io/v1\nmirror:\n",
            "2:13: apiVersion \"mirror.openshift.io/v1\" is unknown; write \
             mirror.openshift.io/v2alpha1 (or the older mirror.openshift.io/v1alpha2)",
        ),
        (
            "kind: ImageSetConfiguration\nmirror:\ndelete:\n",
            "3:1: unknown field \"delete\" in the configuration: it belongs to kind \
             DeleteImageSetConfiguration",
        ),
        (
            "kind: DeleteImageSetConfiguration\ndelete:\nmirror:\n",
            "3:1: unknown field \"mirror\" in the configuration: it belongs to kind \
             ImageSetConfiguration",
        ),
        (
            "kind: DeleteImageSetConfiguration\ndelete:\narchiveSize: 4\n",
            "3:1: unknown field \"archiveSize\" in the configuration: deleting makes no \
             archive; remove it",
        ),
        (
            "kind: DeleteImageSetConfiguration\ndelete:\n  blockedImages:\n  - name: '['\n",
            "4:11: name \"[\" is not a regular expression: unclosed \
             character class",
        ),
        (
            "kind: ImageSetConfiguration\nmirror:\nstorageConfig:\n  local:\n    path: ./x\n",
            "3:1: unknown field \"storageConfig\" in the configuration: the workspace holds \
             the state now; remove the section",
        ),
        ("kind: ImageSetConfiguration\nmirror: []\n", "2:9: mirror: expected a map, found a list"),
    ] {
        assert_found(text, &[expected]);
    }
}

#[test]
fn archive_sizes_are_whole_numbers() {
    for (size, output) in [
        ("-1", "-1"),
        ("4.5", "4.5"),
        ("\"4\"", "the text \"4\""),
        ("4Gi", "the text \"4Gi\""),
        ("[4]", "a list"),
        ("17179869184", "17179869184"),
        ("yes", "yes"),
    ] {
        let text = format!("kind: ImageSetConfiguration\narchiveSize: {size}\nmirror:\n");
        let expected = format!(
            "2:14: archiveSize: expected a whole number of GiB from 0 to 17179869183, found \
             {output}"
        );
        assert_found(&text, &[&expected]);
    }
}

#[test]
fn additional_images_are_checked() {
    let digest = "a".repeat(64);
    for (body, expected) in [
        (
            "  additionalImage: []\n",
            "4:3: unknown field \"additionalImage\" in mirror; did you mean \"additionalImages\"?",
        ),
        (
            "  images: []\n",
            "4:3: unknown field \"images\" in mirror; known are \"platform\", \"operators\", \
             \"additionalImages\", \"helm\", \"samples\", \"blockedImages\"",
        ),
        (
            "  additionalImages:\n    name: quay.io/a/b:1\n",
            "5:5: mirror.additionalImages: expected a list, found a map; start each item with \
             `- `",
        ),
        (
            "  additionalImages:\n  - quay.io/a/b:1\n",
            "5:5: mirror.additionalImages[0]: expected a map, found text; write `name: \
             quay.io/a/b:1`",
        ),
        (
            "  additionalImages:\n  - name: quay.io/a/b:1\n  -\n",
            "6:4: mirror.additionalImages[1]: expected a map, found nothing",
        ),
        (
            "  additionalImages:\n  - targetTag: v1\n",
            "5:5: mirror.additionalImages[0] has no \"name\"; add it, for example `name: \
             quay.io/org/image:tag`",
        ),
        (
            "  additionalImages:\n  - name: \"\"\n",
            "5:5: mirror.additionalImages[0] has no \"name\"; add it, for example `name: \
             quay.io/org/image:tag`",
        ),
        (
            "  additionalImages:\n  - nmae: quay.io/a/b:1\n",
            "5:5: unknown field \"nmae\" in mirror.additionalImages[0]; did you mean \"name\"?",
        ),
        (
            "  additionalImages:\n  - name: quay.io/a/b\n",
            "5:11: name \"quay.io/a/b\" has neither tag nor digest; add one, for example \
             quay.io/a/b:latest or quay.io/a/b@sha256:<digest>",
        ),
        (
            "  additionalImages:\n  - name: quay.io/A/b:1\n",
            "5:11: name \"quay.io/A/b:1\" is not an image: \"A/b\" is not a repository: expected lowercase \
             letters and digits, separated by '.', '_', '-' or '/'",
        ),
        (
            "  additionalImages:\n  - name: oci://\n",
            "5:11: name \"oci://\" names no directory; write oci:// and the path of an OCI layout",
        ),
        (
            "  additionalImages:\n  - name: [quay.io/a/b:1]\n",
            "5:11: name: expected text, found a list",
        ),
        (
            "  additionalImages:\n  - {name: \"a:1\", targetRepo: \"b/c:1\"}\n",
            "5:31: targetRepo \"b/c:1\" must be a path without registry, tag or digest: \
             \"b/c:1\" is not a repository: expected lowercase letters and digits, separated by '.', '_', '-' \
             or '/'",
        ),
        (
            "  additionalImages:\n  - name: a:1\n    targetTag: 1.0\n",
            "6:16: targetTag: expected text, found the number 1.0; write it in quotes: \"1.0\"",
        ),
        (
            "  additionalImages:\n  - name: a:1\n    targetTag: on\n",
            "6:16: targetTag: expected text, found the boolean on; write it in quotes: \"on\"",
        ),
        (
            "  additionalImages:\n  - name: a:1\n    targetTag: a/b\n",
            "6:16: targetTag \"a/b\" must be a tag: \"a/b\" is not a tag: expected letters, digits, '_', '.' \
             and '-', at most 128, not first '.' or '-'",
        ),
        (
            "  additionalImages:\n  - name: a:1\n    platforms: [linux/arm64]\n",
            "6:17: mirror.additionalImages[0].platforms[0]: expected a map, found text; write \
             `os: linux` and `architecture: arm64`",
        ),
        (
            "  additionalImages:\n  - name: a:1\n    platforms: [{os: linux}]\n",
            "6:17: mirror.additionalImages[0].platforms[0] has no \"architecture\"; add it, for \
             example `architecture: amd64`",
        ),
        (
            "  additionalImages:\n  - name: a:1\n    Name: b:1\n",
            "6:5: duplicate key \"Name\", first given on line 5; keep one",
        ),
    ] {
        assert_found(&image_set(body), &[expected]);
    }
    let short = format!("  additionalImages:\n  - name: quay.io/a/b@sha256:{}\n", &digest[1..]);
    assert_found(
        &image_set(&short),
        &[&format!(
            "5:11: name \"quay.io/a/b@sha256:{0}\" is not an image: \"sha256:{0}\" is not a digest: after \
             sha256: come 64 lowercase hex digits",
            &digest[1..]
        )],
    );
}

#[test]
fn blocked_images_must_be_patterns() {
    let big = "(((a{100}){100}){100})";
    for (name, expected) in [
        ("quay.io/(a", "5:11: name \"quay.io/(a\" is not a regular expression: unclosed group"),
        (
            "'*'",
            "5:11: name \"*\" is not a regular expression: repetition operator missing expression",
        ),
        (
            big,
            "5:11: name \"(((a{100}){100}){100})\" is not a regular expression: it takes too much \
             memory",
        ),
        (
            "~",
            "5:5: mirror.blockedImages[0] has no \"name\"; add it, for example `name: \
             quay\\.io/org/.*`",
        ),
    ] {
        assert_found(&image_set(&format!("  blockedImages:\n  - name: {name}\n")), &[expected]);
    }
}

#[test]
fn releases_are_checked() {
    for (body, expected) in [
        (
            "    channels: [{name: stable-4.18, minVersion: 4.18}]\n",
            "5:48: minVersion is the number 4.18, expected a release version; write all three \
             numbers, in quotes: minVersion: \"4.18.0\"",
        ),
        (
            "    channels: [{name: stable-4.18, minVersion: \"4.18\"}]\n",
            "5:48: minVersion \"4.18\" is not a release version; write all three numbers, for \
             example \"4.18.1\"",
        ),
        (
            "    channels: [{name: stable-4.18, maxVersion: v4.18.1}]\n",
            "5:48: maxVersion \"v4.18.1\" is not a release version; write all three numbers, for \
             example \"4.18.1\"",
        ),
        (
            "    channels: [{name: stable-4.18, minVersion: 4.18.9, maxVersion: 4.18.10-rc.1}]\n\
             \x20   graph: maybe\n",
            "6:12: graph: expected true or false, found \"maybe\"",
        ),
        (
            "    channels: [{name: stable-4.18, minVersion: 4.18.10, maxVersion: 4.18.9}]\n",
            "5:69: minVersion 4.18.10 is higher than maxVersion 4.18.9; nothing can be between \
             them",
        ),
        (
            "    channels: [{name: s-4.1}, {name: s-4.2}, {name: s-4.1}]\n",
            "5:53: release channel \"s-4.1\" is listed twice, first on line 5; keep one",
        ),
        (
            "    channels: [{name: s-4.1, type: OCP}]\n",
            "5:36: type \"OCP\" is unknown; did you mean \"ocp\"?",
        ),
        (
            "    channels: [{name: 4.18}]\n",
            "5:23: name: expected text, found the number 4.18; write it in quotes: \"4.18\"",
        ),
        (
            "    channels: [stable-4.18]\n",
            "5:16: mirror.platform.channels[0]: expected a map, found text; write `name: \
             stable-4.18`",
        ),
        (
            "    architectures: [x86_64]\n",
            "5:21: architecture \"x86_64\" is unknown; did you mean \"amd64\"?",
        ),
        (
            "    architectures: [sparc]\n",
            "5:21: architecture \"sparc\" is unknown; known are \"amd64\", \"arm64\", \
             \"ppc64le\", \"s390x\", \"multi\"",
        ),
        (
            "    architectures: [amd64]\n    platforms: [{os: linux, architecture: arm64}]\n",
            "5:5: platform.platforms and platform.architectures cannot be used together; keep \
             platforms",
        ),
        (
            "    release: quay.io/a/b\n",
            "5:14: release \"quay.io/a/b\" has neither tag nor digest; add one, for example \
             quay.io/a/b:latest or quay.io/a/b@sha256:<digest>",
        ),
        ("    graph: [true]\n", "5:12: graph: expected true or false, found a list"),
    ] {
        assert_found(&image_set(&format!("  platform:\n{body}")), &[expected]);
    }
}

#[test]
fn operators_are_checked() {
    for (body, expected) in [
        (
            "  - packages: []\n",
            "5:5: mirror.operators[0] has no \"catalog\"; add it, for example `catalog: \
             registry.redhat.io/redhat/redhat-operator-index:v4.18`",
        ),
        (
            "  - catalog: quay.io/a/b\n",
            "5:14: catalog \"quay.io/a/b\" has neither tag nor digest; add one, for example \
             quay.io/a/b:latest or quay.io/a/b@sha256:<digest>",
        ),
        (
            "  - catalog: q.io/a/b:1\n  - catalog: docker://q.io/a/b:1\n",
            "6:14: catalog \"q.io/a/b:1\" is listed twice, first on line 5; keep one",
        ),
        (
            "  - catalog: q.io/a/b:1\n  - catalog: q.io/x/y:2\n    targetCatalog: a/b\n    \
             targetTag: \"1\"\n",
            "6:14: catalog \"q.io/a/b:1\" is listed twice, first on line 5; keep one",
        ),
        (
            "  - catalog: q.io/a/b:1\n    targetCatalog: q.io:5000/a\n",
            "6:20: targetCatalog \"q.io:5000/a\" must be a path without registry, tag or digest: \
             \"q.io:5000/a\" is not a repository: expected lowercase letters and digits, separated by '.', \
             '_', '-' or '/'",
        ),
        (
            "  - catalog: q.io/a/b:1\n    targetName: x\n",
            "6:5: unknown field \"targetName\" in mirror.operators[0]: the catalog's name is \
             part of its path; use targetCatalog",
        ),
        (
            "  - catalog: q.io/a/b:1\n    originalRef: x\n",
            "6:5: unknown field \"originalRef\" in mirror.operators[0]: it has no effect; \
             use targetCatalog to name the catalog",
        ),
        (
            "  - catalog: q.io/a/b:1\n    packages: [{name: p, bundles: []}]\n",
            "6:26: unknown field \"bundles\" in mirror.operators[0].packages[0]: versions \
             select bundles now; use minVersion and maxVersion",
        ),
        (
            "  - catalog: q.io/a/b:1\n    packages: [{name: p}, {name: q}, {name: p}]\n",
            "6:45: package \"p\" is listed twice, first on line 6; keep one",
        ),
        (
            "  - catalog: q.io/a/b:1\n    packages: [{name: p, channels: [{name: c}, {name: c}]}]\n",
            "6:55: channel \"c\" is listed twice, first on line 6; keep one",
        ),
        (
            "  - catalog: q.io/a/b:1\n    packages: [{name: p, minVersion: 1.5}]\n",
            "6:38: minVersion: expected text, found the number 1.5; write it in quotes: \"1.5\"",
        ),
        (
            "  - catalog: q.io/a/b:1\n    packages: [{name: p, minVersion: latest}]\n",
            "6:38: minVersion \"latest\" is not a semantic version; write for example \"1.2.3\"",
        ),
        (
            "  - catalog: q.io/a/b:1\n    packages: [{name: p, minVersion: v2, maxVersion: \
             1.9.9}]\n",
            "6:54: minVersion 2.0.0 is higher than maxVersion 1.9.9; nothing can be between them",
        ),
        (
            "  - catalog: q.io/a/b:1\n    packages: [{name: p, minVersion: v2, channels: [{name: \
             c, maxVersion: v3}]}]\n",
            "6:53: package \"p\" has a version range for itself and for its channel \"c\"; keep \
             one of the two",
        ),
        (
            "  - catalog: q.io/a/b:1\n    packages: [{name: p, defaultChannel: d, channels: \
             [{name: c}]}]\n",
            "6:42: defaultChannel \"d\" is not among the channels listed here; add it to them",
        ),
    ] {
        assert_found(&image_set(&format!("  operators:\n{body}")), &[expected]);
    }
}

#[test]
fn charts_and_samples_are_checked() {
    for (body, expected) in [
        (
            "  helm: {repositories: [{name: r}]}\n",
            "4:25: mirror.helm.repositories[0] has no \"url\"; add it, for example `url: \
             https://stefanprodan.github.io/podinfo`",
        ),
        (
            "  helm: {repositories: [{name: r, url: podinfo}]}\n",
            "4:40: url \"podinfo\" is not a chart repository; write an address that starts with \
             https://, http:// or oci://",
        ),
        (
            "  helm: {local: [{name: c, path: p, values: [a]}]}\n",
            "4:45: mirror.helm.local[0].values: expected a map, found a list; write `KEY: VALUE` \
             below it, or list files in `valuesFiles`",
        ),
        (
            "  helm: {local: [{name: c, path: p, valuesFiles: v.yaml}]}\n",
            "4:50: mirror.helm.local[0].valuesFiles: expected a list, found text; start each item \
             with `- `",
        ),
        (
            "  helm: {local: [{name: c, path: p, guessImages: maybe}]}\n",
            "4:50: guessImages: expected true or false, found \"maybe\"",
        ),
        (
            "  helm: {repositories: [{name: r, url: \"oci://h/x\", newestOnly: true, charts: [{name: \
             c}]}]}\n",
            "4:53: unknown field \"newestOnly\" in a repository with `charts`: leave out `version` \
             of a chart to get its newest",
        ),
        (
            "  helm: {repositories: [{name: r, url: \"http://h/\", charts: [{name: c, version: \
             5.0}]}]}\n",
            "4:81: version: expected text, found the number 5.0; write it in quotes: \"5.0\"",
        ),
        (
            "  helm: {repositories: [{name: r, url: \"http://h/\", charts: [{name: c, path: \
             x}]}]}\n",
            "4:72: unknown field \"path\" in mirror.helm.repositories[0].charts[0]: it is \
             for charts below helm.local",
        ),
        (
            "  helm: {local: [{name: c}]}\n",
            "4:18: mirror.helm.local[0] has no \"path\"; add it, for example `path: \
             /charts/podinfo-5.0.0.tgz`",
        ),
        (
            "  samples: [{}]\n",
            "4:13: mirror.samples[0] has no \"name\"; add it, for example `name: ruby`",
        ),
    ] {
        assert_found(&image_set(body), &[expected]);
    }
}

#[test]
fn a_count_of_previous_versions_is_a_number_and_no_range_beside_it() {
    for (keys, expected) in [
        (
            "previousVersions: two",
            "7:25: previousVersions: expected a whole number, the count of versions before \
             the newest one, found two",
        ),
        (
            "previousVersions: -1",
            "7:25: previousVersions: expected a whole number, the count of versions before \
             the newest one, found -1",
        ),
        (
            "previousVersions: [1]",
            "7:25: mirror.operators[0].packages[0].previousVersions: expected a whole number, found a list",
        ),
        (
            "previousVersions: 1\n      minVersion: 1.0.0",
            "7:25: previousVersions and a range of versions exclude each other; keep one of the two",
        ),
    ] {
        let body = format!(
            "  operators:\n  - catalog: quay.io/a/b:1\n    packages:\n    - {keys}\n      name: p\n"
        );
        assert_found(&image_set(&body), &[expected]);
    }
}

#[test]
fn extensions_are_listed_with_their_places() {
    let text = image_set(
        "  operators:\n  - catalog: quay.io/a/b:1\n    includeDependencies: true\n    packages:\n    \
         - name: p\n      previousVersions: 2\n    - name: q\n      channels:\n      - name: c\n        \
         previousVersions: 1\n  - catalog: quay.io/a/c:1\n",
    );
    let set = parse_image_set("isc.yaml", &text).unwrap();
    let listed: Vec<String> = set.extensions().iter().map(ToString::to_string).collect();
    assert_eq!(
        listed,
        [
            "5:5: includeDependencies of the catalog quay.io/a/b:1",
            "8:7: previousVersions of the package \"p\"",
            "12:9: previousVersions of the channel \"c\" of \"q\"",
        ]
    );
}

#[test]
fn all_mistakes_are_found_at_once_in_the_order_of_the_file() {
    let text = "\
kind: ImageSetConfiguration
apiVersion: mirror.openshift.io/v3
storageConfig: {}
mirror:
  platform:
    channels:
    - name: stable-4.18
      minVersion: 4.18
  additionalImages:
  - name: quay.io/a/b
  - name: quay.io/a/b:1
    name: quay.io/a/c:1
  blockedImages:
  - name: '['
";
    let findings = parse("isc.yaml", text).unwrap_err();
    let places: Vec<(usize, usize)> = findings.iter().map(|f| (f.at.line, f.at.column)).collect();
    assert_eq!(places, [(2, 13), (3, 1), (8, 19), (10, 11), (12, 5), (14, 11)]);
    assert_eq!(findings.to_string().lines().count(), 6);
}

#[test]
fn a_document_of_the_other_kind_is_refused_and_still_checked() {
    let delete = "kind: DeleteImageSetConfiguration\ndelete:\n  additionalImages:\n  - nam: x:1\n";
    assert_eq!(
        parse_image_set("d.yaml", delete).unwrap_err().to_string(),
        "d.yaml:1:1: expected kind ImageSetConfiguration, found DeleteImageSetConfiguration; \
         list what to mirror below `mirror:` in a file of that kind\n\
         d.yaml:4:5: unknown field \"nam\" in delete.additionalImages[0]; did you mean \"name\"?"
    );
    let mirror = "kind: ImageSetConfiguration\nmirror:\n";
    assert_eq!(
        parse_delete("m.yaml", mirror).unwrap_err().to_string(),
        "m.yaml:1:1: expected kind DeleteImageSetConfiguration, found ImageSetConfiguration; \
         list what to delete below `delete:` in a file of that kind"
    );
}

#[test]
fn what_is_outdated_is_read_with_a_warning_at_its_place() {
    let text = "kind: ImageSetConfiguration\napiVersion: mirror.openshift.io/v2\nmirror:\n  \
                platform:\n    architectures: [amd64]\n    channels: [{name: stable-4.18}]\n";
    let parsed = parse_image_set_with_warnings("isc.yaml", text).unwrap();
    let warnings: Vec<String> = parsed.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "2:1: apiVersion \"mirror.openshift.io/v2\" is read as mirror.openshift.io/v2alpha1; \
             write mirror.openshift.io/v2alpha1",
            "5:5: platform.architectures is deprecated; use platform.platforms",
        ]
    );
    let current =
        "kind: ImageSetConfiguration\napiVersion: mirror.openshift.io/v1alpha2\nmirror:\n";
    assert_eq!(parse_image_set_with_warnings("isc.yaml", current).unwrap().warnings, []);
}

#[test]
fn what_other_readers_accept_is_accepted() {
    for text in [
        "kind: ImageSetConfiguration\nmirror:\n",
        "kind: ImageSetConfiguration\napiVersion: mirror.openshift.io/v1alpha2\nmirror: {}\n",
        "KIND: ImageSetConfiguration\nMirror:\n  additionalimages:\n  - NAME: busybox:1\n",
        "kind: ImageSetConfiguration\narchiveSize: 0\nmirror: {platform: null, operators: ~}\n",
        "kind: ImageSetConfiguration\nmirror:\n---\nkind: Other\n",
        "{\"kind\": \"ImageSetConfiguration\", \"mirror\": {}}",
    ] {
        assert!(matches!(parse("x", text), Ok(Document::ImageSet(_))), "{text}");
    }
}
