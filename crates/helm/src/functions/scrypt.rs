//! The key derivation functions behind `derivePassword`: HMAC-SHA-256, PBKDF2 and scrypt
//! (RFC 2104, RFC 8018, RFC 7914).

use sha2::{Digest as _, Sha256};

/// HMAC-SHA-256.
pub(super) fn hmac(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut block = [0u8; 64];
    if key.len() > block.len() {
        block[..32].copy_from_slice(&Sha256::digest(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let inner = Sha256::new().chain_update(block.map(|byte| byte ^ 0x36)).chain_update(message);
    let outer = Sha256::new().chain_update(block.map(|byte| byte ^ 0x5c));
    outer.chain_update(inner.finalize()).finalize().into()
}

/// PBKDF2 with one iteration, which is all that scrypt uses.
fn pbkdf2(password: &[u8], salt: &[u8], length: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(length + 32);
    let mut index = 1u32;
    while out.len() < length {
        out.extend_from_slice(&hmac(password, &[salt, &index.to_be_bytes()].concat()));
        index += 1;
    }
    out.truncate(length);
    out
}

const R: usize = 8;
const WORDS: usize = 32 * R;

/// scrypt with N = 2^`cost`, r = 8 and `parallel` lanes.
pub(super) fn scrypt(
    password: &[u8],
    salt: &[u8],
    cost: u32,
    parallel: usize,
    length: usize,
) -> Vec<u8> {
    let mut blocks = pbkdf2(password, salt, parallel * 128 * R);
    for lane in blocks.chunks_mut(128 * R) {
        let mut words: Vec<u32> = lane
            .chunks_exact(4)
            .map(|bytes| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
            .collect();
        mix(&mut words, 1 << cost);
        for (bytes, word) in lane.chunks_exact_mut(4).zip(&words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
    }
    pbkdf2(password, &blocks, length)
}

fn mix(words: &mut Vec<u32>, count: usize) {
    let mut table = Vec::with_capacity(count * WORDS);
    for _ in 0..count {
        table.extend_from_slice(words);
        *words = block_mix(words);
    }
    for _ in 0..count {
        let index = words[WORDS - 16] as usize & (count - 1);
        for (word, stored) in words.iter_mut().zip(&table[index * WORDS..]) {
            *word ^= stored;
        }
        *words = block_mix(words);
    }
}

fn block_mix(words: &[u32]) -> Vec<u32> {
    let mut x = [0u32; 16];
    x.copy_from_slice(&words[WORDS - 16..]);
    let mut out = vec![0; WORDS];
    for (index, block) in words.chunks_exact(16).enumerate() {
        for (word, other) in x.iter_mut().zip(block) {
            *word ^= other;
        }
        salsa(&mut x);
        // Even blocks go to the first half, odd ones to the second.
        let place = (index / 2 + (index % 2) * R) * 16;
        out[place..place + 16].copy_from_slice(&x);
    }
    out
}

/// Salsa20/8.
fn salsa(block: &mut [u32; 16]) {
    let mut x = *block;
    let quarter = |x: &mut [u32; 16], a: usize, b: usize, c: usize, d: usize| {
        x[b] ^= x[a].wrapping_add(x[d]).rotate_left(7);
        x[c] ^= x[b].wrapping_add(x[a]).rotate_left(9);
        x[d] ^= x[c].wrapping_add(x[b]).rotate_left(13);
        x[a] ^= x[d].wrapping_add(x[c]).rotate_left(18);
    };
    for _ in 0..4 {
        quarter(&mut x, 0, 4, 8, 12);
        quarter(&mut x, 5, 9, 13, 1);
        quarter(&mut x, 10, 14, 2, 6);
        quarter(&mut x, 15, 3, 7, 11);
        quarter(&mut x, 0, 1, 2, 3);
        quarter(&mut x, 5, 6, 7, 4);
        quarter(&mut x, 10, 11, 8, 9);
        quarter(&mut x, 15, 12, 13, 14);
    }
    for (word, mixed) in block.iter_mut().zip(x) {
        *word = word.wrapping_add(mixed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The second example of RFC 7914, section 12.
    #[test]
    fn scrypt_gives_the_result_of_the_specification() {
        let key = scrypt(b"password", b"NaCl", 10, 16, 64);
        assert!(hex::encode(key).starts_with("fdbabe1c9d3472007856e7190d01e9fe7c6ad7cbc8237830"));
    }
}
