use std::fmt;

/// A set of media types.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MediaTypes(Vec<Pattern>);

/// In lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Pattern {
    /// `*/*`
    Any,
    /// `text/*`, stored as `text/`.
    Prefix(Box<str>),
    /// `*+json` or `application/*+json`, stored as what is before and after the star.
    Between(Box<str>, Box<str>),
    Exact(Box<str>),
}

/// Not a media type, nor a pattern of some.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidMediaType;

impl fmt::Display for InvalidMediaType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("is not a media type")
    }
}

/// What compresses well: text, and formats that have no compression of their own.
const USUAL: [&str; 22] = [
    "text/*",
    "*+json",
    "*+xml",
    "*+text",
    "application/json",
    "application/javascript",
    "application/x-javascript",
    "application/xml",
    "application/xml-dtd",
    "application/yaml",
    "application/toml",
    "application/sql",
    "application/graphql",
    "application/x-ndjson",
    "application/jsonl",
    "application/wasm",
    "application/vnd.ms-fontobject",
    "font/ttf",
    "font/otf",
    "image/bmp",
    "image/x-icon",
    "image/vnd.microsoft.icon",
];

impl Default for MediaTypes {
    fn default() -> Self {
        // Each is valid, as a test shows.
        Self(USUAL.iter().filter_map(|text| Pattern::parse(text).ok()).collect())
    }
}

impl MediaTypes {
    /// The types of these patterns: `text/css`, `text/*`, `*+json`, `*/*`.
    ///
    /// # Errors
    /// The first of them that is none.
    pub fn new<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Result<Self, InvalidMediaType> {
        patterns.into_iter().map(Pattern::parse).collect::<Result<_, _>>().map(Self)
    }

    /// The default as patterns.
    pub fn usual() -> &'static [&'static str] {
        &USUAL
    }

    /// Whether a `Content-Type` is one of them, whatever its parameters and case.
    pub fn matches(&self, content_type: &[u8]) -> bool {
        let essence = content_type.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
        self.0.iter().any(|pattern| pattern.matches(essence))
    }
}

impl Pattern {
    fn parse(text: &str) -> Result<Self, InvalidMediaType> {
        let lower = text.to_ascii_lowercase();
        let is_name = |name: &str| !name.is_empty() && name.bytes().all(is_name_byte);
        if lower == "*/*" {
            return Ok(Self::Any);
        }
        if let Some(suffix) = lower.strip_prefix('*') {
            let valid = suffix.strip_prefix('+').is_some_and(is_name);
            return valid.then(|| Self::Between("".into(), suffix.into())).ok_or(InvalidMediaType);
        }
        let (kind, subtype) = lower.split_once('/').ok_or(InvalidMediaType)?;
        if !is_name(kind) {
            return Err(InvalidMediaType);
        }
        match subtype.strip_prefix('*') {
            Some("") => Ok(Self::Prefix(format!("{kind}/").into())),
            Some(suffix) if suffix.strip_prefix('+').is_some_and(is_name) => {
                Ok(Self::Between(format!("{kind}/").into(), suffix.into()))
            }
            None if is_name(subtype) => Ok(Self::Exact(lower.into())),
            Some(_) | None => Err(InvalidMediaType),
        }
    }

    fn matches(&self, essence: &[u8]) -> bool {
        let starts = |prefix: &str| {
            essence.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix.as_bytes()))
        };
        match self {
            Self::Any => true,
            Self::Prefix(prefix) => essence.len() > prefix.len() && starts(prefix),
            Self::Between(before, after) => {
                let at = essence.len().checked_sub(after.len()).filter(|&at| at > before.len());
                let end = at.and_then(|at| essence.get(at..));
                starts(before) && end.is_some_and(|end| end.eq_ignore_ascii_case(after.as_bytes()))
            }
            Self::Exact(exact) => essence.eq_ignore_ascii_case(exact.as_bytes()),
        }
    }
}

/// RFC 6838 §4.2, `restricted-name-chars`.
fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte)
}
