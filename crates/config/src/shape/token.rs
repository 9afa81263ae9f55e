use crate::checker::Checker;
use crate::description::{Describe, Description};
use crate::json::Json;
use crate::key::Shape;
use crate::model::Secret;
use crate::raw::Directive;

/// A token for `Authorization: Bearer`, which is a `token68` of RFC 9110 §11.2.
pub(crate) struct Token;

/// A shorter token can be guessed over a network.
const SHORTEST: usize = 16;
/// Fits into a header.
const LONGEST: usize = 512;

impl Describe for Token {
    fn description(&self) -> Description {
        Description::new(
            format!("{SHORTEST} to {LONGEST} letters, digits or -._~+/, with = only at the end"),
            "token",
            Json::pattern("^[A-Za-z0-9._~+/-]+=*$"),
        )
    }
}

impl Shape for Token {
    type Out = Secret;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<Secret> {
        let text = cx.text(directive)?;
        let word = text.text.trim_end_matches('=');
        let taken = |b: u8| b.is_ascii_alphanumeric() || b"-._~+/".contains(&b);
        // Messages never quote the value: it may be the real token with a typing error.
        let fault = if text.text.is_empty() {
            "is an empty string".to_owned()
        } else if word.is_empty() || !word.bytes().all(taken) {
            "contains characters that are not allowed in an Authorization header".to_owned()
        } else if text.text.len() < SHORTEST {
            format!("has only {} characters and can be guessed", text.text.len())
        } else if text.text.len() > LONGEST {
            format!("has {} characters, more than {LONGEST}", text.text.len())
        } else {
            return Some(Secret::new(text.text.clone()));
        };
        cx.wrong(directive.span, &fault).help("generate one with: openssl rand -hex 32").reject(cx)
    }
}
