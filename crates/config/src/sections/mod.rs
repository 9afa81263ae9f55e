//! The keys, section by section. Each key is defined here only: its values, meaning and default.

mod access;
mod acme;
mod admin;
mod app;
mod compression;
mod forward_proxy;
mod limits;
mod listen;
mod listen_domains;
mod listen_tls;
mod map;
mod otlp;
mod process;
mod process_limits;
mod rate_limit;
mod root;
mod route;
mod run_as;
mod server;
mod upstream;

pub(crate) use acme::AcmeDraft;
pub(crate) use admin::AdminDraft;
pub(crate) use listen::ListenDraft;
pub(crate) use listen_domains::{implied as implied_listeners, redirect as https_redirect};
pub(crate) use listen_tls::TlsDraft;
pub(crate) use map::check_maps;
pub(crate) use otlp::OtlpDraft;
pub(crate) use process::{ProcessDraft, check_processes};
pub(crate) use root::{INCLUDE, ROOT, Root, all_keys};
pub(crate) use route::{AuthRequestDraft, MirrorDraft, RouteDraft, SplitDraft};
pub(crate) use upstream::UpstreamDraft;
