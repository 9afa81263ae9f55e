//! Changes that a route makes to the head of every response.

use keepwarm_http1::{BadField, scan_app_fields};

/// Fields to remove from a response's head, and fields to set. [`crate::Exchange::head`] applies them to every head, our own
/// errors included.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldEdits {
    remove: Vec<OwnedBytes>,
    set: Vec<(OwnedBytes, OwnedBytes)>,
}

type OwnedBytes = Box<[u8]>;

impl FieldEdits {
    /// First every field of a name in `remove` goes, then every field of a name in `set` is replaced by those. Names in any case.
    ///
    /// # Errors
    /// The first field to set that cannot be sent.
    pub fn new<N: AsRef<[u8]>, V: AsRef<[u8]>>(
        remove: impl IntoIterator<Item = N>,
        set: impl IntoIterator<Item = (N, V)>,
    ) -> Result<Self, BadField> {
        let edits = Self {
            remove: remove.into_iter().map(|name| name.as_ref().into()).collect(),
            set: set.into_iter().map(|(name, value)| (name.as_ref().into(), value.as_ref().into())).collect(),
        };
        scan_app_fields(edits.apply(std::iter::empty()))?;
        Ok(edits)
    }

    /// Whether nothing is changed.
    pub fn is_empty(&self) -> bool {
        self.remove.is_empty() && self.set.is_empty()
    }

    /// The fields as they are after the edits.
    pub fn apply<'e, 'f: 'e>(
        &'e self,
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])> + Clone + 'e,
    ) -> impl Iterator<Item = (&'e [u8], &'e [u8])> + Clone {
        // Not `filter`: the fields' lifetime is shortened to that of the edits on the way.
        let kept = fields.filter_map(|(name, value)| (!self.drops(name)).then_some((name, value)));
        kept.chain(self.set.iter().map(|(name, value)| (&**name, &**value)))
    }

    fn drops(&self, name: &[u8]) -> bool {
        self.remove
            .iter()
            .chain(self.set.iter().map(|(set, _)| set))
            .any(|gone| gone.eq_ignore_ascii_case(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_removed_goes_and_what_is_set_replaces() {
        let edits =
            FieldEdits::new(["server"], [("X-Frame-Options", "DENY"), ("Link", "</a>"), ("Link", "</b>")])
                .unwrap();
        let fields: [(&[u8], &[u8]); 4] =
            [(b"Server", b"app"), (b"x-frame-options", b"ALLOW"), (b"A", b"1"), (b"server", b"again")];
        let edited: Vec<_> = edits.apply(fields.into_iter()).collect();
        let expected: [(&[u8], &[u8]); 4] =
            [(b"A", b"1"), (b"X-Frame-Options", b"DENY"), (b"Link", b"</a>"), (b"Link", b"</b>")];
        assert_eq!(edited, expected);
    }

    #[test]
    fn a_field_that_cannot_be_sent_is_refused_at_once() {
        assert!(FieldEdits::new([], [("X", "a\r\nY: b")]).is_err());
        assert!(FieldEdits::new([], [("X Y", "a")]).is_err());
    }
}
