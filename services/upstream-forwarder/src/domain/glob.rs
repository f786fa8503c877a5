//! Name patterns: `*` stands for any text, everything else for itself. Names may hold `/`, `:`, `.` and unicode.

/// Whether `name` is what `pattern` describes. Linear in practice: each `*` is matched once, leftmost.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(mut name) = name.strip_prefix(head) else {
        return false;
    };
    let mut rest = rest;
    while let Some((piece, after)) = rest.split_once('*') {
        let Some(at) = name.find(piece) else {
            return false;
        };
        name = name.get(at + piece.len()..).unwrap_or("");
        rest = after;
    }
    name.ends_with(rest)
}

/// Whether `text` is a pattern at all.
pub(crate) fn is_pattern(text: &str) -> bool {
    text.contains('*')
}

/// How specific a pattern is: its literal characters. The most specific one wins.
pub(crate) fn weight(pattern: &str) -> usize {
    pattern.chars().filter(|one| *one != '*').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text_and_nothing_else_is_special() {
        for (pattern, name, expected) in [
            ("gpt-*", "gpt-4o", true),
            ("gpt-*", "gpt-", true),
            ("gpt-*", "mygpt-4", false),
            ("*", "", true),
            ("*-mini", "gpt-4o-mini", true),
            ("a*b*c", "a1b2c", true),
            ("a*b*c", "a1c2b", false),
            ("a*a", "a", false),
            ("qwen/qwen3:free", "qwen/qwen3:free", true),
            ("gpt.4", "gpt-4", false),
            ("모델-*", "모델-1", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
