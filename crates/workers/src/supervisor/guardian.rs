//! The guardian is another process: Keepwarm's binary, started again as `keepwarm __guardian`.
//!
//! The kernel kills workers when Keepwarm dies (the parent-death signal), but not what they have forked. The guardian
//! gets each worker's process group, the mark of all that they have started, and the files that would be left behind; it kills and removes what is still
//! listed when its input ends, which it does however Keepwarm ends. It writes [`READY`] once.

pub(super) mod list;

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::exit;

use rustix::process::{Signal, kill_process_group, setsid};
use tokio::signal::unix::{SignalKind, signal};

use self::list::CleanupList;
use super::descendants;
use super::descriptors::close_inherited;

/// The hidden sub-command that calls [`guardian_main`].
pub const GUARDIAN: &str = "__guardian";

/// What the guardian writes once it is safe from the terminal's signals.
pub(super) const READY: u8 = b'r';

/// Guards until standard input, a socket, ends. Exits with status 0; with 1, and a line on standard error, when it cannot.
pub fn guardian_main() -> ! {
    let status = match guard() {
        Ok(()) => 0,
        Err(error) => {
            // Standard error is all there is to complain to.
            let _ = writeln!(io::stderr(), "keepwarm: the guardian cannot run: {error}");
            1
        }
    };
    exit(status)
}

fn guard() -> io::Result<()> {
    close_inherited();
    // Not among the processes that Ctrl-C or the end of a terminal reaches, and no hold on a directory.
    setsid()?;
    std::env::set_current_dir("/")?;
    // A handler outlives the stream it is given to: from here on these signals, which a service's manager may send to
    // all its processes, do nothing. Keepwarm's own end is what ends this process.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let _inside = runtime.enter();
    for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup(), SignalKind::quit()] {
        drop(signal(kind)?);
    }
    let mut input = UnixStream::from(rustix::io::dup(rustix::stdio::stdin())?);
    // An error: Keepwarm has been killed meanwhile. What it has listed is in the socket all the same.
    let _ = input.write_all(&[READY]);
    let list = watch(&mut input)?;
    for group in &list.groups {
        // An error: the group has already ended.
        let _ = kill_process_group(*group, Signal::KILL);
    }
    list.marks.iter().for_each(|mark| descendants::kill(mark, Vec::new()));
    list.remove_files();
    Ok(())
}

/// Reads until the end; gives what is still listed. A reset counts as the end: Keepwarm has gone.
fn watch(input: &mut impl Read) -> io::Result<CleanupList> {
    let mut list = CleanupList::default();
    let mut bytes = [0; 4096];
    loop {
        match input.read(&mut bytes) {
            Ok(0) => return Ok(list),
            Ok(length) => list.handle_bytes(bytes.get(..length).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(list),
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(input: &str) -> Vec<i32> {
        let whole = watch(&mut input.as_bytes()).unwrap().groups;
        let mut list = CleanupList::default();
        for byte in input.bytes() {
            list.handle_bytes(&[byte]);
        }
        assert_eq!(whole, list.groups, "the same byte by byte");
        let mut numbers: Vec<_> = whole.into_iter().map(|pid| pid.as_raw_nonzero().get()).collect();
        numbers.sort_unstable();
        numbers
    }

    #[test]
    fn groups_are_listed_and_forgotten() {
        assert_eq!(groups("+20\n+30\n-20\n+40\n"), [30, 40]);
    }

    #[test]
    fn an_unfinished_line_and_nonsense_are_ignored() {
        assert_eq!(groups("+20\n+\n\n*7\n+0\n+1\n+-1\n+99999999999\n+30"), [20]);
    }
}
