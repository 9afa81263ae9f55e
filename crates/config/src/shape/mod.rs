//! The kinds of values: each knows how to read one, how to say what it wants, and its JSON schema.

mod app;
mod folders;
mod headers;
mod http;
mod kind;
mod log;
mod net;
mod number;
mod path;
mod process;
mod quantity;
mod redirect;
mod respond;
mod secret;
mod text;
mod workers;

pub(crate) use app::{EntryPoint, EnvFile, EnvTable, LocalPath};
pub(crate) use folders::Folders;
pub(crate) use headers::{AnswerHeaders, header_rules};
pub(crate) use http::{Hosts, Methods, Paths, field_name_fault, field_value_is_valid};
pub(crate) use kind::Kinds;
pub(crate) use log::{AccessLogs, FORMATS};
pub(crate) use net::{Binds, Cidrs, PeerAddress};
pub(crate) use number::{Count, Flag, OrWord};
pub(crate) use path::{Directory, InDirectory, Runnable};
pub(crate) use process::{Groups, Limited, Mask, Seconds, Users};
pub(crate) use quantity::{Rate, Size, Time};
pub(crate) use redirect::Redirects;
pub(crate) use respond::Responses;
pub(crate) use secret::Token;
pub(crate) use text::{Strings, Words};
pub(crate) use workers::WorkerCount;
