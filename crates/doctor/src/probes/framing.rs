//! `framing`: are messages read as RFC 9112 says?
//!
//! By default only what is valid and unusual is asked: a head that comes in two parts, names in small letters, a body that nobody wants, the other forms of a
//! target. What is read wrongly there fails with some client, some day; a body that is taken for the next request is an attack waiting (§11.2).
//!
//! With `--intrusive` malformed messages, too, each on a connection of its own: which are taken, and which are read in a way that lets a request hide in
//! another (request smuggling). What is hidden is always an ordinary request for the same page. Bad is what §6.3, §5 and §7 say must be refused; a warning is what they
//! permit and is a risk behind a server that reads it differently.

mod asking;
mod fixes;
mod malformed;
#[cfg(test)]
mod tests;
mod unusual;

use crate::finding::Finding;
use crate::patient::Patient;

pub(super) use fixes::fix;

pub(super) async fn examine(patient: &Patient) -> Vec<Finding> {
    let mut findings = unusual::examine(patient).await;
    if patient.settings.intrusive {
        findings.extend(malformed::examine(patient).await);
    }
    findings
}
