//! Changes that a route makes to the head of every answer.

/// Fields to take out of an answer's head, and fields to put in their place. Applied by [`crate::Exchange::head`] to whatever head is given, our own
/// errors included.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldEdits {
    remove: Vec<Box<[u8]>>,
    set: Vec<(Box<[u8]>, Box<[u8]>)>,
}

impl FieldEdits {
    /// First every field of a name in `remove` goes, then every field of a name in `set` is replaced by those. Names in any case.
    pub fn new<N: AsRef<[u8]>, V: AsRef<[u8]>>(
        remove: impl IntoIterator<Item = N>,
        set: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        Self {
            remove: remove.into_iter().map(|name| name.as_ref().into()).collect(),
            set: set.into_iter().map(|(name, value)| (name.as_ref().into(), value.as_ref().into())).collect(),
        }
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
        let kept = fields.map(|(name, value)| (name, value)).filter(|(name, _)| !self.drops(name));
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
            FieldEdits::new(["server"], [("X-Frame-Options", "DENY"), ("Link", "</a>"), ("Link", "</b>")]);
        let fields: [(&[u8], &[u8]); 4] =
            [(b"Server", b"app"), (b"x-frame-options", b"ALLOW"), (b"A", b"1"), (b"server", b"again")];
        let edited: Vec<_> = edits.apply(fields.into_iter()).collect();
        let expected: [(&[u8], &[u8]); 4] =
            [(b"A", b"1"), (b"X-Frame-Options", b"DENY"), (b"Link", b"</a>"), (b"Link", b"</b>")];
        assert_eq!(edited, expected);
    }
}
