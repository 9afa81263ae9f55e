//! A program on a terminal of its own: what it shows there, and keys that are pressed.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::process::Signal;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::process;

const ROWS: usize = 50;
const COLUMNS: usize = 200;

/// A program whose standard streams are a terminal, which is its controlling one: Ctrl-C is SIGINT. Killed when dropped.
pub struct Terminal {
    child: Child,
    keys: File,
    screen: Arc<Screen>,
}

#[derive(Default)]
struct Screen {
    text: Mutex<(String, bool)>,
    changed: Condvar,
}

impl Screen {
    /// Until no process has the terminal any more, or for a second: one that outlives the program may have it.
    fn wait_for_end(&self) {
        let text = self.text.lock().expect("no panic while locked");
        let second = Duration::from_secs(1);
        drop(
            self.changed
                .wait_timeout_while(text, second, |(_, ended)| !*ended)
                .expect("no panic while locked"),
        );
    }
}

impl Terminal {
    /// Starts `program ARGUMENTS` in a directory, with these variables in addition.
    #[track_caller]
    pub fn start(program: &Path, arguments: &[&str], directory: &Path, env: &[(&str, &str)]) -> Self {
        let master =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a terminal");
        grantpt(&master).expect("granted");
        unlockpt(&master).expect("unlocked");
        let name = ptsname(&master, Vec::new()).expect("its name");
        let size = Winsize { ws_row: ROWS as u16, ws_col: COLUMNS as u16, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&master, size).expect("a size");
        let path = Path::new(std::ffi::OsStr::from_bytes(name.as_bytes()));
        let side = || -> OwnedFd {
            rustix::fs::open(path, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())
                .expect("its other side")
        };
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg(program).args(arguments).current_dir(directory);
        command.env("PYTHONDONTWRITEBYTECODE", "1").env("KEEPWARM_SERVER__USER", "root");
        command
            .env_remove("NO_COLOR")
            .env_remove("PORT")
            .env_remove("WEB_CONCURRENCY")
            .envs(env.iter().copied());
        command.stdin(Stdio::from(side())).stdout(Stdio::from(side())).stderr(Stdio::from(side()));
        let child = command.spawn().expect("setsid starts");
        let screen = Arc::new(Screen::default());
        let keys = File::from(master);
        collect(keys.try_clone().expect("a copy"), &screen);
        Self { child, keys, screen }
    }

    /// Everything it has shown so far, with plain line ends.
    pub fn screen(&self) -> String {
        self.screen.text.lock().expect("no panic while locked").0.clone()
    }

    /// Waits until the screen has this text; returns the line with it.
    #[track_caller]
    pub fn wait_for(&self, part: &str, bound: Duration) -> String {
        let deadline = Instant::now() + bound;
        let mut text = self.screen.text.lock().expect("no panic while locked");
        loop {
            // A line may be on its way: what is returned is whole.
            if let Some((at, _)) = text.0.match_indices(part).next()
                && let Some(end) = text.0[at..].find('\n')
            {
                let begin = text.0[..at].rfind('\n').map_or(0, |begin| begin + 1);
                return text.0[begin..at + end].to_owned();
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let ended = text.1;
            if left.is_zero() || ended {
                let shown = text.0.clone();
                drop(text);
                panic!("no {part:?} within {bound:?}\n---- screen\n{shown}");
            }
            text = self.screen.changed.wait_timeout(text, left).expect("no panic while locked").0;
        }
    }

    /// Waits until this text has been written, or stands on the screen: a program that draws one writes only the letters that differ from those before.
    #[track_caller]
    pub fn wait_for_text(&self, part: &str, bound: Duration) {
        let deadline = Instant::now() + bound;
        let mut text = self.screen.text.lock().expect("no panic while locked");
        while !text.0.contains(part) && !drawn(&text.0).contains(part) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || text.1 {
                let shown = text.0.clone();
                drop(text);
                panic!("no {part:?} within {bound:?}\n---- screen\n{}\n{shown:?}", drawn(&shown));
            }
            text = self.screen.changed.wait_timeout(text, left).expect("no panic while locked").0;
        }
    }

    /// Whether input comes in lines and is echoed, as a shell expects it.
    pub fn is_cooked(&self) -> bool {
        let modes = tcgetattr(&self.keys).expect("a terminal").local_modes;
        modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG)
    }

    /// Gives it another size; the program is told (SIGWINCH).
    pub fn resize(&self, columns: u16, rows: u16) {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.keys, size).expect("a size");
    }

    /// Presses keys: `"\x03"` is Ctrl-C.
    pub fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("the terminal takes keys");
    }

    /// Waits for the end of the program, and until what it wrote last is on the screen.
    #[track_caller]
    pub fn wait_for_exit(&mut self, bound: Duration) -> ExitStatus {
        let deadline = Instant::now() + bound;
        loop {
            if let Some(status) = self.child.try_wait().expect("wait") {
                self.screen.wait_for_end();
                return status;
            }
            assert!(
                Instant::now() < deadline,
                "still running after {bound:?}\n---- screen\n{}",
                self.screen()
            );
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let left = process::descendants(self.child.id());
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        for pid in left.into_iter().filter(|&pid| process::command(pid).contains("keepwarm")) {
            process::signal(pid, Signal::KILL);
        }
    }
}

/// The rows of the screen on which all this was written, as far as `keepwarm` uses one: positions (`CSI n;m H`) and clearing (`J`, `K`).
fn drawn(written: &str) -> String {
    let mut rows = vec![vec![' '; COLUMNS]; ROWS];
    let (mut row, mut column) = (0, 0);
    let mut rest = written.chars().peekable();
    while let Some(letter) = rest.next() {
        match letter {
            '\x1b' if rest.next_if_eq(&'[').is_some() => {
                let mut parameters = String::new();
                while let Some(part) = rest.next_if(|part| !part.is_ascii_alphabetic()) {
                    parameters.push(part);
                }
                match rest.next() {
                    Some('H') => {
                        let mut place = parameters
                            .split(';')
                            .map(|number| number.parse().map_or(0, |number: usize| number.saturating_sub(1)));
                        (row, column) = (place.next().unwrap_or(0), place.next().unwrap_or(0));
                    }
                    Some('J') => rows.iter_mut().for_each(|row| row.fill(' ')),
                    Some('K') => {
                        rows.iter_mut().skip(row).take(1).flatten().skip(column).for_each(|cell| *cell = ' ')
                    }
                    _ => {}
                }
            }
            '\n' => (row, column) = (row + 1, 0),
            letter => {
                if let Some(cell) = rows.get_mut(row).and_then(|row| row.get_mut(column)) {
                    *cell = letter;
                }
                column += 1;
            }
        }
    }
    rows.iter().map(|row| row.iter().collect::<String>() + "\n").collect()
}

fn collect(mut from: File, screen: &Arc<Screen>) {
    let screen = Arc::clone(screen);
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        // EIO: nobody has the other side open any more.
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            let text = String::from_utf8_lossy(&bytes[..count]).replace('\r', "");
            screen.text.lock().expect("no panic while locked").0.push_str(&text);
            screen.changed.notify_all();
        }
        screen.text.lock().expect("no panic while locked").1 = true;
        screen.changed.notify_all();
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_on_the_screen_is_more_than_what_was_written_last() {
        let screen = drawn(
            "\x1b[2J\x1b[1;1HDOING NOW\x1b[2;3H\x1b[7mrow\x1b[27m\x1b[1;1HEN\x1b[1;4HED\x1b[1;6H\x1b[K",
        );
        assert!(screen.starts_with("ENIED "), "{screen}");
        assert!(screen.contains("\n  row "), "{screen}");
        assert!(drawn("one\ntwo").starts_with("one"), "lines");
    }
}
