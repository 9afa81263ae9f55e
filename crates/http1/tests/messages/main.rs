//! Whole messages through the public API: what each decoder makes of bytes however they are cut, what each encoder writes, and what plan decides.

mod cases;
mod hostile_requests;
mod hostile_responses;
mod hostile_targets;
mod httparse_twin;
mod limits;
mod persistence;
mod request_cases;
mod response_cases;
mod trace;
