//! Certificates from an ACME authority (RFC 8555): account, orders, challenges, storage and renewal.
//!
//! [`Acme`] keeps a certificate for each of its names. A task for each name loads it from [`Storage`], orders it, and renews it; nothing that goes wrong
//! with one name delays another. It runs on the control thread. Data-plane threads only look challenges up, in [`Challenges`].

mod account;
mod certificate;
mod challenges;
mod client;
mod error;
mod keeper;
mod local_authority;
mod manager;
mod on_demand;
mod order;
mod settings;
mod status;
mod storage;

pub use certificate::{Certificate, CertificateFacts};
pub use challenges::{Challenges, HTTP_PATH, TLS_PROTOCOL};
pub use error::AcmeError;
pub use local_authority::{LocalCertificate, local_certificate};
pub use manager::{Acme, CertificateSink};
pub use on_demand::{CertificateWait, NameRequests, OnDemandCounts, OnDemandResult, OnDemandSettings};
pub use settings::{AcmeSettings, Authority, ChallengeKind, ExternalAccount, KeyKind};
pub use status::{NameState, NameStatus};
pub use storage::{Storage, StorageError};
