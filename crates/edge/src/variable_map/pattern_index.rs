//! Many patterns, of which the first that matches is wanted.

use std::collections::HashMap;

use crate::matcher::{Glob, RegularExpression};

/// Patterns by the text that every match begins or ends with.
///
/// A text is looked up by each of its beginnings and ends that is as long as that of some pattern: the number of patterns does not matter, only the number of
/// different lengths, and of patterns with the same beginning or end.
#[derive(Debug, Default)]
pub(super) struct PatternIndex {
    /// In order of precedence.
    patterns: Vec<Pattern>,
    /// Of patterns with `*`, in lower case.
    beginnings: TextIndex,
    /// Of patterns that begin with `*`, in lower case.
    ends: TextIndex,
    /// Of regular expressions.
    expression_beginnings: TextIndex,
    expression_ends: TextIndex,
    /// Patterns without either, which are compared with every text. Not as one automaton (`RegexSet`): with 10,000 expressions its lazy automaton
    /// does not fit any cache, and a lookup takes longer than one by one, which ends with the first match.
    others: Vec<usize>,
}

#[derive(Debug)]
struct Pattern {
    kind: PatternKind,
    value: usize,
}

#[derive(Debug)]
enum PatternKind {
    Glob(Glob),
    Regex(RegularExpression),
}

/// The pattern that matches.
pub(super) struct FoundPattern<'i>(&'i Pattern);

impl PatternIndex {
    /// `globs` in lower case, in order of precedence, before `expressions` in theirs; each with its value.
    pub(super) fn new(globs: Vec<(Glob, usize)>, expressions: Vec<(RegularExpression, usize)>) -> Self {
        let globs = globs.into_iter().map(|(glob, value)| Pattern { kind: PatternKind::Glob(glob), value });
        let expressions =
            expressions.into_iter().map(|(regex, value)| Pattern { kind: PatternKind::Regex(regex), value });
        let patterns: Vec<Pattern> = globs.chain(expressions).collect();
        let mut index = Self::default();
        for (number, pattern) in patterns.iter().enumerate() {
            let (beginnings, ends, beginning, end) = match &pattern.kind {
                PatternKind::Glob(glob) => {
                    (&mut index.beginnings, &mut index.ends, glob.literal_prefix(), glob.literal_suffix())
                }
                PatternKind::Regex(regex) => (
                    &mut index.expression_beginnings,
                    &mut index.expression_ends,
                    regex.literal_prefix(),
                    regex.literal_suffix(),
                ),
            };
            match (beginning, end) {
                ([], []) => index.others.push(number),
                // What tells more of them apart.
                (beginning, end) if beginning.len() >= end.len() => beginnings.add(beginning, number),
                (_, end) => ends.add(end, number),
            }
        }
        Self { patterns, ..index }
    }

    /// The first pattern that matches `text`, which is `folded` in lower case.
    pub(super) fn find(&self, text: &[u8], folded: &[u8]) -> Option<FoundPattern<'_>> {
        let best = self.first(text, folded, |pattern| pattern.matches(text, folded));
        self.patterns.get(best).map(FoundPattern)
    }

    /// How many patterns a lookup compares.
    #[cfg(test)]
    pub(super) fn compared(&self, text: &[u8], folded: &[u8]) -> usize {
        let mut count = 0;
        self.first(text, folded, |pattern| {
            count += 1;
            pattern.matches(text, folded)
        });
        count
    }

    /// The number of the first pattern that matches; without one, a number that none has.
    fn first(&self, text: &[u8], folded: &[u8], mut matches: impl FnMut(&Pattern) -> bool) -> usize {
        let mut best = usize::MAX;
        let mut consider = |numbers: &[usize]| {
            // In order: those after the best, or after one that matches, do not count.
            let mut before_best = numbers.iter().take_while(|number| **number < best);
            let found = before_best.find(|number| self.patterns.get(**number).is_some_and(&mut matches));
            best = found.copied().unwrap_or(best);
        };
        self.beginnings.of_beginnings(folded, &mut consider);
        self.ends.of_ends(folded, &mut consider);
        self.expression_beginnings.of_beginnings(text, &mut consider);
        self.expression_ends.of_ends(text, &mut consider);
        consider(&self.others);
        best
    }
}

impl Pattern {
    fn matches(&self, text: &[u8], folded: &[u8]) -> bool {
        match &self.kind {
            PatternKind::Glob(glob) => glob.matches(folded),
            PatternKind::Regex(regex) => regex.matches(text),
        }
    }
}

impl FoundPattern<'_> {
    pub(super) fn value(&self) -> usize {
        self.0.value
    }

    /// What its `*` or groups stand for, as `text` has it.
    pub(super) fn captures(&self, text: &[u8]) -> Vec<Vec<u8>> {
        match &self.0.kind {
            PatternKind::Glob(glob) => glob.captures_ignoring_case(text),
            PatternKind::Regex(regex) => regex.captures(text),
        }
    }
}

/// Numbers of patterns, in order, by a text.
#[derive(Debug, Default)]
struct TextIndex {
    numbers: HashMap<Box<[u8]>, Vec<usize>>,
    /// The lengths of these texts, shortest first.
    lengths: Vec<usize>,
}

impl TextIndex {
    /// Numbers come in order.
    fn add(&mut self, text: &[u8], number: usize) {
        self.numbers.entry(text.into()).or_default().push(number);
        if let Err(at) = self.lengths.binary_search(&text.len()) {
            self.lengths.insert(at, text.len());
        }
    }

    fn of_beginnings(&self, text: &[u8], found: &mut impl FnMut(&[usize])) {
        for part in self.lengths.iter().map_while(|length| text.get(..*length)) {
            self.numbers.get(part).map(Vec::as_slice).into_iter().for_each(&mut *found);
        }
    }

    fn of_ends(&self, text: &[u8], found: &mut impl FnMut(&[usize])) {
        let ends = self.lengths.iter().map_while(|length| text.get(text.len().checked_sub(*length)?..));
        for part in ends {
            self.numbers.get(part).map(Vec::as_slice).into_iter().for_each(&mut *found);
        }
    }
}
