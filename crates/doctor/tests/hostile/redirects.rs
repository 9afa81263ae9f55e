//! Redirects that lead nowhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use keepwarm_doctor::Verdict;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use crate::server::{RESPONSE, check, found, request, serve, settings, together};

/// Redirects every request to this location.
async fn redirecting(location: &'static str) -> String {
    let address = serve(0, move |mut stream| async move {
        request(&mut stream).await?;
        let field = if location.is_empty() { String::new() } else { format!("Location: {location}\r\n") };
        let response = format!("HTTP/1.1 302 Found\r\n{field}Connection: close\r\nContent-Length: 0\r\n\r\n");
        stream.write_all(response.as_bytes()).await
    })
    .await;
    format!("http://{address}/")
}

#[tokio::test]
async fn in_a_circle() {
    let it = check(&redirecting("/").await, &settings()).await;
    found(&it, "reach.redirects", Verdict::Bad, "form a circle: http://127.0.0.1:");
    assert_eq!(it.results.len(), 1);
}

#[tokio::test]
async fn on_and_on() {
    let step = Arc::new(AtomicUsize::new(0));
    let address = serve(0, move |mut stream| {
        let step = Arc::clone(&step);
        async move {
            request(&mut stream).await?;
            let step = step.fetch_add(1, Ordering::Relaxed);
            let response = format!("HTTP/1.1 301 Moved\r\nLocation: /{step}\r\nContent-Length: 0\r\n\r\n");
            stream.write_all(response.as_bytes()).await
        }
    })
    .await;
    let it = check(&format!("http://{address}/"), &settings()).await;
    found(&it, "reach.redirects", Verdict::Bad, "do not end: http://");
}

#[tokio::test]
async fn to_garbage() {
    let cases = [
        ("http://", Verdict::Bad),
        ("http://[::1/", Verdict::Bad),
        ("http://127.0.0.1:99999/", Verdict::Bad),
        ("http://unix:/run/app.sock", Verdict::Bad),
        ("", Verdict::Warning),
        ("app://home", Verdict::Good),
    ];
    together(cases.map(|(location, verdict)| async move {
        let it = check(&redirecting(location).await, &settings()).await;
        found(&it, "reach.redirects", verdict, "302");
        // The response that redirects is examined in place of the one that cannot be reached.
        assert!(it.results.len() > 1, "{location}");
    }))
    .await;
}

#[tokio::test]
async fn to_nobody() {
    let gone = TcpListener::bind("127.0.0.1:0").await.expect("a free port").local_addr().expect("bound");
    let location: &'static str = format!("http://{gone}/").leak();
    let it = check(&redirecting(location).await, &settings()).await;
    let finding = found(&it, "reach.connection", Verdict::Bad, "(redirected from http://127.0.0.1:");
    assert!(finding.evidence.contains(&format!("nothing listens on {gone}")), "{}", finding.evidence);
}

#[tokio::test]
async fn to_another_server_without_what_is_secret() {
    let heard = Arc::new(std::sync::Mutex::new(String::new()));
    let told = Arc::clone(&heard);
    let address = serve(0, move |mut stream| {
        let told = Arc::clone(&told);
        async move {
            let head = request(&mut stream).await?;
            told.lock().unwrap().push_str(&head);
            stream.write_all(RESPONSE).await
        }
    })
    .await;
    let location: &'static str = format!("http://{address}/").leak();
    let mut settings = settings();
    settings.headers = vec![
        ("Authorization".to_owned(), "Basic c2VjcmV0".to_owned()),
        ("X-Debug".to_owned(), "1".to_owned()),
    ];
    let it = check(&redirecting(location).await, &settings).await;
    found(&it, "reach.redirects", Verdict::Good, "one redirect");
    let heard = heard.lock().unwrap();
    assert!(heard.contains("X-Debug: 1") && !heard.contains("Authorization"), "{heard}");
}
