//! Connects to the address of a host that responds first: happy eyeballs (RFC 8305 §4, §5).
//!
//! Addresses are tried in turn, the families alternating, each a little after the previous one or as soon as that has failed. The first connection wins;
//! the other attempts are cancelled, and their sockets closed.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep};

use crate::endpoint::under_way;
use crate::socket::{ConnectStart, WatchedSocket, connect, take_error};
use crate::{Endpoint, Io};

/// From one attempt to the next while none has failed (RFC 8305 §5: recommended).
const DELAY: Duration = Duration::from_millis(250);

/// Connects to one of the addresses of a host, given in the order of preference. The caller must bound it by a timeout.
///
/// # Errors
/// None could be connected: the most telling error. No addresses: [`io::ErrorKind::InvalidInput`].
pub async fn connect_any(addresses: &[SocketAddr]) -> io::Result<(Io, SocketAddr)> {
    let mut race = Race {
        waiting: interleave(addresses),
        attempts: Vec::new(),
        delay: Box::pin(sleep(Duration::ZERO)),
        error: None,
    };
    poll_fn(|cx| race.poll(cx)).await
}

struct Race {
    waiting: VecDeque<SocketAddr>,
    attempts: Vec<(WatchedSocket, SocketAddr)>,
    delay: Pin<Box<Sleep>>,
    error: Option<io::Error>,
}

impl Race {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<(Io, SocketAddr)>> {
        loop {
            let failed = match self.poll_attempts(cx) {
                Poll::Ready(Ok(won)) => return Poll::Ready(Ok(won)),
                Poll::Ready(Err(error)) => {
                    self.note(error);
                    true
                }
                Poll::Pending => false,
            };
            let due = failed || self.attempts.is_empty() || self.delay.as_mut().poll(cx).is_ready();
            let Some(address) = self.waiting.pop_front_if(|_| due) else {
                if self.attempts.is_empty() {
                    let none = || io::Error::new(io::ErrorKind::InvalidInput, "the host has no address");
                    return Poll::Ready(Err(self.error.take().unwrap_or_else(none)));
                }
                if failed {
                    continue;
                }
                return Poll::Pending;
            };
            match begin(address) {
                Ok(ConnectAttempt::Connected(io)) => return Poll::Ready(Ok((io, address))),
                Ok(ConnectAttempt::UnderWay(watch)) => {
                    self.attempts.push((watch, address));
                    if let Some(next) = Instant::now().checked_add(DELAY) {
                        self.delay.as_mut().reset(next);
                    }
                }
                Err(error) => self.note(error),
            }
        }
    }

    /// The first attempt that has ended, in success or failure.
    fn poll_attempts(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<(Io, SocketAddr)>> {
        let over = self.attempts.iter().position(|(watch, _)| match watch.poll_write_ready(cx) {
            Poll::Ready(Ok(mut guard)) => {
                guard.retain_ready();
                true
            }
            Poll::Ready(Err(_)) => true,
            Poll::Pending => false,
        });
        let Some(at) = over else { return Poll::Pending };
        let (watch, address) = self.attempts.remove(at);
        let fd = watch.into_inner();
        Poll::Ready(take_error(&fd).map(|()| (Io::new(fd), address)))
    }

    /// An unreachable network (a host without IPv6) is less telling than any other error.
    fn note(&mut self, error: io::Error) {
        use io::ErrorKind::{HostUnreachable, NetworkUnreachable};
        let dull = |error: &io::Error| matches!(error.kind(), NetworkUnreachable | HostUnreachable);
        if self.error.as_ref().is_none_or(|known| dull(known) && !dull(&error)) {
            self.error = Some(error);
        }
    }
}

enum ConnectAttempt {
    Connected(Io),
    UnderWay(WatchedSocket),
}

fn begin(address: SocketAddr) -> io::Result<ConnectAttempt> {
    match connect(&Endpoint::Tcp(address))? {
        ConnectStart::Connected(fd) => Ok(ConnectAttempt::Connected(Io::new(fd))),
        ConnectStart::UnderWay(fd) => under_way(fd).map(ConnectAttempt::UnderWay),
        ConnectStart::Full => Err(io::ErrorKind::WouldBlock.into()),
    }
}

/// The families in turn, beginning with that of the first (RFC 8305 §4, a "First Address Family Count" of 1).
fn interleave(addresses: &[SocketAddr]) -> VecDeque<SocketAddr> {
    let first = addresses.first().is_some_and(SocketAddr::is_ipv4);
    let mut own = addresses.iter().filter(|it| it.is_ipv4() == first);
    let mut other = addresses.iter().filter(|it| it.is_ipv4() != first);
    let mut order = VecDeque::with_capacity(addresses.len());
    loop {
        let pair = [own.next(), other.next()];
        if pair == [None, None] {
            return order;
        }
        order.extend(pair.into_iter().flatten());
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;
    use crate::pool::tests::run;

    fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn families_take_turns_beginning_with_that_of_the_first() {
        let given = addresses(&["[::1]:1", "[::2]:1", "[::3]:1", "10.0.0.1:1", "10.0.0.2:1"]);
        let wanted = addresses(&["[::1]:1", "10.0.0.1:1", "[::2]:1", "10.0.0.2:1", "[::3]:1"]);
        assert_eq!(interleave(&given), wanted);
        let given = addresses(&["10.0.0.1:1", "10.0.0.2:1"]);
        assert_eq!(interleave(&given), given);
        assert!(interleave(&[]).is_empty());
    }

    /// An address where nobody listens, which stays so while the socket lives.
    fn refusing() -> (socket2::Socket, SocketAddr) {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        let address = socket.local_addr().unwrap().as_socket().unwrap();
        (socket, address)
    }

    /// An address that does not respond: its accept queue is full. Keep the returned value alive.
    async fn silent() -> (socket2::Socket, Vec<Io>, SocketAddr) {
        let (socket, address) = refusing();
        socket.listen(0).unwrap();
        let mut filling = Vec::new();
        let patience = Duration::from_millis(100);
        while let Ok(Ok(io)) = tokio::time::timeout(patience, Endpoint::Tcp(address).connect()).await {
            filling.push(io);
        }
        (socket, filling, address)
    }

    #[tokio::test]
    async fn the_first_that_responds_is_taken() {
        run(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let good = listener.local_addr().unwrap();
            let (_refusing, refused) = refusing();
            let (_silent, _filling, silent) = silent().await;
            for order in
                [vec![good, silent], vec![refused, good], vec![silent, good], vec![silent, refused, good]]
            {
                let (_io, address) = connect_any(&order).await.unwrap();
                assert_eq!(address, good);
            }
        })
        .await;
    }

    #[tokio::test]
    async fn when_all_fail_it_is_said_why() {
        run(async {
            let (_one, one) = refusing();
            let (_two, two) = refusing();
            let error = connect_any(&[one, two]).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
            assert_eq!(connect_any(&[]).await.unwrap_err().kind(), io::ErrorKind::InvalidInput);
        })
        .await;
    }

    /// The loser's socket is closed, not left to connect: no client reaches the server.
    #[tokio::test]
    async fn the_losers_are_called_off() {
        run(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let good = listener.local_addr().unwrap();
            let (full, filling, silent) = silent().await;
            connect_any(&[silent, good]).await.unwrap();
            let waiting = filling.len();
            drop(filling);
            // What waited is accepted; nothing comes after it, though there is room now.
            for _ in 0..waiting {
                full.accept().unwrap();
            }
            full.set_nonblocking(true).unwrap();
            assert_eq!(full.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        })
        .await;
    }
}
