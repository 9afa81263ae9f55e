//! The messages for each fault.

use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, date_time_ymd};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

use super::kit::{Authority, V12, V13, chain, key, pem, responding, server, start};
use super::*;
use crate::{CaSource, ClientTls, TlsPart, TlsVersion};

/// The server's certificate and the client's settings; returns the message.
async fn refused(authority: &Authority, identity: &kit::Identity, name: &str) -> crate::TlsError {
    let server = start(server(identity, V13), responding(HELLO));
    match dial(&server.endpoint, &authority.client(name)).await.unwrap_err() {
        crate::AcquireError::Tls(error) => error,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_certificate_for_another_name_is_refused_with_both_names() {
    run(async {
        let authority = Authority::new();
        let error = refused(&authority, &authority.identity("b.test"), "a.test").await;
        assert_eq!(error.name, "certificate_name");
        assert_eq!(error.sentence, "the server's certificate is for b.test, not for a.test");
        let error = refused(&authority, &authority.identity("127.0.0.2"), "127.0.0.1").await;
        assert_eq!(error.sentence, "the server's certificate is for 127.0.0.2, not for 127.0.0.1");
    })
    .await;
}

#[tokio::test]
async fn a_certificate_out_of_its_time_is_refused_with_the_date() {
    run(async {
        let authority = Authority::new();
        let mut params = CertificateParams::new(vec!["a.test".to_owned()]).unwrap();
        params.not_after = date_time_ymd(2020, 2, 3);
        let error = refused(&authority, &authority.sign(&params), "a.test").await;
        assert_eq!(error.name, "certificate_expired");
        assert_eq!(error.sentence, "the certificate of a.test expired on Mon, 03 Feb 2020 00:00:00 GMT");
        params.not_after = date_time_ymd(4096, 1, 1);
        params.not_before = date_time_ymd(4095, 1, 1);
        let error = refused(&authority, &authority.sign(&params), "a.test").await;
        assert_eq!(error.name, "certificate_not_yet_valid");
        assert!(error.sentence.contains("4095"), "{error}");
    })
    .await;
}

#[tokio::test]
async fn a_certificate_of_an_unknown_authority_is_refused() {
    run(async {
        let (authority, other) = (Authority::new(), Authority::new());
        let error = refused(&authority, &other.identity("a.test"), "a.test").await;
        assert_eq!(error.name, "certificate_unknown_issuer");
        assert!(error.sentence.contains("a.test; set ca"), "{error}");
    })
    .await;
}

/// The output of `openssl req -x509` by default.
#[tokio::test]
async fn an_authority_is_no_server_and_a_server_may_be_its_own() {
    run(async {
        let mut params = CertificateParams::new(vec!["a.test".to_owned()]).unwrap();
        for own in [true, false] {
            params.is_ca = if own { IsCa::ExplicitNoCa } else { IsCa::Ca(BasicConstraints::Unconstrained) };
            let made = KeyPair::generate().unwrap();
            let cert = params.self_signed(&made).unwrap().pem();
            let identity = kit::Identity { cert: cert.clone(), key: made.serialize_pem() };
            let server = start(server(&identity, V13), responding(HELLO));
            let settings = crate::TlsSettings {
                ca: CaSource::Only(pem("ca.pem", &cert)),
                ..Authority::new().settings("a.test")
            };
            let dialled = dial(&server.endpoint, &ClientTls::new(&settings).unwrap()).await;
            assert_eq!(
                dialled.map_or_else(|error| error.name(), |_| ""),
                if own { "" } else { "certificate_is_authority" }
            );
        }
    })
    .await;
}

#[tokio::test]
async fn a_server_in_clear_and_one_that_hangs_up_are_told_apart() {
    run(async {
        let authority = Authority::new();
        for (response, name) in
            [("HTTP/1.1 400 Bad Request\r\n\r\n", "tls_not_spoken"), ("", "tls_broken_off")]
        {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let endpoint = Endpoint::Tcp(listener.local_addr().unwrap());
            let server = std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let _ = stream.read(&mut [0; 4096]).unwrap();
                stream.write_all(response.as_bytes()).unwrap();
            });
            let error = dial(&endpoint, &authority.client("a.test")).await.unwrap_err();
            assert_eq!(error.name(), name, "{error}");
            server.join().unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn a_handshake_that_is_never_answered_ends_in_time() {
    run(async {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = Endpoint::Tcp(listener.local_addr().unwrap());
        let tls = Authority::new().client("a.test");
        let dial = Dial {
            endpoint: &endpoint,
            tls: Some(&tls),
            connect_timeout: Duration::from_secs(10),
            handshake_timeout: Duration::from_millis(50),
        };
        assert_eq!(dial.run().await.unwrap_err().name(), "tls_timeout");
    })
    .await;
}

#[tokio::test]
async fn a_server_older_than_the_minimum_is_refused() {
    run(async {
        let authority = Authority::new();
        let server = start(server(&authority.identity("a.test"), V12), responding(HELLO));
        let mut settings = authority.settings("a.test");
        settings.min_version = TlsVersion::Tls13;
        let error = dial(&server.endpoint, &ClientTls::new(&settings).unwrap()).await.unwrap_err();
        assert_eq!(error.name(), "tls_incompatible");
        assert!(error.to_string().contains("min_tls"), "{error}");
    })
    .await;
}

fn demanding(authority: &Authority, version: &[&'static rustls::SupportedProtocolVersion]) -> ServerConfig {
    let mut roots = RootCertStore::empty();
    roots.add(chain(&authority.pem).remove(0)).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider)).build().unwrap();
    let identity = authority.identity("a.test");
    ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(version)
        .unwrap()
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain(&identity.cert), key(&identity.key))
        .unwrap()
}

#[tokio::test]
async fn a_client_certificate_is_shown_when_it_is_demanded() {
    run(async {
        let (authority, other) = (Authority::new(), Authority::new());
        for version in [V12, V13] {
            let server = start(demanding(&authority, version), |mut stream| {
                let Some(_) = read_head(&mut stream) else { return };
                let shown = stream.conn.peer_certificates().map_or(0, <[_]>::len);
                let response = format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{shown}");
                stream.write_all(response.as_bytes()).unwrap();
            });
            let mut settings = authority.settings("a.test");
            let outcome = async |settings: &crate::TlsSettings| {
                let mut client = match dial(&server.endpoint, &ClientTls::new(settings).unwrap()).await {
                    Ok(client) => client,
                    Err(error) => return Err(error.to_string()),
                };
                // With 1.3 the refusal comes after the handshake.
                ask(&mut client).await.map_err(|error| error.to_string())
            };
            let error = outcome(&settings).await.unwrap_err();
            assert!(error.contains("client certificate"), "{error}");
            let wrong = other.identity("client");
            settings.identity = Some((pem("c.pem", &wrong.cert), pem("c.key", &wrong.key)));
            let error = outcome(&settings).await.unwrap_err();
            assert!(error.contains("refused the client certificate"), "{error}");
            let right = authority.identity("client");
            settings.identity = Some((pem("c.pem", &right.cert), pem("c.key", &right.key)));
            assert_eq!(outcome(&settings).await.unwrap(), (200, b"1".to_vec()));
        }
    })
    .await;
}

#[test]
fn each_bad_file_is_named() {
    let authority = Authority::new();
    let (one, two) = (authority.identity("one"), authority.identity("two"));
    let good = || authority.settings("a.test");
    let said = |settings: &crate::TlsSettings| ClientTls::new(settings).unwrap_err();
    let identity = |cert: &str, key: &str| crate::TlsSettings {
        identity: Some((pem("/x/client.pem", cert), pem("/x/client.key", key))),
        ..good()
    };
    let broken = "-----BEGIN CERTIFICATE-----\n!!!\n-----END CERTIFICATE-----\n";
    let cases = [
        (
            crate::TlsSettings { ca: CaSource::Only(pem("/x/ca.pem", "")), ..good() },
            TlsPart::Ca,
            "/x/ca.pem has no certificate in it",
        ),
        (
            crate::TlsSettings { ca: CaSource::Only(pem("/x/ca.pem", broken)), ..good() },
            TlsPart::Ca,
            "/x/ca.pem is not a PEM file of certificates",
        ),
        (identity(&one.key, &one.key), TlsPart::Certificate, "/x/client.pem has no certificate in it"),
        (identity(&one.cert, &one.cert), TlsPart::Key, "/x/client.key has no private key in it"),
        (
            identity(&one.cert, &two.key),
            TlsPart::Key,
            "/x/client.key is not the key of the certificate in /x/client.pem",
        ),
        (
            identity(&one.cert, &one.key.replace("PRIVATE", "ENCRYPTED PRIVATE")),
            TlsPart::Key,
            "/x/client.key is encrypted",
        ),
        (
            crate::TlsSettings { server_name: "a b".to_owned(), ..good() },
            TlsPart::ServerName,
            "\"a b\" is neither a DNS name nor an address",
        ),
    ];
    for (settings, part, sentence) in cases {
        let error = said(&settings);
        assert_eq!(error.part, part, "{error}");
        assert!(error.sentence.starts_with(sentence), "{error}");
    }
}

#[test]
fn a_key_is_never_printed_and_equal_settings_are_equal() {
    let authority = Authority::new();
    let identity = authority.identity("one");
    let mut settings = authority.settings("a.test");
    settings.identity = Some((pem("c.pem", &identity.cert), pem("c.key", &identity.key)));
    assert!(!format!("{settings:?}").contains("PRIVATE"));
    let tls = ClientTls::new(&settings).unwrap();
    assert_eq!(*tls.settings(), settings);
    let other = authority.identity("one");
    settings.identity = Some((pem("c.pem", &other.cert), pem("c.key", &other.key)));
    assert_ne!(*tls.settings(), settings);
}

/// A private authority beside the system's.
#[tokio::test]
async fn a_private_authority_can_stand_beside_the_systems() {
    run(async {
        let authority = Authority::new();
        let server = start(server(&authority.identity("a.test"), V13), responding(HELLO));
        let settings = crate::TlsSettings {
            ca: CaSource::Also(pem("ca.pem", &authority.pem)),
            ..authority.settings("a.test")
        };
        let mut client = dial(&server.endpoint, &ClientTls::new(&settings).unwrap()).await.unwrap();
        ask(&mut client).await.unwrap();
        let settings = crate::TlsSettings { ca: CaSource::System, ..settings };
        let error = dial(&server.endpoint, &ClientTls::new(&settings).unwrap()).await.unwrap_err();
        assert_eq!(error.name(), "certificate_unknown_issuer");
    })
    .await;
}
