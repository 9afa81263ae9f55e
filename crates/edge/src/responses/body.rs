//! Bodies of fixed responses.

use keepwarm_telemetry::escape::push_json;

use crate::template::{Template, TemplatePiece, Values};

/// A body: the same for all requests, or with values of the request.
#[derive(Debug, Clone)]
pub(super) enum Body {
    Fixed(Box<[u8]>),
    Template(Template, ValueEscape),
}

/// How a value is written in a body: a client chooses many of them, and none may become markup or code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueEscape {
    /// As it is.
    None,
    /// As text of HTML or XML, or in a quoted attribute.
    Html,
    /// As the inside of a string of JSON (RFC 8259 §7).
    Json,
}

impl Body {
    pub(super) fn fixed(&self) -> &[u8] {
        match self {
            Self::Fixed(body) => body,
            Self::Template(..) => &[],
        }
    }

    /// The body for a request; `None`: it is fixed.
    pub(super) fn made(&self, values: Values<'_>) -> Option<Vec<u8>> {
        let Self::Template(template, escape) = self else { return None };
        let mut out = Vec::with_capacity(256);
        let mut value = Vec::new();
        for piece in &template.0 {
            match piece {
                TemplatePiece::Text(text) => out.extend_from_slice(text.as_bytes()),
                TemplatePiece::Variable(variable) => {
                    value.clear();
                    variable.push(values, &mut value);
                    escape.push(&mut out, &value);
                }
            }
        }
        Some(out)
    }
}

impl ValueEscape {
    fn push(self, out: &mut Vec<u8>, value: &[u8]) {
        match self {
            Self::None => out.extend_from_slice(value),
            Self::Html => value.iter().for_each(|byte| push_html(out, *byte)),
            Self::Json => push_json(out, value),
        }
    }
}

fn push_html(out: &mut Vec<u8>, byte: u8) {
    match byte {
        b'&' => out.extend_from_slice(b"&amp;"),
        b'<' => out.extend_from_slice(b"&lt;"),
        b'>' => out.extend_from_slice(b"&gt;"),
        b'"' => out.extend_from_slice(b"&quot;"),
        b'\'' => out.extend_from_slice(b"&#39;"),
        _ => out.push(byte),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_stays_a_value() {
        let escaped = |escape: ValueEscape, value: &[u8]| {
            let mut out = Vec::new();
            escape.push(&mut out, value);
            String::from_utf8(out).unwrap()
        };
        let attack = b"<script>\"'&</script>\n";
        assert_eq!(escaped(ValueEscape::Html, attack), "&lt;script&gt;&quot;&#39;&amp;&lt;/script&gt;\n");
        assert!(!escaped(ValueEscape::Json, attack).contains('\n'));
        assert!(escaped(ValueEscape::Json, attack).contains("\\\""));
        assert_eq!(escaped(ValueEscape::None, b"<a>"), "<a>");
    }
}
