use std::fmt::Write as _;

/// A JSON value, with the types that a schema needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Json {
    Boolean(bool),
    Number(i64),
    String(String),
    Array(Vec<Json>),
    /// Members in this order.
    Object(Vec<(String, Json)>),
}

impl Json {
    pub(crate) fn text(text: impl Into<String>) -> Json {
        Json::String(text.into())
    }

    pub(crate) fn object<const N: usize>(members: [(&str, Json); N]) -> Json {
        Json::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    /// `{"type": name}`
    pub(crate) fn of_type(name: &str) -> Json {
        Json::object([("type", Json::text(name))])
    }

    /// One of these strings.
    pub(crate) fn words<'a>(words: impl IntoIterator<Item = &'a str>) -> Json {
        Json::object([("enum", Json::Array(words.into_iter().map(Json::text).collect()))])
    }

    /// Any of these schemas.
    pub(crate) fn any(schemas: Vec<Json>) -> Json {
        Json::object([("anyOf", Json::Array(schemas))])
    }

    /// A string that matches a pattern.
    pub(crate) fn pattern(pattern: &str) -> Json {
        Json::object([("type", Json::text("string")), ("pattern", Json::text(pattern))])
    }

    /// One string, or a list of them.
    pub(crate) fn one_or_many(one: Json) -> Json {
        Json::any(vec![one.clone(), Json::object([("type", Json::text("array")), ("items", one)])])
    }

    /// Inserts a first member; values other than objects stay as they are.
    pub(crate) fn with(self, name: &str, value: Json) -> Json {
        match self {
            Json::Object(mut members) => {
                members.insert(0, (name.to_owned(), value));
                Json::Object(members)
            }
            other => other,
        }
    }

    /// Two spaces for each level, a line for each member.
    pub(crate) fn pretty(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, 0);
        out.push('\n');
        out
    }

    fn write(&self, out: &mut String, depth: usize) {
        match self {
            Json::Boolean(flag) => _ = write!(out, "{flag}"),
            Json::Number(number) => _ = write!(out, "{number}"),
            Json::String(text) => quote(out, text),
            Json::Array(items) => {
                let items = items.iter().map(|item| (None, item));
                block(out, depth, ['[', ']'], items);
            }
            Json::Object(members) => {
                let members = members.iter().map(|(name, value)| (Some(name.as_str()), value));
                block(out, depth, ['{', '}'], members);
            }
        }
    }
}

fn block<'a>(
    out: &mut String,
    depth: usize,
    [open, close]: [char; 2],
    members: impl Iterator<Item = (Option<&'a str>, &'a Json)>,
) {
    out.push(open);
    let mut any = false;
    for (name, value) in members {
        out.push_str(if any { ",\n" } else { "\n" });
        any = true;
        out.push_str(&"  ".repeat(depth + 1));
        if let Some(name) = name {
            quote(out, name);
            out.push_str(": ");
        }
        value.write(out, depth + 1);
    }
    if any {
        out.push('\n');
        out.push_str(&"  ".repeat(depth));
    }
    out.push(close);
}

fn quote(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if c.is_control() => _ = write!(out, "\\u{:04x}", u32::from(c)),
            c => out.push(c),
        }
    }
    out.push('"');
}
