//! Trust policies, and the signatures they are applied to.

use std::io;
use std::path::Path;

use oci::{Digest, ImageRef};
use trust::{Name, Policy, Presented, Signature, Subject};

use crate::{text, two_parts};

/// The public key of the key files that a policy names.
const KEY: &str = "\
-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE1bHHk9MEaIENTOc01EFd60ZLb+zT
4kjf4/vMw5vqLiGq8nYFNYE2b8py4tRnP+duNUxMy+CE2lXZjSwmPatsPw==
-----END PUBLIC KEY-----
";

/// A policy, and after a zero byte the payload of a signature. Key files of the policy exist if
/// their name ends in `.pub`.
pub fn policy(data: &[u8]) {
    let (policy, payload) = two_parts(data);
    let Some(policy) = text(policy) else { return };
    let read_key = |path: &Path| match path.extension() {
        Some(extension) if extension == "pub" => Ok(KEY.as_bytes().to_vec()),
        _ => Err(io::ErrorKind::NotFound.into()),
    };
    let policy = match Policy::parse(policy, read_key) {
        Ok(policy) => policy,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let signature = Signature {
        payload: payload.to_vec(),
        signature: "c2lnbmVk".to_owned(),
        bundle: text(payload).map(str::to_owned),
        certificate: text(payload).map(str::to_owned),
        chain: None,
    };
    let digest = Digest::of(b"image");
    let lookaside = vec![payload.to_vec()];
    let root = Subject { digest, signatures: vec![signature], lookaside };
    let instances = vec![Subject::unsigned(digest)];
    let presented = Presented { root, instances, now: jiff::Timestamp::UNIX_EPOCH };
    for image in ["quay.io/a/b:v1", "registry.example.com:5000/x/y/z", "busybox"] {
        let image: ImageRef = image.parse().expect("the image is a reference");
        judge(&policy, Name::Registry(&image), &presented);
        let by_digest = ImageRef { digest: Some(digest), ..image };
        judge(&policy, Name::Registry(&by_digest), &presented);
    }
    judge(&policy, Name::Layout(Path::new("/srv/layout")), &presented);
}

/// No private key signed the payload: a rule that requires a signature rejects the image.
fn judge(policy: &Policy, name: Name<'_>, presented: &Presented) {
    let rule = policy.rule(name);
    let judged = rule.judge(presented);
    if rule.reads_signatures() {
        assert!(judged.is_err(), "an unsigned image was accepted");
    }
    if let Err(refusal) = judged {
        assert!(!refusal.to_string().is_empty());
    }
}
