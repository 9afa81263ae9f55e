//! Servers, each with one fault, on the wire. They read as strictly as the workspace's own decoder; a fault changes the bytes before it reads them, or its
//! response.

use std::sync::Arc;

use http::Method;
use keepwarm_http1::{Event, Limits, RequestBody, RequestDecoder, RequestHead};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::probes::scripted::listen;
use crate::{Examination, Probe, Settings, SilentWatcher, Verdict};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FramingFault {
    None,
    /// Responds once, and closes.
    NeverKeeps,
    /// 401 to everything.
    Unauthorized,

    BytesBehind,
    TwoResponses,
    OneRead,
    NamesByCase,
    LeavesBody,
    IgnoresChunks,
    NoOptions,

    /// `Content-Length` counts, where there is `Transfer-Encoding`, too.
    LengthCounts,
    /// The chunks count, and the connection continues.
    ChunksCount,
    FirstLength,
    SignedLength,
    BlankBeforeColon,
    CodingsThatEndOtherwise,
    SignedChunk,
    BareLf,
    FieldsFromFolds,
    Folding,
    FirstHost,
}

const LENGTH: &str = "Content-Length: ";

impl FramingFault {
    /// The bytes that the decoder gets.
    fn mend(self, bytes: Vec<u8>) -> Vec<u8> {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let mended = match self {
            Self::LengthCounts if text.contains(LENGTH) => text.replace("Transfer-Encoding: chunked\r\n", ""),
            Self::ChunksCount if text.contains("chunked\r\n") => without(&text, LENGTH),
            Self::FirstLength => text.replace(&format!("{LENGTH}0\r\n{LENGTH}"), LENGTH),
            Self::SignedLength => text.replace(": +", ": "),
            Self::BlankBeforeColon => text.replace(" : ", ": "),
            Self::CodingsThatEndOtherwise => text.replace("chunked, identity", "chunked"),
            Self::SignedChunk => text.replace("\r\n+5\r\n", "\r\n5\r\n"),
            Self::BareLf => text.replace("\r\n", "\n").replace('\n', "\r\n"),
            Self::Folding => text.replace("\r\n ", " "),
            Self::FieldsFromFolds => text.replace("\r\n ", "\r\n"),
            Self::NamesByCase => text.replace("\r\nconnection:", "\r\nx-connection:"),
            Self::FirstHost => without(&text, "Host: keepwarm-check"),
            _ => return bytes,
        };
        mended.into_bytes()
    }
}

fn without(text: &str, line: &str) -> String {
    text.split_inclusive("\r\n").filter(|known| !known.starts_with(line)).collect()
}

async fn serve(mut stream: TcpStream, fault: FramingFault) -> Option<()> {
    let (mut inbox, mut decoder, mut head) =
        (Vec::new(), RequestDecoder::new(Limits::default()), RequestHead::default());
    let mut close = false;
    loop {
        let decoded = match decoder.decode(&inbox, &mut head) {
            Ok(decoded) => decoded,
            Err(refused) => {
                let response = format!(
                    "HTTP/1.1 {} No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
                    refused.status()
                );
                return stream.write_all(response.as_bytes()).await.ok();
            }
        };
        inbox.drain(..decoded.consumed);
        match decoded.event {
            Event::NeedMore => {
                inbox.reserve(64 * 1024);
                if stream.read_buf(&mut inbox).await.ok()? == 0 {
                    return None;
                }
                inbox = fault.mend(inbox);
                if fault == FramingFault::OneRead && !inbox.windows(4).any(|four| four == b"\r\n\r\n") {
                    inbox = b"?\r\n\r\n".to_vec();
                }
            }
            Event::Head => {
                close = head.connection.close || fault == FramingFault::NeverKeeps;
                let leaves = match head.body {
                    RequestBody::None => false,
                    RequestBody::Length(_) => fault == FramingFault::LeavesBody,
                    RequestBody::Chunked => {
                        matches!(fault, FramingFault::LeavesBody | FramingFault::IgnoresChunks)
                    }
                };
                if leaves {
                    respond(&mut stream, &head, fault, close).await?;
                    decoder = RequestDecoder::new(Limits::default());
                }
            }
            Event::End => {
                respond(&mut stream, &head, fault, close).await?;
                if close {
                    return None;
                }
            }
            _ => {}
        }
    }
}

async fn respond(stream: &mut TcpStream, head: &RequestHead, fault: FramingFault, close: bool) -> Option<()> {
    let known = [Method::GET, Method::HEAD, Method::OPTIONS].contains(&head.method);
    let status = match (head.refusal, fault) {
        (Some(refusal), _) => refusal.status(),
        (None, FramingFault::Unauthorized) => 401,
        (None, _) if !known => 501,
        (None, _) => 200,
    };
    if fault == FramingFault::NoOptions && head.method == Method::OPTIONS {
        return Some(());
    }
    let connection = if close { "Connection: close\r\n" } else { "" };
    let mut response = format!("HTTP/1.1 {status} It\r\nContent-Length: 4\r\n{connection}\r\npong");
    match fault {
        FramingFault::BytesBehind => response.push_str("\r\n"),
        FramingFault::TwoResponses => response = response.repeat(2),
        _ => {}
    }
    stream.write_all(response.as_bytes()).await.ok()
}

async fn examined(fault: FramingFault, intrusive: bool) -> Examination {
    let target = listen(move |stream| serve(stream, fault)).await;
    let settings = Settings { probes: vec![Probe::Framing], rate: 1000, intrusive, ..Settings::default() };
    crate::examine(&target, &settings, Arc::new(SilentWatcher)).await
}

fn blamed(examination: &Examination, verdict: Verdict) -> Vec<&'static str> {
    let findings = examination.results.iter().flat_map(|result| &result.findings);
    findings.filter(|finding| finding.verdict == verdict).map(|finding| finding.id).collect()
}

async fn hold(cases: &[(FramingFault, &[&'static str], &[&'static str])], intrusive: bool) {
    let running: Vec<_> = cases.iter().map(|&(fault, ..)| tokio::spawn(examined(fault, intrusive))).collect();
    for (running, (fault, bad, warnings)) in running.into_iter().zip(cases) {
        let examination = running.await.expect("no panic");
        assert_eq!(&blamed(&examination, Verdict::Bad), bad, "{fault:?}: {examination:#?}");
        assert_eq!(&blamed(&examination, Verdict::Warning), warnings, "{fault:?}: {examination:#?}");
        for finding in examination.results.iter().flat_map(|result| &result.findings) {
            let blamed = finding.verdict > Verdict::Unknown;
            assert!(!blamed || finding.fix.is_some() && finding.cost.is_some(), "{finding:?}");
        }
    }
}

#[tokio::test]
async fn what_is_unusual_is_asked_of_everybody() {
    hold(
        &[
            (FramingFault::None, &[], &[]),
            (FramingFault::NeverKeeps, &[], &[]),
            (FramingFault::Unauthorized, &[], &[]),
            (FramingFault::BytesBehind, &["framing.bytes_after_response"], &[]),
            (FramingFault::OneRead, &["framing.split_head"], &[]),
            (FramingFault::NamesByCase, &["framing.field_names"], &[]),
            (FramingFault::LeavesBody, &["framing.unwanted_body", "framing.chunked_body"], &[]),
            (FramingFault::IgnoresChunks, &["framing.chunked_body"], &[]),
            (FramingFault::NoOptions, &[], &["framing.asterisk"]),
        ],
        false,
    )
    .await;
}

#[tokio::test]
async fn what_is_malformed_is_asked_on_request_and_a_boundary_that_moves_is_bad() {
    hold(
        &[
            (FramingFault::None, &[], &[]),
            (FramingFault::NeverKeeps, &[], &[]),
            (FramingFault::LengthCounts, &["framing.both_lengths"], &[]),
            (FramingFault::ChunksCount, &["framing.both_lengths"], &[]),
            (FramingFault::FirstLength, &["framing.differing_lengths"], &[]),
            (FramingFault::SignedLength, &["framing.length_syntax"], &[]),
            (FramingFault::BlankBeforeColon, &["framing.space_before_colon"], &[]),
            (FramingFault::CodingsThatEndOtherwise, &["framing.transfer_coding"], &[]),
            (FramingFault::SignedChunk, &["framing.chunk_size"], &[]),
            (FramingFault::FieldsFromFolds, &["framing.folding"], &[]),
            (FramingFault::FirstHost, &["framing.two_hosts"], &[]),
            (FramingFault::BareLf, &[], &["framing.chunk_line_end", "framing.bare_lf"]),
            (FramingFault::Folding, &[], &["framing.folding"]),
        ],
        true,
    )
    .await;
}

#[tokio::test]
async fn a_second_response_that_nobody_asked_for_is_found() {
    hold(&[(FramingFault::TwoResponses, &["framing.bytes_after_response"], &[])], true).await;
}
