//! Command lines as a shell splits them.

/// The words of a command line; `None`: a quote is not closed.
pub(crate) fn words(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            c if c.is_whitespace() => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        '\'' => break,
                        c => word.push(c),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        '"' => break,
                        '\\' => match chars.next()? {
                            c @ ('"' | '\\' | '$' | '`') => word.push(c),
                            c => word.extend(['\\', c]),
                        },
                        c => word.push(c),
                    }
                }
            }
            '\\' => word.get_or_insert_default().extend(chars.next()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Some(words)
}

/// Whether a command line needs a shell: variables, pipes, redirections, several commands.
pub(crate) fn needs_shell(text: &str) -> bool {
    let mut quote = None;
    for c in text.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None | Some('"'), '$' | '`') => return true,
            (None, '|' | '&' | ';' | '<' | '>' | '*' | '~' | '(') => return true,
            _ => {}
        }
    }
    false
}

/// The command as a list for keepwarm.toml.
pub(crate) fn command(text: &str) -> Vec<String> {
    match words(text).filter(|_| !needs_shell(text)) {
        Some(words) => words,
        None => vec!["sh".to_owned(), "-c".to_owned(), format!("exec {text}")],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_a_shell() {
        for (text, expected) in [
            ("a  b", vec!["a", "b"]),
            ("a 'b c' \"d \\\" e\" f\\ g", vec!["a", "b c", "d \" e", "f g"]),
            ("''", vec![""]),
            ("--x='y z'", vec!["--x=y z"]),
        ] {
            assert_eq!(words(text).unwrap(), expected, "{text}");
        }
        assert_eq!(words("a 'b"), None);
        assert!(needs_shell("run --port $PORT") && needs_shell("a | b") && !needs_shell("a '$b'"));
    }
}
