use rcgen::{KeyPair, PKCS_ED25519};

use super::*;

/// A key that cannot sign, made by `openssl genpkey -algorithm X25519 | openssl pkey -pubout`.
const OTHER_KIND: &str = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VuAyEAxRTatk25Y2DJ4VBJomRB/CdySareqDt9l2HicohZaTE=\n-----END PUBLIC KEY-----\n";

/// Reads a policy on a machine with the key files of the test.
fn parse(text: &str) -> Result<Read, String> {
    let read_key = |path: &Path| match path.to_str() {
        Some("/keys/ok.pub" | "/keys/too.pub") => {
            Ok(KeyPair::generate().unwrap().public_key_pem().into_bytes())
        }
        Some("/keys/ed.pub") => {
            Ok(KeyPair::generate_for(&PKCS_ED25519).unwrap().public_key_pem().into_bytes())
        }
        Some("/keys/other.pub") => Ok(OTHER_KIND.into()),
        Some("/keys/text") => Ok(b"hello".to_vec()),
        _ => Err(io::ErrorKind::NotFound.into()),
    };
    read(text, &read_key).map_err(|error| {
        let mut text = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(cause) = source {
            text.push_str(&format!(": {cause}"));
            source = cause.source();
        }
        text
    })
}

/// A policy whose scope q.io has this requirement.
fn with(requirement: &str) -> String {
    format!(
        r#"{{"default":[{{"type":"reject"}}],"transports":{{"docker":{{"q.io":[{requirement}]}}}}}}"#
    )
}

fn the_one(requirement: &str) -> Requirement {
    let mut read = parse(&with(requirement)).unwrap_or_else(|e| panic!("{requirement}: {e}"));
    read.docker.remove("q.io").unwrap().remove(0)
}

#[test]
fn every_supported_requirement_is_read() {
    assert!(matches!(the_one(r#"{"type":"insecureAcceptAnything"}"#), Requirement::AcceptAnything));
    assert!(matches!(the_one(r#"{"type":"reject"}"#), Requirement::Reject));
    let data = BASE64.encode(KeyPair::generate().unwrap().public_key_pem());
    for (keys, count) in [
        (r#""keyPath":"/keys/ok.pub""#.to_owned(), 1),
        (r#""keyPaths":["/keys/ok.pub","/keys/too.pub"]"#.into(), 2),
        (format!(r#""keyData":"{data}""#), 1),
        (format!(r#""keyDatas":["{data}","{data}"]"#), 2),
    ] {
        let requirement = the_one(&format!(r#"{{"type":"sigstoreSigned",{keys}}}"#));
        let Requirement::Signed(signed) = requirement else { panic!("{requirement:?}") };
        let Signers::Keys(keys) = signed.signers else { panic!("keys are expected") };
        assert_eq!((keys.len(), signed.identity), (count, SignedIdentity::default()));
    }
    let matching = r#"{"type":"sigstoreSigned","keyPath":"/keys/ok.pub","signedIdentity":{"type":"matchRepository"}}"#;
    let Requirement::Signed(signed) = the_one(matching) else { panic!("expected a signature") };
    assert_eq!(signed.identity, SignedIdentity::MatchRepository {});
}

#[test]
fn keys_of_a_transparency_log_are_read_beside_the_signers() {
    let data = BASE64.encode(KeyPair::generate().unwrap().public_key_pem());
    for (log, count) in [
        (String::new(), 0),
        (r#","rekorPublicKeyPath":"/keys/too.pub""#.to_owned(), 1),
        (r#","rekorPublicKeyPaths":["/keys/ok.pub","/keys/too.pub"]"#.to_owned(), 2),
        (format!(r#","rekorPublicKeyData":"{data}""#), 1),
        (format!(r#","rekorPublicKeyDatas":["{data}","{data}"]"#), 2),
    ] {
        let text = format!(r#"{{"type":"sigstoreSigned","keyPath":"/keys/ed.pub"{log}}}"#);
        let Requirement::Signed(signed) = the_one(&text) else { panic!("{text}") };
        let Signers::Keys(keys) = signed.signers else { panic!("keys are expected") };
        assert_eq!((keys.len(), signed.log.len()), (1, count), "{text}");
    }
}

#[test]
fn what_cannot_be_checked_is_kept_as_that() {
    for (requirement, part) in [
        (r#"{"type":"signedBy","keyType":"X509Certificates","keyPath":"/absent"}"#, "X509"),
        (r#"{"type":"signedBaseLayer","baseLayerIdentity":{"type":"matchExact"}}"#, "BaseLayer"),
        (r#"{"type":"sigstoreSigned","pki":{}}"#, "pki"),
        (r#"{"type":"sigstoreSigned","keyPath":"/keys/other.pub"}"#, "/keys/other.pub"),
        (
            r#"{"type":"sigstoreSigned","keyPath":"/keys/ok.pub","rekorPublicKeyPath":"/keys/other.pub"}"#,
            "/keys/other.pub",
        ),
    ] {
        let read = the_one(requirement);
        assert!(matches!(&read, Requirement::Unsupported(what) if what.contains(part)), "{read:?}");
    }
}

#[test]
fn what_is_not_understood_is_an_error_that_names_the_place() {
    let accept = r#"[{"type":"insecureAcceptAnything"}]"#;
    let signed = |rest: &str| with(&format!(r#"{{"type":"sigstoreSigned",{rest}}}"#));
    let key = r#""keyPath":"/keys/ok.pub""#;
    for (text, part) in [
        (String::new(), "it is not a policy"),
        ("{}".into(), "missing field `default`"),
        (r#"{"default":[]}"#.into(), "default: the list of requirements is empty"),
        (format!(r#"{{"default":{accept},"defaults":{accept}}}"#), "unknown field `defaults`"),
        (format!(r#"{{"default":{accept},"default":{accept}}}"#), "duplicate field `default`"),
        (
            format!(r#"{{"default":{accept},"transports":{{"dokcer":{{"":{accept}}}}}}}"#),
            "the transport \"dokcer\": no such transport",
        ),
        (
            format!(
                r#"{{"default":{accept},"transports":{{"docker":{{"a":{accept},"a":{accept}}}}}}}"#
            ),
            "\"a\" occurs twice",
        ),
        (
            format!(
                r#"{{"default":{accept},"transports":{{"docker":{{}},"docker":{{"a":{accept}}}}}}}"#
            ),
            "\"docker\" occurs twice",
        ),
        (
            format!(r#"{{"default":{accept},"transports":{{"docker":{{"q.io/":{accept}}}}}}}"#),
            "the scope \"q.io/\" of docker: no image matches",
        ),
        (
            format!(r#"{{"default":{accept},"transports":{{"docker":{{"q.io":[]}}}}}}"#),
            "the scope \"q.io\" of docker: the list of requirements is empty",
        ),
        (with(r#"{"type":"accept"}"#), "unknown variant `accept`"),
        (with(r#"{"type":"signedBy","keyType":"x","keyPath":"/k"}"#), "the keyType \"x\""),
        (with(r#"{"type":"signedBy","keyType":"GPGKeys"}"#), "takes exactly one of keyPath"),
        (
            with(r#"{"type":"signedBy","keyType":"GPGKeys","keyPath":"/gone"}"#),
            "reading the key /gone: entity not found",
        ),
        (
            with(r#"{"type":"signedBy","keyType":"GPGKeys","keyPath":"/keys/text"}"#),
            "the GPG key /keys/text",
        ),
        (
            signed(r#""fulcio":{"caPath":"/a","oidcIssuer":"i","subjectEmail":"e"}"#),
            "fulcio requires the key of a transparency log",
        ),
        (
            signed(
                r#""fulcio":{"caPath":"/keys/text","oidcIssuer":"i","subjectEmail":"e"},"rekorPublicKeyPath":"/keys/ok.pub""#,
            ),
            "the authority of fulcio is not a certificate",
        ),
        (with("{}"), "missing field `type`"),
        (with(r#"{"type":"reject","why":1}"#), "unknown field `why`"),
        (with(r#"{"type":"insecureAcceptAnything","why":1}"#), "unknown field `why`"),
        (signed(&format!(r#"{key},"keyRing":"x""#)), "unknown field `keyRing`"),
        (signed(&format!("{key},{key}")), "duplicate field `keyPath`"),
        (signed(r#""signedIdentity":{"type":"matchExact"}"#), "takes exactly one of keyPath"),
        (
            signed(&format!(
                r#"{key},"rekorPublicKeyPath":"/keys/ok.pub","rekorPublicKeyData":"eA==""#
            )),
            "takes at most one of rekorPublicKeyPath",
        ),
        (signed(&format!(r#"{key},"rekorPublicKeyPaths":[]"#)), "an empty list of keys"),
        (signed(&format!(r#"{key},"rekorPublicKeyPath":"/keys/text""#)), "the key /keys/text"),
        (signed(&format!(r#"{key},"keyData":"eA==""#)), "takes exactly one of keyPath"),
        (signed(r#""keyPaths":[]"#), "an empty list of keys"),
        (signed(r#""keyPath":"/gone""#), "reading the key /gone: entity not found"),
        (signed(r#""keyPath":"/keys/text""#), "the key /keys/text: it is not a public key"),
        (signed(r#""keyData":"%""#), "the key data is not base64"),
        (signed(&format!(r#"{key},"signedIdentity":{{"type":"any"}}"#)), "unknown variant `any`"),
        (
            signed(&format!(r#"{key},"signedIdentity":{{"type":"matchExact","x":1}}"#)),
            "unknown field `x`",
        ),
        (
            signed(&format!(r#"{key},"signedIdentity":{{"type":"matchRepoDigestOrExact","x":1}}"#)),
            "unknown field `x`",
        ),
        (
            signed(&format!(
                r#"{key},"signedIdentity":{{"type":"exactReference","dockerReference":"q.io/a"}}"#
            )),
            "the scope \"q.io\" of docker: dockerReference q.io/a has neither",
        ),
    ] {
        let error = parse(&text).err().unwrap_or_else(|| panic!("{text} was read"));
        assert!(error.contains(part), "{text}\n{error}");
    }
}

#[test]
fn transports_that_are_never_mirrored_from_are_let_be() {
    let text = r#"{"default":[{"type":"reject"}],"transports":{
        "docker-daemon":{"":[{"type":"insecureAcceptAnything"}]},
        "dir":{"/":[{"type":"reject"}]},
        "oci":{"/srv":[{"type":"insecureAcceptAnything"}]}}}"#;
    let read = parse(text).unwrap();
    assert_eq!((read.docker.len(), read.oci.len()), (0, 1));
}
