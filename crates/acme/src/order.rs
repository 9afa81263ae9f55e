//! An order: from the name to the certificate.
//!
//! An order is saved as soon as it exists, with the key of its certificate. Whatever ends the process, the next attempt continues it where it was; nothing is
//! ordered twice.

use std::sync::Arc;
use std::time::Duration;

use instant_acme::{
    Account, AuthorizationStatus, CertificateIdentifier, ChallengeStatus, Error, Identifier, NewOrder, Order,
    OrderStatus, Problem, RetryPolicy,
};
use rcgen::{CertificateParams, DistinguishedName, KeyPair};

use crate::account::AuthorityAccess;
use crate::certificate::Certificate;
use crate::challenges::{Challenges, PublishedChallenge};
use crate::error::kind;
use crate::settings::ChallengeKind;
use crate::storage::SavedOrder;
use crate::{AcmeError, Storage};

/// How often an order is looked at while the authority works, and for how long. It is continued with the next attempt after that.
const POLLING: RetryPolicy = RetryPolicy::new()
    .initial_delay(Duration::from_millis(500))
    .backoff(1.5)
    .timeout(Duration::from_secs(5 * 60));

/// How often what an authority rejected for its nonce is asked again (RFC 8555 §6.5), after the two times of `instant-acme`.
const NONCES: u32 = 10;

/// An attempt to obtain a certificate.
pub(crate) struct Attempt<'a> {
    pub(crate) access: &'a AuthorityAccess,
    pub(crate) challenges: &'a Arc<Challenges>,
    pub(crate) name: &'a str,
    /// The preferred one first.
    pub(crate) kinds: &'a [ChallengeKind],
    /// The certificate that the new one takes the place of.
    pub(crate) replaces: Option<CertificateIdentifier<'static>>,
    /// Whether it shows only that the name can be validated: the certificate is not kept.
    pub(crate) trial: bool,
}

impl Attempt<'_> {
    pub(crate) async fn run(&self) -> Result<Certificate, AcmeError> {
        let mut rejected = 0;
        loop {
            match self.run_once().await {
                // Nothing is lost: the order is continued where it was.
                Err(error) if error.reason == "bad_nonce" && rejected < NONCES => rejected += 1,
                ended => return ended,
            }
        }
    }

    async fn run_once(&self) -> Result<Certificate, AcmeError> {
        let (account, client) = self.access.account().await?;
        let obtained = self.obtain(&account).await;
        if let Err(Failure { permanent: true, .. }) = obtained {
            self.forget_order().await?;
        }
        match obtained {
            Ok(certificate) => Ok(certificate),
            Err(Failure { error, .. }) => {
                if error.reason == "account" {
                    // It was deactivated, or the authority has lost it.
                    self.access.blocking(Storage::remove_account).await?;
                }
                let retry_after = error.retry_after.or_else(|| client.take_retry_after());
                Err(AcmeError { retry_after, ..error })
            }
        }
    }

    async fn obtain(&self, account: &Account) -> Result<Certificate, Failure> {
        let (mut order, key) = match self.resume(account).await? {
            Some(resumed) => resumed,
            None => self.begin(account).await?,
        };
        if order.state().status == OrderStatus::Pending {
            let published = self.meet_challenges(&mut order).await?;
            let polled = poll_ready(&mut order).await;
            drop(published);
            polled?;
            if order.state().status == OrderStatus::Invalid {
                return Err(self.failure(&mut order).await);
            }
        }
        if order.state().status == OrderStatus::Ready {
            let request = request(self.name, &key).map_err(|error| Failure::permanent("key", error))?;
            order.finalize_csr(&request).await?;
        }
        let chain = match order.state().status {
            OrderStatus::Valid => order.certificate().await?.unwrap_or_default(),
            OrderStatus::Invalid => return Err(self.failure(&mut order).await),
            _ => order.poll_certificate(&POLLING).await?,
        };
        self.accept(&chain, &key).await
    }

    /// The order under way, if there is one.
    async fn resume(&self, account: &Account) -> Result<Option<(Order, String)>, Failure> {
        let name = self.name.to_owned();
        let saved = match self.access.blocking(move |storage| storage.order(&name)).await {
            Ok(Some(saved)) => saved,
            Ok(None) => return Ok(None),
            Err(error) => {
                tracing::warn!(name: "acme_order_unreadable", certificate = self.name, %error, "a saved order cannot be read; a new one is placed");
                return Ok(None);
            }
        };
        match account.order(saved.url).await {
            Ok(mut order) => {
                if order.state().status != OrderStatus::Invalid {
                    return Ok(Some((order, saved.key)));
                }
            }
            // It has expired.
            Err(Error::Api(problem)) if ends_order(&problem) => {}
            Err(error) => return Err(error.into()),
        }
        self.forget_order().await?;
        Ok(None)
    }

    async fn begin(&self, account: &Account) -> Result<(Order, String), Failure> {
        let key = KeyPair::generate_for(self.access.settings().key.algorithm())
            .map_err(|error| Failure::permanent("key", error.to_string()))?
            .serialize_pem();
        let identifiers = [match self.name.parse() {
            Ok(address) => Identifier::Ip(address),
            Err(_) => Identifier::Dns(self.name.to_owned()),
        }];
        let new = || {
            let order = NewOrder::new(&identifiers);
            match &self.access.settings().profile {
                Some(profile) => order.profile(profile),
                None => order,
            }
        };
        let placed = match self.replaces.clone() {
            None => account.new_order(&new()).await,
            Some(replaces) => match account.new_order(&new().replaces(replaces)).await {
                // Without ARI, or not by this authority or account, or replaced already: it is an ordinary order.
                Err(Error::Unsupported(_)) => account.new_order(&new()).await,
                Err(Error::Api(problem)) if ends_order(&problem) => account.new_order(&new()).await,
                placed => placed,
            },
        };
        let order = placed?;
        let saved = SavedOrder { url: order.url().to_owned(), key: key.clone() };
        let name = self.name.to_owned();
        self.access.blocking(move |storage| storage.save_order(&name, &saved)).await?;
        Ok((order, key))
    }

    /// Publishes a response for each authorization that needs one, and tells the authority.
    async fn meet_challenges(&self, order: &mut Order) -> Result<Vec<PublishedChallenge>, Failure> {
        let mut published = Vec::new();
        let mut authorizations = order.authorizations();
        while let Some(authorization) = authorizations.next().await {
            let mut authorization = authorization?;
            if authorization.status != AuthorizationStatus::Pending {
                continue;
            }
            let offered = |kind: &&ChallengeKind| {
                authorization.challenges.iter().any(|one| one.r#type == kind.protocol_type())
            };
            let Some(kind) = self.kinds.iter().find(offered) else {
                return Err(Failure::permanent("challenge", self.no_challenge(&authorization.challenges)));
            };
            let Some(mut challenge) = authorization.challenge(kind.protocol_type()) else { continue };
            let response = challenge.key_authorization();
            published.push(match kind {
                ChallengeKind::Http01 => self.challenges.publish_http(&challenge.token, response.as_str()),
                ChallengeKind::TlsAlpn01 => self
                    .challenges
                    .publish_tls(self.name, response.digest().as_ref())
                    .map_err(|error| Failure::permanent("challenge", error))?,
            });
            // One that is processed already was told before a restart.
            if challenge.status == ChallengeStatus::Pending {
                challenge.set_ready().await?;
            }
        }
        Ok(published)
    }

    fn no_challenge(&self, offered: &[instant_acme::Challenge]) -> String {
        let offered: Vec<String> = offered.iter().map(|one| format!("{:?}", one.r#type)).collect();
        let ours: Vec<&str> = self.kinds.iter().map(|kind| kind.name()).collect();
        format!(
            "the authority offers {} for {}, and this configuration can meet {}; http-01 takes a listener on port 80, tls-alpn-01 one with TLS on port 443",
            offered.join(", "),
            self.name,
            if ours.is_empty() { "none".to_owned() } else { ours.join(", ") }
        )
    }

    /// Why an order became invalid: the reason stands in the challenge that failed.
    async fn failure(&self, order: &mut Order) -> Failure {
        let own = order.state().error.as_ref().map(AcmeError::of_problem);
        let mut authorizations = order.authorizations();
        while let Some(Ok(mut authorization)) = authorizations.next().await {
            let mut rejected = 0;
            while let Err(Error::Api(problem)) = authorization.refresh().await {
                if kind(&problem) != "badNonce" || rejected == NONCES {
                    break;
                }
                rejected += 1;
            }
            for challenge in &authorization.challenges {
                let Some(problem) = &challenge.error else { continue };
                let kinds = [ChallengeKind::Http01, ChallengeKind::TlsAlpn01];
                let by = kinds
                    .iter()
                    .find(|kind| kind.protocol_type() == challenge.r#type)
                    .map_or("a challenge", |kind| kind.name());
                return Failure { permanent: true, error: AcmeError::of_validation(problem, self.name, by) };
            }
        }
        let unknown = || AcmeError::new("refused", "the authority ended the order without a reason");
        Failure { permanent: true, error: own.unwrap_or_else(unknown) }
    }

    /// Checks what the authority issued, and keeps it before anything else can go wrong.
    async fn accept(&self, chain: &str, key: &str) -> Result<Certificate, Failure> {
        let wrong = |what: String| {
            Failure::permanent(
                "certificate",
                format!("the certificate from the authority is not usable: {what}"),
            )
        };
        let certificate = Certificate::from_pem(&format!("{key}{chain}")).map_err(wrong)?;
        if !certificate.facts.has_name(self.name) {
            return Err(wrong(format!("it is for {}", certificate.facts.names.join(", "))));
        }
        let (name, kept, trial) = (self.name.to_owned(), certificate.clone(), self.trial);
        self.access
            .blocking(move |storage| {
                if !trial {
                    storage.save_certificate(&name, &kept)?;
                }
                storage.remove_order(&name)
            })
            .await?;
        Ok(certificate)
    }

    async fn forget_order(&self) -> Result<(), AcmeError> {
        let name = self.name.to_owned();
        self.access.blocking(move |storage| storage.remove_order(&name)).await
    }
}

/// Waits until the authority has validated the name, or not. Responses to its challenges stay published while this runs, so a rejected nonce does not end it.
async fn poll_ready(order: &mut Order) -> Result<(), Error> {
    let mut rejected = 0;
    loop {
        match order.poll_ready(&POLLING).await {
            Ok(_) => return Ok(()),
            Err(Error::Api(problem)) if order.state().error.is_none() => {
                if kind(&problem) != "badNonce" || rejected == NONCES {
                    return Err(Error::Api(problem));
                }
                rejected += 1;
            }
            // It is the order's own error: its state says so.
            Err(Error::Api(_)) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

/// A failed attempt.
struct Failure {
    error: AcmeError,
    /// The order is over. Otherwise the next attempt continues it.
    permanent: bool,
}

impl Failure {
    fn permanent(reason: &'static str, sentence: impl Into<String>) -> Self {
        Self { error: AcmeError::new(reason, sentence), permanent: true }
    }
}

impl From<AcmeError> for Failure {
    fn from(error: AcmeError) -> Self {
        Self { error, permanent: false }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let permanent = match &error {
            Error::Api(problem) => ends_order(problem),
            _ => false,
        };
        Self { error: AcmeError::of(&error), permanent }
    }
}

/// Whether another attempt with the same order would fail in the same way.
fn ends_order(problem: &Problem) -> bool {
    let server = problem.status.is_some_and(|status| status >= 500);
    !server && !matches!(kind(problem), "rateLimited" | "badNonce" | "serverInternal" | "orderNotReady")
}

/// The request for a certificate (PKCS #10).
fn request(name: &str, key: &str) -> Result<Vec<u8>, String> {
    let key =
        KeyPair::from_pem(key).map_err(|error| format!("the key of a saved order is not usable: {error}"))?;
    let mut params = CertificateParams::new([name.to_owned()]).map_err(|error| error.to_string())?;
    params.distinguished_name = DistinguishedName::new();
    Ok(params.serialize_request(&key).map_err(|error| error.to_string())?.der().to_vec())
}
