//! Collects the stack that a worker prints at SIGQUIT (adapters print their stacks then).

use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, timeout_at};

/// What a worker has for its response: printing takes a millisecond, and a busy machine some more.
pub(super) const STACK_TIME: Duration = Duration::from_millis(500);
/// A stack is printed in many small writes; after such a pause it is over. The number is arbitrary.
const QUIET: Duration = Duration::from_millis(50);
/// No stack is longer; a worker that prints more prints something else.
const LONGEST: usize = 256 * 1024;

/// Waits until it has been printed, [`STACK_TIME`] at most; what came is in the log, too.
pub(super) async fn hear(mut printed: UnboundedReceiver<Vec<u8>>) -> Vec<u8> {
    let end = Instant::now() + STACK_TIME;
    let mut words = Vec::new();
    loop {
        let until = if words.is_empty() { end } else { end.min(Instant::now() + QUIET) };
        match timeout_at(until, printed.recv()).await {
            Ok(Some(bytes)) if words.len() < LONGEST => words.extend(bytes),
            _ => return words,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_ends_soon_after_the_last_word_and_never_later_than_allowed() {
        let (printer, printed) = mpsc::unbounded_channel();
        printer.send(b"one\n".to_vec()).unwrap();
        printer.send(b"two\n".to_vec()).unwrap();
        let begin = Instant::now();
        assert_eq!(hear(printed).await, b"one\ntwo\n");
        assert_eq!(begin.elapsed(), QUIET);

        let (_printer, printed) = mpsc::unbounded_channel();
        let begin = Instant::now();
        assert_eq!(hear(printed).await, b"");
        assert_eq!(begin.elapsed(), STACK_TIME);

        let (printer, printed) = mpsc::unbounded_channel();
        let begin = Instant::now();
        let heard = tokio::spawn(hear(printed));
        while printer.send(b"x".to_vec()).is_ok() {
            tokio::time::sleep(QUIET / 2).await;
        }
        assert!(!heard.await.unwrap().is_empty());
        assert!(begin.elapsed() <= STACK_TIME + QUIET);
    }
}
