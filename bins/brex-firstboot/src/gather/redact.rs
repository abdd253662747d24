//! Leaves secrets out of what is collected, line by line: profiles (`psk=…`), documents
//! (`password: …`) and what programs print of them.

/// Keys whose values nobody else may see, as NetworkManager and nmstate call them.
const SECRET: [&str; 16] = [
    "psk",
    "password",
    "private-key-password",
    "phase2-private-key-password",
    "client-cert-password",
    "ca-cert-password",
    "leap-password",
    "pin",
    "wep-key0",
    "wep-key1",
    "wep-key2",
    "wep-key3",
    "mka-cak",
    "secret",
    "secrets",
    "token",
];
const HIDDEN: &str = "<hidden>";

/// The text with secret values replaced. What is no text is kept.
pub(super) fn secrets(bytes: &[u8]) -> Vec<u8> {
    let Ok(text) = std::str::from_utf8(bytes) else { return bytes.to_vec() };
    text.split_inclusive('\n').map(line).collect::<String>().into_bytes()
}

fn line(line: &str) -> String {
    let Some(at) = line.find(['=', ':']) else { return line.to_owned() };
    let key = line[..at].trim().trim_start_matches(['-', '{', ' ']).trim_matches(['"', '\'']);
    // nmcli prints `802-1x.password:`; what comes before the dot is the section.
    let key = key.rsplit('.').next().unwrap_or(key).to_ascii_lowercase();
    let empty = line[at + 1..].trim().is_empty();
    if empty || !SECRET.contains(&key.as_str()) {
        return line.to_owned();
    }
    let end = if line.ends_with('\n') { "\n" } else { "" };
    format!("{}{HIDDEN}{end}", &line[..=at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_of_profiles_documents_and_programs_are_left_out() {
        let text = "[wifi-security]\npsk=hunter2\nkey-mgmt=wpa-psk\n  - password: hunter2\n802-1x.private-key-password:   hunter2\n\"password\": \"hunter2\",\nid=nic0\npassword:\n";
        let shown = String::from_utf8(secrets(text.as_bytes())).unwrap();
        assert!(!shown.contains("hunter2"), "{shown}");
        assert!(shown.contains("key-mgmt=wpa-psk\n") && shown.contains("id=nic0\n"), "{shown}");
        assert_eq!(shown.lines().count(), text.lines().count());
    }

    #[test]
    fn what_is_no_text_is_kept() {
        assert_eq!(secrets(&[0xff, 0xfe]), [0xff, 0xfe]);
    }
}
