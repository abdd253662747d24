//! `WWW-Authenticate`: which credentials a registry expects.

use url::Url;

/// One scheme that a registry accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Challenge {
    Basic,
    /// A token from `realm`, issued for `service`.
    Bearer {
        realm: Url,
        service: Option<String>,
    },
}

impl Challenge {
    /// The best of the challenges in these headers: a token before a password.
    /// `None` if no scheme is supported.
    pub fn pick<'a>(headers: impl Iterator<Item = &'a str>) -> Option<Self> {
        let found: Vec<Self> = headers.flat_map(parse).collect();
        let bearer = found.iter().position(|one| matches!(one, Self::Bearer { .. }));
        found.into_iter().nth(bearer.unwrap_or(0))
    }
}

/// All challenges of one header. A header may hold several, separated by the
/// same commas as their parameters: a word that no `=` follows starts the next.
fn parse(header: &str) -> Vec<Challenge> {
    let mut found = Vec::new();
    let mut scheme: Option<&str> = None;
    let mut parameters: Vec<(String, String)> = Vec::new();
    let mut rest = header.trim_start_matches([' ', ',', '\t']);
    while !rest.is_empty() {
        let end = rest.find([' ', '\t', '=', ',']).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        let tail = after.trim_start_matches([' ', '\t']);
        match tail.strip_prefix('=') {
            Some(value) if scheme.is_some() && !word.is_empty() => {
                let (value, after) = take_value(value.trim_start_matches([' ', '\t']));
                parameters.push((word.to_ascii_lowercase(), value));
                rest = after;
            }
            // The rest cannot be parsed.
            _ if word.is_empty() => break,
            _ => {
                found.extend(scheme.take().and_then(|scheme| finish(scheme, &parameters)));
                parameters.clear();
                scheme = Some(word);
                rest = after;
            }
        }
        rest = rest.trim_start_matches([' ', ',', '\t']);
    }
    found.extend(scheme.and_then(|scheme| finish(scheme, &parameters)));
    found
}

/// A token or a quoted string, and what follows it.
fn take_value(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([',', ' ', '\t']).unwrap_or(text.len());
        return (text[..end].to_owned(), &text[end..]);
    };
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((place, character)) = characters.next() {
        match character {
            '"' => return (value, &quoted[place + 1..]),
            '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
            other => value.push(other),
        }
    }
    (value, "")
}

fn finish(scheme: &str, parameters: &[(String, String)]) -> Option<Challenge> {
    let parameter =
        |name: &str| parameters.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
    if scheme.eq_ignore_ascii_case("basic") {
        return Some(Challenge::Basic);
    }
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    let realm = Url::parse(&parameter("realm")?).ok()?;
    if !matches!(realm.scheme(), "http" | "https") || !realm.has_host() {
        return None;
    }
    Some(Challenge::Bearer { realm, service: parameter("service") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bearer(realm: &str, service: Option<&str>) -> Option<Challenge> {
        let realm = Url::parse(realm).unwrap();
        Some(Challenge::Bearer { realm, service: service.map(str::to_owned) })
    }

    #[test]
    fn challenges_are_read_as_registries_write_them() {
        let hub = bearer("https://auth.docker.io/token", Some("registry.docker.io"));
        for (header, expected) in [
            (
                r#"Bearer realm="https://auth.docker.io/token",service="registry.docker.io""#,
                hub.clone(),
            ),
            (
                r#"bearer realm="https://auth.docker.io/token", service="registry.docker.io", scope="repository:a/b:pull,push",error="invalid_token""#,
                hub.clone(),
            ),
            (
                r#"Bearer service = registry.docker.io , realm = "https://auth.docker.io/token""#,
                hub,
            ),
            (r#"Basic realm="a, \"b\"""#, Some(Challenge::Basic)),
            ("Basic", Some(Challenge::Basic)),
            (r#"Basic realm="x", Bearer realm="https://a/t""#, bearer("https://a/t", None)),
            (r#"Negotiate, Basic realm="x""#, Some(Challenge::Basic)),
            (r#"Bearer realm="/relative""#, None),
            (r#"Bearer realm="file:///etc/passwd""#, None),
            (r#"Bearer realm="https://a/t"#, bearer("https://a/t", None)),
            ("Negotiate", None),
            ("= , =", None),
            ("", None),
        ] {
            assert_eq!(Challenge::pick(std::iter::once(header)), expected, "{header}");
        }
    }

    #[test]
    fn of_two_headers_the_token_is_preferred() {
        let headers = ["Basic realm=\"x\"", "Bearer realm=\"https://a/t\""];
        assert_eq!(Challenge::pick(headers.into_iter()), bearer("https://a/t", None));
    }
}
