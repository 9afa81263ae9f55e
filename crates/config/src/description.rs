//! Descriptions of values and keys, which error messages, `keepwarm explain`, the reference page and the JSON schema
//! use.

use crate::json::Json;
use crate::nearest::{is_mistyped, nearest};

/// A value that has a description.
pub(crate) trait Describe: Sync {
    fn description(&self) -> Description;

    /// The keys of a table below this one, whose path is `path`.
    fn children(&self, _path: &str) -> Vec<KeyInfo> {
        Vec::new()
    }

    /// Whether this version accepts the key; if not, it is rejected by name.
    fn is_supported(&self) -> bool {
        true
    }

    fn expected(&self) -> String {
        self.description().expected
    }

    fn type_name(&self) -> String {
        self.description().type_name
    }

    fn schema(&self) -> Json {
        self.description().schema
    }
}

/// The description of a value.
#[derive(Debug, Clone)]
pub(crate) struct Description {
    /// For messages: "a time from 1ms to 24h with a unit (ms, s, m, h)".
    pub(crate) expected: String,
    /// For the reference: "time".
    pub(crate) type_name: String,
    pub(crate) schema: Json,
}

impl Description {
    pub(crate) fn new(
        expected: impl Into<String>,
        type_name: impl Into<String>,
        schema: Json,
    ) -> Description {
        Description { expected: expected.into(), type_name: type_name.into(), schema }
    }
}

/// The value that applies when a key is not set.
#[derive(Debug, Clone, Copy)]
pub(crate) enum DefaultValue {
    /// A value as it is written after the `=`. A test compares it with the default of the struct.
    Literal(&'static str),
    /// A description in words.
    Words(&'static str),
    /// None: the key is required.
    Required,
}

/// How a reload applies a changed value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reload {
    /// It applies from the next connection or request.
    Live,
    /// The workers of the app are replaced, one by one.
    Recycle,
    /// It takes effect only after a restart; a reload warns about it.
    Restart,
}

/// A key without the type that it fills.
#[derive(Debug, Clone)]
pub(crate) struct KeyInfo {
    pub(crate) name: &'static str,
    /// `app.NAME.workers`
    pub(crate) path: String,
    pub(crate) brief: &'static str,
    pub(crate) long: &'static str,
    pub(crate) default: DefaultValue,
    pub(crate) right: &'static str,
    pub(crate) wrong: &'static str,
    pub(crate) reload: Reload,
    pub(crate) since: &'static str,
    pub(crate) value: Description,
    pub(crate) is_supported: bool,
    pub(crate) children: Vec<KeyInfo>,
}

impl KeyInfo {
    /// The key as a member of its table's schema.
    pub(crate) fn member(&self) -> (String, Json) {
        (self.name.to_owned(), self.value.schema.clone().with("description", Json::text(self.brief)))
    }

    /// `KEEPWARM_APP__NAME__WORKERS`. `None` if no variable can set it: a table, a key outside of any section (the
    /// name of a variable has at least two parts), or a key inside a list.
    pub(crate) fn variable(&self) -> Option<String> {
        // A key that takes a value or a table can be set to the value.
        let is_value = self.children.is_empty() || self.value.type_name != "table";
        let in_list = LISTS.iter().any(|list| self.path.contains(&format!("{list}.")));
        let has_variable = is_value && self.path.contains('.') && !in_list;
        has_variable.then(|| format!("KEEPWARM_{}", self.path.to_ascii_uppercase().replace('.', "__")))
    }

    /// Whether the key repeats one of `[server.limits]`: the limits of a listener have the same keys.
    pub(crate) fn is_repeated(&self) -> bool {
        self.path == "listen.NAME.limits" || self.path.starts_with("listen.NAME.limits.")
    }
}

/// The key of any section that is most similar to a word, and the sections that have it: "`[app.NAME]`". `None` if no
/// key is similar. If it is in more than three sections, only the one that is nearest to the root, or `None`.
pub(crate) fn nearest_in_sections(
    word: &str,
    all_keys: &'static [KeyInfo],
) -> Option<(&'static str, String)> {
    let candidates =
        || all_keys.iter().filter(|key| key.is_supported && key.path.contains('.') && !key.is_repeated());
    let name = candidates().map(|key| key.name).find(|name| *name == word);
    let mistyped = || {
        let near = nearest(word, candidates().map(|key| key.name));
        near.into_iter().find(|name| is_mistyped(word, name))
    };
    let name = name.or_else(mistyped)?;
    let sections = candidates().filter(|key| key.name == name).filter_map(|key| key.path.rsplit_once('.'));
    let mut sections: Vec<&str> = sections.map(|(section, _)| section).collect();
    if sections.len() > 3 {
        let depth = |section: &str| section.matches('.').count();
        let least = sections.iter().map(|section| depth(section)).min();
        sections.retain(|section| Some(depth(section)) == least);
    }
    let headers: Vec<String> = sections.iter().map(|section| format!("`{}`", header(section))).collect();
    match headers.as_slice() {
        [one] => Some((name, one.clone())),
        [one, two] => Some((name, format!("{one} or {two}"))),
        [one, two, three] => Some((name, format!("{one}, {two} or {three}"))),
        _ => None,
    }
}

/// The ends of paths of lists of tables.
const LISTS: [&str; 3] = [".route", ".endpoints", ".certificates"];

/// `[app.NAME]`, `[[listen.NAME.route]]`
pub(crate) fn header(section: &str) -> String {
    if LISTS.iter().any(|list| section.ends_with(list)) {
        format!("[[{section}]]")
    } else {
        format!("[{section}]")
    }
}

/// `a.b`, or `b` if `parent` is empty.
pub(crate) fn join(parent: &str, name: &str) -> String {
    if parent.is_empty() { name.to_owned() } else { format!("{parent}.{name}") }
}

impl std::fmt::Display for DefaultValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DefaultValue::Literal(value) => write!(f, "`{value}`"),
            DefaultValue::Words(words) => f.write_str(words),
            DefaultValue::Required => f.write_str("none (required)"),
        }
    }
}

impl std::fmt::Display for Reload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Reload::Live => "live: applies from the next connection or request",
            Reload::Recycle => "recycle: the app's workers are replaced",
            Reload::Restart => "restart: takes effect only after a restart",
        })
    }
}
