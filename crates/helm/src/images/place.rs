//! The line of a template that wrote a line of a rendered file, and the values that it used.
//!
//! The renderer notes which text or action wrote each piece of a file, and which values it read. Of
//! those, the ones count whose text is a part of the image. Where that was not noted, the line is
//! found again by its text outside of actions: `image: "{{ .Values.image.repository }}:v1"` can have
//! made `image: "quay.io/web:v1"`, but not `name: web`. Where several lines can have made it, none is
//! reported.

use go_template::{Piece, Reads};

use crate::rendering::TextSource;

/// What is known about a line of a rendered file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TemplatePlace {
    /// The line of the template, counted from 1.
    pub line: Option<usize>,
    /// The values that it uses, without `.Values.`.
    pub values: Vec<String>,
}

/// Finds where the image on `rendered_line` of `rendered` came from, by what the renderer noted.
pub fn traced(
    template: &str,
    rendered: &str,
    rendered_line: usize,
    image: &str,
    source: &TextSource,
) -> Option<TemplatePlace> {
    let (start, line) = line_at(rendered, rendered_line)?;
    let at = line.find(image).filter(|_| !image.is_empty());
    let range = match at {
        Some(at) => start + at..start + at + image.len(),
        // Quoted differently: the whole line counts.
        None => start..start + line.len(),
    };
    let first = source.pieces.partition_point(|piece| piece.output.end <= range.start);
    let pieces = source.pieces[first..].iter();
    let pieces: Vec<&Piece> = pieces.take_while(|p| p.output.start < range.end).collect();
    let action = pieces.iter().find(|piece| !piece.is_text);
    // The text of an image that is written out, or the action that writes the first part of it.
    let (at, inside) = match (action, pieces.first()) {
        (Some(action), _) => (action.at, 0),
        (None, Some(text)) => (text.at, range.start - text.output.start),
        (None, None) => return None,
    };
    let before = template.get(..at + inside)?;
    let mut values: Vec<String> = Vec::new();
    for piece in &pieces {
        values.extend(parts_of(&piece.reads, image));
    }
    if action.is_some() {
        values.extend(parts_of(&source.assigned, image));
    }
    if values.is_empty() {
        // A whole object, such as a list of containers.
        let whole = pieces.iter().flat_map(|piece| &piece.reads).filter(|(_, t)| t.is_none());
        let whole: Vec<&String> = whole.map(|(path, _)| path).collect();
        values.extend(
            whole.iter().filter(|path| !has_longer(path, &whole)).take(3).map(|p| (*p).clone()),
        );
    }
    values.sort();
    values.dedup();
    Some(TemplatePlace { line: Some(1 + before.matches('\n').count()), values })
}

/// Where a line starts, and its text.
fn line_at(text: &str, number: usize) -> Option<(usize, &str)> {
    let mut lines = text.split_inclusive('\n');
    let mut start = 0;
    for _ in 1..number {
        start += lines.next()?.len();
    }
    Some((start, lines.next()?))
}

/// The values whose text is a part of an image: its registry, a path, the tag or the digest.
fn parts_of<'r>(reads: &'r Reads, image: &'r str) -> impl Iterator<Item = String> + 'r {
    let is_part = move |text: &str| {
        let is_end = |rest: &str| rest.is_empty() || rest.starts_with(['/', ':', '@']);
        image.match_indices(text).any(|(at, _)| {
            let starts = at == 0 || image[..at].ends_with(['/', ':', '@', 'v']);
            !text.is_empty() && starts && is_end(&image[at + text.len()..])
        })
    };
    let parts = reads.iter().filter(move |(_, text)| text.as_deref().is_some_and(is_part));
    parts.map(|(path, _)| path.clone())
}

fn has_longer(path: &str, all: &[&String]) -> bool {
    all.iter()
        .any(|other| other.strip_prefix(path).is_some_and(|rest| rest.starts_with(['.', '['])))
}

/// Finds the line of `template` that made `rendered_line` of `rendered`.
pub fn place(template: &str, rendered: &str, rendered_line: usize) -> TemplatePlace {
    let Some(made) = rendered.lines().nth(rendered_line.saturating_sub(1)) else {
        return TemplatePlace::default();
    };
    let key = key_of(made);
    let fits = |line: &&(usize, &str)| key_of(line.1) == key && can_make(line.1, made);
    let lines: Vec<(usize, &str)> = template.lines().enumerate().collect();
    let candidates: Vec<&(usize, &str)> = lines.iter().filter(fits).collect();
    let chosen = match candidates.as_slice() {
        [] => return TemplatePlace::default(),
        [single] => single,
        several => {
            // Lines of the same shape keep their order, if none was left out or repeated.
            let alike: Vec<usize> = rendered
                .lines()
                .enumerate()
                .filter(|(_, line)| {
                    several.iter().any(|(_, from)| key_of(line) == key && can_make(from, line))
                })
                .map(|(at, _)| at + 1)
                .collect();
            match alike.iter().position(|line| *line == rendered_line) {
                Some(at) if alike.len() == several.len() => several[at],
                _ => return TemplatePlace::default(),
            }
        }
    };
    TemplatePlace { line: Some(chosen.0 + 1), values: values_in(chosen.1) }
}

/// The paths below `.Values` that a piece of a template uses, each once.
pub(crate) fn values_in(template: &str) -> Vec<String> {
    let mut values: Vec<String> = Vec::new();
    for (at, _) in template.match_indices(".Values.") {
        let rest = &template[at + ".Values.".len()..];
        let end = rest.find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '.')));
        let path = rest[..end.unwrap_or(rest.len())].trim_end_matches('.');
        if !path.is_empty() && !values.iter().any(|known| known == path) {
            values.push(path.to_owned());
        }
    }
    values
}

/// The key of a line of YAML: `image` of `- image: x`.
fn key_of(line: &str) -> Option<&str> {
    let line = line.trim_start().trim_start_matches("- ").trim_start();
    let (key, _) = line.split_once(':')?;
    (!key.contains("{{")).then_some(key.trim_matches(['"', '\'']))
}

/// Whether the text of a template's line outside of actions occurs in `made`, in order.
fn can_make(template: &str, made: &str) -> bool {
    let (literals, is_open) = literals(template.trim());
    let (first, rest) = match literals.split_first() {
        Some((first, rest)) if !rest.is_empty() || is_open => (*first, rest),
        _ => return template.trim() == made.trim(),
    };
    let Some(mut left) = made.trim().strip_prefix(first) else { return false };
    for (at, literal) in rest.iter().enumerate() {
        let is_last = at + 1 == rest.len() && !is_open;
        let found = if is_last { left.ends_with(literal).then_some(0) } else { left.find(literal) };
        let Some(start) = found else { return false };
        if !is_last {
            left = &left[start + literal.len()..];
        }
    }
    true
}

/// The text around the actions of a line, and whether its last action continues in the next line.
fn literals(line: &str) -> (Vec<&str>, bool) {
    let (mut literals, mut rest) = (Vec::new(), line);
    while let Some(start) = rest.find("{{") {
        literals.push(&rest[..start]);
        let Some(end) = rest[start..].find("}}") else { return (literals, true) };
        rest = &rest[start + end + 2..];
    }
    literals.push(rest);
    (literals, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_found_by_its_text_outside_of_actions() {
        let template = "{{- if .Values.on }}\nspec:\n  containers:\n  {{- range .Values.all }}\n  \
                        - name: x\n    image: \"{{ .Values.image.repository }}:{{ .Values.image.tag \
                        | default .Chart.AppVersion }}\"\n  {{- end }}\n{{- end }}\n";
        let rendered = "spec:\n  containers:\n  - name: x\n    image: \"quay.io/web:1\"\n";
        let place = place(template, rendered, 4);
        assert_eq!(place.line, Some(6));
        assert_eq!(place.values, ["image.repository", "image.tag"]);
    }

    #[test]
    fn similar_lines_are_distinguished_by_their_order() {
        let template = "image: {{ .Values.a }}\nname: x\nimage: {{ .Values.b }}\n";
        let rendered = "image: one\nname: x\nimage: two\n";
        assert_eq!(place(template, rendered, 3).line, Some(3));
        assert_eq!(place(template, rendered, 1).values, ["a"]);
        // One of the two was left out: which one is unknown.
        assert_eq!(place(template, "image: one\n", 1), TemplatePlace::default());
        assert_eq!(place("image: {{ .Values.a }}:v1\n", "image: x:v2\n", 1).line, None);
        assert_eq!(place(template, rendered, 99), TemplatePlace::default());
    }
}
