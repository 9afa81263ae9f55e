//! Classic PHP: scripts that are run for one request each, behind a server that speaks FastCGI.
//!
//! * `script`: which script answers a path.  `params`: the request as a script sees it.
//! * `codec`: FastCGI as a protocol of `net`'s pools.

mod codec;
mod params;
mod script;

pub use script::ScriptRoot;
