//! The parts of a target, or of the subject of a condition, and their expansion.

#[derive(Debug)]
pub(super) struct Target {
    pub(super) path: Vec<TemplatePart>,
    pub(super) query: Option<Vec<TemplatePart>>,
}

/// A part of a target, or of a condition's subject.
#[derive(Debug, PartialEq)]
pub(super) enum TemplatePart {
    Text(String),
    /// `$1`: a capture of the rule's pattern.
    Caught(usize),
    /// `%1`: a capture of the last condition's pattern.
    CaughtByCondition(usize),
    Filename,
    Root,
    Uri,
}

impl Target {
    pub(super) fn parse(text: &str) -> Result<Self, ()> {
        let (path, query) = match text.split_once('?') {
            Some((path, query)) => (path, Some(pieces(query, false)?)),
            None => (text, None),
        };
        Ok(Self { path: pieces(path, false)?, query })
    }
}

/// The values for the parts of a target.
pub(super) struct Scope<'s> {
    pub(super) root: &'s str,
    /// For the pass: the value of `REQUEST_URI`, without its slash.
    pub(super) uri: &'s str,
    /// For this rule.
    pub(super) name: &'s str,
    pub(super) caught: &'s [String],
}

impl Scope<'_> {
    pub(super) fn expand(
        &self,
        pieces: &[TemplatePart],
        by_condition: &[String],
        encode: Option<fn(&str) -> String>,
    ) -> String {
        let mut text = String::new();
        for piece in pieces {
            let from = match piece {
                // Written by the administrator, and used as it is.
                TemplatePart::Text(piece) => {
                    text.push_str(piece);
                    continue;
                }
                TemplatePart::Caught(number) => self.caught.get(*number).cloned().unwrap_or_default(),
                TemplatePart::CaughtByCondition(number) => {
                    by_condition.get(*number).cloned().unwrap_or_default()
                }
                TemplatePart::Filename => format!("{}/{}", self.root, self.name),
                TemplatePart::Root => self.root.to_owned(),
                TemplatePart::Uri => format!("/{}", self.uri),
            };
            match encode {
                Some(encode) => text.push_str(&encode(&from)),
                None => text.push_str(&from),
            }
        }
        text
    }
}

/// `Err`: it names an unknown variable. `files`: variables for file locations are known.
pub(super) fn pieces(text: &str, files: bool) -> Result<Vec<TemplatePart>, ()> {
    let mut pieces = Vec::new();
    let mut plain = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let digit =
            rest.as_bytes().get(1).filter(|byte| byte.is_ascii_digit()).map(|byte| usize::from(byte - b'0'));
        let (piece, length) = match (first, digit) {
            ('$', Some(digit)) => (TemplatePart::Caught(digit), 2),
            ('%', Some(digit)) => (TemplatePart::CaughtByCondition(digit), 2),
            ('%', None) if rest.starts_with("%{") => {
                let end = rest.find('}').ok_or(())?;
                let piece = match rest.get(2..end).unwrap_or_default().to_ascii_uppercase().as_str() {
                    "REQUEST_FILENAME" | "SCRIPT_FILENAME" if files => TemplatePart::Filename,
                    "DOCUMENT_ROOT" if files => TemplatePart::Root,
                    "REQUEST_URI" => TemplatePart::Uri,
                    _ => return Err(()),
                };
                (piece, end + 1)
            }
            ('\\', _) => {
                let next = rest.chars().nth(1).unwrap_or('\\');
                (TemplatePart::Text(next.to_string()), 1 + next.len_utf8())
            }
            _ => (TemplatePart::Text(first.to_string()), first.len_utf8()),
        };
        match piece {
            TemplatePart::Text(piece) => plain.push_str(&piece),
            piece => {
                if !plain.is_empty() {
                    pieces.push(TemplatePart::Text(std::mem::take(&mut plain)));
                }
                pieces.push(piece);
            }
        }
        rest = rest.get(length..).unwrap_or_default();
    }
    if !plain.is_empty() {
        pieces.push(TemplatePart::Text(plain));
    }
    Ok(pieces)
}

/// A path as part of an argument: encoded as nginx encodes the captures of a `rewrite`.
pub(super) fn args(text: &str) -> String {
    encode(text, |byte| byte <= b' ' || byte >= 0x7f || b"#%&+?".contains(&byte))
}

/// A name as the path of a request.
pub(in crate::folder) fn path_of(name: &str) -> Vec<u8> {
    encode(&format!("/{name}"), |byte| {
        !(byte.is_ascii_alphanumeric() || b"/-._~!$&'()*+,;=:@".contains(&byte))
    })
    .into_bytes()
}

fn encode(text: &str, wants: impl Fn(u8) -> bool) -> String {
    use std::fmt::Write;
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match wants(byte) {
            // Writing to a string cannot fail.
            true => drop(write!(encoded, "%{byte:02X}")),
            false => encoded.push(char::from(byte)),
        }
    }
    encoded
}
