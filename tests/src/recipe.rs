//! Pages of `docs/recipes`, whose files tests use as they stand there.

/// The text of a page.
#[track_caller]
pub fn page(name: &str) -> String {
    std::fs::read_to_string(crate::root().join("docs/recipes").join(name)).expect("the page")
}

/// The files that a page shows: the first line of each block, a comment, says which it is.
pub fn files(page: &str) -> Vec<(String, String)> {
    page.split("\n```").skip(1).step_by(2).filter_map(file).collect()
}

fn file(block: &str) -> Option<(String, String)> {
    let (_, text) = block.split_once('\n')?;
    // In front of the comment of a script.
    let (opening, text) = text.strip_prefix("<?php\n").map_or(("", text), |rest| ("<?php\n", rest));
    let (first, rest) = text.split_once('\n')?;
    let comment = first.strip_prefix("# ").or_else(|| first.strip_prefix("// "))?;
    let name = comment.split([' ', ',']).next()?;
    Some((name.to_owned(), format!("{opening}{rest}\n")))
}

/// The lines of a file of this name.
#[track_caller]
pub fn file_of(files: &[(String, String)], name: &str) -> String {
    let found = files.iter().find(|(file, _)| file == name);
    found.unwrap_or_else(|| panic!("the page shows no {name}")).1.clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_with_a_name_are_files() {
        let page = "text\n```toml\n# keepwarm.toml\na = 1\n```\n\n```\nkeepwarm run\n```\n```php\n<?php\n// cron.php, beside it\nf();\n\ng();\n```\n```php\n// Settings.php\n$a = 1;\n```\n";
        let files = files(page);
        let expected = [
            ("keepwarm.toml", "a = 1\n"),
            ("cron.php", "<?php\nf();\n\ng();\n"),
            ("Settings.php", "$a = 1;\n"),
        ];
        assert_eq!(files, expected.map(|(name, text)| (name.to_owned(), text.to_owned())));
        assert_eq!(file_of(&files, "Settings.php"), "$a = 1;\n");
    }
}
