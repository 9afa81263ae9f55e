use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;

use super::*;

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A waker, and how often it was called.
fn counted() -> (Waker, Arc<Count>) {
    let count = Arc::new(Count::default());
    (Waker::from(Arc::clone(&count)), count)
}

fn woken(count: &Count) -> usize {
    count.0.swap(0, Ordering::Relaxed)
}

fn read(end: &MemoryStream, waker: &Waker, most: usize) -> Poll<Result<Vec<u8>, io::ErrorKind>> {
    let mut into = Vec::with_capacity(most);
    let got = end.poll_read(&mut Context::from_waker(waker), &mut into);
    got.map(|got| {
        got.map(|count| {
            assert_eq!(count, into.len());
            into
        })
        .map_err(|error| error.kind())
    })
}

fn write(end: &MemoryStream, bytes: &[u8]) -> Result<usize, io::ErrorKind> {
    end.write(&[IoSlice::new(bytes)]).map_err(|error| error.kind())
}

#[test]
fn bytes_arrive_in_order_in_parts_of_any_size() {
    let (one, other) = pair();
    let (waker, count) = counted();
    assert_eq!(read(&other, &waker, 10), Poll::Pending);
    assert_eq!(one.write(&[IoSlice::new(b"ab"), IoSlice::new(b""), IoSlice::new(b"cde")]).unwrap(), 5);
    assert_eq!(woken(&count), 1);
    assert_eq!(read(&other, &waker, 3), Poll::Ready(Ok(b"abc".to_vec())));
    assert_eq!(write(&one, b"f"), Ok(1));
    assert_eq!(woken(&count), 0, "nobody waits");
    assert_eq!(one.queued(), 3);
    assert_eq!(read(&other, &waker, 10), Poll::Ready(Ok(b"def".to_vec())));
    assert_eq!(read(&other, &waker, 10), Poll::Pending);
    assert_eq!(one.queued(), 0);
}

#[test]
fn the_writer_waits_for_room_from_its_edge() {
    for before in [ROOM - 1, ROOM] {
        let (one, other) = pair();
        let (waker, count) = counted();
        let mut cx = Context::from_waker(&waker);
        assert_eq!(write(&one, &vec![1; before]), Ok(before));
        let fits = ROOM - before;
        assert_eq!(one.poll_writable(&mut cx), if fits > 0 { Poll::Ready(()) } else { Poll::Pending });
        if fits > 0 {
            assert_eq!(write(&one, &[2; 3]), Ok(fits), "what there is room for");
        }
        assert_eq!(write(&one, &[2; 3]), Err(io::ErrorKind::WouldBlock));
        assert_eq!(write(&one, &[]), Ok(0), "nothing needs no room");
        assert!(one.poll_writable(&mut cx).is_pending());
        let (reader, _) = counted();
        assert!(read(&other, &reader, 1).is_ready());
        assert_eq!(woken(&count), 1);
        assert_eq!(write(&one, &[3; 2]), Ok(1));
        assert_eq!(one.queued(), ROOM);
    }
}

#[test]
fn a_write_that_is_not_waited_for_any_more_wakes_nobody() {
    let (one, other) = pair();
    let (waker, count) = counted();
    write(&one, &vec![0; ROOM]).unwrap();
    assert!(one.poll_writable(&mut Context::from_waker(&waker)).is_pending());
    one.forget_writable();
    assert!(read(&other, &counted().0, ROOM).is_ready());
    assert_eq!(woken(&count), 0);
}

#[test]
fn an_end_follows_what_was_written_before_it() {
    let (one, other) = pair();
    let (waker, count) = counted();
    write(&one, b"last").unwrap();
    one.shutdown_write();
    assert_eq!(write(&one, b"more"), Err(io::ErrorKind::BrokenPipe));
    assert_eq!(other.look(), IdleState::Noisy);
    assert_eq!(read(&other, &waker, 4), Poll::Ready(Ok(b"last".to_vec())));
    assert_eq!(other.look(), IdleState::Closed);
    assert_eq!(read(&other, &waker, 4), Poll::Ready(Ok(Vec::new())));
    assert_eq!(read(&other, &waker, 4), Poll::Ready(Ok(Vec::new())), "and again");
    // The other direction is still open.
    assert_eq!(one.look(), IdleState::Quiet);
    assert!(read(&one, &waker, 4).is_pending());
    write(&other, b"reply").unwrap();
    assert_eq!(woken(&count), 1);
    assert_eq!(read(&one, &waker, 9), Poll::Ready(Ok(b"reply".to_vec())));
}

#[test]
fn a_close_wakes_all_who_wait_and_is_a_reset_over_unread_bytes() {
    for (unread, resets) in [(false, false), (true, false), (false, true)] {
        let (mut one, other) = pair();
        let (reader, reads) = counted();
        let (observer, observes) = counted();
        let (writer, writes) = counted();
        assert!(read(&other, &reader, 1).is_pending());
        assert!(other.poll_closed(&mut Context::from_waker(&observer)).is_pending());
        if unread {
            write(&other, &vec![0; ROOM]).unwrap();
            assert!(other.poll_writable(&mut Context::from_waker(&writer)).is_pending());
        }
        if resets {
            one.reset_on_close();
        }
        write(&one, b"x").unwrap();
        assert_eq!(woken(&reads), 1);
        drop(one);
        assert_eq!((woken(&observes), woken(&writes)), (1, usize::from(unread)));
        assert_eq!(read(&other, &reader, 9), Poll::Ready(Ok(b"x".to_vec())), "what came before it");
        let after = if unread || resets { Err(io::ErrorKind::ConnectionReset) } else { Ok(Vec::new()) };
        assert_eq!(read(&other, &reader, 9), Poll::Ready(after));
        assert_eq!(write(&other, b"y"), Err(io::ErrorKind::BrokenPipe));
        assert_eq!(other.queued(), 0, "what nobody reads is dropped");
        assert!(other.poll_closed(&mut Context::from_waker(&observer)).is_ready());
        assert!(other.poll_writable(&mut Context::from_waker(&observer)).is_ready());
    }
}

#[test]
fn the_last_waker_counts() {
    let (one, other) = pair();
    let ((first, at_first), (second, at_second)) = (counted(), counted());
    assert!(read(&other, &first, 1).is_pending());
    assert!(other.poll_readable(&mut Context::from_waker(&second)).is_pending());
    write(&one, b"x").unwrap();
    assert_eq!((woken(&at_first), woken(&at_second)), (0, 1));
    assert!(other.is_readable());
    assert!(other.poll_readable(&mut Context::from_waker(&second)).is_ready());
}

/// As from a socket: a peer that is never waited for does not hold the thread.
#[tokio::test(flavor = "current_thread")]
async fn each_read_and_write_costs_budget() {
    let (one, other) = pair();
    let mut turns = 0;
    std::future::poll_fn(|cx| {
        loop {
            if one.poll_write(cx, &[IoSlice::new(b"x")]).is_pending() {
                break;
            }
            let mut into = Vec::with_capacity(1);
            if other.poll_read(cx, &mut into).is_pending() {
                break;
            }
            turns += 1;
            assert!(turns < 10_000, "it never yields");
        }
        Poll::Ready(())
    })
    .await;
    assert!(turns > 0);
}
