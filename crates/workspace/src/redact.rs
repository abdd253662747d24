//! Takes credentials out of text that is stored or printed. Pure.

/// The replacement of a credential.
const HIDDEN: &str = "***";

/// A command line without credentials: values of flags that carry some, and
/// `user:password@` in URLs.
pub fn redact_arguments(arguments: &[String]) -> Vec<String> {
    let mut value_is_secret = false;
    let mut redacted = Vec::with_capacity(arguments.len());
    for argument in arguments {
        if std::mem::take(&mut value_is_secret) {
            redacted.push(HIDDEN.to_owned());
            continue;
        }
        match argument.split_once('=') {
            Some((flag, _)) if carries_secret(flag) => redacted.push(format!("{flag}={HIDDEN}")),
            _ => {
                value_is_secret = carries_secret(argument);
                redacted.push(redact_urls(argument));
            }
        }
    }
    redacted
}

/// Whether the value of `flag` is a secret.
fn carries_secret(flag: &str) -> bool {
    let Some(name) = flag.strip_prefix("--") else { return false };
    // `--src-no-creds` takes no value, so what follows it is not a secret.
    let secret = ["creds", "password", "token", "secret"];
    !name.contains("no-creds") && secret.iter().any(|word| name.contains(word))
}

/// `text` with the credentials of every URL in it hidden.
pub fn redact_urls(text: &str) -> String {
    let mut redacted = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("://") {
        let (scheme, tail) = rest.split_at(start + 3);
        redacted.push_str(scheme);
        let url = tail.split(|c: char| c.is_whitespace() || c == '"').next().unwrap_or_default();
        match credentials_length(url) {
            Some(length) => {
                redacted.push_str(HIDDEN);
                rest = &tail[length..];
            }
            None => rest = tail,
        }
    }
    redacted.push_str(rest);
    redacted
}

/// How long the credentials are that `url` (behind its scheme) starts with.
fn credentials_length(url: &str) -> Option<usize> {
    let authority = url.split(['/', '?', '#']).next().unwrap_or_default();
    if let Some(at) = authority.rfind('@') {
        return Some(at);
    }
    // A password with an unescaped slash ends the apparent authority.
    // Then no port follows the colon, and an `@` comes later that is not the
    // one of a digest.
    let (_, port) = authority.rsplit_once(':')?;
    let is_port = port.bytes().all(|byte| byte.is_ascii_digit()) || port.ends_with(']');
    let at = url.match_indices('@').find(|(at, _)| !url[at + 1..].starts_with("sha256:"));
    if is_port { None } else { at.map(|(at, _)| at) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redacted(line: &str) -> String {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        redact_arguments(&words).join(" ")
    }

    #[test]
    fn values_of_credential_flags_are_hidden() {
        for (line, wanted) in [
            ("--src-creds me:x file:///d", "--src-creds *** file:///d"),
            ("--dest-password=a=b -c x", "--dest-password=*** -c x"),
            ("--screds u:p --dcreds=u:p", "--screds *** --dcreds=***"),
            ("--src-registry-token abc --v2", "--src-registry-token *** --v2"),
            ("--src-no-creds file:///d", "--src-no-creds file:///d"),
            ("--src-username me --authfile a.json", "--src-username me --authfile a.json"),
        ] {
            assert_eq!(redacted(line), wanted);
        }
    }

    #[test]
    fn credentials_in_urls_are_hidden_and_nothing_else() {
        for (text, wanted) in [
            ("docker://u:p@reg:5000/ns", "docker://***@reg:5000/ns"),
            ("docker://token@reg/ns", "docker://***@reg/ns"),
            ("docker://u:p/w@reg/ns", "docker://***@reg/ns"),
            ("http://u:p@ss@proxy:3128", "http://***@proxy:3128"),
            ("from https://u:p@a/x to https://b/y", "from https://***@a/x to https://b/y"),
            ("docker://reg:5000/a@sha256:00", "docker://reg:5000/a@sha256:00"),
            ("docker://reg/a:v1@sha256:00", "docker://reg/a:v1@sha256:00"),
            ("docker://[::1]/a@b", "docker://[::1]/a@b"),
            ("quay.io/a/b:v1@sha256:00", "quay.io/a/b:v1@sha256:00"),
            ("https://host/path@2x", "https://host/path@2x"),
            (r#"{"url":"https://host"} mail a@b"#, r#"{"url":"https://host"} mail a@b"#),
        ] {
            assert_eq!(redact_urls(text), wanted);
        }
    }
}
