//! Requests that carry a name each, clients that note what became of every one, and an oracle that reads their notes, the book that the application keeps and
//! the logs, and says what does not go together.
//!
//! The applications that keep such a book: `apps/trouble_app.py`, `apps/trouble.ru`, `apps/trouble_site`, `apps/trouble_app.js`.

mod asked;
mod evidence;
mod random;

pub use asked::{Asked, Expected, Outcome, Seen, Sending, across, crc32, leave, one, several};
pub use evidence::{Evidence, Rules, Verdict};
pub use random::Random;
