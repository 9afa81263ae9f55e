//! Whole messages through the public API: the output of each decoder for bytes cut in any way, the output of each encoder, and the decisions of plan.

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
