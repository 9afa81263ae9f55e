//! Bodies through every encoder, decoded by others: flate2's reader, the decoder of the brotli crate, libzstd.

use std::future::poll_fn;
use std::io::Read;
use std::task::Poll;
use std::time::Duration;

use keepwarm_policy::compression::{Coding, CompressionLevel};

use super::body::{BodyEnd, CompressedBody};

const LEVELS: [CompressionLevel; 3] =
    [CompressionLevel::Fast, CompressionLevel::Balanced, CompressionLevel::Small];

/// Text that repeats, and does not.
fn text(length: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_u32;
    let mut word = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        format!("<p class=\"item\">{:x}</p>\n", state % 9973)
    };
    let mut text = Vec::with_capacity(length + 64);
    while text.len() < length {
        text.extend_from_slice(word().as_bytes());
    }
    text.truncate(length);
    text
}

fn body(coding: Coding, level: CompressionLevel, length: Option<u64>) -> CompressedBody {
    CompressedBody::new(coding, level, length, false).expect("memory")
}

/// Everything that can be decoded, and whether that is a whole message.
fn decoded(coding: Coding, bytes: &[u8]) -> (Vec<u8>, bool) {
    let mut plain = Vec::new();
    let whole = match coding {
        Coding::Gzip => {
            flate2::read::MultiGzDecoder::new(bytes).read_to_end(&mut plain).is_ok() && !bytes.is_empty()
        }
        Coding::Brotli => brotli::Decompressor::new(bytes, 4096).read_to_end(&mut plain).is_ok(),
        Coding::Zstd => {
            let mut context = zstd_safe::DCtx::create();
            let mut input = zstd_safe::InBuffer::around(bytes);
            loop {
                plain.reserve(64 * 1024);
                let at = plain.len();
                let mut output = zstd_safe::OutBuffer::around_pos(&mut plain, at);
                let left = context.decompress_stream(&mut output, &mut input).expect("valid zstd");
                if left == 0 || (input.pos == bytes.len() && plain.len() < plain.capacity()) {
                    break left == 0;
                }
            }
        }
    };
    (plain, whole)
}

#[test]
fn every_size_in_every_piece_comes_back() {
    let sizes = [1, 2, 1023, 16 * 1024, 16 * 1024 + 1, 128 * 1024 - 1, 128 * 1024 + 1];
    for coding in Coding::ALL {
        for level in LEVELS {
            // Large ones by the default level alone: without optimization, encoders take long.
            let fits = |size: &usize| *size < 20_000 || level == CompressionLevel::Balanced;
            for size in sizes.into_iter().filter(fits) {
                for piece in [size, 4096, 7].into_iter().filter(|piece| size / piece < 400) {
                    let plain = text(size);
                    for length in [None, Some(size as u64)] {
                        let mut body = body(coding, level, length);
                        let mut out = Vec::new();
                        for part in plain.chunks(piece) {
                            assert_eq!(body.push(part, &mut out), Ok(true));
                        }
                        assert_eq!(body.finish(&mut out), BodyEnd::Complete);
                        assert_eq!(
                            decoded(coding, &out),
                            (plain.clone(), true),
                            "{coding:?} {level:?} {size} by {piece}"
                        );
                        let without_last = out.split_last().map_or(&[][..], |(_, rest)| rest);
                        assert!(!decoded(coding, without_last).1, "{coding:?}: bytes after the end");
                    }
                }
            }
        }
    }
}

#[test]
fn noise_comes_back_too() {
    let noise: Vec<u8> = (0_u64..200_000)
        .map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23) >> 40) as u8)
        .collect();
    for coding in Coding::ALL {
        let mut body = body(coding, CompressionLevel::Balanced, None);
        let mut out = Vec::new();
        for part in noise.chunks(65_536) {
            assert_eq!(body.push(part, &mut out), Ok(true));
        }
        assert_eq!(body.finish(&mut out), BodyEnd::Complete);
        assert_eq!(decoded(coding, &out), (noise.clone(), true), "{coding:?}");
    }
}

#[test]
fn an_empty_stream_is_a_whole_message() {
    for coding in Coding::ALL {
        let mut out = Vec::new();
        assert_eq!(body(coding, CompressionLevel::Balanced, None).finish(&mut out), BodyEnd::Complete);
        assert_eq!(decoded(coding, &out), (Vec::new(), true), "{coding:?}");
    }
}

/// Without its end: neither before nor after the encoder was used by another response.
#[test]
fn a_body_that_breaks_off_is_no_whole_message() {
    for coding in Coding::ALL {
        for length in [None, Some(50_001)] {
            let mut out = Vec::new();
            let mut cut = body(coding, CompressionLevel::Balanced, length);
            assert_eq!(cut.push(&text(50_000), &mut out), Ok(true));
            assert_eq!(length.map(|_| cut.finish(&mut out)), length.map(|_| BodyEnd::TooShort));
            drop(cut);
            assert!(!decoded(coding, &out).1, "{coding:?} {length:?}");
            let mut out = Vec::new();
            let mut next = body(coding, CompressionLevel::Balanced, None);
            assert_eq!(next.push(b"next", &mut out), Ok(true));
            assert_eq!(next.finish(&mut out), BodyEnd::Complete);
            assert_eq!(decoded(coding, &out), (b"next".to_vec(), true), "{coding:?}");
        }
    }
}

#[test]
fn bytes_beyond_the_stated_length_are_dropped() {
    for coding in Coding::ALL {
        let mut body = body(coding, CompressionLevel::Balanced, Some(4));
        let mut out = Vec::new();
        assert_eq!(body.push(b"po", &mut out), Ok(true));
        assert_eq!(body.push(b"ngping", &mut out), Ok(false));
        assert!(body.is_finished(), "a client has it all, before the source ends");
        assert_eq!(decoded(coding, &out), (b"pong".to_vec(), true), "{coding:?}");
        assert_eq!(body.push(b"more", &mut out), Ok(false));
        assert_eq!(body.finish(&mut out), BodyEnd::Complete);
        assert_eq!(decoded(coding, &out), (b"pong".to_vec(), true), "{coding:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pause_shows_all_of_a_stream_at_once() {
    for coding in Coding::ALL {
        for is_feed in [false, true] {
            let mut body =
                CompressedBody::new(coding, CompressionLevel::Balanced, None, is_feed).expect("memory");
            let (mut out, mut plain) = (Vec::new(), Vec::new());
            for event in 0..100 {
                let event = format!("data: {event}\n\n");
                plain.extend_from_slice(event.as_bytes());
                assert_eq!(body.push(event.as_bytes(), &mut out), Ok(true));
                poll_fn(|cx| Poll::Ready(body.poll_pause(cx, &mut out))).await.expect("encoded");
                assert_eq!(decoded(coding, &out).0, plain, "{coding:?}");
                let flushed = out.len();
                poll_fn(|cx| Poll::Ready(body.poll_pause(cx, &mut out))).await.expect("encoded");
                assert_eq!(out.len(), flushed, "nothing more to show");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_pause_shows_a_body_of_known_length_when_it_lasts() {
    for coding in Coding::ALL {
        let mut body = body(coding, CompressionLevel::Balanced, Some(100));
        let mut out = Vec::new();
        assert_eq!(body.push(b"half of it", &mut out), Ok(true));
        poll_fn(|cx| Poll::Ready(body.poll_pause(cx, &mut out))).await.expect("encoded");
        assert!(decoded(coding, &out).0.is_empty(), "more may come at once");
        tokio::time::sleep(Duration::from_millis(20)).await;
        poll_fn(|cx| Poll::Ready(body.poll_pause(cx, &mut out))).await.expect("encoded");
        assert_eq!(decoded(coding, &out), (b"half of it".to_vec(), false), "{coding:?}");
    }
}

#[tokio::test]
async fn others_get_their_turn_after_some_work() {
    for coding in Coding::ALL {
        let mut body = body(coding, CompressionLevel::Fast, None);
        let mut out = Vec::new();
        assert_eq!(body.push(&text(60 * 1024), &mut out), Ok(true));
        assert!(!body.has_had_turn(), "a page is one turn");
        assert_eq!(body.push(&text(256 * 1024), &mut out), Ok(true));
        assert!(body.has_had_turn());
        let mut polls = 0;
        poll_fn(|cx| {
            polls += 1;
            body.poll_turn(cx)
        })
        .await;
        assert_eq!(polls, 2, "the task was woken after others");
    }
}
