//! The bytes of a file on their way to the client.
//!
//! In plaintext the kernel copies them (`sendfile`); under TLS and in HTTP/2 they are read and written. Neither holds up a data-plane thread for a disk: what the
//! kernel does not have in memory is read on the runtime's blocking threads first.

use std::future::poll_fn;
use std::ops::Range;
use std::task::Poll;

use keepwarm_serve::{ClientLoss, Exchange, FileProgress, OpenFile};

/// Read and sent at a time: bounds the memory of a response.
const BLOCK: usize = 128 * 1024;
/// A file up to this length is read whole: one copy more costs less than one system call more.
const SMALL: u64 = 64 * 1024;
/// Given to the kernel at a time: what is checked to be in memory should be what the socket takes.
const WINDOW: usize = 512 * 1024;

/// Why a part of a file was not sent.
enum TransferError {
    Client(ClientLoss),
    Disk(std::io::Error),
    /// The file is shorter than it was.
    Cut {
        at: u64,
    },
}

/// Sends a part of a file. `false`: the client has gone, or the file is not what it was; the response is over.
pub(super) async fn send_range(file: &OpenFile, exchange: &mut Exchange<'_>, range: Range<u64>) -> bool {
    let error = match send(file, exchange, range).await {
        Ok(()) => return true,
        Err(error) => error,
    };
    match error {
        TransferError::Client(gone) => exchange.abandon(gone),
        TransferError::Disk(error) => {
            tracing::error!(name: "file_read_failed", %error, "cannot read a file");
            exchange.abort("file_failed");
        }
        // Its length is out, and no other bytes will do.
        TransferError::Cut { at } => {
            let length = file.len();
            tracing::warn!(
                name: "file_cut",
                path = %exchange.request().path().escape_ascii(), at, length,
                "a file became shorter while it was sent: the response is cut"
            );
            exchange.abort("file_cut");
        }
    }
    false
}

async fn send(file: &OpenFile, exchange: &mut Exchange<'_>, range: Range<u64>) -> Result<(), TransferError> {
    if range.end - range.start <= SMALL || !exchange.sends_files() {
        return read_and_send(file, exchange, range).await;
    }
    let mut at = range.start;
    // It was just read: the kernel has it, whatever the samples show.
    let mut warm = false;
    while at < range.end {
        let max = block(&(at..range.end), WINDOW);
        let sent = poll_fn(|cx| {
            // With every try, as a client may take a while to make room.
            if !std::mem::take(&mut warm) {
                match file.is_cached(at, max) {
                    Some(true) => {}
                    Some(false) => return Poll::Ready(Ok(None)),
                    None => return Poll::Ready(Ok(Some(FileProgress::Unsupported))),
                }
            }
            exchange.poll_send_file(cx, file, at, max).map_ok(Some)
        });
        match sent.await.map_err(TransferError::Client)? {
            Some(FileProgress::Sent(count)) => at += count as u64,
            Some(FileProgress::End) => return Err(TransferError::Cut { at }),
            Some(FileProgress::Unsupported) => return read_and_send(file, exchange, at..range.end).await,
            None => {
                file.warm(at, max).await.map_err(TransferError::Disk)?;
                warm = true;
            }
        }
    }
    Ok(())
}

async fn read_and_send(
    file: &OpenFile,
    exchange: &mut Exchange<'_>,
    range: Range<u64>,
) -> Result<(), TransferError> {
    let mut at = range.start;
    let mut bytes = Vec::new();
    while at < range.end {
        file.read(&mut bytes, at, block(&(at..range.end), BLOCK)).await.map_err(TransferError::Disk)?;
        if bytes.is_empty() {
            return Err(TransferError::Cut { at });
        }
        at += bytes.len() as u64;
        exchange.data(&bytes);
        // What is last leaves with the end of the response.
        if at < range.end {
            poll_fn(|cx| exchange.poll_flush(cx)).await.map_err(TransferError::Client)?;
        }
    }
    Ok(())
}

/// The length of the next piece.
fn block(range: &Range<u64>, max: usize) -> usize {
    usize::try_from(range.end - range.start).unwrap_or(max).min(max)
}
