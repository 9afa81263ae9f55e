//! Changes that a route makes to the head of every response.

use keepwarm_http1::{BadField, scan_app_fields};

/// Fields to remove from a response's head, and fields to set. [`crate::Exchange::head`] applies them to every head, our own
/// errors included.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldEdits {
    remove: Vec<OwnedBytes>,
    set: Vec<OwnedField>,
    add: Vec<OwnedField>,
    if_missing: Vec<OwnedField>,
}

type OwnedBytes = Box<[u8]>;
type OwnedField = (OwnedBytes, OwnedBytes);

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
            set: owned(set),
            ..Self::default()
        };
        scan_app_fields(edits.apply(std::iter::empty()))?;
        Ok(edits)
    }

    /// Then these fields are added.
    ///
    /// # Errors
    /// The first of them that cannot be sent.
    pub fn adding<N: AsRef<[u8]>, V: AsRef<[u8]>>(
        mut self,
        fields: impl IntoIterator<Item = (N, V)>,
    ) -> Result<Self, BadField> {
        self.add = owned(fields);
        scan_app_fields(pairs(&self.add))?;
        Ok(self)
    }

    /// And of these, those whose name no field has.
    ///
    /// # Errors
    /// The first of them that cannot be sent.
    pub fn filling_in<N: AsRef<[u8]>, V: AsRef<[u8]>>(
        mut self,
        fields: impl IntoIterator<Item = (N, V)>,
    ) -> Result<Self, BadField> {
        self.if_missing = owned(fields);
        scan_app_fields(pairs(&self.if_missing))?;
        Ok(self)
    }

    /// With changes of a later party: its `Set-Cookie` lines are added, and its other fields replace all of their name, those of the edits so far included.
    ///
    /// # Errors
    /// The first of them that cannot be sent.
    pub fn with_later<'f>(
        mut self,
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])> + Clone,
    ) -> Result<Self, BadField> {
        scan_app_fields(fields.clone())?;
        let is_cookie = |name: &[u8]| name.eq_ignore_ascii_case(b"set-cookie");
        let replaced = |name: &[u8]| {
            !is_cookie(name) && fields.clone().any(|(later, _)| later.eq_ignore_ascii_case(name))
        };
        for own in [&mut self.set, &mut self.add, &mut self.if_missing] {
            own.retain(|(name, _)| !replaced(name));
        }
        for (name, value) in fields.clone() {
            let list = if is_cookie(name) { &mut self.add } else { &mut self.set };
            list.push((name.into(), value.into()));
        }
        Ok(self)
    }

    /// Whether nothing is changed.
    pub fn is_empty(&self) -> bool {
        self.remove.is_empty() && self.set.is_empty() && self.add.is_empty() && self.if_missing.is_empty()
    }

    /// The fields as they are after the edits.
    pub fn apply<'e, 'f: 'e>(
        &'e self,
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])> + Clone + 'e,
    ) -> impl Iterator<Item = (&'e [u8], &'e [u8])> + Clone {
        // Not `filter`: the fields' lifetime is shortened to that of the edits on the way.
        let all = fields.clone();
        let kept = fields.filter_map(|(name, value)| (!self.drops(name)).then_some((name, value)));
        let missing = pairs(&self.if_missing).filter(move |(name, _)| !self.has(name, all.clone()));
        kept.chain(pairs(&self.set)).chain(pairs(&self.add)).chain(missing)
    }

    /// Whether a field has that name after all changes but the last.
    fn has<'f>(&self, name: &[u8], mut fields: impl Iterator<Item = (&'f [u8], &'f [u8])>) -> bool {
        let is_ours = |(ours, _): &OwnedField| ours.eq_ignore_ascii_case(name);
        self.set.iter().chain(&self.add).any(is_ours)
            || (!self.drops(name) && fields.any(|(theirs, _)| theirs.eq_ignore_ascii_case(name)))
    }

    fn drops(&self, name: &[u8]) -> bool {
        self.remove
            .iter()
            .chain(self.set.iter().map(|(set, _)| set))
            .any(|gone| gone.eq_ignore_ascii_case(name))
    }
}

fn owned<N: AsRef<[u8]>, V: AsRef<[u8]>>(fields: impl IntoIterator<Item = (N, V)>) -> Vec<OwnedField> {
    fields.into_iter().map(|(name, value)| (name.as_ref().into(), value.as_ref().into())).collect()
}

fn pairs(fields: &[OwnedField]) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
    fields.iter().map(|(name, value)| (&**name, &**value))
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

    #[test]
    fn later_fields_replace_and_cookies_are_added() {
        let edits = FieldEdits::new(["x-gone"], [("X-A", "route"), ("Set-Cookie", "r=1")])
            .unwrap()
            .adding([("x-b", "route")])
            .unwrap()
            .filling_in([("X-C", "route"), ("X-D", "route")])
            .unwrap();
        let later: [(&[u8], &[u8]); 5] =
            [(b"x-a", b"1"), (b"x-b", b"2"), (b"x-b", b"3"), (b"x-c", b"4"), (b"set-cookie", b"l=1")];
        let edits = edits.with_later(later.into_iter()).unwrap();
        let fields: [(&[u8], &[u8]); 3] = [(b"X-A", b"app"), (b"X-B", b"app"), (b"X-Gone", b"app")];
        let edited: Vec<_> = edits.apply(fields.into_iter()).collect();
        let expected: [(&[u8], &[u8]); 7] = [
            (b"Set-Cookie", b"r=1"),
            (b"x-a", b"1"),
            (b"x-b", b"2"),
            (b"x-b", b"3"),
            (b"x-c", b"4"),
            (b"set-cookie", b"l=1"),
            (b"X-D", b"route"),
        ];
        assert_eq!(edited, expected);
        // The app's cookies stay.
        let cookies: [(&[u8], &[u8]); 1] = [(b"Set-Cookie", b"app=1")];
        let later: [(&[u8], &[u8]); 1] = [(b"set-cookie", b"l=1")];
        let edits = FieldEdits::default().with_later(later.into_iter()).unwrap();
        assert_eq!(edits.apply(cookies.into_iter()).count(), 2);
        assert!(FieldEdits::default().with_later([(&b"x"[..], &b"a\nb"[..])].into_iter()).is_err());
    }

    #[test]
    fn fields_are_added_and_filled_in() {
        let edits = FieldEdits::new(["c"], [("D", "set")])
            .unwrap()
            .adding([("A", "more"), ("E", "new")])
            .unwrap()
            .filling_in([("a", "no"), ("c", "yes"), ("d", "no"), ("E", "no"), ("F", "yes"), ("F", "again")])
            .unwrap();
        let fields: [(&[u8], &[u8]); 3] = [(b"a", b"1"), (b"C", b"1"), (b"d", b"1")];
        let edited: Vec<_> = edits.apply(fields.into_iter()).collect();
        let expected: [(&[u8], &[u8]); 7] = [
            (b"a", b"1"),
            (b"D", b"set"),
            (b"A", b"more"),
            (b"E", b"new"),
            (b"c", b"yes"),
            (b"F", b"yes"),
            (b"F", b"again"),
        ];
        assert_eq!(edited, expected);
        assert!(FieldEdits::default().adding([("X", "a\nb")]).is_err());
        assert!(FieldEdits::default().filling_in([("X\r", "a")]).is_err());
    }
}
