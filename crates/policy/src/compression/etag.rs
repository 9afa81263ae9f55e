//! Entity tags of compressed responses.
//!
//! `"abc"` becomes `W/"abc;gzip"`: weak, because its bytes are not those that the app tagged and may differ each time (RFC 9110 §8.8.1). The
//! suffix makes it reversible: when the tag comes back in `If-None-Match` or `If-Match`, the app gets `"abc"` again. Many apps compare strings,
//! and would never find `W/"abc"` equal to `"abc"`. A tag that the app itself made weak stays as it is both ways.

use super::Coding;

/// The tag of a response that is compressed; `None`: as it is.
pub fn coded_etag(tag: &[u8], coding: Coding) -> Option<Vec<u8>> {
    let inside = tag.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    Some([b"W/\"", inside, b";", coding.name().as_bytes(), b"\""].concat())
}

/// Whether a list of tags has one made by [`coded_etag`].
pub fn has_coded_etag(list: &[u8]) -> bool {
    tags(list).any(|tag| original(tag).is_some())
}

/// The tag in `list` that [`coded_etag`] has made of `tag`: the one its client holds.
pub fn is_coded_etag_of<'l>(list: &'l [u8], tag: &[u8]) -> Option<&'l [u8]> {
    let inside = tag.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    tags(list).find(|held| original(held) == Some(inside))
}

/// Replaces every tag made by [`coded_etag`] by the one it was made of, in place. Returns the length of the list, which only shrinks.
///
/// ```text
/// W/"abc;gzip", "x"   ->   "abc", "x"
/// ```
pub fn restore_etags(list: &mut [u8]) -> usize {
    let (mut from, mut to) = (0, 0);
    while let Some((start, end)) = next_tag(list, from) {
        let restored = list.get(start..end).and_then(original).map(<[u8]>::len);
        list.copy_within(from..start, to);
        to += start - from;
        match restored {
            // `W/"` is three bytes; the quote stays.
            Some(inside) => {
                list.copy_within(start + 2..start + 3 + inside, to);
                to += inside + 1;
                if let Some(quote) = list.get_mut(to) {
                    *quote = b'"';
                }
                to += 1;
            }
            None => {
                list.copy_within(start..end, to);
                to += end - start;
            }
        }
        from = end;
    }
    list.copy_within(from.., to);
    to + list.len() - from
}

/// What is inside the quotes of the tag that this one was made of.
fn original(tag: &[u8]) -> Option<&[u8]> {
    let inside = tag.strip_prefix(b"W/\"")?.strip_suffix(b"\"")?;
    let at = inside.iter().rposition(|&byte| byte == b';')?;
    let (inside, suffix) = inside.split_at_checked(at)?;
    let coding = suffix.strip_prefix(b";")?;
    Coding::ALL.iter().any(|known| known.name().as_bytes() == coding).then_some(inside)
}

fn tags(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut from = 0;
    std::iter::from_fn(move || {
        let (start, end) = next_tag(list, from)?;
        from = end;
        list.get(start..end)
    })
}

/// The next tag from there on, with its `W/` and its quotes, which may hold commas (RFC 9110 §8.8.3).
fn next_tag(list: &[u8], from: usize) -> Option<(usize, usize)> {
    let position = |from: usize| list.get(from..)?.iter().position(|&byte| byte == b'"').map(|at| from + at);
    let open = position(from)?;
    let close = position(open + 1)?;
    let weak = open >= from + 2 && list.get(open - 2..open) == Some(b"W/");
    Some((if weak { open - 2 } else { open }, close + 1))
}
