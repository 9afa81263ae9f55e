//! Suggestions for misspelled words.

/// The words most similar to `word`, the most similar first, at most three; none if no word is similar.
///
/// Damerau-Levenshtein finds typing errors, Jaro-Winkler words with the same beginning.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let word = word.to_ascii_lowercase();
    let mut near: Vec<(f64, &str)> = known
        .into_iter()
        .filter_map(|candidate| similarity(&word, candidate).map(|similarity| (similarity, candidate)))
        .collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    near.dedup_by_key(|(_, candidate)| *candidate);
    near.into_iter().take(3).map(|(_, candidate)| candidate).collect()
}

/// Whether `candidate` was meant and mistyped; words that only begin alike are not.
pub(crate) fn is_mistyped(word: &str, candidate: &str) -> bool {
    let longer = word.chars().count().max(candidate.chars().count());
    longer <= 100 && strsim::damerau_levenshtein(word, candidate) * 3 <= longer
}

/// "did you mean `a` or `b`?"; `None` if no word is similar.
pub fn suggestion<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let near = nearest(word, known);
    (!near.is_empty()).then(|| format!("did you mean {}?", or_list(&near)))
}

/// `None` if the two are not similar. The thresholds are arbitrary: one error in three letters, or a shared
/// beginning.
fn similarity(word: &str, candidate: &str) -> Option<f64> {
    // The comparison is quadratic, and no key has 200 letters.
    if word.is_empty() || word.len() > 100 {
        return None;
    }
    let lower = candidate.to_ascii_lowercase();
    let errors = strsim::damerau_levenshtein(word, &lower);
    let longer = word.chars().count().max(lower.chars().count());
    let jaro = strsim::jaro_winkler(word, &lower);
    (errors * 3 <= longer || jaro >= 0.88).then_some(jaro)
}

/// "`a`, `b` or `c`"
pub(crate) fn or_list(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        None => String::new(),
        Some((only, [])) => only.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_words_are_found() {
        let keys = ["workers", "watch", "request_timeout", "queue", "queue_timeout", "kind"];
        assert_eq!(nearest("worker", keys).first(), Some(&"workers"));
        assert_eq!(nearest("wrokers", keys).first(), Some(&"workers"));
        assert_eq!(nearest("requst_timeout", keys).first(), Some(&"request_timeout"));
        assert_eq!(nearest("zzz", keys), Vec::<&str>::new());
        assert_eq!(nearest("", keys), Vec::<&str>::new());
        assert_eq!(or_list(&["a", "b", "c"]), "`a`, `b` or `c`");
    }
}
