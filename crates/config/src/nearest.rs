/// The words most like `word`, the likest first, at most three; none when nothing is near.
///
/// Damerau-Levenshtein finds typing faults, Jaro-Winkler words of the same beginning.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let word = word.to_ascii_lowercase();
    let mut near: Vec<(f64, &str)> = known
        .into_iter()
        .filter_map(|candidate| likeness(&word, candidate).map(|likeness| (likeness, candidate)))
        .collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    near.dedup_by_key(|(_, candidate)| *candidate);
    near.into_iter().take(3).map(|(_, candidate)| candidate).collect()
}

/// `None` when the two are not alike. The thresholds are by feel: one slip in three letters, or a shared beginning.
fn likeness(word: &str, candidate: &str) -> Option<f64> {
    // Comparing is quadratic, and nobody meant a key of 200 letters.
    if word.is_empty() || word.len() > 100 {
        return None;
    }
    let lower = candidate.to_ascii_lowercase();
    let slips = strsim::damerau_levenshtein(word, &lower);
    let longer = word.chars().count().max(lower.chars().count());
    let jaro = strsim::jaro_winkler(word, &lower);
    (slips * 3 <= longer || jaro >= 0.88).then_some(jaro)
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
    fn finds_what_was_meant() {
        let keys = ["workers", "watch", "request_timeout", "queue", "queue_timeout", "kind"];
        assert_eq!(nearest("worker", keys).first(), Some(&"workers"));
        assert_eq!(nearest("wrokers", keys).first(), Some(&"workers"));
        assert_eq!(nearest("requst_timeout", keys).first(), Some(&"request_timeout"));
        assert_eq!(nearest("zzz", keys), Vec::<&str>::new());
        assert_eq!(nearest("", keys), Vec::<&str>::new());
        assert_eq!(or_list(&["a", "b", "c"]), "`a`, `b` or `c`");
    }
}
