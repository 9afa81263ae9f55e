//! The front door: which request goes where, under which limits, and which responses Keepwarm makes itself.
//!
//! An [`Edge`] is the [`keepwarm_serve::Handler`] of one listener. What it does is a [`Site`]: routes, trusted proxies, access log. A new site can take
//! the old one's place at any time, and holds from the next request on, on kept connections too.
//!
//! Nothing here knows what an app is: a route ends in another handler ([`Target::App`]) or in a response made when the site was made.

mod access;
mod auth_request;
mod basic_auth;
mod cidr {
    pub(crate) use keepwarm_serve::Cidr;
}
mod concurrency;
mod edge;
mod error_page_app;
mod files;
mod forwarding;
mod guard;
mod header_rules;
mod index;
mod maintenance;
mod matcher;
mod mirror;
mod notable;
mod pattern;
mod refusals;
mod responses;
mod route;
mod site;
mod split;
mod subrequest;
mod template;
mod traced;
mod variable_map;

pub use access::{AccessLog, RecordTemplate};

pub use auth_request::{AuthRequest, AuthSettings};
pub use basic_auth::{BasicAuth, hash_password};
pub use concurrency::ConcurrencyLimit;
pub use edge::Edge;
pub use error_page_app::ErrorPageApp;
pub use files::{
    FileField, FileOptions, Files, ImmutableNames, NamePattern, SendFiles, SiteFiles, TryFiles, media_type,
};
pub use forwarding::{ForwardedInfo, resolve_forwarded};
pub use guard::Checks;
pub use header_rules::HeaderRules;
pub use keepwarm_serve::Cidr;
pub use maintenance::{Maintenance, MaintenanceScope};
pub use matcher::{Conditions, Glob, PatternSet, RegularExpression, ValueCondition, ValuePattern};
pub use mirror::{Mirror, MirrorSettings};
pub use pattern::{HostPattern, PathPattern};
pub use refusals::ERROR_RESPONSES;
pub use responses::{FixedResponse, Redirect, ValueEscape};
pub use route::{Changes, Route, Target};
pub use site::Site;
pub use split::{Split, SplitKey, SplitTarget};
pub use template::{Template, TemplatePiece, Variable};
pub use variable_map::VariableMap;
