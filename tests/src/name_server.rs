//! A name server whose DNS answers change. Shares no code with Keepwarm.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Replies to each question for IPv4 addresses with the same ones, whatever the name, with a TTL of zero; it has no IPv6 addresses.
pub struct NameServer {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// `None`: it is unhealthy (SERVFAIL).
    addresses: Mutex<Option<Vec<Ipv4Addr>>>,
    asked: AtomicUsize,
    stopped: AtomicBool,
}

const ANSWER: u8 = 0x80;
const SERVFAIL: u8 = 2;
const A: [u8; 2] = [0, 1];
const HEADER: usize = 12;

impl NameServer {
    pub fn start(addresses: &[Ipv4Addr]) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        socket.set_read_timeout(Some(Duration::from_millis(100))).expect("a time-out");
        let address = socket.local_addr().expect("bound");
        let shared = Arc::new(Shared::default());
        let ours = Arc::clone(&shared);
        std::thread::spawn(move || {
            let mut question = [0; 512];
            while !ours.stopped.load(Ordering::SeqCst) {
                let Ok((length, peer)) = socket.recv_from(&mut question) else { continue };
                if let Some(answer) = ours.answer(question.get(..length).unwrap_or_default()) {
                    let _ = socket.send_to(&answer, peer);
                }
                ours.asked.fetch_add(1, Ordering::SeqCst);
            }
        });
        let it = Self { address, shared };
        it.answer_with(Some(addresses));
        it
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The addresses from now on; `None`: a failure.
    pub fn answer_with(&self, addresses: Option<&[Ipv4Addr]>) {
        *self.shared.addresses.lock().expect("no panic while locked") = addresses.map(<[_]>::to_vec);
    }

    /// Questions that got a reply.
    pub fn asked(&self) -> usize {
        self.shared.asked.load(Ordering::SeqCst)
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
    }
}

impl Shared {
    /// RFC 1035 §4.1: the header, the question as it came, and the records.
    fn answer(&self, question: &[u8]) -> Option<Vec<u8>> {
        let mut end = HEADER;
        while *question.get(end)? != 0 {
            end += usize::from(*question.get(end)?) + 1;
        }
        let kind = question.get(end + 1..end + 3)?;
        let addresses = self.addresses.lock().expect("no panic while locked").clone();
        let records = addresses.as_deref().unwrap_or_default();
        let records = if kind == A { records } else { &[] };
        let mut answer = question.get(..2)?.to_vec();
        answer.push(ANSWER | (question.get(2)? & 1));
        answer.push(if addresses.is_none() { SERVFAIL } else { 0 });
        for count in [1, u16::try_from(records.len()).ok()?, 0, 0] {
            answer.extend(count.to_be_bytes());
        }
        answer.extend(question.get(HEADER..end + 5)?);
        for address in records {
            // The name of the question, type and class, no time, four bytes.
            answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4]);
            answer.extend(address.octets());
        }
        Some(answer)
    }
}
