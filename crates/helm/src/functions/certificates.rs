//! Keys and certificates. They have the shape of real ones, PEM around DER, but hold random bytes:
//! rendered documents are never applied, and real keys would take most of the time of a chart.

use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use go_template::{Arguments, Arity, FunctionError, Functions, Kind, Object, Value};

use super::Outcome;
use super::encodings::decode_base64;
use super::random::Random;

/// Sizes of typical certificates and keys.
const CERTIFICATE_BYTES: usize = 800;
const KEY_BYTES: usize = 1190;

pub(super) fn register(functions: &mut Functions, random: &Rc<RefCell<Random>>) {
    let shared = random.clone();
    functions.add("genPrivateKey", Arity::exactly(1), move |call, values| {
        let kind = values.text(0)?;
        let (label, size) = match &*kind {
            "" | "rsa" => ("RSA PRIVATE KEY", 2349),
            "dsa" => ("DSA PRIVATE KEY", 834),
            "ecdsa" => ("EC PRIVATE KEY", 121),
            "ed25519" => ("PRIVATE KEY", 48),
            other => return call.text(format!("Unknown type {other}")),
        };
        call.text(pem(label, &mut shared.borrow_mut(), size))
    });
    // Arguments: name, [addresses, names], days, [signer], [key].
    for (name, arity, alternatives, signer, key) in [
        ("genCA", 2, false, false, false),
        ("genCAWithKey", 3, false, false, true),
        ("genSelfSignedCert", 4, true, false, false),
        ("genSelfSignedCertWithKey", 5, true, false, true),
        ("genSignedCert", 5, true, true, false),
        ("genSignedCertWithKey", 6, true, true, true),
    ] {
        let random = random.clone();
        functions.add(name, Arity::exactly(arity), move |call, values| {
            call.allocate(CERTIFICATE_BYTES + KEY_BYTES)?;
            values.text(0)?;
            values.int(if alternatives { 3 } else { 1 })?;
            let given = if key { Some(values.text(arity - 1)?) } else { None };
            if let Some(given) = &given {
                check_key(given).map_err(|error| format!("parsing private key: {error}"))?;
            }
            if signer {
                check_signer(&values.any(4))?;
            }
            if alternatives {
                check_texts(&values.any(1), "parsing ip", |text| text.parse::<IpAddr>().is_ok())?;
                check_texts(&values.any(2), "processing alternate dns name", |_| true)?;
            }
            let mut random = random.borrow_mut();
            Ok(Value::object(Certificate {
                certificate: pem("CERTIFICATE", &mut random, CERTIFICATE_BYTES),
                key: match given {
                    Some(given) => given.to_string(),
                    None => pem("RSA PRIVATE KEY", &mut random, KEY_BYTES),
                },
            }))
        });
    }
    functions.add("buildCustomCert", Arity::exactly(2), |_, values| {
        custom(&values.bytes(0)?, &values.bytes(1)?)
    });
}

fn custom(certificate: &[u8], key: &[u8]) -> Outcome {
    let decode = |text: &[u8], what: &str| {
        decode_base64(text)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .map_err(|_| FunctionError::from(format!("unable to decode base64 {what}")))
    };
    let certificate = decode(certificate, "certificate")?;
    let key = decode(key, "private key")?;
    let Some((_, der)) = decode_pem(&certificate) else {
        return Err("unable to decode certificate".into());
    };
    if !is_der_sequence(&der) {
        return Err("error parsing certificate: decodedCert.Bytes: malformed certificate".into());
    }
    check_key(&key).map_err(|error| format!("error parsing private key: {error}"))?;
    Ok(Value::object(Certificate { certificate, key }))
}

fn check_texts(
    value: &Value,
    purpose: &str,
    is_valid: impl Fn(&str) -> bool,
) -> Result<(), FunctionError> {
    if value.is_nil() {
        return Ok(());
    }
    let Value::List(items) = value else {
        let kind = value.type_name();
        let message = format!("wrong type for value; expected []interface {{}}; got {kind}");
        return Err(FunctionError::Argument(message));
    };
    for item in items.iter() {
        match item.as_str() {
            Some(text) if is_valid(text) => {}
            Some(text) => return Err(format!("error {purpose}: {text}").into()),
            None => return Err(format!("error {purpose}: not a string").into()),
        }
    }
    Ok(())
}

fn check_signer(value: &Value) -> Result<(), FunctionError> {
    let Value::Object(object) = value else {
        return Err(FunctionError::Argument("expected sprig.certificate".to_owned()));
    };
    let field = |name: &str| {
        object.field(name).and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
    };
    if object.type_name() != "sprig.certificate" {
        return Err(FunctionError::Argument("expected sprig.certificate".to_owned()));
    }
    if decode_pem(&field("Cert")).is_none() {
        return Err("unable to decode certificate".into());
    }
    Ok(check_key(&field("Key")).map_err(|error| format!("error parsing private key: {error}"))?)
}

fn check_key(text: &str) -> Result<(), String> {
    let (label, der) = decode_pem(text).ok_or("no PEM data in input")?;
    if label != "PRIVATE KEY" && !label.ends_with(" PRIVATE KEY") {
        return Err(format!("no private key data in PEM block of type {label}"));
    }
    if !matches!(label.strip_suffix("PRIVATE KEY"), Some("" | "RSA " | "EC " | "DSA ")) {
        return Err(format!("invalid private key type {label}"));
    }
    if is_der_sequence(&der) { Ok(()) } else { Err("malformed private key".to_owned()) }
}

/// A DER sequence of random content, in PEM.
fn pem(label: &str, random: &mut Random, size: usize) -> String {
    let content = random.bytes(size - 8);
    let mut inner = vec![0x04, 0x82];
    inner.extend((content.len() as u16).to_be_bytes());
    inner.extend(content);
    let mut der = vec![0x30, 0x82];
    der.extend((inner.len() as u16).to_be_bytes());
    der.extend(inner);
    let encoded = STANDARD.encode(der);
    let mut out = format!("-----BEGIN {label}-----\n");
    for line in encoded.as_bytes().chunks(64) {
        out.push_str(&String::from_utf8_lossy(line));
        out.push('\n');
    }
    out.push_str(&format!("-----END {label}-----\n"));
    out
}

fn decode_pem(text: &str) -> Option<(String, Vec<u8>)> {
    let (_, rest) = text.split_once("-----BEGIN ")?;
    let (label, rest) = rest.split_once("-----")?;
    let (body, _) = rest.split_once(&format!("-----END {label}-----"))?;
    let body: Vec<u8> = body.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    Some((label.to_owned(), decode_base64(&body).ok()?))
}

fn is_der_sequence(der: &[u8]) -> bool {
    match der {
        [0x30, length, rest @ ..] if *length < 0x80 => rest.len() == usize::from(*length),
        [0x30, 0x81, length, rest @ ..] => rest.len() == usize::from(*length),
        [0x30, 0x82, high, low, rest @ ..] => {
            rest.len() == usize::from(u16::from_be_bytes([*high, *low]))
        }
        _ => false,
    }
}

/// What the functions return: a struct with the fields `Cert` and `Key`.
struct Certificate {
    certificate: String,
    key: String,
}

impl Object for Certificate {
    fn type_name(&self) -> String {
        "sprig.certificate".to_owned()
    }

    fn kind(&self) -> Kind {
        Kind::Struct
    }

    fn field(&self, name: &str) -> Option<Value> {
        match name {
            "Cert" => Some(Value::string(&self.certificate)),
            "Key" => Some(Value::string(&self.key)),
            _ => None,
        }
    }

    fn plain(&self) -> Value {
        let fields =
            ["Cert", "Key"].map(|name| (name.to_owned(), self.field(name).unwrap_or_default()));
        Value::map(fields.into())
    }

    fn text(&self) -> Option<String> {
        Some(format!("{{{} {}}}", self.certificate, self.key))
    }
}
