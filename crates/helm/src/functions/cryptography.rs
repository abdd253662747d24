//! Passwords and symmetric encryption.

use std::cell::RefCell;
use std::rc::Rc;

use aes::Aes256;
use aes::cipher::{BlockDecrypt as _, BlockEncrypt as _, KeyInit as _};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use go_template::{Arguments, Arity, Call, Functions, Value};

use super::Outcome;
use super::encodings::decode_base64;
use super::random::Random;
use super::scrypt::{hmac, scrypt};

const BLOCK: usize = 16;
/// scrypt needs 32 MiB and much time; a chart may call it a few times only.
const DERIVATION_STEPS: u64 = 5_000_000;

pub(super) fn register(functions: &mut Functions, random: &Rc<RefCell<Random>>) {
    let shared = random.clone();
    functions.add("bcrypt", Arity::exactly(1), move |call, values| {
        let password = values.bytes(0)?;
        call.text(bcrypt(&password, &mut shared.borrow_mut()))
    });
    let shared = random.clone();
    functions.add("htpasswd", Arity::exactly(2), move |call, values| {
        let (user, password) = (values.text(0)?, values.bytes(1)?);
        if user.contains(':') {
            return call.text(format!("invalid username: {user}"));
        }
        let hash = bcrypt(&password, &mut shared.borrow_mut());
        call.text(format!("{user}:{hash}"))
    });
    functions.add("derivePassword", Arity::exactly(5), derive_password);
    let shared = random.clone();
    functions.add("encryptAES", Arity::exactly(2), move |call, values| {
        let (password, plain) = (values.bytes(0)?, values.bytes(1)?);
        if plain.is_empty() {
            return Ok("".into());
        }
        let start = shared.borrow_mut().bytes(BLOCK);
        call.text(STANDARD.encode(encrypt(&password, &plain, &start)))
    });
    functions.add("decryptAES", Arity::exactly(2), |_, values| {
        let (password, encoded) = (values.bytes(0)?, values.bytes(1)?);
        if encoded.is_empty() {
            return Ok("".into());
        }
        let bytes = decode_base64(&encoded)
            .map_err(|at| format!("illegal base64 data at input byte {at}"))?;
        match decrypt(&password, &bytes) {
            Some(plain) => Ok(Value::bytes(&plain)),
            None => Err("crypto/cipher: input not full blocks".into()),
        }
    });
}

/// A text of the shape of a bcrypt hash. It does not depend on the password: a real hash takes a
/// tenth of a second, and its salt is random anyway.
fn bcrypt(password: &[u8], random: &mut Random) -> String {
    const ALPHABET: &[u8] = b"./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    if password.len() > 72 {
        return "failed to encrypt string with bcrypt: bcrypt: password length exceeds 72 bytes"
            .to_owned();
    }
    format!("$2a$10${}", random.text(53, ALPHABET))
}

fn cipher(password: &[u8]) -> Aes256 {
    let mut key = [0u8; 32];
    let length = password.len().min(key.len());
    key[..length].copy_from_slice(&password[..length]);
    Aes256::new(&key.into())
}

/// AES-256 in CBC mode with PKCS #7 padding, behind its initialisation vector.
fn encrypt(password: &[u8], plain: &[u8], start: &[u8]) -> Vec<u8> {
    let padding = BLOCK - plain.len() % BLOCK;
    let mut padded = plain.to_vec();
    padded.extend(std::iter::repeat_n(padding as u8, padding));
    let cipher = cipher(password);
    let mut out = start.to_vec();
    for chunk in padded.chunks_exact(BLOCK) {
        let mut block = [0u8; BLOCK];
        for (byte, (plain, previous)) in
            block.iter_mut().zip(chunk.iter().zip(&out[out.len() - BLOCK..]))
        {
            *byte = plain ^ previous;
        }
        let mut block = block.into();
        cipher.encrypt_block(&mut block);
        out.extend_from_slice(&block);
    }
    out
}

fn decrypt(password: &[u8], bytes: &[u8]) -> Option<Vec<u8>> {
    if bytes.len() < 2 * BLOCK || !bytes.len().is_multiple_of(BLOCK) {
        return None;
    }
    let cipher = cipher(password);
    let mut out = Vec::with_capacity(bytes.len());
    for (previous, chunk) in bytes.chunks_exact(BLOCK).zip(bytes[BLOCK..].chunks_exact(BLOCK)) {
        let mut block = *aes::Block::from_slice(chunk);
        cipher.decrypt_block(&mut block);
        out.extend(block.iter().zip(previous).map(|(byte, previous)| byte ^ previous));
    }
    let padding = usize::from(*out.last()?);
    out.truncate(out.len().checked_sub(padding)?);
    Some(out)
}

/// The algorithm of the Master Password application, which Sprig implements.
fn derive_password(call: &mut Call<'_>, values: &[Value]) -> Outcome {
    const SEED: &[u8] = b"com.lyndir.masterpassword";
    let counter = values.int(0)?;
    let (kind, password) = (values.text(1)?, values.bytes(2)?);
    let (user, site) = (values.bytes(3)?, values.bytes(4)?);
    let Ok(counter) = u32::try_from(counter) else {
        return Err("expected unsigned integer".into());
    };
    let Some(templates) = templates(&kind) else {
        return call.text(format!("cannot find password template {kind}"));
    };
    call.budget().spend(DERIVATION_STEPS)?;
    let length = |bytes: &[u8]| (bytes.len() as u32).to_be_bytes();
    let salt = [SEED, &length(&user), &user].concat();
    let key = scrypt(&password, &salt, 15, 2, 64);
    let message = [SEED, &length(&site), &site, &counter.to_be_bytes()].concat();
    let seed = hmac(&key, &message);
    let template = templates[usize::from(seed[0]) % templates.len()];
    let characters = template.bytes().zip(&seed[1..]).map(|(class, number)| {
        let alphabet = alphabet(class);
        char::from(alphabet[usize::from(*number) % alphabet.len()])
    });
    call.text(characters.collect())
}

fn templates(kind: &str) -> Option<&'static [&'static str]> {
    Some(match kind {
        "maximum" => &["anoxxxxxxxxxxxxxxxxx", "axxxxxxxxxxxxxxxxxno"],
        "long" => &[
            "CvcvnoCvcvCvcv",
            "CvcvCvcvnoCvcv",
            "CvcvCvcvCvcvno",
            "CvccnoCvcvCvcv",
            "CvccCvcvnoCvcv",
            "CvccCvcvCvcvno",
            "CvcvnoCvccCvcv",
            "CvcvCvccnoCvcv",
            "CvcvCvccCvcvno",
            "CvcvnoCvcvCvcc",
            "CvcvCvcvnoCvcc",
            "CvcvCvcvCvccno",
            "CvccnoCvccCvcv",
            "CvccCvccnoCvcv",
            "CvccCvccCvcvno",
            "CvcvnoCvccCvcc",
            "CvcvCvccnoCvcc",
            "CvcvCvccCvccno",
            "CvccnoCvcvCvcc",
            "CvccCvcvnoCvcc",
            "CvccCvcvCvccno",
        ],
        "medium" => &["CvcnoCvc", "CvcCvcno"],
        "short" => &["Cvcn"],
        "basic" => &["aaanaaan", "aannaaan", "aaannaaa"],
        "pin" => &["nnnn"],
        _ => return None,
    })
}

fn alphabet(class: u8) -> &'static [u8] {
    match class {
        b'V' => b"AEIOU",
        b'C' => b"BCDFGHJKLMNPQRSTVWXYZ",
        b'v' => b"aeiou",
        b'c' => b"bcdfghjklmnpqrstvwxyz",
        b'A' => b"AEIOUBCDFGHJKLMNPQRSTVWXYZ",
        b'a' => b"AEIOUaeiouBCDFGHJKLMNPQRSTVWXYZbcdfghjklmnpqrstvwxyz",
        b'n' => b"0123456789",
        b'o' => b"@&%?,=[]_:-+*$#!'^~;()/.",
        _ => b"AEIOUaeiouBCDFGHJKLMNPQRSTVWXYZbcdfghjklmnpqrstvwxyz0123456789!@#$%^&*()",
    }
}
