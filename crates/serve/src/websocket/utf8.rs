//! Validates text that comes in pieces.

use std::str::from_utf8;

/// Whether the input is UTF-8 so far: a character may be cut anywhere, and a fault that no further byte can fix is known at once.
#[derive(Debug, Default)]
pub(super) struct Utf8 {
    /// The bytes of an incomplete character.
    begun: [u8; 4],
    held: usize,
}

impl Utf8 {
    /// Checks the next bytes. `false`: not UTF-8, whatever follows.
    #[must_use]
    pub(super) fn push(&mut self, bytes: &[u8]) -> bool {
        let mut rest = bytes;
        while self.held > 0 {
            let Some((byte, after)) = rest.split_first() else { return true };
            let Some(place) = self.begun.get_mut(self.held) else { return false };
            *place = *byte;
            self.held += 1;
            rest = after;
            match from_utf8(self.begun.get(..self.held).unwrap_or_default()) {
                Ok(_) => self.held = 0,
                Err(error) if error.error_len().is_none() => {}
                Err(_) => return false,
            }
        }
        let Err(error) = from_utf8(rest) else { return true };
        let begun = rest.get(error.valid_up_to()..).unwrap_or_default();
        let Some(place) = self.begun.get_mut(..begun.len()) else { return false };
        if error.error_len().is_some() {
            return false;
        }
        place.copy_from_slice(begun);
        self.held = begun.len();
        true
    }

    /// Whether the text does not end within a character.
    pub(super) fn is_whole(&self) -> bool {
        self.held == 0
    }
}
