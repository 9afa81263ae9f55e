//! The account at an authority.

use std::path::Path;
use std::sync::Arc;

use instant_acme::{Account, AccountCredentials, ExternalAccountKey, NewAccount};
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use crate::AcmeError;
use crate::client::Client;
use crate::settings::{AcmeSettings, Authority};
use crate::storage::{Storage, StorageError};

/// As it is stored.
#[derive(Serialize, Deserialize)]
struct SavedAccount {
    contacts: Vec<String>,
    credentials: AccountCredentials,
}

/// An authority, and how to be known there.
#[derive(Debug, Clone)]
pub(crate) struct AuthorityAccess {
    authority: Authority,
    settings: Arc<AcmeSettings>,
    pub(crate) storage: Storage,
    /// Of several names that start together, one registers.
    registering: Arc<Mutex<()>>,
}

impl AuthorityAccess {
    pub(crate) fn open(
        root: &Path,
        authority: &Authority,
        settings: &Arc<AcmeSettings>,
    ) -> Result<Self, StorageError> {
        Ok(Self {
            authority: authority.clone(),
            settings: Arc::clone(settings),
            storage: Storage::open(root, authority)?,
            registering: Arc::default(),
        })
    }

    pub(crate) fn directory(&self) -> &str {
        &self.authority.directory
    }

    pub(crate) fn settings(&self) -> &AcmeSettings {
        &self.settings
    }

    /// Runs a call that may block.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Storage) -> Result<T, StorageError> + Send + 'static,
    ) -> Result<T, AcmeError> {
        let storage = self.storage.clone();
        match tokio::task::spawn_blocking(move || call(&storage)).await {
            Ok(result) => result.map_err(|error| AcmeError::new("storage", format!("acme.storage: {error}"))),
            Err(error) => Err(AcmeError::new("storage", error.to_string())),
        }
    }

    /// The account, registered if there is none, and a client of its own.
    pub(crate) async fn account(&self) -> Result<(Account, Client), AcmeError> {
        let authority = self.authority.clone();
        let client = tokio::task::spawn_blocking(move || Client::new(&authority))
            .await
            .map_err(|error| AcmeError::new("client", error.to_string()))??;
        let registering = self.registering.lock().await;
        let account = match self.blocking(Storage::account::<SavedAccount>).await? {
            None => self.register(&client).await?,
            Some(saved) => {
                drop(registering);
                self.restore(saved, &client).await?
            }
        };
        Ok((account, client))
    }

    async fn register(&self, client: &Client) -> Result<Account, AcmeError> {
        let contacts: Vec<&str> = self.settings.contacts.iter().map(String::as_str).collect();
        let new =
            NewAccount { contact: &contacts, terms_of_service_agreed: true, only_return_existing: false };
        let external = self
            .settings
            .external_account
            .as_ref()
            .map(|own| ExternalAccountKey::new(own.id.clone(), &own.key));
        let (account, credentials) = Account::builder_with_http(Box::new(client.clone()))
            .create(&new, self.authority.directory.clone(), external.as_ref())
            .await
            .map_err(|error| AcmeError::of(&error))?;
        let saved = SavedAccount { contacts: self.settings.contacts.clone(), credentials };
        self.blocking(move |storage| storage.save_account(&saved)).await?;
        tracing::info!(
            name: "acme_account_registered",
            directory = self.directory(), account = account.id(), "registered an account with the ACME authority"
        );
        Ok(account)
    }

    async fn restore(&self, saved: SavedAccount, client: &Client) -> Result<Account, AcmeError> {
        let current = saved.contacts == self.settings.contacts;
        let account = Account::builder_with_http(Box::new(client.clone()))
            .from_credentials(saved.credentials)
            .await
            .map_err(|error| AcmeError::of(&error))?;
        if !current {
            self.update_contacts(&account).await?;
        }
        Ok(account)
    }

    async fn update_contacts(&self, account: &Account) -> Result<(), AcmeError> {
        let contacts: Vec<&str> = self.settings.contacts.iter().map(String::as_str).collect();
        account.update_contacts(&contacts).await.map_err(|error| AcmeError::of(&error))?;
        let contacts = self.settings.contacts.clone();
        self.blocking(move |storage| match storage.account::<SavedAccount>()? {
            Some(saved) => storage.save_account(&SavedAccount { contacts, ..saved }),
            None => Ok(()),
        })
        .await
    }
}
