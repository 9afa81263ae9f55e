//! Servers that respond properly, and with errors.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use keepwarm_doctor::{Examination, Verdict};
use tokio::io::AsyncWriteExt;

use crate::server::{RESPONSE, check, every_probe_spoke, found, hasty, request, serve};

/// Examines a server that sends this after `well` requests.
async fn examine(well: u32, refusal: &'static str) -> Examination {
    let asked = Arc::new(AtomicU32::new(0));
    let address = serve(0, move |mut stream| {
        let asked = Arc::clone(&asked);
        async move {
            request(&mut stream).await?;
            match asked.fetch_add(1, Ordering::Relaxed) < well {
                true => stream.write_all(RESPONSE).await,
                false => stream.write_all(refusal.as_bytes()).await,
            }
        }
    })
    .await;
    check(&format!("http://{address}/"), &hasty()).await
}

#[tokio::test]
async fn a_page_that_is_an_error_is_named() {
    let (login, broken) = tokio::join!(
        examine(0, "HTTP/1.1 401 Unauthorized\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"),
        examine(0, "HTTP/1.1 500 Internal Server Error\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"),
    );
    for (it, status, fix) in [(login, "401", "Authorization"), (broken, "500", "log")] {
        every_probe_spoke(&it);
        let finding =
            found(&it, "reach.response", Verdict::Unknown, "everything below is about this response");
        assert!(finding.evidence.contains(status), "{finding:?}");
        assert!(finding.fix.as_ref().is_some_and(|text| text.contains(fix)), "{finding:?}");
        assert_eq!(it.results[0].id, "reach");
    }
}

#[tokio::test]
async fn a_limit_on_requests_is_named() {
    let limited = "HTTP/1.1 429 Too Many Requests\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    let it = examine(20, limited).await;
    every_probe_spoke(&it);
    let finding = found(&it, "reach.response", Verdict::Unknown, "429 or 503");
    assert!(finding.fix.as_ref().is_some_and(|text| text.contains("--rate")), "{finding:?}");
}
