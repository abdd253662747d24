use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use jiff::Timestamp;
use oci::Digest;
use rcgen::{KeyPair, SigningKey as _};

use super::*;
use crate::requirement::{Signature, Subject};

const NAME: &str = "q.io/team/app";

struct Signer(KeyPair);

impl Signer {
    fn new() -> Self {
        Self(KeyPair::generate().unwrap())
    }

    fn sign(&self, digest: Digest, name: &str) -> Signature {
        let payload = format!(
            r#"{{"critical":{{"identity":{{"docker-reference":"{name}"}},"image":{{"docker-manifest-digest":"{digest}"}},"type":"cosign container image signature"}},"optional":null}}"#
        );
        let signature = BASE64.encode(self.0.sign(payload.as_bytes()).unwrap());
        Signature {
            payload: payload.into_bytes(),
            signature,
            bundle: None,
            certificate: None,
            chain: None,
        }
    }

    /// A requirement of a signature with this key, of any tag.
    fn requirement(&self) -> String {
        let key = BASE64.encode(self.0.public_key_pem());
        format!(
            r#"{{"type":"sigstoreSigned","keyData":"{key}","signedIdentity":{{"type":"matchRepository"}}}}"#
        )
    }
}

fn policy(default: &str, docker: &[(&str, &str)]) -> Policy {
    let scopes: Vec<String> =
        docker.iter().map(|(scope, rule)| format!("{scope:?}:[{rule}]")).collect();
    let text =
        format!(r#"{{"default":[{default}],"transports":{{"docker":{{{}}}}}}}"#, scopes.join(","));
    Policy::parse(&text, |_| Err(io::ErrorKind::NotFound.into())).unwrap()
}

fn subject(content: &str, signatures: Vec<Signature>) -> Subject {
    Subject { signatures, ..Subject::unsigned(Digest::of(content.as_bytes())) }
}

fn image(signatures: Vec<Signature>) -> Presented {
    Presented {
        root: subject("root", signatures),
        instances: Vec::new(),
        now: Timestamp::UNIX_EPOCH,
    }
}

/// What the policy decides about `NAME:v1`: nothing, or why it is refused.
fn refused(policy: &Policy, image: &Presented) -> String {
    let name = format!("{NAME}:v1").parse().unwrap();
    policy.rule(Name::Registry(&name)).judge(image).err().map(|e| e.to_string()).unwrap_or_default()
}

const ACCEPT: &str = r#"{"type":"insecureAcceptAnything"}"#;
const REJECT: &str = r#"{"type":"reject"}"#;

#[test]
fn the_most_specific_scope_decides_alone() {
    let ladder =
        ["", "*.io", "q.io", "q.io/team", "q.io/team/app", "q.io/team/app:v1"].map(|s| (s, ACCEPT));
    let unsigned = image(vec![]);
    for rung in 0..ladder.len() {
        // Everything below accepts, this one rejects.
        let mut scopes = ladder[..=rung].to_vec();
        scopes[rung].1 = REJECT;
        let why = refused(&policy(ACCEPT, &scopes), &unsigned);
        let place = match ladder[rung].0 {
            "" => "docker default".to_owned(),
            scope => format!("docker scope {scope}"),
        };
        let expected =
            format!("the image is rejected by policy ({place}): every image is rejected here");
        assert_eq!(why, expected);
        // Everything below rejects, this one accepts.
        let mut scopes: Vec<_> =
            ladder[..=rung].iter().map(|(scope, _)| (*scope, REJECT)).collect();
        scopes[rung].1 = ACCEPT;
        assert_eq!(refused(&policy(REJECT, &scopes), &unsigned), "");
    }
    let elsewhere = [("q.io/tea", ACCEPT), ("q.io/team/app:v2", ACCEPT), ("*.q.io", ACCEPT)];
    let why = refused(&policy(REJECT, &elsewhere), &unsigned);
    assert_eq!(why, "the image is rejected by policy (default): every image is rejected here");
}

#[test]
fn layouts_are_under_their_own_transport() {
    let text = r#"{"default":[{"type":"reject"}],"transports":{
        "docker":{"":[{"type":"insecureAcceptAnything"}]},
        "oci":{"/srv/good":[{"type":"insecureAcceptAnything"}]}}}"#;
    let policy = Policy::parse(text, |_| Err(io::ErrorKind::NotFound.into())).unwrap();
    let judge =
        |path: &str| policy.rule(Name::Layout(Path::new(path))).judge(&image(vec![])).is_ok();
    assert!(judge("/srv/good/x") && judge("/srv/good"));
    assert!(!judge("/srv/goods") && !judge("/srv"));
}

#[test]
fn one_good_signature_is_enough() {
    let (ours, theirs) = (Signer::new(), Signer::new());
    let policy = policy(REJECT, &[(NAME, &ours.requirement())]);
    let root = Digest::of(b"root");
    assert_eq!(refused(&policy, &image(vec![ours.sign(root, NAME)])), "");
    let among = vec![theirs.sign(root, NAME), ours.sign(root, NAME)];
    assert_eq!(refused(&policy, &image(among)), "");
}

#[test]
fn every_bad_signature_is_reported_with_its_reason() {
    let (ours, theirs) = (Signer::new(), Signer::new());
    let policy = policy(REJECT, &[(NAME, &ours.requirement())]);
    let (root, other) = (Digest::of(b"root"), Digest::of(b"other"));
    let mut tampered = ours.sign(other, NAME);
    tampered.payload = ours.sign(root, NAME).payload;
    let signatures = vec![
        theirs.sign(root, NAME),
        ours.sign(other, NAME),
        ours.sign(root, "q.io/team/apple"),
        tampered,
        Signature { signature: "%".into(), ..ours.sign(root, NAME) },
        Signature {
            payload: b"{}".to_vec(),
            signature: BASE64.encode(ours.0.sign(b"{}").unwrap()),
            ..ours.sign(root, NAME)
        },
    ];
    let why = refused(&policy, &image(signatures));
    let reasons: Vec<&str> = why.split("; ").collect();
    let not_ours = "a signature was not made with the keyData of the policy";
    assert_eq!(reasons.len(), 5, "the same reason is reported once: {why}");
    assert!(reasons[0].ends_with(&format!("{root}: {not_ours}")), "{why}");
    assert_eq!(reasons[1], format!("{root}: a signature is of another image, {other}"));
    assert_eq!(
        reasons[2],
        format!(
            "{root}: a signature is for the name q.io/team/apple, which matchRepository does not accept"
        )
    );
    assert_eq!(reasons[3], format!("{root}: a signature is not base64"));
    assert!(
        reasons[4].contains("something that is not an image: missing field `critical`"),
        "{why}"
    );
    assert!(refused(&policy, &image(vec![])).ends_with(&format!("{root} has no signature")));
}

#[test]
fn the_default_rule_reports_why_it_rejects_what_cosign_signs() {
    let ours = Signer::new();
    let usual = ours.requirement().replace(r#","signedIdentity":{"type":"matchRepository"}"#, "");
    let policy = policy(REJECT, &[(NAME, &usual)]);
    let root = Digest::of(b"root");
    let why = refused(&policy, &image(vec![ours.sign(root, NAME)]));
    assert!(why.contains("signedIdentity matchRepository accepts these"), "{why}");
    assert_eq!(refused(&policy, &image(vec![ours.sign(root, "q.io/team/app:v1")])), "");
}

#[test]
fn all_requirements_of_a_scope_must_hold() {
    let (vendor, reviewer) = (Signer::new(), Signer::new());
    let both = format!("{},{}", vendor.requirement(), reviewer.requirement());
    let policy = policy(REJECT, &[(NAME, &both)]);
    let root = Digest::of(b"root");
    let signatures = vec![vendor.sign(root, NAME), reviewer.sign(root, NAME)];
    assert_eq!(refused(&policy, &image(signatures.clone())), "");
    for one in signatures {
        assert!(refused(&policy, &image(vec![one])).contains("was not made with"));
    }
    let impossible = format!("{},{REJECT}", vendor.requirement());
    let policy = self::policy(ACCEPT, &[(NAME, &impossible)]);
    let why = refused(&policy, &image(vec![]));
    assert!(why.ends_with(&format!("{root} has no signature; every image is rejected here")));
}

#[test]
fn what_cannot_be_checked_refuses_and_names_the_scope() {
    let layer = r#"{"type":"signedBaseLayer","baseLayerIdentity":{"type":"matchExact"}}"#;
    let why = refused(&policy(ACCEPT, &[("q.io/team", layer)]), &image(vec![]));
    assert_eq!(
        why,
        "the image is rejected by policy (docker scope q.io/team): \
         signedBaseLayer is not supported and cannot be checked"
    );
}

#[test]
fn a_list_is_let_in_by_its_own_signature_or_by_those_of_all_its_images() {
    let (ours, theirs) = (Signer::new(), Signer::new());
    let policy = policy(REJECT, &[(NAME, &ours.requirement())]);
    let by = |signer: &Signer, content: &str| {
        subject(content, vec![signer.sign(Digest::of(content.as_bytes()), NAME)])
    };
    let bare = |content: &str| subject(content, vec![]);
    let list = |root, instances| Presented { root, instances, now: Timestamp::UNIX_EPOCH };

    let own = list(by(&ours, "list"), vec![bare("amd"), bare("arm")]);
    assert_eq!(refused(&policy, &own), "");
    let each = list(bare("list"), vec![by(&ours, "amd"), by(&ours, "arm")]);
    assert_eq!(refused(&policy, &each), "");
    let some = list(by(&theirs, "list"), vec![by(&ours, "amd"), bare("arm"), by(&theirs, "s390")]);
    let why = refused(&policy, &some);
    let digest = |content: &str| Digest::of(content.as_bytes());
    assert!(why.contains(&format!("{}: a signature was not made with", digest("list"))), "{why}");
    assert!(why.contains(&format!("{} has no signature", digest("arm"))), "{why}");
    assert!(why.contains(&format!("{}: a signature was not made with", digest("s390"))), "{why}");
    assert!(!why.contains(&digest("amd").to_string()), "{why}");
}

#[test]
fn signatures_are_read_only_where_they_can_make_a_difference() {
    let signer = Signer::new();
    for (rule, reads) in [(ACCEPT, false), (REJECT, false), (&*signer.requirement(), true)] {
        let policy = policy(rule, &[]);
        let name = "q.io/a:1".parse().unwrap();
        let rule = policy.rule(Name::Registry(&name));
        assert_eq!((rule.reads_signatures(), rule.reads_lookaside()), (reads, false), "{rule:?}");
    }
}
