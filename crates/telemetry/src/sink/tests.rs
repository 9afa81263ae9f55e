use std::io::{BufRead, PipeReader, Read};
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU32;

use super::*;

const SOON: Duration = Duration::from_secs(20);

/// A file of its own for each test, removed in the end.
pub(crate) struct TempFile(PathBuf);

impl TempFile {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        Self(std::env::temp_dir().join(format!("keepwarm-log-{}-{number}", std::process::id())))
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.0.clone()
    }

    pub(crate) fn read(&self) -> String {
        std::fs::read_to_string(&self.0).unwrap()
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn line(sink: &Sink, text: &str) {
    sink.append(|out| {
        out.extend_from_slice(text.as_bytes());
        out.push(b'\n');
    });
}

fn to_pipe(format: Format) -> (PipeReader, Sink) {
    let (reader, writer) = io::pipe().unwrap();
    (reader, Sink::start(None, OwnedFd::from(writer).into(), format).unwrap())
}

#[test]
fn lines_of_every_thread_arrive_each_in_its_order_also_of_threads_that_have_ended() {
    const LINES: usize = 20_000;
    let file = TempFile::new();
    let sink = Sink::open(Output::File(file.path()), Format::Text).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let sink = &sink;
            scope.spawn(move || (0..LINES).for_each(|number| line(sink, &format!("{thread} {number}"))));
        }
    });
    assert!(sink.flush(SOON));
    let mut next = [0; 4];
    for written in file.read().lines() {
        let (thread, number) = written.split_once(' ').unwrap();
        let next = &mut next[thread.parse::<usize>().unwrap()];
        assert_eq!(number.parse::<usize>().unwrap(), *next);
        *next += 1;
    }
    assert_eq!(next, [LINES; 4]);
}

#[test]
fn a_line_is_written_soon_without_a_flush() {
    let (mut reader, sink) = to_pipe(Format::Text);
    for text in ["first", "second"] {
        line(&sink, text);
        let mut read = vec![0; text.len() + 1];
        reader.read_exact(&mut read).unwrap();
        assert_eq!(read, format!("{text}\n").as_bytes());
    }
}

#[test]
fn lines_that_wait_when_the_last_handle_is_dropped_are_written() {
    let (mut reader, sink) = to_pipe(Format::Text);
    line(&sink, "last words");
    drop(sink);
    let mut all = String::new();
    // Ends when the writer, its thread done, has closed the pipe.
    reader.read_to_string(&mut all).unwrap();
    assert_eq!(all, "last words\n");
}

/// An access log ends with its listeners, before the process does.
#[test]
fn lines_of_a_sink_without_handles_are_waited_for_at_the_end_of_the_process() {
    let (reader, sink) = to_pipe(Format::Text);
    all().push(OpenSink::of(&sink));
    // More than a pipe holds.
    for _ in 0..300 {
        line(&sink, &"x".repeat(1000));
    }
    drop(sink);
    assert!(!flush_all(Duration::from_millis(20)), "nobody has read them");
    let lines = std::thread::spawn(move || io::BufReader::new(reader).lines().count());
    assert!(flush_all(Duration::from_secs(10)));
    assert_eq!(lines.join().unwrap(), 300);
}

#[test]
fn a_blocked_output_blocks_no_thread_and_dropped_lines_are_reported() {
    let (mut reader, sink) = to_pipe(Format::Json);
    let text = "x".repeat(1023);
    let before = counters::LOG_LINES_DROPPED.value();
    // Three times the queue's limit. If the sink waited for the output, this would never end: no one reads it.
    let count = 3 * QUEUE_MAX / 1024;
    (0..count).for_each(|_| line(&sink, &text));
    assert!(!sink.flush(Duration::from_millis(1)), "the output is blocked");
    let held: usize = sink.0.0.lock_queue().held;
    assert!(held <= QUEUE_MAX, "{held}");
    let dropped = sink.0.0.dropped.load(Ordering::Relaxed);
    let counted = counters::LOG_LINES_DROPPED.value() - before;
    assert!(
        dropped > 0 && counted >= dropped,
        "{counted} of {dropped} are counted while the output is blocked"
    );
    drop(sink);
    let mut all = String::new();
    reader.read_to_string(&mut all).unwrap();
    let (notices, lines): (Vec<_>, Vec<_>) = all.lines().partition(|line| line.starts_with('{'));
    let lost = notices.iter().map(|notice| {
        let notice: serde_json::Value = serde_json::from_str(notice).unwrap();
        assert_eq!(notice["level"], "warn");
        notice["lines"].as_u64().unwrap() as usize
    });
    assert_eq!(lines.len() + lost.sum::<usize>(), count);
    assert!(lines.len() * 1024 >= QUEUE_MAX - BUFFER_MAX, "{} lines came", lines.len());
    assert!(lines.iter().all(|line| *line == text));
}

#[test]
fn an_output_that_is_broken_drops_and_counts() {
    let (reader, sink) = to_pipe(Format::Text);
    drop(reader);
    line(&sink, "to nobody");
    assert!(sink.flush(SOON));
    assert_eq!(sink.0.0.dropped.load(Ordering::Relaxed), 1);
}

#[test]
fn a_file_that_was_moved_away_is_reopened() {
    let (file, moved) = (TempFile::new(), TempFile::new());
    let sink = Sink::open(Output::File(file.path()), Format::Text).unwrap();
    line(&sink, "before");
    assert!(sink.flush(SOON));
    std::fs::rename(file.path(), moved.path()).unwrap();
    sink.reopen();
    assert!(sink.flush(SOON));
    line(&sink, "after");
    assert!(flush_all(SOON));
    assert_eq!((moved.read(), file.read()), ("before\n".to_owned(), "after\n".to_owned()));
}

#[test]
fn an_output_has_one_sink_and_lines_are_appended_to_what_the_file_holds() {
    let file = TempFile::new();
    std::fs::write(file.path(), "old\n").unwrap();
    let open = || Sink::open(Output::File(file.path()), Format::Text).unwrap();
    let (one, other) = (open(), open());
    assert!(Arc::ptr_eq(&one.0, &other.0));
    line(&one, "new");
    assert!(other.flush(SOON));
    assert_eq!(file.read(), "old\nnew\n");
    assert!(Sink::open(Output::File("/nonexistent/log".into()), Format::Text).is_err());
}
