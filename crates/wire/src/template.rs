//! The protocol between Keepwarm and a template (`spec/wire.md` §9): a process that has loaded an app once and forks its workers.
//!
//! Lines of text. A worker's wire, standard output and standard error are passed with `fork`, as descriptors.

use std::fmt;

/// The longest line, its end included.
pub const LINE_MAX: usize = 4096;

/// A line to a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToTemplate {
    /// Fork the worker of this number; three descriptors are passed along.
    Fork {
        /// Its index among the app's workers.
        number: u32,
    },
    /// This worker has exited, and nothing is left of its process group: reap it.
    Reap {
        /// Its process id.
        pid: u32,
    },
}

impl ToTemplate {
    /// The line, its end included.
    #[must_use]
    pub fn encode(self) -> String {
        match self {
            Self::Fork { number } => format!("fork {number}\n"),
            Self::Reap { pid } => format!("reap {pid}\n"),
        }
    }
}

/// A line from a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FromTemplate {
    /// The app is loaded.
    Ready,
    /// A worker was forked.
    Forked {
        /// Its process id.
        pid: u32,
    },
    /// No worker was forked, for this reason.
    Refused(String),
    /// The requested status.
    Ended {
        /// The worker's process id.
        pid: u32,
        /// How it ended.
        status: EndStatus,
    },
}

/// How a forked worker ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndStatus {
    /// It exited with this status.
    Exited(i32),
    /// This signal ended it.
    Signalled {
        /// The signal's number.
        number: i32,
        /// Whether it left a core file.
        core_dumped: bool,
    },
}

/// An invalid line from a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TemplateFault {
    /// A line longer than [`LINE_MAX`].
    TooLong,
    /// An unknown line.
    Line(String),
}

impl fmt::Display for TemplateFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => write!(f, "a line of more than {LINE_MAX} bytes from the template"),
            Self::Line(line) => write!(f, "the template says {line:?}, which means nothing"),
        }
    }
}

impl std::error::Error for TemplateFault {}

impl FromTemplate {
    /// Takes the first line off `bytes`, with its length; `None`: more is needed.
    ///
    /// # Errors
    /// It is too long, or not a line of §9.
    pub fn decode(bytes: &[u8]) -> Result<Option<(Self, usize)>, TemplateFault> {
        let Some(end) = bytes.iter().take(LINE_MAX).position(|&byte| byte == b'\n') else {
            return if bytes.len() < LINE_MAX { Ok(None) } else { Err(TemplateFault::TooLong) };
        };
        let line = String::from_utf8_lossy(bytes.get(..end).unwrap_or_default());
        match parse(&line) {
            Some(message) => Ok(Some((message, end + 1))),
            None => Err(TemplateFault::Line(line.into_owned())),
        }
    }
}

fn parse(line: &str) -> Option<FromTemplate> {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    Some(match word {
        "ready" if rest.is_empty() => FromTemplate::Ready,
        "forked" => FromTemplate::Forked { pid: process(rest)? },
        "refused" => FromTemplate::Refused(rest.to_owned()),
        "ended" => {
            let mut words = rest.split(' ');
            let pid = process(words.next()?)?;
            let (how, number) = (words.next()?, words.next()?.parse().ok()?);
            let status = match (how, words.next()) {
                ("exit", None) => EndStatus::Exited(number),
                ("signal", None) => EndStatus::Signalled { number, core_dumped: false },
                ("signal", Some("core")) => EndStatus::Signalled { number, core_dumped: true },
                _ => return None,
            };
            words.next().is_none().then_some(FromTemplate::Ended { pid, status })?
        }
        _ => return None,
    })
}

/// A process id: never 0 or 1, which would be a whole group or init.
fn process(text: &str) -> Option<u32> {
    text.parse().ok().filter(|&pid| pid > 1 && i32::try_from(pid).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_understood_however_it_is_cut() {
        let lines = [
            ("ready\n", FromTemplate::Ready),
            ("forked 4711\n", FromTemplate::Forked { pid: 4711 }),
            ("refused no room\n", FromTemplate::Refused("no room".to_owned())),
            ("ended 5 exit 3\n", FromTemplate::Ended { pid: 5, status: EndStatus::Exited(3) }),
            (
                "ended 5 signal 9\n",
                FromTemplate::Ended {
                    pid: 5,
                    status: EndStatus::Signalled { number: 9, core_dumped: false },
                },
            ),
            (
                "ended 5 signal 11 core\n",
                FromTemplate::Ended {
                    pid: 5,
                    status: EndStatus::Signalled { number: 11, core_dumped: true },
                },
            ),
        ];
        for (line, message) in lines {
            for cut in 0..line.len() {
                assert_eq!(FromTemplate::decode(&line.as_bytes()[..cut]), Ok(None), "{line:?} cut at {cut}");
            }
            let followed = format!("{line}ready\n");
            assert_eq!(FromTemplate::decode(followed.as_bytes()), Ok(Some((message, line.len()))));
        }
    }

    #[test]
    fn nonsense_is_a_fault() {
        for line in [
            "",
            "ready now",
            "forked",
            "forked 0",
            "forked 1",
            "forked -5",
            "forked 4294967295",
            "forked x",
            "ended 5",
            "ended 5 exit",
            "ended 5 exit x",
            "ended 5 exit 1 core",
            "ended 5 signal 9 core more",
            "hello",
        ] {
            let bytes = format!("{line}\n");
            assert_eq!(
                FromTemplate::decode(bytes.as_bytes()),
                Err(TemplateFault::Line(line.to_owned())),
                "{line:?}"
            );
        }
        assert_eq!(FromTemplate::decode(&[b'x'; LINE_MAX]), Err(TemplateFault::TooLong));
        assert_eq!(FromTemplate::decode(&[b'x'; LINE_MAX - 1]), Ok(None));
    }

    #[test]
    fn orders_are_lines() {
        assert_eq!(ToTemplate::Fork { number: 3 }.encode(), "fork 3\n");
        assert_eq!(ToTemplate::Reap { pid: 77 }.encode(), "reap 77\n");
    }
}
