//! Tests of the search for text of the template.

use super::*;

const TEMPLATE: &str = "\
# Title

This line explains to the author how a title is chosen.

## Plan

**Note:** *This section may stay empty until the release is known.*

Consider the following when writing the plan of this document:
- Will there be `tests` of [all kinds](https://x.example), or of some?
- How is it tested?

## Steps

Explain step by step what the user has to do. Be brief.

For example:

**cook** is a human user who is responsible for the soup.

### Dev Preview -> Tech Preview

- Ability to use the whole feature from start to end
- Good tests

All features must have tests before they reach this stage.

## Release Checklist

- [ ] The design of the feature has been documented completely
";

fn findings(text: &str) -> Vec<String> {
    let mut template = TemplateSentences::default();
    template.add(TEMPLATE);
    let masked = markdown::mask(text);
    let source = Source::new(&masked);
    let mut findings = Vec::new();
    template.check(&source, &Outline::parse(&source), &mut findings);
    findings.iter().map(ToString::to_string).collect()
}

#[track_caller]
fn assert_lines(text: &str, expected: &[usize]) {
    let found = findings(text);
    let line = |finding: &String| finding.split(':').next().unwrap().parse::<usize>().unwrap();
    assert_eq!(found.iter().map(line).collect::<Vec<_>>(), expected, "{text}\n{found:#?}");
}

#[test]
fn every_section_of_the_template_is_reported_except_a_checklist() {
    assert_lines(TEMPLATE, &[1, 5, 13, 21]);
    assert_eq!(
        findings(TEMPLATE)[1],
        "5:1: warning: the section `Plan` contains only text of the template; replace it, or \
         state why the section does not apply [template-text]"
    );
}

#[test]
fn wrapping_markup_and_case_do_not_matter() {
    let text = "### plan\n\n> note: this section may **stay\n> empty** until the\n> release is \
                `known`\n\nConsider the\nfollowing when writing the\tplan of this document:\n\n\
                1. How is it tested?\n";
    assert_lines(text, &[1]);
    assert_lines(&text.replace('\n', "\r\n"), &[1]);
}

#[test]
fn one_instruction_is_reported_beside_own_text() {
    let text = "## Steps\n\nThe cook opens the pot.\n\nExplain step by step what the user has \
                to do.\n\n```text\nsoup\n```\n";
    assert_eq!(
        findings(text),
        ["5:1: warning: the section `Steps` still contains text of the template (\"Explain \
          step by step what the …\"); replace it, or state why the section does not apply \
          [template-text]"]
    );
    assert_lines("## Steps\n\nExplain step by step what the user has to do.\n", &[1]);
}

#[test]
fn a_placeholder_is_not_own_text() {
    assert_lines("## Plan\n\nTBD\n\n- How is it tested?\n", &[1]);
}

#[test]
fn text_before_the_first_heading_is_reported_at_its_line() {
    let text = "\n\nExplain step by step what the user has to do.\n\n# Title\n\nOwn text.\n";
    assert_eq!(
        findings(text),
        ["3:1: warning: the text before the first heading contains only text of the template; \
          replace it, or state why the section does not apply [template-text]"]
    );
}

#[test]
fn examples_questions_and_phrases_are_legitimate_beside_own_text() {
    for text in [
        // A question with its answer.
        "## Plan\n\nHow is it tested?\n\nBy hand.\n",
        "## Plan\n\n### Will there be tests of all kinds, or of some?\n\nOf all kinds.\n",
        // A role of the template that exists in this document, too.
        "## Steps\n\n**cook** is a human user who is responsible for the soup.\n\n1. The cook \
         opens the pot.\n",
        // A selection of criteria with one of the author's.
        "### Dev Preview -> Tech Preview\n\n- Ability to use the whole feature from start to \
         end\n- Good tests\n- Three users\n",
        // Phrases inside a sentence of the author.
        "## Plan\n\nWe consider the following when writing the plan of this document: time.\n",
        "## Plan\n\n```text\nExplain step by step what the user has to do.\n```\n",
        "## Plan\n\n<!-- Explain step by step what the user has to do. -->\n\nDone.\n",
        "## Steps\n\nBe brief.\n\n![the pot](pot.png)\n",
        // Nothing but a label.
        "## Steps\n\nFor example:\n",
        "## Plan\n\n- [ ] The design of the feature has been documented completely\n",
    ] {
        assert_lines(text, &[]);
    }
}

#[test]
fn the_file_of_fingerprints_is_read_completely() {
    let community = TemplateSentences::community();
    assert_eq!(community.kinds.len(), FINGERPRINTS.lines().count());
    assert_eq!(community.fingerprints(), FINGERPRINTS);
    assert!(community.kinds.len() > 150, "{}", community.kinds.len());
}

#[test]
fn the_weaker_kind_wins_when_versions_differ() {
    let mut template = TemplateSentences::default();
    let sentence = "Three cooks have approved the soup of the day.";
    template.add(&format!("## A\n\n{sentence}\n"));
    assert_eq!(template.kind(sentence), Some(Kind::Instruction));
    template.add(&format!("## A\n\nExamples:\n\n- {sentence}\n"));
    assert_eq!(template.kind(sentence), Some(Kind::Example));
    template.add(&format!("## A\n\n{sentence}\n"));
    assert_eq!(template.kind(sentence), Some(Kind::Example));
}
