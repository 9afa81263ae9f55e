//! Detects an app that works like a script: each of its processes ends after one request, so that each request pays for a start.

/// How many in a row make it the app's behavior: one or two may be accidents.
const IN_A_ROW: u32 = 3;

/// Detects apps whose processes serve one request each.
#[derive(Debug, Default)]
pub(super) struct SingleRequestDetector {
    in_a_row: u32,
}

impl SingleRequestDetector {
    /// A process has ended after `requests` requests. `true`: this app serves one request per process.
    pub(super) fn handle_end(&mut self, requests: u64) -> bool {
        match requests {
            // It has not served: another fault, with its own message.
            0 => return false,
            1 => self.in_a_row = self.in_a_row.saturating_add(1),
            _ => self.in_a_row = 0,
        }
        self.in_a_row >= IN_A_ROW
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_in_a_row_that_served_once_are_the_way_of_the_app() {
        let mut detector = SingleRequestDetector::default();
        let ends = [1, 1, 0, 1, 1, 7, 1, 1, 1];
        let seen: Vec<bool> = ends.into_iter().map(|requests| detector.handle_end(requests)).collect();
        assert_eq!(seen, [false, false, false, true, true, false, false, false, true]);
    }
}
