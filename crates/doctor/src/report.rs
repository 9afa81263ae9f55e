//! An examination for people and for machines.

mod json;
mod layout;
mod table;
mod text;

use std::time::Duration;

pub use json::json;
pub use layout::wrapped;
pub use table::table;
pub use text::{Style, text};

/// A time as people read it: `0.48 ms`, `12.3 ms`, `1.50 s`.
#[must_use]
pub fn time(time: Duration) -> String {
    let milliseconds = time.as_secs_f64() * 1e3;
    match milliseconds {
        under if under < 10.0 => format!("{under:.2} ms"),
        under if under < 100.0 => format!("{under:.1} ms"),
        under if under < 1000.0 => format!("{under:.0} ms"),
        _ => format!("{:.2} s", time.as_secs_f64()),
    }
}
