//! Removes secrets from what is collected, in any notation: documents by their structure, profiles by
//! their keys, other text by keys anywhere in a line; and values that are known to be secret wherever
//! they occur.

use std::collections::BTreeSet;

use located_yaml::{Keys, Node, Position, Value, load_all};

pub(crate) const HIDDEN: &str = "<hidden>";
/// Shorter values occur by chance; they are hidden where their key is.
const SHORTEST_VALUE: usize = 5;

/// What a file or an output is, which determines how it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// YAML or JSON.
    Document,
    /// A profile of NetworkManager.
    Keyfile,
    Text,
}

impl Kind {
    fn of(path: &str) -> Self {
        let name = path.rsplit('/').next().unwrap_or(path);
        let ending = name.rsplit('.').next().unwrap_or(name);
        let is_document =
            ["yml", "yaml", "json", "applied"].contains(&ending) || name == "document";
        if is_document {
            Self::Document
        } else if path.contains("/system-connections/") || name.ends_with(".nmconnection") {
            Self::Keyfile
        } else {
            Self::Text
        }
    }
}

/// Secret values of all files.
#[derive(Debug, Default)]
pub struct Secrets(BTreeSet<String>);

impl Secrets {
    /// Adds the secret values of a file.
    pub fn learn(&mut self, path: &str, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        let mut found = Vec::new();
        match Kind::of(path) {
            Kind::Document => {
                for root in load_all(&text, Keys::Exact).iter().filter_map(|it| it.root.as_ref()) {
                    leaves(root, false, &mut found);
                }
            }
            Kind::Keyfile => found.extend(keyfile_secrets(&text).map(Leaf::loose)),
            Kind::Text => {}
        }
        let long = found.into_iter().map(|leaf| leaf.text);
        self.0.extend(long.filter(|text| text.len() >= SHORTEST_VALUE));
    }

    /// The content without secrets. Bytes that are not text are replaced by a note: a secret in them
    /// cannot be found.
    pub fn hide(&self, path: &str, bytes: &[u8]) -> Vec<u8> {
        let Ok(text) = std::str::from_utf8(bytes) else {
            return format!("<not collected: {} bytes that are not text>\n", bytes.len()).into();
        };
        let text = match Kind::of(path) {
            Kind::Document => document(text),
            Kind::Keyfile => keyfile(text),
            Kind::Text => text.split_inclusive('\n').map(line).collect(),
        };
        self.hide_values(text).into_bytes()
    }

    fn hide_values(&self, mut text: String) -> String {
        // Longer ones first: one secret may be part of another.
        let mut values: Vec<&String> = self.0.iter().collect();
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        for value in values {
            if text.contains(value.as_str()) {
                text = text.replace(value.as_str(), HIDDEN);
            }
        }
        text
    }
}

/// Whether the value of a key is secret, by the names that NetworkManager, nmstate and boot loaders
/// use.
fn is_secret(key: &str) -> bool {
    let key = key.trim().trim_matches(['"', '\'']).to_ascii_lowercase().replace('_', "-");
    // nmcli prints `802-1x.password`; the part before the dot is the section.
    let name = key.rsplit('.').next().unwrap_or(&key);
    let parts =
        ["password", "passwd", "passphrase", "secret", "private-key", "privatekey", "shared-key"];
    let names = ["psk", "pin", "token", "mka-cak", "cak", "sharedkey", "presharedkey", "authkey"];
    !name.ends_with("-flags")
        && (parts.iter().any(|part| name.contains(part))
            || names.contains(&name)
            || name.starts_with("wep-key"))
}

/// A secret value in a document.
struct Leaf {
    at: Position,
    text: String,
}

impl Leaf {
    fn loose(text: &str) -> Self {
        Self { at: Position::START, text: text.to_owned() }
    }
}

/// All values below secret keys.
fn leaves(node: &Node, is_hidden: bool, found: &mut Vec<Leaf>) {
    match &node.value {
        Value::Map(entries) => {
            for entry in entries {
                leaves(&entry.value, is_hidden || is_secret(&entry.key), found);
            }
        }
        Value::List(items) => items.iter().for_each(|item| leaves(item, is_hidden, found)),
        Value::Scalar { text, .. } => {
            let is_new = !text.is_empty() && text != HIDDEN;
            if is_hidden && is_new && !node.is_null() {
                found.push(Leaf { at: node.at, text: text.clone() });
            }
        }
    }
}

/// A document with its secret values replaced in place. Where a value is written in a way that cannot
/// be replaced safely, such as a block of lines or an alias, the document is converted to JSON; one that is
/// not YAML and names a secret is not collected.
fn document(text: &str) -> String {
    let loaded = load_all(text, Keys::Exact);
    if loaded.iter().any(|it| it.root.is_none()) {
        let names_secret = text.lines().any(|it| line(it) != it)
            || text
                .split(|c: char| !(c.is_ascii_alphanumeric() || "._-".contains(c)))
                .any(is_secret);
        return match names_secret {
            true => "<not collected: it is not valid YAML and names a secret>\n".to_owned(),
            false => text.to_owned(),
        };
    }
    let roots = || loaded.iter().filter_map(|it| it.root.as_ref());
    let mut found = Vec::new();
    roots().for_each(|root| leaves(root, false, &mut found));
    // Of a key that is given twice, the tree has one value only.
    let is_whole = loaded.iter().all(|it| it.problems.is_empty());
    if let Some(masked) = mask(text, &found).filter(|_| is_whole)
        && is_clean(&masked, &found)
    {
        return comments(&masked);
    }
    let redacted =
        roots().map(|root| serde_json::to_string_pretty(&hidden(root)).unwrap_or_default());
    format!("# shown as JSON, to hide secrets\n{}\n", redacted.collect::<Vec<_>>().join("\n---\n"))
}

/// Hides secrets in comments, which are not part of the tree.
fn comments(text: &str) -> String {
    let hide = |text: &str| match text.find('#') {
        Some(at) => format!("{}{}", &text[..at], line(&text[at..])),
        None => text.to_owned(),
    };
    text.split_inclusive('\n').map(hide).collect()
}

/// Replaces values at their positions. `None` if the notation does not allow it.
fn mask(text: &str, found: &[Leaf]) -> Option<String> {
    let mut places = Vec::new();
    for Leaf { at, text: value } in found {
        let start = offset(text, *at)?;
        let raw = &text[start..];
        let length = match raw.chars().next()? {
            quote @ ('"' | '\'') => quoted(raw, quote)?,
            _ if raw.starts_with(value.as_str()) => value.len(),
            _ => return None,
        };
        places.push((start, start + length));
    }
    places.sort_unstable();
    places.dedup();
    let mut masked = text.to_owned();
    for (start, end) in places.into_iter().rev() {
        masked.replace_range(start..end, &format!("\"{HIDDEN}\""));
    }
    Some(masked)
}

/// Whether a masked document contains no secret, read as a document and as text.
fn is_clean(masked: &str, found: &[Leaf]) -> bool {
    let mut left = Vec::new();
    for loaded in load_all(masked, Keys::Exact) {
        let Some(root) = loaded.root else { return false };
        leaves(&root, false, &mut left);
    }
    left.is_empty()
        && !found.iter().any(|it| it.text.len() >= SHORTEST_VALUE && masked.contains(&it.text))
}

/// The length of a quoted text with its quotes.
fn quoted(raw: &str, quote: char) -> Option<usize> {
    let mut characters = raw.char_indices().skip(1).peekable();
    while let Some((index, character)) = characters.next() {
        if character == '\\' && quote == '"' {
            characters.next();
        } else if character == quote {
            match characters.peek() {
                // Two single quotes are an escaped one.
                Some((_, '\'')) if quote == '\'' => drop(characters.next()),
                _ => return Some(index + character.len_utf8()),
            }
        }
    }
    None
}

/// The byte offset of a line and column in the text.
fn offset(text: &str, at: Position) -> Option<usize> {
    let line = match at.line.checked_sub(1)? {
        0 => 0,
        number => text.match_indices('\n').nth(number - 1)?.0 + 1,
    };
    let column = text[line..].char_indices().nth(at.column.checked_sub(1)?)?.0;
    Some(line + column)
}

fn hidden(node: &Node) -> serde_json::Value {
    match &node.value {
        Value::Map(entries) => {
            let entry = |entry: &located_yaml::Entry| {
                let value = match is_secret(&entry.key) && !entry.value.is_null() {
                    true => HIDDEN.into(),
                    false => hidden(&entry.value),
                };
                (entry.key.clone(), value)
            };
            serde_json::Value::Object(entries.iter().map(entry).collect())
        }
        Value::List(items) => items.iter().map(hidden).collect(),
        Value::Scalar { .. } => node.to_json(),
    }
}

fn keyfile_entry<'a>(section: &mut &'a str, line: &'a str) -> Option<(&'a str, &'a str)> {
    let trimmed = line.trim();
    if let Some(name) = trimmed.strip_prefix('[').and_then(|it| it.strip_suffix(']')) {
        *section = name;
        return None;
    }
    let (key, value) = line.split_once('=')?;
    let is_hidden = *section == "vpn-secrets" || is_secret(key);
    (is_hidden && !value.trim().is_empty()).then_some((key, value.trim()))
}

fn keyfile_secrets(text: &str) -> impl Iterator<Item = &str> {
    let mut section = "";
    text.lines().filter_map(move |line| Some(keyfile_entry(&mut section, line)?.1))
}

fn keyfile(text: &str) -> String {
    let mut section = "";
    let mut redacted = String::new();
    for line in text.split_inclusive('\n') {
        match keyfile_entry(&mut section, line) {
            Some((key, _)) => {
                let end = if line.ends_with('\n') { "\n" } else { "" };
                redacted.push_str(&format!("{key}={HIDDEN}{end}"));
            }
            None => redacted.push_str(line),
        }
    }
    redacted
}

/// A line of any text, with the values of secret keys replaced, wherever they are in it, and without
/// the user of a URL.
fn line(line: &str) -> String {
    let line = &without_url_user(line);
    let mut redacted = String::new();
    let mut rest = line.as_str();
    while let Some((before, key, after)) = next_secret(rest) {
        redacted.push_str(before);
        redacted.push_str(key);
        let value = after.trim_start_matches([' ', '\t']);
        redacted.push_str(&after[..after.len() - value.len()]);
        let length = value_length(value, is_in_braces(&redacted), key.ends_with(':'));
        if length > 0 {
            redacted.push_str(HIDDEN);
        }
        rest = &value[length..];
    }
    redacted.push_str(rest);
    redacted
}

/// The text up to the next secret key, the key with its separator, and the text after it.
fn next_secret(text: &str) -> Option<(&str, &str, &str)> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    for (at, _) in text.match_indices(['=', ':']) {
        let head = text[..at].trim_end_matches([' ', '\t']).trim_end_matches(['"', '\'']);
        let start = head
            .rfind(|c: char| !is_word(c))
            .map_or(0, |i| i + head[i..].chars().next().map_or(1, char::len_utf8));
        if is_secret(&head[start..]) && !head[start..].is_empty() {
            return Some((&text[..start], &text[start..=at], &text[at + 1..]));
        }
    }
    None
}

/// How long the value at the beginning of a text is.
fn value_length(text: &str, is_in_braces: bool, is_line: bool) -> usize {
    if let Some(quote @ ('"' | '\'')) = text.chars().next() {
        return quoted(text, quote).unwrap_or(text.trim_end_matches(['\n', '\r']).len());
    }
    let ends: &[char] = match (is_in_braces, is_line) {
        (true, _) => &[',', '}', ']', '\n', '\r'],
        // `password: several words`
        (false, true) => &['\n', '\r'],
        (false, false) => &[' ', '\t', ',', ';', '\n', '\r'],
    };
    text.find(ends).unwrap_or(text.len())
}

fn is_in_braces(text: &str) -> bool {
    let count = |c: char| text.matches(c).count();
    count('{') > count('}') || count('[') > count(']')
}

fn without_url_user(line: &str) -> String {
    let mut redacted = String::new();
    let mut rest = line;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        redacted.push_str(before);
        let host = after.find(|c: char| c == '/' || c.is_whitespace()).unwrap_or(after.len());
        match after[..host].rfind('@') {
            Some(user) => {
                redacted.push_str(HIDDEN);
                rest = &after[user..];
            }
            None => rest = after,
        }
    }
    redacted.push_str(rest);
    redacted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hide(path: &str, text: &str) -> String {
        let mut secrets = Secrets::default();
        secrets.learn(path, text.as_bytes());
        String::from_utf8(secrets.hide(path, text.as_bytes())).unwrap()
    }

    const DOCUMENT: &str = "/etc/nmstate/openshift/worker-0.yml";

    #[test]
    fn a_secret_of_a_document_is_hidden_in_every_notation_of_yaml() {
        let notations = [
            "password: hunter2",
            "password: 'hunter2'",
            "password: \"hunter2\"",
            "password: \"hun\\x74er2\"",
            "password: |\n    hunter2",
            "password: >-\n    hunter2",
            "\"password\": hunter2",
            "? password\n  : hunter2",
            "password: !!str hunter2",
            "password: &p hunter2\n  other: *p",
            "password:\n    hunter2",
            "password: [hunter2]",
            "password: {a: hunter2}",
            "mka-cak: hunter2",
            "psk: hunter2",
            "preshared_key: hunter2",
            "private-key-password: hunter2",
        ];
        for notation in notations {
            let text = format!("# comment\ninterfaces:\n- name: nic0\n  {notation}\n  mtu: 1500\n");
            let printed = hide(DOCUMENT, &text);
            assert!(
                !printed.contains("hunter2") && printed.contains("nic0"),
                "{notation}:\n{printed}"
            );
            assert!(printed.contains("1500"), "{notation}:\n{printed}");
        }
        for flow in [
            "interfaces: [{name: nic0, 802.1x: {identity: x, password: hunter2}}]",
            "{\"interfaces\":[{\"name\":\"nic0\",\"802.1x\":{\"identity\":\"x\",\"password\":\"hunter2\"}}]}",
            "interfaces: [{name: nic0, 802.1x: {password: 'it''s hunter2', identity: x}}]",
        ] {
            let printed = hide(DOCUMENT, flow);
            assert!(!printed.contains("hunter2") && printed.contains("identity"), "{printed}");
        }
    }

    #[test]
    fn a_document_without_secrets_is_kept_byte_for_byte() {
        let text = "# a comment\r\ninterfaces: [ ]   \n";
        assert_eq!(hide(DOCUMENT, text), text);
        for secret in ["password: ''\npassword: hunter2\n", "# password: hunter2\nmtu: 1\n"] {
            assert!(!hide(DOCUMENT, secret).contains("hunter2"), "{secret}");
        }
        let broken = "interfaces: [\n";
        assert_eq!(hide(DOCUMENT, broken), broken);
        let broken = "interfaces: [\n  password:\nhunter2\n";
        assert!(!hide(DOCUMENT, broken).contains("hunter2"));
        let in_place = hide(DOCUMENT, "# why\npassword: hunter2 # comment\nmtu: 1\n");
        assert_eq!(in_place, "# why\npassword: \"<hidden>\" # comment\nmtu: 1\n");
    }

    #[test]
    fn secrets_of_profiles_are_hidden_by_their_keys() {
        let path = "/etc/NetworkManager/system-connections/wg.nmconnection";
        let text = "[connection]\nid=nic0\n[wifi-security]\nkey-mgmt=wpa-psk\npsk=hunter2\n[wireguard]\nprivate-key=hunter2\nprivate-key-flags=0\n[wireguard-peer.AAA=]\npreshared-key=hunter2\n[vpn-secrets]\nanything=hunter2\n[802-1x]\nidentity=x\npassword=hunter2";
        let printed = hide(path, text);
        assert!(!printed.contains("hunter2"), "{printed}");
        for kept in ["id=nic0\n", "key-mgmt=wpa-psk\n", "private-key-flags=0\n", "identity=x\n"] {
            assert!(printed.contains(kept), "{kept}: {printed}");
        }
        assert_eq!(printed.lines().count(), text.lines().count());
    }

    #[test]
    fn secrets_are_hidden_anywhere_in_a_line_of_text() {
        let lines = [
            "802-1x.private-key-password:   hunter2",
            "Nov 17 nm[1]: {identity: x, password: hunter2, eap: md5}",
            "msg: {\"psk\":\"hunter2\",\"id\":\"x\"}",
            "BOOT_IMAGE=x root=UUID=1 rd.password=hunter2 ip=dhcp",
            "coreos.inst.ignition_url=https://user:hunter2@example.com/x ip=dhcp",
            "url=https://example.com/x?token=hunter2",
            "password = hunter2",
            "'password': 'hunter2'",
            "wep-key0=hunter2",
        ];
        for text in lines {
            let printed = hide("/proc/cmdline", text);
            assert!(!printed.contains("hunter2"), "{text}: {printed}");
        }
        let kept = "BOOT_IMAGE=x rd.neednet=1 ip=192.0.2.5::192.0.2.1:24 fe80::1: x=y\n";
        assert_eq!(hide("/proc/cmdline", kept), kept);
        let printed = hide("/proc/cmdline", "a=1 rd.password=hunter2 ip=dhcp\n");
        assert_eq!(printed, "a=1 rd.password=<hidden> ip=dhcp\n");
    }

    #[test]
    fn a_known_secret_is_hidden_in_logs_that_do_not_name_it() {
        let mut secrets = Secrets::default();
        secrets.learn(DOCUMENT, b"interfaces: [{name: nic0, 802.1x: {password: hunter2}}]");
        let printed = secrets.hide("journal/nmstate.log", b"802.1x of nic0 rejected 'hunter2'\n");
        assert_eq!(printed, b"802.1x of nic0 rejected '<hidden>'\n");
        let printed = secrets.hide("x.log", &[0xff, 0xfe]);
        assert_eq!(printed, b"<not collected: 2 bytes that are not text>\n");
    }
}
