//! Base64, base32 and checksums.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use go_template::{Arguments, Arity, Functions, Value};
use sha1::Digest as _;

pub(super) fn register(functions: &mut Functions) {
    functions.add("b64enc", Arity::exactly(1), |call, values| {
        let bytes = values.bytes(0)?;
        call.text(STANDARD.encode(&bytes))
    });
    functions.add("b64dec", Arity::exactly(1), |_, values| {
        Ok(match decode_base64(&values.bytes(0)?) {
            Ok(bytes) => Value::bytes(&bytes),
            Err(at) => format!("illegal base64 data at input byte {at}").into(),
        })
    });
    functions.add("b32enc", Arity::exactly(1), |call, values| {
        let bytes = values.bytes(0)?;
        call.text(encode_base32(&bytes))
    });
    functions.add("b32dec", Arity::exactly(1), |_, values| {
        Ok(match decode_base32(&values.bytes(0)?) {
            Ok(bytes) => Value::bytes(&bytes),
            Err(at) => format!("illegal base32 data at input byte {at}").into(),
        })
    });
    functions.add("sha1sum", Arity::exactly(1), |call, values| {
        let digest = sha1::Sha1::digest(&values.bytes(0)?);
        call.text(hex::encode(digest))
    });
    functions.add("sha256sum", Arity::exactly(1), |call, values| {
        use sha2::Digest as _;
        let digest = sha2::Sha256::digest(&values.bytes(0)?);
        call.text(hex::encode(digest))
    });
    functions.add("sha512sum", Arity::exactly(1), |call, values| {
        use sha2::Digest as _;
        let digest = sha2::Sha512::digest(&values.bytes(0)?);
        call.text(hex::encode(digest))
    });
    functions.add("adler32sum", Arity::exactly(1), |call, values| {
        let sum = adler32(&values.bytes(0)?);
        call.text(sum.to_string())
    });
}

/// Decodes as Go does, which ignores line breaks; otherwise the position of the first bad byte.
pub(super) fn decode_base64(text: &[u8]) -> Result<Vec<u8>, usize> {
    let is_break = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let clean: Vec<u8> = text.iter().copied().filter(|byte| !is_break(byte)).collect();
    STANDARD.decode(&clean).map_err(|error| {
        let in_clean = match error {
            base64::DecodeError::InvalidByte(at, _) => at,
            base64::DecodeError::InvalidLastSymbol { offset, .. } => offset,
            _ => clean.len() / 4 * 4,
        };
        // Positions count the breaks that were left out.
        let mut kept = text.iter().enumerate().filter(|(_, byte)| !is_break(byte));
        kept.nth(in_clean).map_or(text.len(), |(at, _)| at)
    })
}

const BASE32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

fn encode_base32(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(5) * 8);
    for chunk in bytes.chunks(5) {
        let mut block = [0u8; 5];
        block[..chunk.len()].copy_from_slice(chunk);
        let number = block.iter().fold(0u64, |number, byte| number << 8 | u64::from(*byte));
        let digits = (chunk.len() * 8).div_ceil(5);
        for index in 0..8 {
            let digit = (number >> (35 - 5 * index)) & 31;
            out.push(if index < digits { char::from(BASE32[digit as usize]) } else { '=' });
        }
    }
    out
}

fn decode_base32(text: &[u8]) -> Result<Vec<u8>, usize> {
    let clean: Vec<u8> =
        text.iter().copied().filter(|byte| !matches!(byte, b'\r' | b'\n')).collect();
    let padding = clean.iter().rev().take_while(|byte| **byte == b'=').count();
    let digits = &clean[..clean.len() - padding];
    if !clean.len().is_multiple_of(8) || !matches!(padding, 0 | 1 | 3 | 4 | 6) {
        let bad = digits.iter().position(|byte| !BASE32.contains(byte));
        return Err(bad.unwrap_or(digits.len()));
    }
    let mut out = Vec::with_capacity(digits.len() * 5 / 8);
    let (mut buffer, mut bits) = (0u32, 0);
    for (at, byte) in digits.iter().enumerate() {
        let digit = BASE32.iter().position(|known| known == byte).ok_or(at)?;
        buffer = (buffer << 5 | digit as u32) & 0xfff;
        bits += 5;
        if bits >= 8 {
            bits -= 8;
            out.push((buffer >> bits) as u8);
        }
    }
    Ok(out)
}

fn adler32(bytes: &[u8]) -> u32 {
    let (mut low, mut high) = (1u32, 0u32);
    for byte in bytes {
        low = (low + u32::from(*byte)) % 65521;
        high = (high + low) % 65521;
    }
    high << 16 | low
}
