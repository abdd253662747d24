//! Five proposals of the community and the result of its linter. Their
//! headings and metadata were counted by hand.

use std::fs;

use data_tier::data_tier;
use enhancement::{
    Document, Finding, Group, LinkResolver, LinkTarget, Rule, TemplateSentences, Verdict,
};

struct AllLinksResolve;

impl LinkResolver for AllLinksResolve {
    fn resolve(&self, _: &str) -> LinkTarget {
        LinkTarget::Present
    }
}

struct Proposal {
    file: &'static str,
    name: &'static str,
    metadata_passes: bool,
    /// The number of findings in the metadata.
    metadata: usize,
    missing_headings: usize,
    /// Markdown rules and the number of their findings in markdownlint 0.25.1.
    style: &'static [(&'static str, usize)],
    /// The sections with text of the template, counted by hand.
    template_text: &'static [&'static str],
}

/// The sections below the line "Everything below here is unedited template
/// sections" of the first two proposals.
const UNEDITED: &[&str] = &[
    "Test Plan",
    "Graduation Criteria",
    "Dev Preview -> Tech Preview",
    "Tech Preview -> GA",
    "Removing a deprecated feature",
    "Upgrade / Downgrade Strategy",
    "Version Skew Strategy",
    "Operational Aspects of API Extensions",
    "Failure Modes",
    "Support Procedures",
    "Implementation History",
    "Alternatives",
    "Infrastructure Needed [optional]",
];

const PROPOSALS: [Proposal; 5] = [
    Proposal {
        file: "000_1761d7dd053996e6.txt",
        name: "configure-ovs-alternative.md",
        metadata_passes: false,
        // Four names without quotes, an entry with a colon, an approver TBD.
        metadata: 6,
        missing_headings: 15,
        style: &[("MD040", 3)],
        template_text: UNEDITED,
    },
    Proposal {
        file: "001_6beccc787264786f.txt",
        name: "configure-ovs-alternative.md",
        metadata_passes: false,
        // Four names without quotes, two approvers TBD.
        metadata: 6,
        missing_headings: 15,
        style: &[("MD007", 12)],
        template_text: &[
            "Implementation Details/Notes/Constraints [optional]",
            "Test Plan",
            "Graduation Criteria",
            "Dev Preview -> Tech Preview",
            "Tech Preview -> GA",
            "Removing a deprecated feature",
            "Upgrade / Downgrade Strategy",
            "Version Skew Strategy",
            "Operational Aspects of API Extensions",
            "Failure Modes",
            "Support Procedures",
            "Implementation History",
            "Alternatives",
            "Infrastructure Needed [optional]",
        ],
    },
    Proposal {
        file: "002_a68fca6a19074c2f.txt",
        name: "improving-user-experience-of-oc-mirror-plugin.md",
        metadata_passes: true,
        metadata: 0,
        missing_headings: 15,
        style: &[("MD005", 1), ("MD007", 4), ("MD013", 4), ("MD040", 3), ("MD045", 2)],
        template_text: &[
            "Workflow Description",
            "Variation [optional]",
            "API Extensions",
            // Own text is before it.
            "Implementation Details/Notes/Constraints [optional]",
            "Risks and Mitigations",
            "Drawbacks",
            "Open Questions [optional]",
            "Test Plan",
            "Graduation Criteria",
            "Dev Preview -> Tech Preview",
            "Tech Preview -> GA",
            "Removing a deprecated feature",
            "Upgrade / Downgrade Strategy",
            "Version Skew Strategy",
            "Operational Aspects of API Extensions",
            "Failure Modes",
            "Support Procedures",
            "Implementation History",
            "Alternatives",
            "Infrastructure Needed [optional]",
        ],
    },
    Proposal {
        file: "003_1c4cb2b6280db3e5.txt",
        name: "add-kubernetes-nmstate-operator-to-cvo.md",
        metadata_passes: false,
        // An approver TBD, no API approver, no tracking link.
        metadata: 3,
        missing_headings: 19,
        style: &[],
        template_text: &[
            "Graduation Criteria",
            // "Tech Preview -> GA" has a criterion of the author.
            "Removing a deprecated feature",
            "Upgrade / Downgrade Strategy",
            "Version Skew Strategy",
        ],
    },
    Proposal {
        // A former version of the template; one heading has been added since.
        file: "004_d159c28254a9cbcd.txt",
        name: "neat-enhancement-idea.md",
        metadata_passes: false,
        metadata: 5,
        missing_headings: 1,
        style: &[],
        template_text: &[
            // Before the title.
            "",
            "Neat Enhancement Idea",
            "Summary",
            "Motivation",
            "User Stories",
            "Goals",
            "Non-Goals",
            "Proposal",
            "Workflow Description",
            "API Extensions",
            // "Topology Considerations" has no text of its own.
            "Hypershift / Hosted Control Planes",
            "Standalone Clusters",
            "Single-node Deployments or MicroShift",
            "Implementation Details/Notes/Constraints",
            "Risks and Mitigations",
            "Drawbacks",
            "Alternatives (Not Implemented)",
            "Open Questions [optional]",
            "Test Plan",
            "Graduation Criteria",
            "Dev Preview -> Tech Preview",
            "Tech Preview -> GA",
            "Removing a deprecated feature",
            "Upgrade / Downgrade Strategy",
            "Version Skew Strategy",
            "Operational Aspects of API Extensions",
            "Support Procedures",
            "Infrastructure Needed [optional]",
        ],
    },
];

#[test]
fn the_result_is_that_of_the_communitys_linter() {
    let Some(directory) = data_tier("../seeds") else { return };
    for proposal in PROPOSALS {
        let text = fs::read_to_string(directory.join(proposal.file)).unwrap();
        let document = Document::parse(proposal.name, text);
        let findings = document.findings(&AllLinksResolve, &TemplateSentences::community());
        let in_group = |group| {
            findings.iter().filter(move |found| found.rule.group() == group).collect::<Vec<_>>()
        };
        let file = proposal.file;
        assert_eq!(Verdict::of(&findings).metadata, proposal.metadata_passes, "{file}");
        let metadata = in_group(Group::Metadata);
        assert_eq!(metadata.len(), proposal.metadata, "{file}: {metadata:#?}");
        let missing = document.missing_headings();
        assert_eq!(missing.len(), proposal.missing_headings, "{file}: {missing:?}");
        assert!(!Verdict::of(&findings).headings, "{file}");
        assert_eq!(count(&in_group(Group::Markdown)), proposal.style, "{file}");
        assert_eq!(sections_with_template_text(&findings), proposal.template_text, "{file}");
    }
}

/// The heading in the message of each finding; empty before the first heading.
fn sections_with_template_text(findings: &[Finding]) -> Vec<&str> {
    let findings = findings.iter().filter(|finding| finding.rule == Rule::TemplateText);
    findings.map(|finding| finding.message.split('`').nth(1).unwrap_or_default()).collect()
}

/// The fingerprints in the crate are those of the templates: a change of how
/// sentences are compared needs new fingerprints.
#[test]
fn every_sentence_of_the_template_has_a_fingerprint() {
    let Some(directory) = data_tier("../seeds") else { return };
    let template = fs::read_to_string(directory.join("004_d159c28254a9cbcd.txt")).unwrap();
    let community = TemplateSentences::community();
    let mut sentences = community.clone();
    sentences.add(&template);
    assert_eq!(sentences, community);
}

fn count(findings: &[&Finding]) -> Vec<(&'static str, usize)> {
    let mut rules: Vec<_> = findings.iter().map(|finding| finding.rule.id()).collect();
    rules.sort_unstable();
    rules.chunk_by(|a, b| a == b).map(|same| (same[0], same.len())).collect()
}
