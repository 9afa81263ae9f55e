//! The kinds of values: each knows how to read one, how to say what it wants, and its JSON schema.

mod app;
mod http;
mod log;
mod net;
mod number;
mod path;
mod quantity;
mod respond;
mod text;

pub(crate) use app::{EntryPoint, EnvFile, EnvTable, Kinds, Workers, later_kind};
pub(crate) use http::{Hosts, Methods, Paths, field_name_fault, field_value_is_valid};
pub(crate) use log::{AccessLogs, FORMATS};
pub(crate) use net::{Binds, Cidrs};
pub(crate) use number::{Count, Flag, OrWord};
pub(crate) use path::{Directory, InDirectory, Runnable};
pub(crate) use quantity::{Rate, Size, Time};
pub(crate) use respond::{Redirects, Responses, header_rules};
pub(crate) use text::{Strings, Words};
