//! `keepwarm explain KEY`.

use crate::description::KeyInfo;
use crate::nearest::{nearest, or_list};
use crate::sections::all_keys;

/// The documentation of a key or a section, as plain text.
///
/// Takes `app.workers`, `app.NAME.workers`, `app.shop.workers`, `workers`, `KEEPWARM_APP__SHOP__WORKERS`, and for a
/// list of its keys `app` or `[app.shop]`. A name that several sections have explains all of them.
///
/// # Errors
/// A message that there is no such key, with similar names.
pub fn explain(key: &str) -> Result<String, String> {
    let query = query(key);
    let steps: Vec<&str> = query.split('.').collect();
    let all = all_keys();
    if query.is_empty() {
        return Ok(sections(all));
    }
    // The first interpretation that finds a key: a path without NAME, a path with any name for NAME, a named section,
    // a suffix.
    let matchers: [fn(&KeyInfo, &[&str]) -> bool; 4] = [is_nameless, is_path, is_named_section, is_suffix];
    let found = matchers.iter().map(|fits| matching(all, &steps, *fits)).find(|found| !found.is_empty());
    let found = found.unwrap_or_default();
    if found.is_empty() {
        return Err(not_found(&query, &steps, all));
    }
    let explanations: Vec<String> = found.iter().map(|info| text(info)).collect();
    Ok(explanations.join("\n"))
}

fn query(key: &str) -> String {
    let key = key.trim().trim_matches(['[', ']', '`', '"']);
    match key.strip_prefix("KEEPWARM_") {
        Some(variable) => variable.to_ascii_lowercase().replace("__", "."),
        None => key.replace("[]", ""),
    }
}

fn matching<'a>(all: &'a [KeyInfo], steps: &[&str], fits: fn(&KeyInfo, &[&str]) -> bool) -> Vec<&'a KeyInfo> {
    let found: Vec<&KeyInfo> = all.iter().filter(|info| fits(info, steps)).collect();
    // Keys that two sections share are explained once, unless the query has the second section.
    if found.iter().all(|info| info.is_repeated()) {
        return found;
    }
    found.into_iter().filter(|info| !info.is_repeated()).collect()
}

/// `app.workers`
fn is_nameless(info: &KeyInfo, steps: &[&str]) -> bool {
    info.path.split('.').filter(|step| *step != "NAME").eq(steps.iter().copied())
}

/// `app.NAME.workers`, `app.shop.workers`
fn is_path(info: &KeyInfo, steps: &[&str]) -> bool {
    let path: Vec<&str> = info.path.split('.').collect();
    path.len() == steps.len() && path.iter().zip(steps).all(|(a, b)| *a == "NAME" || a == b)
}

/// `app.NAME`, `app.shop`: the keys of such a section are listed under `app`.
fn is_named_section(info: &KeyInfo, steps: &[&str]) -> bool {
    let Some((_, section)) = steps.split_last() else { return false };
    info.children.iter().any(|child| child.path.starts_with(&format!("{}.NAME.", info.path)))
        && is_path(info, section)
}

/// `workers`
fn is_suffix(info: &KeyInfo, steps: &[&str]) -> bool {
    let path: Vec<&str> = info.path.split('.').filter(|step| *step != "NAME").collect();
    path.ends_with(steps)
}

/// The list of sections, for an empty query.
fn sections(all: &[KeyInfo]) -> String {
    let top: Vec<&KeyInfo> = all.iter().filter(|info| !info.path.contains('.')).collect();
    let width = top.iter().map(|info| info.path.len()).max().unwrap_or(0);
    let mut out = String::from("Sections of the configuration:\n\n");
    for info in top {
        out.push_str(&format!("  {:width$}  {}\n", info.path, info.brief));
    }
    out.push_str("\n`keepwarm explain app` lists the keys of a section, `keepwarm explain app.workers` explains a key.\n");
    out
}

fn not_found(query: &str, steps: &[&str], all: &[KeyInfo]) -> String {
    let last = steps.last().copied().unwrap_or(query);
    let names = nearest(last, all.iter().map(|info| info.name));
    let mut near: Vec<&str> = Vec::new();
    for name in names {
        let keys = all.iter().filter(|info| info.name == name && !info.is_repeated());
        near.extend(keys.map(|info| info.path.as_str()));
    }

    near.truncate(3);
    if near.is_empty() {
        let sections: Vec<&str> =
            all.iter().map(|info| info.path.as_str()).filter(|path| !path.contains('.')).collect();
        return format!(
            "there is no key `{query}`; `keepwarm explain SECTION` lists the keys of a section: {}",
            or_list(&sections)
        );
    }
    format!("there is no key `{query}`; did you mean {}?", or_list(&near))
}

fn text(info: &KeyInfo) -> String {
    let mut out = format!("{}: {}\n", info.path, info.brief);
    if !info.is_supported {
        out.push_str("\nThis version does not support it yet.\n");
        return out;
    }
    let mut row = |name: &str, value: &str| {
        let value = value.replace('\n', &format!("\n{:12}", ""));
        out.push_str(&format!("  {name:<9} {value}\n"));
    };
    row("type:", &info.value.type_name);
    row("expected:", &info.value.expected);
    row("default:", &info.default.to_string().replace('`', ""));
    row("example:", info.right);
    row("wrong:", info.wrong);
    row("reload:", &info.reload.to_string());
    if let Some(variable) = info.variable() {
        row("variable:", &variable);
    }
    row("since:", info.since);
    if !info.long.is_empty() {
        out.push_str(&format!("\n{}\n", wrap(info.long, 100)));
    }
    if !info.children.is_empty() {
        out.push_str(&children(info));
    }
    out
}

fn children(info: &KeyInfo) -> String {
    let widest = info.children.iter().map(|child| child.name.len()).max().unwrap_or(0);
    let mut out = String::from("\nKeys:\n");
    for child in info.children.iter().filter(|child| child.is_supported) {
        out.push_str(&format!("  {:<widest$}  {}\n", child.name, child.brief));
    }
    let later: Vec<&str> =
        info.children.iter().filter(|child| !child.is_supported).map(|child| child.name).collect();
    if !later.is_empty() {
        out.push_str(&wrap(&format!("\nNot supported by this version yet: {}", later.join(", ")), 100));
        out.push('\n');
    }
    out
}

/// Lines of at most `width` characters, broken at spaces.
fn wrap(text: &str, width: usize) -> String {
    let mut out = String::new();
    let mut column = 0;
    for word in text.split(' ') {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > width {
            out.push('\n');
            column = 0;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_key_is_found() {
        let wanted = explain("app.NAME.workers").unwrap();
        for query in
            ["app.workers", "app.shop.workers", "workers", "KEEPWARM_APP__SHOP__WORKERS", " workers "]
        {
            assert_eq!(explain(query).as_deref(), Ok(wanted.as_str()), "{query}");
        }
        let wanted_of_pool = explain("upstream.NAME.pool.max").unwrap();
        for query in ["upstream.pool.max", "upstream.search.pool.max", "KEEPWARM_UPSTREAM__SEARCH__POOL__MAX"]
        {
            assert_eq!(explain(query).as_deref(), Ok(wanted_of_pool.as_str()), "{query}");
        }
        assert!(wanted.contains("workers = 4") && wanted.contains("KEEPWARM_APP__NAME__WORKERS"), "{wanted}");
    }

    #[test]
    fn a_section_lists_its_keys() {
        for query in ["app", "app.NAME", "[app.shop]"] {
            let text = explain(query).unwrap();
            assert!(text.contains("  workers "), "{query}: {text}");
        }
        for info in all_keys().iter().filter(|info| !info.is_supported) {
            let Some((section, _)) = info.path.rsplit_once('.') else { continue };
            let text = explain(section).unwrap();
            assert!(text.contains("Not supported by this version yet: "), "{section}: {text}");
        }
    }

    #[test]
    fn without_a_key_the_sections_are_listed() {
        let text = explain("").unwrap();
        for section in ["include", "server", "app", "listen", "admin", "upstream", "rate_limit"] {
            assert!(text.contains(&format!("\n  {section} ")), "{section}: {text}");
        }
        assert!(!text.contains("server.threads"), "{text}");
    }

    #[test]
    fn a_key_of_two_sections_explains_both() {
        let text = explain("format").unwrap();
        assert!(
            text.contains("server.log.format:") && text.contains("listen.NAME.access_log.format:"),
            "{text}"
        );
    }

    #[test]
    fn a_missing_key_names_similar_ones() {
        assert_eq!(
            explain("wrokers").unwrap_err(),
            "there is no key `wrokers`; did you mean `app.NAME.workers`?"
        );
        assert!(explain("zzzzzz").unwrap_err().contains("the keys of a section: `include`"));
        for info in all_keys().iter().filter(|info| !info.is_supported) {
            assert!(explain(&info.path).unwrap().contains("does not support it yet"), "{}", info.path);
        }
    }
}
