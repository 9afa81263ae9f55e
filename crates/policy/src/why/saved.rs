//! Histories as bytes, for the process that takes over in an upgrade.
//!
//! ```text
//! "keepwarm-why"   version   length and checksum (FNV-1a) of the rest, 8 bytes each, little-endian   sections
//!
//! section: tag, length, content; numbers are LEB128
//! series:  age, fields of a step; seconds, tens and fives, each after their number; the ten and the five that are not full
//! step:    0, if all its fields are; or 1 and its fields
//! ```
//!
//! A process of the same version may have more sections, which are skipped, and more fields at the end of a step or a section, which are left out.
//! Bytes that are not as expected are refused as a whole, and so are those that would take more memory than histories may have: a step of nothing is one
//! byte here and 136 there. What belongs to processes (the memory of workers, who holds them) ends with them, and is not saved.

mod fields;
mod reader;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use self::fields::Fields;
use self::reader::{Corrupt, Reader};
use super::series::{FIVES, SECONDS, Series, TENS, push};
use super::{AppHistory, EVENTS_MAX, Event, ROUTES_MAX, Subject, UpstreamHistory, Why, rule};

/// The longest that is written or read: 52 MB are 200 apps with 256 routes and 50 upstreams after a day, as they are in memory. A history that has no room
/// in it begins again, those of routes first.
pub const SAVED_MAX: usize = 64 << 20;
/// The steps that are written or read: 2,100 subjects after a day, up to 286 MB in memory. They bound the memory that forged bytes can take.
const STEPS_MAX: usize = 2_000_000;
/// The verdicts that are read: those of 30 s.
const VERDICTS_MAX: usize = 4096;
const MAGIC: &[u8; 12] = b"keepwarm-why";
const VERSION: u64 = 1;
const HEAD: usize = MAGIC.len() + 3 * size_of::<u64>();
/// Fields of a step that another version may have.
const FIELDS_MAX: usize = 256;
/// No history is older, in seconds: 136 years.
const AGE_MAX: usize = u32::MAX as usize;

const NOW: u64 = 1;
const EVENT: u64 = 2;
const VERDICT: u64 = 3;
const MACHINE: u64 = 4;
const APP: u64 = 5;
const UPSTREAM: u64 = 6;
const ROUTE: u64 = 7;

/// Why saved histories cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SavedError {
    /// They are something else.
    Foreign,
    /// Of a version that this one does not read.
    Version(u64),
    /// They are incomplete, or were changed.
    Corrupt,
}

impl std::error::Error for SavedError {}

impl std::fmt::Display for SavedError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Foreign => out.write_str("not a history"),
            Self::Version(version) => write!(out, "version {version}, this process reads {VERSION}"),
            Self::Corrupt => out.write_str("incomplete or corrupt"),
        }
    }
}

impl From<Corrupt> for SavedError {
    fn from(_: Corrupt) -> Self {
        Self::Corrupt
    }
}

impl Why {
    /// The histories as bytes, at most [`SAVED_MAX`].
    #[must_use]
    pub fn save(&self) -> Vec<u8> {
        self.save_within(SAVED_MAX)
    }

    fn save_within(&self, most: usize) -> Vec<u8> {
        let mut out = Writer::new(most);
        out.section(NOW, |out| number(out, self.now));
        for event in &self.events {
            out.section(EVENT, |out| write_event(out, event));
        }
        for ((id, subject), given) in &self.given {
            out.section(VERDICT, |out| write_verdict(out, id, subject, *given));
        }
        out.series(MACHINE, &self.machine, |out| write_series(out, &self.machine));
        for (name, app) in &self.apps {
            out.series(APP, &app.series, |out| write_named(out, &[name], &app.series));
        }
        for (name, upstream) in &self.upstreams {
            out.series(UPSTREAM, &upstream.series, |out| write_upstream(out, name, upstream));
        }
        for (name, app) in &self.apps {
            for (route, series) in &app.routes {
                out.series(ROUTE, series, |out| write_named(out, &[name, route], series));
            }
        }
        out.finish()
    }

    /// The histories that another process has saved.
    ///
    /// # Errors
    /// They cannot be used, not even in part.
    pub fn restore(bytes: &[u8]) -> Result<Self, SavedError> {
        Self::restore_within(bytes, STEPS_MAX)
    }

    fn restore_within(bytes: &[u8], mut steps: usize) -> Result<Self, SavedError> {
        let mut sections = sections(bytes)?;
        let mut why = Self::default();
        while !sections.is_empty() {
            let tag = sections.number()?;
            let mut content = sections.part()?;
            let read = why.restore_section(tag, &mut content)?;
            steps = steps.checked_sub(read).ok_or(Corrupt)?;
        }
        Ok(why)
    }

    /// How many steps it had.
    fn restore_section(&mut self, tag: u64, from: &mut Reader<'_>) -> Result<usize, Corrupt> {
        match tag {
            NOW => self.now = from.number_to(AGE_MAX)? as u64,
            EVENT => push(&mut self.events, read_event(from)?, EVENTS_MAX),
            VERDICT => self.restore_verdict(from)?,
            MACHINE => self.machine = read_series(from)?,
            APP => {
                let app = self.apps.entry(from.text()?.into()).or_default();
                app.series = read_series(from)?;
                return Ok(app.series.steps());
            }
            UPSTREAM => {
                let upstream = self.upstreams.entry(from.text()?.into()).or_default();
                read_upstream(from, upstream)?;
                return Ok(upstream.series.steps());
            }
            ROUTE => return self.restore_route(from),
            _ => {}
        }
        Ok(0)
    }

    /// A rule that this version does not have is left out.
    fn restore_verdict(&mut self, from: &mut Reader<'_>) -> Result<(), Corrupt> {
        let (id, app, upstream) = (from.text()?, from.text()?, from.text()?);
        let given = (from.number_to(AGE_MAX)? as u64, from.number_to(AGE_MAX)? as u64);
        let name = |name: &str| (!name.is_empty()).then(|| Arc::from(name));
        if let Some(rule) = rule(id).filter(|_| self.given.len() < VERDICTS_MAX) {
            self.given.insert((rule.id, Subject { app: name(app), upstream: name(upstream) }), given);
        }
        Ok(())
    }

    fn restore_route(&mut self, from: &mut Reader<'_>) -> Result<usize, Corrupt> {
        let kept: usize = self.apps.values().map(|app| app.routes.len()).sum();
        let (app, route) = (from.text()?, from.text()?);
        let series = read_series(from)?;
        let steps = series.steps();
        // Its app may have had no room.
        if let Some(AppHistory { routes, .. }) = self.apps.get_mut(app).filter(|_| kept < ROUTES_MAX) {
            routes.insert(route.into(), series);
        }
        Ok(steps)
    }
}

/// What follows the head, if that tells of all of it.
fn sections(bytes: &[u8]) -> Result<Reader<'_>, SavedError> {
    let rest = bytes.strip_prefix(MAGIC).ok_or(SavedError::Foreign)?;
    let (version, rest) = little_endian(rest)?;
    if version != VERSION {
        return Err(SavedError::Version(version));
    }
    let (length, rest) = little_endian(rest)?;
    let (sum, rest) = little_endian(rest)?;
    if rest.len() as u64 != length || checksum(rest) != sum {
        return Err(SavedError::Corrupt);
    }
    Ok(Reader(rest))
}

fn little_endian(bytes: &[u8]) -> Result<(u64, &[u8]), Corrupt> {
    let (number, rest) = bytes.split_first_chunk().ok_or(Corrupt)?;
    Ok((u64::from_le_bytes(*number), rest))
}

/// FNV-1a, 64 bits: it finds what was cut or overwritten, not what was forged.
fn checksum(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// Sections, those left out that have no room.
struct Writer {
    /// From the head on, which is written at last.
    out: Vec<u8>,
    content: Vec<u8>,
    most: usize,
    steps: usize,
}

impl Writer {
    fn new(most: usize) -> Self {
        Self { out: vec![0; HEAD], content: Vec::new(), most, steps: STEPS_MAX }
    }

    fn section(&mut self, tag: u64, write: impl FnOnce(&mut Vec<u8>)) {
        /// A tag and a length.
        const BEFORE: usize = 2 * 10;
        self.content.clear();
        write(&mut self.content);
        if self.out.len() + BEFORE + self.content.len() <= self.most {
            number(&mut self.out, tag);
            bytes(&mut self.out, &self.content);
        }
    }

    fn series<T: Fields>(&mut self, tag: u64, series: &Series<T>, write: impl FnOnce(&mut Vec<u8>)) {
        if let Some(left) = self.steps.checked_sub(series.steps()) {
            self.steps = left;
            self.section(tag, write);
        }
    }

    fn finish(mut self) -> Vec<u8> {
        let rest = self.out.get(HEAD..).unwrap_or_default();
        let numbers = [VERSION, rest.len() as u64, checksum(rest)].map(u64::to_le_bytes);
        let head = MAGIC.iter().chain(numbers.as_flattened());
        self.out.iter_mut().zip(head).for_each(|(byte, head)| *byte = *head);
        self.out
    }
}

fn number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn text(out: &mut Vec<u8>, text: &str) {
    bytes(out, text.as_bytes());
}

fn write_event(out: &mut Vec<u8>, event: &Event) {
    number(out, event.at);
    text(out, &event.subject);
    text(out, &event.text);
}

fn read_event(from: &mut Reader<'_>) -> Result<Event, Corrupt> {
    let at = from.number_to(AGE_MAX)? as u64;
    Ok(Event { at, subject: from.text()?.into(), text: from.text()?.to_owned() })
}

fn write_verdict(out: &mut Vec<u8>, id: &str, subject: &Subject, (first, last): (u64, u64)) {
    text(out, id);
    text(out, subject.app.as_deref().unwrap_or_default());
    text(out, subject.upstream.as_deref().unwrap_or_default());
    number(out, first);
    number(out, last);
}

fn write_upstream(out: &mut Vec<u8>, name: &str, upstream: &UpstreamHistory) {
    text(out, name);
    number(out, upstream.endpoints.into());
    number(out, upstream.available.into());
    write_series(out, &upstream.series);
}

/// With its endpoints: that they are there is no event.
fn read_upstream(from: &mut Reader<'_>, upstream: &mut UpstreamHistory) -> Result<(), Corrupt> {
    upstream.endpoints = from.number_to(u32::MAX as usize)? as u32;
    upstream.available = from.number_to(u32::MAX as usize)? as u32;
    upstream.series = read_series(from)?;
    Ok(())
}

fn write_named<T: Fields>(out: &mut Vec<u8>, names: &[&str], series: &Series<T>) {
    names.iter().for_each(|name| text(out, name));
    write_series(out, series);
}

fn write_series<T: Fields>(out: &mut Vec<u8>, series: &Series<T>) {
    let mut fields = 0;
    T::default().visit(&mut |_| fields += 1);
    number(out, series.pushed);
    number(out, fields);
    for steps in [&series.seconds, &series.tens, &series.fives] {
        number(out, steps.len() as u64);
        steps.iter().for_each(|step| write_step(out, *step));
    }
    write_step(out, series.ten);
    write_step(out, series.five);
}

fn write_step<T: Fields>(out: &mut Vec<u8>, mut step: T) {
    let start = out.len();
    let mut all = 0;
    number(out, 1);
    step.visit(&mut |field| {
        number(out, *field);
        all |= *field;
    });
    if all == 0 {
        out.truncate(start);
        number(out, 0);
    }
}

fn read_series<T: Fields>(from: &mut Reader<'_>) -> Result<Series<T>, Corrupt> {
    let pushed = from.number_to(AGE_MAX)? as u64;
    let fields = from.number_to(FIELDS_MAX)?;
    let [seconds, tens, fives] = [SECONDS, TENS, FIVES].map(|most| read_steps(from, fields, most));
    let (ten, five) = (read_step(from, fields)?, read_step(from, fields)?);
    Ok(Series::restored([seconds?, tens?, fives?], ten, five, pushed))
}

fn read_steps<T: Fields>(from: &mut Reader<'_>, fields: usize, most: usize) -> Result<VecDeque<T>, Corrupt> {
    let steps = from.number_to(most)?;
    (0..steps).map(|_| read_step(from, fields)).collect()
}

fn read_step<T: Fields>(from: &mut Reader<'_>, fields: usize) -> Result<T, Corrupt> {
    let mut step = T::default();
    if from.number_to(1)? == 0 {
        return Ok(step);
    }
    let mut numbers = (0..fields).map(|_| from.number());
    let mut outcome = Ok(());
    step.visit(&mut |field| match numbers.next() {
        Some(Ok(number)) => *field = number,
        Some(Err(error)) => outcome = Err(error),
        None => {}
    });
    outcome?;
    // Those that only another version has.
    numbers.try_for_each(|more| more.map(drop))?;
    Ok(step)
}
