//! Parts of URLs, split and joined as Go's `net/url` does.

use std::collections::BTreeMap;

use go_template::{Arguments, Arity, FunctionError, Functions, Map, Value};

use super::Outcome;

pub(super) fn register(functions: &mut Functions) {
    functions.add("urlParse", Arity::exactly(1), |_, values| parse(&values.text(0)?));
    functions.add("urlJoin", Arity::exactly(1), |call, values| {
        let joined = join(&values.map(0)?.unwrap_or_default())?;
        call.text(joined)
    });
}

fn parse(url: &str) -> Outcome {
    let bad = |reason: &str| -> FunctionError {
        format!("unable to parse url: parse {url:?}: {reason}").into()
    };
    if url.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
        return Err(bad("net/url: invalid control character in URL"));
    }
    let (rest, fragment) = url.split_once('#').unwrap_or((url, ""));
    let (scheme, rest) = scheme(rest).ok_or_else(|| bad("missing protocol scheme"))?;
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let mut parts: BTreeMap<String, Value> = BTreeMap::new();
    let mut set = |key: &str, text: &str| parts.insert(key.to_owned(), Value::string(text));
    set("scheme", &scheme.to_ascii_lowercase());
    set("query", query);
    let unescaped = |text: &str| unescape(text).ok_or_else(|| bad("invalid URL escape"));
    set("fragment", &unescaped(fragment)?);
    for key in ["opaque", "userinfo", "host", "hostname", "path"] {
        set(key, "");
    }
    if !scheme.is_empty() && !rest.starts_with('/') && !rest.is_empty() {
        set("opaque", rest);
        return Ok(Value::map(parts));
    }
    let mut path = rest;
    let triple = rest.starts_with("///");
    if let Some(authority) = rest.strip_prefix("//").filter(|_| !triple || !scheme.is_empty()) {
        let end = authority.find('/').unwrap_or(authority.len());
        path = &authority[end..];
        let authority = &authority[..end];
        let (user, host) = authority.rsplit_once('@').map_or(("", authority), |(u, h)| (u, h));
        let host = unescaped(host)?;
        if host.contains(' ') {
            return Err(bad("invalid character \" \" in host name"));
        }
        let hostname = hostname(&host).ok_or_else(|| bad("invalid port after host"))?;
        set("userinfo", user);
        set("host", &host);
        set("hostname", hostname);
    } else if scheme.is_empty() && path.split('/').next().is_some_and(|first| first.contains(':')) {
        return Err(bad("first path segment in URL cannot contain colon"));
    }
    set("path", &unescaped(path)?);
    Ok(Value::map(parts))
}

/// The scheme, empty if there is none, and what follows; `None` for a colon at the start.
fn scheme(url: &str) -> Option<(&str, &str)> {
    for (at, c) in url.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if at > 0 => {}
            ':' if at > 0 => return Some((&url[..at], &url[at + 1..])),
            ':' => return None,
            _ => break,
        }
    }
    Some(("", url))
}

/// The host without its port and brackets; `None` if the port is not a number.
fn hostname(host: &str) -> Option<&str> {
    let (name, port) = match host.strip_prefix('[') {
        Some(inner) => inner.split_once(']')?,
        None => match host.rfind(':') {
            Some(at) => (&host[..at], &host[at..]),
            None => (host, ""),
        },
    };
    let digits = port.strip_prefix(':').unwrap_or(port);
    (digits.bytes().all(|byte| byte.is_ascii_digit())).then_some(name)
}

fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        if *first == b'%' {
            let digits = std::str::from_utf8(tail.get(..2)?).ok()?;
            if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                return None;
            }
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &tail[2..];
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn join(parts: &Map) -> Result<String, FunctionError> {
    let part = |key: &str| -> Result<String, FunctionError> {
        match parts.borrow().get(key) {
            None => Ok(String::new()),
            Some(Value::String(text)) => Ok(text.to_string()),
            Some(other) => Err(format!(
                "unable to parse {key} key, must be of type string, but {} found",
                other.kind().name()
            )
            .into()),
        }
    };
    let (scheme, user, host) = (part("scheme")?, part("userinfo")?, part("host")?);
    let (path, query) = (part("path")?, part("query")?);
    let (opaque, fragment) = (part("opaque")?, part("fragment")?);
    let mut url = String::new();
    if !scheme.is_empty() {
        url.push_str(&format!("{scheme}:"));
    }
    if opaque.is_empty() {
        if !scheme.is_empty() || !host.is_empty() || !user.is_empty() {
            if !host.is_empty() || !path.is_empty() || !user.is_empty() {
                url.push_str("//");
            }
            if !user.is_empty() {
                url.push_str(&format!("{}@", escape(&user, b"$&+,/;=:")));
            }
            url.push_str(&host);
        }
        let path = escape(&path, b"$&+,/:;=@");
        if !path.is_empty() && !path.starts_with('/') && !host.is_empty() {
            url.push('/');
        }
        if url.is_empty() && path.split('/').next().is_some_and(|first| first.contains(':')) {
            url.push_str("./");
        }
        url.push_str(&path);
    } else {
        url.push_str(&opaque);
    }
    if !query.is_empty() {
        url.push_str(&format!("?{query}"));
    }
    if !fragment.is_empty() {
        url.push_str(&format!("#{}", escape(&fragment, b"$&+,/:;=?@!()*")));
    }
    Ok(url)
}

fn escape(text: &str, also_plain: &[u8]) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) || also_plain.contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}
