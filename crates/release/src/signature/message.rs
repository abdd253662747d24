//! An OpenPGP message taken apart: the signed text and its signatures.

use std::io::{BufRead, Read};

use pgp::composed::PacketBodyReader;
use pgp::packet::{Packet, PacketHeader, Signature};
use pgp::types::Tag;

use super::SignatureError;
use super::partial;

/// A thousand times what a release signature has inside.
const MAX_TEXT_BYTES: u64 = 1 << 20;

#[derive(Debug)]
pub(super) struct Message {
    pub(super) text: Vec<u8>,
    /// Never empty.
    pub(super) signatures: Vec<Signature>,
}

pub(super) fn read(bytes: &[u8]) -> Result<Message, SignatureError> {
    if !bytes.first().is_some_and(|first| could_start(*first)) {
        return Err(SignatureError::NotOpenPgp);
    }
    let mut found = Found::default();
    let bytes = partial::joined(bytes).map_err(|_| SignatureError::Truncated)?;
    let mut rest = &bytes[..];
    let mut is_first = true;
    while !rest.is_empty() {
        let Ok(header) = PacketHeader::try_from_reader(&mut rest) else {
            return Err(broken(is_first));
        };
        is_first = false;
        let mut body =
            PacketBodyReader::new(header, &mut rest).map_err(|_| SignatureError::Malformed)?;
        match Packet::from_reader(header, &mut body) {
            // Its length may be open, so that only the compressed data shows that the rest is missing.
            Ok(Packet::CompressedData(compressed)) => {
                let inflated = compressed.decompress().map_err(|_| SignatureError::Truncated)?;
                found.take_all(inflated.take(MAX_TEXT_BYTES))?;
            }
            Ok(packet) => found.take(packet)?,
            Err(_) => return Err(SignatureError::Malformed),
        }
        drain(&mut body)?;
    }
    found.finish()
}

/// Whether a signed message can start with this byte: the header of compressed data, a signature
/// or its announcement, literal data or a marker. Every packet starts with the highest bit set; no
/// text does.
fn could_start(first: u8) -> bool {
    let tag = match first & 0xc0 {
        0xc0 => Tag::from(first & 0x3f),
        0x80 => Tag::from((first >> 2) & 0x0f),
        _ => return false,
    };
    matches!(
        tag,
        Tag::CompressedData
            | Tag::OnePassSignature
            | Tag::Signature
            | Tag::LiteralData
            | Tag::Marker
    )
}

fn broken(is_first: bool) -> SignatureError {
    if is_first { SignatureError::NotOpenPgp } else { SignatureError::Malformed }
}

fn drain(body: &mut impl BufRead) -> Result<(), SignatureError> {
    std::io::copy(body, &mut std::io::sink()).map_err(|_| SignatureError::Truncated)?;
    Ok(())
}

/// What was found so far.
#[derive(Debug, Default)]
struct Found {
    announced: usize,
    text: Option<Vec<u8>>,
    signatures: Vec<Signature>,
}

impl Found {
    /// The packets inside a compressed one. A second layer of compression has
    /// no use but to hide something.
    fn take_all(&mut self, inflated: impl Read) -> Result<(), SignatureError> {
        let mut inner = Vec::new();
        let mut inflated = inflated;
        inflated.read_to_end(&mut inner).map_err(|_| SignatureError::Truncated)?;
        let inner = partial::joined(&inner).map_err(|_| SignatureError::Truncated)?;
        let mut rest = &inner[..];
        while !rest.is_empty() {
            let header =
                PacketHeader::try_from_reader(&mut rest).map_err(|_| SignatureError::Malformed)?;
            let mut body =
                PacketBodyReader::new(header, &mut rest).map_err(|_| SignatureError::Malformed)?;
            let packet =
                Packet::from_reader(header, &mut body).map_err(|_| SignatureError::Malformed)?;
            self.take(packet)?;
            drain(&mut body)?;
        }
        Ok(())
    }

    fn take(&mut self, packet: Packet) -> Result<(), SignatureError> {
        match packet {
            Packet::OnePassSignature(_) => self.announced += 1,
            Packet::LiteralData(_) if self.text.is_some() => {
                return Err(SignatureError::NotSigned("it has two texts"));
            }
            Packet::LiteralData(literal) => self.text = Some(literal.data().to_vec()),
            Packet::Signature(signature) => self.signatures.push(signature),
            Packet::Marker(_) | Packet::Padding(_) => {}
            _ => return Err(SignatureError::NotSigned("it has parts that no signature has")),
        }
        Ok(())
    }

    fn finish(self) -> Result<Message, SignatureError> {
        match (self.text, self.signatures) {
            (Some(text), signatures) if !signatures.is_empty() => Ok(Message { text, signatures }),
            (None, signatures) if !signatures.is_empty() => {
                Err(SignatureError::NotSigned("the text that was signed is not in it"))
            }
            _ if self.announced > 0 => Err(SignatureError::Truncated),
            (Some(_), _) => Err(SignatureError::NotSigned("the text in it is not signed")),
            (None, _) => Err(SignatureError::Truncated),
        }
    }
}
