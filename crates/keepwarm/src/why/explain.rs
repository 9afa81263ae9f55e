//! `keepwarm explain VERDICT`.

#[cfg(test)]
use keepwarm_policy::why::RULES;
use keepwarm_policy::why::{Rule, rule};

/// The verdict of this name, in words.
pub(crate) fn explain(name: &str) -> Option<String> {
    rule(name).map(text)
}

fn text(rule: &Rule) -> String {
    format!(
        "{}: a verdict of `keepwarm why`\n  means:  {}\n  given:  {}\n  why so: {}\n  do:     {}\n",
        rule.id, rule.meaning, rule.threshold, rule.reason, rule.remedy
    )
}

/// The sections of docs/operate/why.md.
#[cfg(test)]
fn markdown() -> String {
    let section = |rule: &&Rule| {
        format!(
            "### {}\n\n{}\n\n* **Given**: {}\n* **Reason**: {}\n* **Do**: {}\n",
            rule.id, rule.meaning, rule.threshold, rule.reason, rule.remedy
        )
        .lines()
        .map(wrapped)
        .collect::<String>()
    };
    RULES.iter().map(section).collect::<Vec<_>>().join("\n")
}

/// Lines of at most 120 columns; those that follow in a list are indented.
#[cfg(test)]
fn wrapped(line: &str) -> String {
    let indent = if line.starts_with("* ") { "  " } else { "" };
    let (mut out, mut width) = (String::new(), 0);
    for word in line.split(' ') {
        let length = word.chars().count();
        if width > 0 && width + 1 + length > 120 {
            out.push('\n');
            out.push_str(indent);
            width = indent.len();
        } else if width > 0 {
            out.push(' ');
            width += 1;
        }
        out.push_str(word);
        width += length;
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_page_has_each_verdict_as_it_is_given() {
        const BEGIN: &str = "## The verdicts\n\n";
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operate/why.md");
        let text = std::fs::read_to_string(&page).unwrap();
        let (head, sections) = text.split_once(BEGIN).expect("a heading of the verdicts");
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&page, format!("{head}{BEGIN}{}", markdown())).unwrap();
        } else {
            assert!(
                sections == markdown(),
                "out of date: UPDATE_GOLDEN=1 cargo test -p keepwarm --bin keepwarm why"
            );
        }
    }

    #[test]
    fn each_verdict_is_explained_and_no_key_has_its_name() {
        for rule in RULES {
            let text = explain(rule.id).unwrap();
            assert!(text.contains(rule.remedy) && text.contains(rule.threshold));
            assert!(crate::error_reference::explain(rule.id).is_none(), "{}", rule.id);
        }
        assert_eq!(explain("nothing"), None);
    }
}
