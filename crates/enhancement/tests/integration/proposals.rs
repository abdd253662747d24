//! Five proposals of the community as they were written, and what its linter
//! says of them. Their headings and metadata were counted by hand.

use std::fs;

use data_tier::data_tier;
use enhancement::{Document, Finding, Group, Surroundings, Target, Verdict};

struct Everything;

impl Surroundings for Everything {
    fn find(&self, _: &str) -> Target {
        Target::Present
    }
}

struct Judged {
    file: &'static str,
    name: &'static str,
    metadata_passes: bool,
    /// How much is wrong with the metadata.
    metadata: usize,
    missing_headings: usize,
    /// Rules of style and how often each is broken, as markdownlint 0.25.1 has it.
    style: &'static [(&'static str, usize)],
}

const PROPOSALS: [Judged; 5] = [
    Judged {
        file: "000_1761d7dd053996e6.txt",
        name: "configure-ovs-alternative.md",
        metadata_passes: false,
        // Four names without quotes, an entry with a colon, an approver TBD.
        metadata: 6,
        missing_headings: 15,
        style: &[("MD040", 3)],
    },
    Judged {
        file: "001_6beccc787264786f.txt",
        name: "configure-ovs-alternative.md",
        metadata_passes: false,
        // Four names without quotes, two approvers TBD.
        metadata: 6,
        missing_headings: 15,
        style: &[("MD007", 12)],
    },
    Judged {
        file: "002_a68fca6a19074c2f.txt",
        name: "improving-user-experience-of-oc-mirror-plugin.md",
        metadata_passes: true,
        metadata: 0,
        missing_headings: 15,
        style: &[("MD005", 1), ("MD007", 4), ("MD013", 4), ("MD040", 3), ("MD045", 2)],
    },
    Judged {
        file: "003_1c4cb2b6280db3e5.txt",
        name: "add-kubernetes-nmstate-operator-to-cvo.md",
        metadata_passes: false,
        // An approver TBD, no API approver, no tracking link.
        metadata: 3,
        missing_headings: 19,
        style: &[],
    },
    Judged {
        // The template of that time: one heading was added to it since.
        file: "004_d159c28254a9cbcd.txt",
        name: "neat-enhancement-idea.md",
        metadata_passes: false,
        metadata: 5,
        missing_headings: 1,
        style: &[],
    },
];

#[test]
fn the_proposals_are_judged_as_the_community_judges_them() {
    let Some(folder) = data_tier("../seeds") else { return };
    for judged in PROPOSALS {
        let text = fs::read_to_string(folder.join(judged.file)).unwrap();
        let document = Document::parse(judged.name, text);
        let findings = document.findings(&Everything);
        let in_group = |group| {
            findings.iter().filter(move |found| found.rule.group() == group).collect::<Vec<_>>()
        };
        let file = judged.file;
        assert_eq!(Verdict::of(&findings).metadata, judged.metadata_passes, "{file}");
        let metadata = in_group(Group::Metadata);
        assert_eq!(metadata.len(), judged.metadata, "{file}: {metadata:#?}");
        let missing = document.missing_headings();
        assert_eq!(missing.len(), judged.missing_headings, "{file}: {missing:?}");
        assert!(!Verdict::of(&findings).headings, "{file}");
        assert_eq!(count(&in_group(Group::Markdown)), judged.style, "{file}");
    }
}

fn count(findings: &[&Finding]) -> Vec<(&'static str, usize)> {
    let mut rules: Vec<_> = findings.iter().map(|finding| finding.rule.id()).collect();
    rules.sort_unstable();
    rules.chunk_by(|a, b| a == b).map(|same| (same[0], same.len())).collect()
}
