//! Signatures that GnuPG made, and what becomes of them when they are modified.

use jiff::Timestamp;
use lab::releases::ReleaseKey;
use oci::Digest;
use release::keyring::Keyring;
use release::signature::{SignatureError, Verified, verify, verify_any};

const REFERENCE: &str = "quay.io/openshift-release-dev/ocp-release:4.16.3-x86_64";

fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn digest() -> Digest {
    Digest::of(b"a payload")
}

fn claim(digest: &Digest) -> Vec<u8> {
    format!(
        r#"{{"critical":{{"image":{{"docker-manifest-digest":"{digest}"}},"type":"atomic container signature","identity":{{"docker-reference":"{REFERENCE}"}}}},"optional":{{"creator":"lab"}}}}"#
    )
    .into_bytes()
}

fn ring(key: &ReleaseKey) -> Keyring {
    let mut ring = Keyring::empty();
    ring.add(key.public().as_bytes()).unwrap();
    ring
}

fn check(signature: &[u8], ring: &Keyring) -> Result<Verified, SignatureError> {
    verify(signature, &digest(), ring, now())
}

#[test]
fn what_gnupg_signs_is_believed_compressed_or_not() {
    let key = ReleaseKey::generate().unwrap();
    let ring = ring(&key);
    let text = claim(&digest());
    for signature in [key.sign(&text).unwrap(), key.sign_uncompressed(&text).unwrap()] {
        let verified = check(&signature, &ring).unwrap();
        assert_eq!(verified.digest, digest());
        assert_eq!(verified.reference, REFERENCE.parse().unwrap());
        assert_eq!(verified.key, ring.keys()[0].id());
    }
}

/// The message with its literal packet in parts of these lengths, powers of two, and a rest.
fn in_parts(message: &[u8], parts: &[usize]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = message;
    while let [first, length, behind @ ..] = rest {
        // GnuPG writes these packets with one or two bytes of length.
        let (tag, length, behind) = match (first & 0x40, first & 3) {
            (0, 0) => (first >> 2 & 0x0f, usize::from(*length), behind),
            (0, _) => {
                let length = usize::from(*length) << 8 | usize::from(behind[0]);
                (first >> 2 & 0x0f, length, &behind[1..])
            }
            _ if *length < 192 => (first & 0x3f, usize::from(*length), behind),
            _ => {
                let length = ((usize::from(*length) - 192) << 8) + usize::from(behind[0]) + 192;
                (first & 0x3f, length, &behind[1..])
            }
        };
        let (mut body, after) = behind.split_at(length);
        if tag == 11 {
            out.push(0xc0 | 11);
            for part in parts {
                let (now, later) = body.split_at(*part);
                out.push(0xe0 | u8::try_from(part.trailing_zeros()).unwrap());
                out.extend(now);
                body = later;
            }
        } else {
            out.push(0xc0 | tag);
        }
        out.push(255);
        out.extend(u32::try_from(body.len()).unwrap().to_be_bytes());
        out.extend(body);
        rest = after;
    }
    out
}

#[test]
fn a_text_in_short_parts_is_believed_and_cut_short_only_where_bytes_are_missing() {
    let key = ReleaseKey::generate().unwrap();
    let ring = ring(&key);
    let message = key.sign_uncompressed(&claim(&digest())).unwrap();
    for parts in [&[2usize][..], &[4, 2], &[256], &[2, 4, 256, 2], &[1, 1, 1]] {
        let message = in_parts(&message, parts);
        assert_eq!(check(&message, &ring).unwrap().digest, digest(), "{parts:?}");
        let cut = check(&message[..message.len() - 1], &ring).unwrap_err();
        assert_eq!(cut, SignatureError::Truncated, "{parts:?}");
    }
}

#[test]
fn one_bit_of_the_signature_makes_it_a_forgery() {
    let key = ReleaseKey::generate().unwrap();
    let ring = ring(&key);
    let mut signature = key.sign_uncompressed(&claim(&digest())).unwrap();
    // The number that is the signature proper ends the message.
    let last = signature.len() - 20;
    signature[last] ^= 1;
    let error = check(&signature, &ring).unwrap_err();
    assert_eq!(error, SignatureError::Forged { key: ring.keys()[0].id() });
    assert_eq!(
        error.to_string(),
        format!("it is forged: key {} has not made it", ring.keys()[0].id())
    );
}

#[test]
fn another_digest_in_the_signed_text_is_an_edit() {
    let key = ReleaseKey::generate().unwrap();
    let other = Digest::of(b"something evil");
    let mut signature = key.sign_uncompressed(&claim(&other)).unwrap();
    let hex = other.hex();
    let at = signature.windows(64).position(|part| part == hex.as_bytes()).unwrap();
    signature[at..at + 64].copy_from_slice(digest().hex().as_bytes());
    let error = check(&signature, &ring(&key)).unwrap_err();
    assert!(matches!(error, SignatureError::Edited { .. }), "{error}");
    assert!(error.to_string().starts_with("the signed text was changed after key "), "{error}");
}

#[test]
fn a_signature_that_is_cut_anywhere_is_refused_and_mostly_recognized() {
    let key = ReleaseKey::generate().unwrap();
    let ring = ring(&key);
    for whole in
        [key.sign(&claim(&digest())).unwrap(), key.sign_uncompressed(&claim(&digest())).unwrap()]
    {
        for length in 0..whole.len() {
            let error = check(&whole[..length], &ring).unwrap_err();
            // The first bytes alone may be anything.
            let known = error == SignatureError::Truncated;
            assert!(known || length < 3, "{length} bytes: {error}");
        }
    }
    assert_eq!(
        SignatureError::Truncated.to_string(),
        "it is cut short: it starts as an OpenPGP message and ends in the middle of it"
    );
}

#[test]
fn a_key_that_is_not_in_the_ring_is_not_believed() {
    let (ours, theirs) = (ReleaseKey::generate().unwrap(), ReleaseKey::generate().unwrap());
    let error = check(&theirs.sign(&claim(&digest())).unwrap(), &ring(&ours)).unwrap_err();
    let (known, unknown) = (ring(&ours).keys()[0].id(), ring(&theirs).keys()[0].id());
    assert_eq!(
        error.to_string(),
        format!(
            "it is made with key {unknown}, which is not in the keyring ({known}); set OCP_SIGNATURE_VERIFICATION_PK if you trust another key"
        )
    );
    let error = check(&theirs.sign(&claim(&digest())).unwrap(), &Keyring::empty()).unwrap_err();
    assert!(error.to_string().ends_with("not in the keyring, which is empty"), "{error}");
    // With both in the ring, both are.
    let mut both = ring(&ours);
    both.add(theirs.public().as_bytes()).unwrap();
    assert!(check(&theirs.sign(&claim(&digest())).unwrap(), &both).is_ok());
}

#[test]
fn a_key_that_had_expired_when_it_signed_is_not_believed() {
    let key = ReleaseKey::expired().unwrap();
    let error = check(&key.sign(&claim(&digest())).unwrap(), &ring(&key)).unwrap_err();
    assert!(matches!(error, SignatureError::KeyExpired { .. }), "{error}");
    assert!(
        error.to_string().contains(" expired on 2021-01-01, before it was used on "),
        "{error}"
    );
}

#[test]
fn a_good_signature_of_another_image_is_of_no_use() {
    let key = ReleaseKey::generate().unwrap();
    let other = Digest::of(b"another payload");
    let error = check(&key.sign(&claim(&other)).unwrap(), &ring(&key)).unwrap_err();
    assert_eq!(error, SignatureError::WrongDigest { signed: other, wanted: digest() });
    assert_eq!(
        error.to_string(),
        format!("it is a good signature of another image, {other}, not of {}", digest())
    );
}

#[test]
fn no_signature_at_all_is_reported_as_missing() {
    let refused = verify_any([], &digest(), &Keyring::empty(), now()).unwrap_err();
    assert!(refused.reasons.is_empty());
    assert!(refused.to_string().starts_with("there is no signature of sha256:"), "{refused}");
}

#[test]
fn what_is_not_openpgp_is_reported_as_such() {
    let ring = Keyring::red_hat().unwrap();
    let key = lab::releases::ReleaseKey::generate().unwrap();
    let html = b"<!DOCTYPE html><html><body>404 Not Found</body></html>";
    for bytes in [&b""[..], html, b"\x1f\x8b\x08\x00gzip", key.public().as_bytes(), &[0xff; 40]] {
        assert_eq!(check(bytes, &ring).unwrap_err(), SignatureError::NotOpenPgp);
    }
    assert_eq!(
        SignatureError::NotOpenPgp.to_string(),
        "it is not an OpenPGP signature; a proxy or an error page may have responded instead"
    );
    assert_eq!(check(&vec![0x80; 1 << 20], &ring).unwrap_err(), SignatureError::Large);
}

#[test]
fn a_signed_text_that_names_no_image_is_refused() {
    let key = ReleaseKey::generate().unwrap();
    let ring = ring(&key);
    let text = String::from_utf8(claim(&digest())).unwrap();
    for wrong in [
        "hello".to_owned(),
        text.replace("atomic container signature", "cosign container image signature"),
        text.replace("\"type\"", "\"more\":1,\"type\""),
        text.replace("sha256:", "sha512:"),
    ] {
        let error = check(&key.sign(wrong.as_bytes()).unwrap(), &ring).unwrap_err();
        assert!(matches!(error, SignatureError::Document { .. }), "{wrong}: {error}");
    }
}

#[test]
fn one_good_signature_among_bad_ones_is_enough() {
    let (ours, theirs) = (ReleaseKey::generate().unwrap(), ReleaseKey::generate().unwrap());
    let [bad, good] = [&theirs, &ours].map(|key| key.sign(&claim(&digest())).unwrap());
    let (place, verified) =
        verify_any([&b"<html>"[..], &bad, &good], &digest(), &ring(&ours), now()).unwrap();
    assert_eq!((place, verified.digest), (2, digest()));
    let refused = verify_any([&b"<html>"[..], &bad], &digest(), &ring(&ours), now()).unwrap_err();
    let text = refused.to_string();
    assert!(text.contains(": signature-1: it is not an OpenPGP"), "{text}");
    assert!(text.contains("; signature-2: it is made with key"), "{text}");
    let page = &b"<html>"[..];
    let refused = verify_any([page, page, page, &bad], &digest(), &ring(&ours), now()).unwrap_err();
    let text = refused.to_string();
    assert_eq!(text.matches("not an OpenPGP").count(), 1, "{text}");
    assert!(text.contains(": signature-1 to 3: it is not an OpenPGP"), "{text}");
    assert!(text.contains("; signature-4: "), "{text}");
}

#[test]
fn no_flipped_bit_changes_what_is_believed() {
    let key = ReleaseKey::generate().unwrap();
    let ring = ring(&key);
    for whole in
        [key.sign(&claim(&digest())).unwrap(), key.sign_uncompressed(&claim(&digest())).unwrap()]
    {
        let good = check(&whole, &ring).unwrap();
        let mut refused = 0;
        for bit in 0..whole.len() * 8 {
            let mut flipped = whole.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            match check(&flipped, &ring) {
                // Some bits are not signed: a file name, or a hint at the key.
                Ok(verified) => assert_eq!(verified, good, "bit {bit}"),
                Err(_) => refused += 1,
            }
        }
        assert!(refused > whole.len() * 7, "only {refused} of {} bits count", whole.len() * 8);
    }
}
