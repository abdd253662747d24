//! Random texts and numbers from a seed.

use std::cell::RefCell;
use std::rc::Rc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use go_template::{Arguments, Arity, Call, FunctionError, Functions, Value};

/// A small generator (SplitMix64). Nothing secret is made with it: rendered documents are read
/// for their images and dropped.
#[derive(Debug)]
pub(super) struct Random {
    state: u64,
}

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    pub(super) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    pub(super) fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }

    pub(super) fn text(&mut self, count: usize, alphabet: &[u8]) -> String {
        (0..count)
            .map(|_| char::from(alphabet[self.below(alphabet.len() as u64) as usize]))
            .collect()
    }
}

const DIGITS: &[u8] = b"0123456789";
const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
const ALPHANUMERIC: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

pub(super) fn register(functions: &mut Functions, random: &Rc<RefCell<Random>>) {
    let printable: Vec<u8> = (b' '..=b'~').collect();
    for (name, alphabet) in [
        ("randAlphaNum", ALPHANUMERIC.to_vec()),
        ("randAlpha", LETTERS.to_vec()),
        ("randNumeric", DIGITS.to_vec()),
        ("randAscii", printable),
    ] {
        let random = random.clone();
        functions.add(name, Arity::exactly(1), move |call, values| {
            let count = count(call, values)?;
            Ok(Value::from(random.borrow_mut().text(count, &alphabet)))
        });
    }
    let shared = random.clone();
    functions.add("randBytes", Arity::exactly(1), move |call, values| {
        if values.int(0)? < 0 {
            return Err("runtime error: makeslice: len out of range".into());
        }
        let count = count(call, values)?;
        let bytes = shared.borrow_mut().bytes(count);
        call.text(STANDARD.encode(bytes))
    });
    let shared = random.clone();
    functions.add("randInt", Arity::exactly(2), move |_, values| {
        let (low, high) = (values.int(0)?, values.int(1)?);
        let range = high.wrapping_sub(low);
        let Some(range) = u64::try_from(range).ok().filter(|range| *range > 0) else {
            return Err("invalid argument to Intn".into());
        };
        Ok(Value::Int(low + shared.borrow_mut().below(range) as i64))
    });
    let shared = random.clone();
    functions.add("uuidv4", Arity::exactly(0), move |call, _| {
        let mut bytes = shared.borrow_mut().bytes(16);
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let digits = hex::encode(bytes);
        let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
        call.text(parts.join("-"))
    });
    let shared = random.clone();
    functions.add("shuffle", Arity::exactly(1), move |call, values| {
        let mut chars: Vec<char> = values.text(0)?.chars().collect();
        let mut random = shared.borrow_mut();
        for last in (1..chars.len()).rev() {
            chars.swap(last, random.below(last as u64 + 1) as usize);
        }
        call.text(chars.into_iter().collect())
    });
}

/// A length, accounted for. Helm returns an empty text for negative ones.
fn count(call: &mut Call<'_>, values: &[Value]) -> Result<usize, FunctionError> {
    let count = usize::try_from(values.int(0)?).unwrap_or(0);
    call.allocate(count)?;
    Ok(count)
}
