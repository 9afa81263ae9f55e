use super::list::{EmptyList, ListOf};
use super::parsed_string::ParsedString;
use super::value_error::ValueError;

/// Patterns of media types.
pub(crate) const MEDIA_TYPES: ListOf<ParsedString<String>> = ListOf {
    one: MEDIA_TYPE,
    expected: "a media type such as \"text/css\", \"text/*\" or \"*+json\", or a list of them",
    type_name: "media type or list of media types",
    empty: EmptyList::Rejected(Some("to compress nothing, write compress = false")),
};

const MEDIA_TYPE: ParsedString<String> = ParsedString {
    expected: "a media type such as \"text/css\", \"text/*\" or \"*+json\"",
    type_name: "media type",
    pattern: Some(PATTERN),
    bare: None,
    read: media_type,
};

const PATTERN: &str = r"^(\*/\*|(\*|[A-Za-z0-9!#$&^_.+-]+/\*)(\+[A-Za-z0-9!#$&^_.+-]+)?|[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+)$";

fn media_type(text: &str) -> Result<String, ValueError> {
    let lower = text.to_ascii_lowercase();
    let is_name = |name: &str| {
        !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte))
    };
    let is_suffix = |suffix: &str| suffix.strip_prefix('+').is_some_and(is_name);
    let is_valid = match lower.split_once('/') {
        _ if lower == "*/*" => true,
        Some((kind, "*")) => is_name(kind),
        Some((kind, subtype)) => {
            is_name(kind) && (is_name(subtype) || subtype.strip_prefix('*').is_some_and(is_suffix))
        }
        None => lower.strip_prefix('*').is_some_and(is_suffix),
    };
    match is_valid {
        true => Ok(lower),
        false => Err(ValueError::new(format!("is `{text}`"))),
    }
}
