//! No text makes the crate panic.

use super::golden::configurations;
use super::keys::wrong_values;
use super::memory_sources::{MemorySources, ROOT};
use crate::load;

/// SplitMix64 (Steele, Lea, Flood 2014): small, and good enough to choose bytes.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(bound.max(1)).expect("small")).expect("small")
    }

    fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }
}

/// Difficult input: TOML punctuation, placeholders, other scripts, control characters.
const PIECES: [&str; 24] = [
    "\"",
    "'",
    "[",
    "]",
    "[[",
    "]]",
    "{",
    "}",
    "=",
    "\n",
    "\r\n",
    "#",
    "${",
    "${file:",
    "}",
    "\\u00e9",
    "é",
    "\u{feff}",
    "\0",
    "\"\"\"",
    ".",
    "-9223372036854775809",
    "= [[]]\n",
    "\t",
];

fn mutate(text: &str, others: &[(String, String)], random: &mut Random) -> String {
    let mut characters: Vec<char> = text.chars().collect();
    for _ in 0..=random.below(4) {
        let at = random.below(characters.len());
        let until = (at + random.below(12)).min(characters.len());
        match random.below(4) {
            0 => drop(characters.drain(at..until)),
            1 => drop(characters.splice(at..at, random.pick(&PIECES).chars())),
            2 => {
                let copy: Vec<char> = characters[at..until].to_vec();
                let to = random.below(characters.len());
                drop(characters.splice(to..to, copy));
            }
            _ => {
                let line = random.pick(others).1.lines().nth(random.below(8)).unwrap_or("").to_owned();
                drop(characters.splice(at..until, line.chars().chain(['\n'])));
            }
        }
    }
    characters.into_iter().collect()
}

#[test]
fn broken_files_are_reported_and_never_panic() {
    let mut all = configurations("good");
    all.extend(configurations("bad"));
    all.extend(wrong_values().into_iter().map(|(info, text)| (info.path, text)));
    let seed = std::env::var("KEEPWARM_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| {
        let now = std::time::UNIX_EPOCH.elapsed().expect("after 1970");
        u64::from(now.subsec_nanos()) ^ now.as_secs()
    });
    let mut random = Random(seed);
    for round in 0..1500 {
        let text = mutate(&random.pick(&all).1.clone(), &all, &mut random);
        let outcome = std::panic::catch_unwind(|| match load(&MemorySources::of_mutated(&text), ROOT) {
            Ok((_, warnings)) => warnings.iter().map(ToString::to_string).collect(),
            Err(report) => {
                assert!(!report.problems().is_empty(), "an empty report");
                report.colored(true).to_string()
            }
        });
        assert!(outcome.is_ok(), "KEEPWARM_SEED={seed}, round {round}:\n{text}");
    }
}
