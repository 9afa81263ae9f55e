//! Which family of addresses of a name works from here: happy eyeballs (RFC 8305), once for all calls.
//!
//! A name with addresses of both families names the same service twice, and from many networks one of the two leads nowhere. Racing both on each connection
//! would hide that again and again; here a race of plain connects decides which family is used first, and the other one takes over when the first has failed
//! (a lower priority). It is run when the addresses change, and now and then.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use keepwarm_net::Endpoint;
use rustix::io::Errno;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::cache::CachedAddresses;

/// Between the starts of two connects (RFC 8305 §5).
const STAGGER: Duration = Duration::from_millis(250);
/// In all.
const PATIENCE: Duration = Duration::from_secs(2);
/// Of each family that are tried.
const TRIED: usize = 2;

/// An address family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Family {
    V4,
    V6,
}

impl Family {
    pub(super) fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }
}

/// The result of a connection race between the two address families.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct RaceResult {
    /// The family that connected first; `None`: nobody did, and both are as good.
    pub(super) first: Option<Family>,
    /// There is no way to the other from here at all.
    pub(super) no_route: bool,
}

/// Races connects to the first addresses of both families, the sixth version a step ahead.
pub(super) async fn run(cached: &CachedAddresses, port: u16) -> RaceResult {
    let mut waiting = interleaved(cached, port).into_iter();
    let deadline = Instant::now() + PATIENCE;
    let mut connects = JoinSet::new();
    let mut unreachable = None;
    let mut step = Instant::now();
    loop {
        if Instant::now() >= step
            && let Some(address) = waiting.next()
        {
            connects.spawn(async move { (address, Endpoint::Tcp(address).connect().await) });
            step = Instant::now() + STAGGER;
        }
        let until = if waiting.len() > 0 { step.min(deadline) } else { deadline };
        match timeout_at(until, connects.join_next()).await {
            Ok(Some(Ok((address, Ok(_))))) => {
                let first = Family::of(address.ip());
                return RaceResult {
                    first: Some(first),
                    no_route: unreachable.is_some_and(|other| other != first),
                };
            }
            Ok(Some(Ok((address, Err(error))))) => {
                if is_no_route(&error) {
                    unreachable = Some(Family::of(address.ip()));
                }
                // One that fails lets the next begin at once.
                step = Instant::now();
            }
            Ok(Some(Err(_))) => {}
            Ok(None) if waiting.len() == 0 => return RaceResult::default(),
            Ok(None) => step = Instant::now(),
            Err(_) if Instant::now() >= deadline => return RaceResult::default(),
            Err(_) => {}
        }
    }
}

fn interleaved(cached: &CachedAddresses, port: u16) -> Vec<SocketAddr> {
    let mut v4 = cached.v4.iter().take(TRIED);
    let mut addresses = Vec::with_capacity(2 * TRIED);
    for six in cached.v6.iter().take(TRIED) {
        addresses.push(SocketAddr::new(IpAddr::V6(*six), port));
        addresses.extend(v4.next().map(|four| SocketAddr::new(IpAddr::V4(*four), port)));
    }
    addresses.extend(v4.map(|four| SocketAddr::new(IpAddr::V4(*four), port)));
    addresses
}

/// This machine has no address of the family, or no way out for it.
fn is_no_route(error: &io::Error) -> bool {
    let ours = [Errno::NETUNREACH, Errno::ADDRNOTAVAIL, Errno::AFNOSUPPORT];
    ours.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

#[cfg(test)]
pub(super) mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use tokio::net::{TcpListener, TcpSocket};

    use super::*;

    /// A port where somebody listens at the fourth version, or nobody, and nobody at the sixth for as long as it is held.
    pub(in crate::discovery) async fn port(
        listening: bool,
    ) -> (u16, TcpSocket, Result<TcpListener, TcpSocket>) {
        loop {
            let (four, six) = (TcpSocket::new_v4().unwrap(), TcpSocket::new_v6().unwrap());
            four.bind("127.0.0.1:0".parse().unwrap()).unwrap();
            let port = four.local_addr().unwrap().port();
            // Bound and not listening: it refuses.
            if six.bind((Ipv6Addr::LOCALHOST, port).into()).is_ok() {
                let four = if listening { Ok(four.listen(8).unwrap()) } else { Err(four) };
                return (port, six, four);
            }
        }
    }

    fn both(v4: Ipv4Addr, v6: Ipv6Addr) -> CachedAddresses {
        CachedAddresses { v4: vec![v4], v6: vec![v6] }
    }

    #[test]
    fn the_sixth_version_goes_first_and_they_take_turns() {
        let cached = CachedAddresses {
            v4: vec![Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2), Ipv4Addr::new(192, 0, 2, 3)],
            v6: vec![Ipv6Addr::LOCALHOST],
        };
        let addresses: Vec<String> = interleaved(&cached, 80).iter().map(ToString::to_string).collect();
        assert_eq!(addresses, ["[::1]:80", "192.0.2.1:80", "192.0.2.2:80"]);
    }

    #[tokio::test]
    async fn the_family_that_answers_is_first() {
        let (port, _six, _four) = port(true).await;
        let race_result = run(&both(Ipv4Addr::LOCALHOST, Ipv6Addr::LOCALHOST), port).await;
        assert_eq!(race_result.first, Some(Family::V4), "nobody listens at the other: {race_result:?}");
    }

    #[tokio::test]
    async fn nobody_there_decides_nothing() {
        let (port, _six, _four) = port(false).await;
        assert_eq!(run(&both(Ipv4Addr::LOCALHOST, Ipv6Addr::LOCALHOST), port).await, RaceResult::default());
    }
}
