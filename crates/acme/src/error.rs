//! What went wrong with an order, in words.

use std::time::Duration;

use instant_acme::Problem;

/// Why there is no certificate. `Display` says what happened, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcmeError {
    /// A stable name, for metrics and logs.
    pub reason: &'static str,
    /// What happened, and what to do.
    pub sentence: String,
    /// The authority's `Retry-After`.
    pub retry_after: Option<Duration>,
}

impl std::fmt::Display for AcmeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl std::error::Error for AcmeError {}

impl AcmeError {
    pub(crate) fn new(reason: &'static str, sentence: impl Into<String>) -> Self {
        Self { reason, sentence: sentence.into(), retry_after: None }
    }

    /// Of a request to the authority.
    pub(crate) fn of(error: &instant_acme::Error) -> Self {
        match error {
            instant_acme::Error::Api(problem) => Self::of_problem(problem),
            instant_acme::Error::Timeout(_) => Self::new(
                "timeout",
                "the authority did not finish the order in time; it is continued with the next attempt",
            ),
            instant_acme::Error::Other(inner) => Self::new("unreachable", chain(&**inner)),
            instant_acme::Error::Json(error) => Self::new(
                "protocol",
                format!("the authority's response is not one of ACME ({error}); check acme.directory"),
            ),
            other => {
                Self::new("protocol", format!("the authority's response is not usable: {}", chain(other)))
            }
        }
    }

    /// Of an error response, or of a failed validation.
    pub(crate) fn of_problem(problem: &Problem) -> Self {
        let detail = detail_of(problem);
        match kind(problem) {
            "rateLimited" => {
                Self::new("rate_limited", format!("a limit of the authority is reached: {detail}"))
            }
            "badNonce" => Self::new("bad_nonce", format!("the authority rejected every nonce: {detail}")),
            "caa" => {
                Self::new("caa", format!("a CAA record of the name does not allow this authority: {detail}"))
            }
            "externalAccountRequired" => Self::new(
                "external_account",
                format!("the authority requires an account of its own; set acme.external_account ({detail})"),
            ),
            "rejectedIdentifier" | "unsupportedIdentifier" => {
                Self::new("rejected", format!("the authority issues no certificate for this name: {detail}"))
            }
            "accountDoesNotExist" => {
                Self::new("account", format!("the authority does not know the account: {detail}"))
            }
            "invalidContact" | "unsupportedContact" => {
                Self::new("contact", format!("the authority does not accept acme.email: {detail}"))
            }
            "userActionRequired" => {
                Self::new("user_action", format!("the authority requires an action: {detail}"))
            }
            _ => Self::new("refused", format!("the authority refused: {detail}")),
        }
    }

    /// Of a validation that failed, by this challenge.
    pub(crate) fn of_validation(problem: &Problem, name: &str, challenge: &str) -> Self {
        let detail = detail_of(problem);
        let hint = match challenge {
            "http-01" => {
                format!("does {name} lead to this server, and is its port 80 reachable from the internet?")
            }
            _ => format!(
                "does {name} lead to this server, and is its port 443 reachable from the internet, with no other server terminating TLS?"
            ),
        };
        match kind(problem) {
            "dns" => Self::new("dns", format!("the authority cannot resolve {name}: {detail}")),
            "caa" => Self::of_problem(problem),
            _ => Self::new("validation", format!("validation by {challenge} failed: {detail}; {hint}")),
        }
    }
}

/// The last part of the type's URN, such as `rateLimited` (RFC 8555 §6.7).
pub(crate) fn kind(problem: &Problem) -> &str {
    problem.r#type.as_deref().and_then(|urn| urn.rsplit(':').next()).unwrap_or("")
}

fn detail_of(problem: &Problem) -> String {
    let own = problem
        .detail
        .clone()
        .or_else(|| problem.r#type.clone())
        .unwrap_or_else(|| "it gave no reason".to_owned());
    let more = problem.subproblems.iter().filter_map(|sub| sub.detail.clone());
    let all: Vec<String> = std::iter::once(own).chain(more).collect();
    // The text is the authority's, or that of a server it asked: no line breaks or control characters in a log.
    all.join("; ").chars().map(|c| if c.is_control() { ' ' } else { c }).take(MOST_DETAIL).collect()
}

/// Characters of an authority's explanation that are kept.
const MOST_DETAIL: usize = 1000;

/// An error with its causes.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(kind: &str, detail: &str) -> Problem {
        serde_json::from_value(
            serde_json::json!({ "type": format!("urn:ietf:params:acme:error:{kind}"), "detail": detail }),
        )
        .unwrap()
    }

    #[test]
    fn the_message_says_what_to_do() {
        let error = AcmeError::of_validation(&problem("connection", "refused"), "a.test", "http-01");
        assert_eq!(error.reason, "validation");
        assert_eq!(
            error.to_string(),
            "validation by http-01 failed: refused; does a.test lead to this server, and is its port 80 reachable from the internet?"
        );
        assert_eq!(AcmeError::of_problem(&problem("rateLimited", "too many")).reason, "rate_limited");
        assert_eq!(AcmeError::of_validation(&problem("dns", "NXDOMAIN"), "a.test", "http-01").reason, "dns");
    }

    #[test]
    fn foreign_text_cannot_forge_a_log_line() {
        let error = AcmeError::of_problem(&problem("malformed", "a\nb\u{1b}[31m"));
        assert!(!error.to_string().chars().any(char::is_control), "{error}");
    }
}
