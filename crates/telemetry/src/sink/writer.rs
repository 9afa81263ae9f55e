//! The writer thread of a sink.

use std::fs::File;
use std::io::{self, Write};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use super::{BUFFER_MAX, Shared, WRITE_DELAY, lock};
use crate::{Format, terminal, timestamp};

/// Empty buffers kept.
const SPARE_MAX: usize = 8;
/// Before an output that is full, and does not block, is tried again.
const RETRY_DELAY: Duration = Duration::from_millis(10);

/// Writes until the sink is closed and empty.
pub(super) fn run(shared: &Shared, mut file: File) {
    let mut batch = Vec::new();
    loop {
        let task = wait(shared);
        if task.reopen {
            reopen(shared, &mut file);
        }
        collect(shared, &mut batch);
        let bytes: usize = batch.iter().map(Vec::len).sum();
        for lines in &batch {
            write(shared, &mut file, lines);
        }
        report_dropped(shared, &mut file);
        recycle(shared, &mut batch, task.flushes);
        if task.close && bytes == 0 {
            return shared.end();
        }
    }
}

/// The next task of the writer.
struct WriterTask {
    flushes: u64,
    reopen: bool,
    close: bool,
}

/// Waits for a first line, then for others to come along with it.
fn wait(shared: &Shared) -> WriterTask {
    shared.asleep.store(true, Ordering::SeqCst);
    let has_lines = lock(&shared.threads).iter().any(|buffer| !lock(buffer).is_empty());
    let mut queue = shared.lock_queue();
    if has_lines {
        shared.asleep.store(false, Ordering::SeqCst);
    }
    while shared.asleep.load(Ordering::SeqCst) && !queue.is_urgent() {
        queue = shared.urgent.wait(queue).unwrap_or_else(PoisonError::into_inner);
    }
    shared.asleep.store(false, Ordering::SeqCst);
    let until = Instant::now() + WRITE_DELAY;
    while !queue.is_urgent() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        queue = shared.urgent.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
    }
    WriterTask {
        flushes: queue.flushes_requested,
        reopen: std::mem::take(&mut queue.reopen),
        close: queue.closed,
    }
}

/// Takes all buffers: full ones first, so that the lines of a thread stay in order.
fn collect(shared: &Shared, batch: &mut Vec<Vec<u8>>) {
    let buffers = lock(&shared.threads).clone();
    let mut queue = shared.lock_queue();
    batch.append(&mut queue.full);
    drop(queue);
    for buffer in &buffers {
        let mut buffer = lock(buffer);
        if !buffer.is_empty() {
            let mut queue = shared.lock_queue();
            // Those that were handed over since.
            batch.append(&mut queue.full);
            let empty = queue.spare.pop().unwrap_or_default();
            drop(queue);
            batch.push(std::mem::replace(&mut buffer, empty));
        }
    }
    // Buffers of threads that have ended.
    drop(buffers);
    lock(&shared.threads)
        .retain(|buffer| std::sync::Arc::strong_count(buffer) > 1 || !lock(buffer).is_empty());
}

/// The batch is written: it is held no more, and its buffers can be used again.
fn recycle(shared: &Shared, batch: &mut Vec<Vec<u8>>, flushes: u64) {
    let mut queue = shared.lock_queue();
    queue.held = queue.full.iter().map(Vec::len).sum();
    queue.flushes_done = flushes;
    for mut lines in batch.drain(..) {
        if queue.spare.len() < SPARE_MAX && lines.capacity() <= 4 * BUFFER_MAX {
            lines.clear();
            queue.spare.push(lines);
        }
    }
    shared.written.notify_all();
}

fn write(shared: &Shared, file: &mut File, lines: &[u8]) {
    let mut rest = lines;
    while !rest.is_empty() {
        match file.write(rest) {
            Ok(0) => break,
            Ok(count) => rest = rest.get(count..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // A terminal or pipe that another process has set to non-blocking.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::sleep(RETRY_DELAY),
            Err(_) => break,
        }
    }
    let lost = rest.iter().filter(|&&b| b == b'\n').count();
    if lost > 0 {
        shared.count_dropped(lost as u64);
    }
}

/// Reports the number of dropped lines; if that cannot be written either, the next time.
fn report_dropped(shared: &Shared, file: &mut File) {
    let dropped = shared.dropped.swap(0, Ordering::Relaxed);
    if dropped == 0 {
        return;
    }
    let time = timestamp(SystemTime::now());
    let time = std::str::from_utf8(&time).unwrap_or_default();
    let message = "log lines dropped: the output did not take them";
    let line = match shared.format {
        Format::Text => format!("{time} WARN  {message} lines={dropped}\n"),
        Format::Json => {
            format!(
                "{{\"time\":\"{time}\",\"level\":\"warn\",\"message\":\"{message}\",\"lines\":{dropped}}}\n"
            )
        }
        Format::Terminal { color } => {
            let mut clock = Vec::new();
            terminal::push_clock(&mut clock, SystemTime::now(), color);
            format!("{}WARN  {message} lines={dropped}\n", String::from_utf8_lossy(&clock))
        }
    };
    if file.write_all(line.as_bytes()).is_err() {
        shared.dropped.fetch_add(dropped, Ordering::Relaxed);
    }
}

/// A file that cannot be opened leaves the old one in use.
fn reopen(shared: &Shared, file: &mut File) {
    let Some(output) = &shared.output else { return };
    match output.open() {
        Ok(opened) => *file = opened,
        Err(error) => tracing::warn!(name: "log_reopen_failed", ?output, %error, "cannot reopen a log file"),
    }
}
