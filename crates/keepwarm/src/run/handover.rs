//! What two Keepwarms say to one another while one takes over from the other: packets on a socket pair, each of JSON, listening sockets
//! beside it.
//!
//! ```text
//!   old                                   new
//!    │ ── listener (and its sockets) ──▶   │  one packet for each 64 sockets
//!    │ ── end ─────────────────────────▶   │
//!    │                                     │  boots its workers, serves
//!    │ ◀────────────── ready, or failed ── │
//!    │  stops accepting, drains            │
//!    │ ── go (and histories) ──────────▶   │  is the service
//!    │ ── ended, for each process ─────▶   │  starts its own of that name
//! ```
//!
//! The end of the socket means that the other process has gone. The histories of `keepwarm why` are in a file in memory beside `go`, where `ready` says that
//! the new process reads them: one of a version before would give up where a descriptor that it does not need finds no room.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use data_encoding::HEXLOWER;
use keepwarm_net::TicketSecret;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde_json::{Value, json};

/// Sockets in one packet; the kernel takes 253.
pub(super) const SOCKETS: usize = 64;
/// The longest packet. A failure takes fewer bytes, a listener far fewer.
pub(super) const PACKET: usize = 32 * 1024;

/// A message between the old and the new process of an upgrade: one packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum HandoverMessage {
    /// The sockets of this `bind` are beside this packet; `lent`: systemd keeps them, too; `admin`: `[admin]` has them, or a listener. A version before does not say it.
    Listener { bind: String, lent: bool, admin: Option<bool> },
    /// No more listeners.
    End(HandoverRest),
    /// The new process serves, on the sockets of these; `histories`: it reads those of `keepwarm why`.
    Ready { taken: BTreeSet<String>, histories: bool },
    /// The new process gives up, for this reason.
    Failed(String),
    /// The new process is the service; `histories`: those of `keepwarm why` are beside this packet.
    Go { histories: bool },
    /// The old process has stopped its processes of this `[process.NAME]`.
    Ended { process: String },
}

/// What goes with the listeners.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct HandoverRest {
    /// The worker count of each app whose number follows its load.
    pub(super) sizes: BTreeMap<String, usize>,
    /// The keys of session tickets: clients resume their sessions with the new process.
    pub(super) tickets: Vec<TicketSecret>,
    /// What is under maintenance.
    pub(super) maintenance: Value,
    /// The endpoints that are out of use.
    pub(super) drained: Value,
    /// The `[process.NAME]`s of the old process, which it stops once the new one is the service.
    pub(super) processes: Vec<String>,
}

impl HandoverMessage {
    fn to_bytes(&self) -> Vec<u8> {
        let value = match self {
            Self::Listener { bind, lent, admin } => {
                json!({ "say": "listener", "bind": bind, "lent": lent, "admin": admin })
            }
            Self::End(HandoverRest { sizes, tickets, maintenance, drained, processes }) => {
                let tickets: Vec<Value> = tickets.iter().map(ticket).collect();
                json!({
                    "say": "end", "sizes": sizes, "tickets": tickets, "maintenance": maintenance, "drained": drained,
                    "processes": processes,
                })
            }
            Self::Ready { taken, histories } => {
                json!({ "say": "ready", "taken": taken, "histories": histories })
            }
            Self::Failed(why) => {
                json!({ "say": "failed", "why": why.chars().take(PACKET / 8).collect::<String>() })
            }
            Self::Go { histories } => json!({ "say": "go", "histories": histories }),
            Self::Ended { process } => json!({ "say": "ended", "process": process }),
        };
        value.to_string().into_bytes()
    }

    fn from_bytes(bytes: &[u8]) -> io::Result<Self> {
        let nonsense =
            || io::Error::new(io::ErrorKind::InvalidData, "the other process sent an unexpected message");
        let value: Value = serde_json::from_slice(bytes).map_err(|_| nonsense())?;
        let text =
            |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned).ok_or_else(nonsense);
        let is = |name: &str| value.get(name).and_then(Value::as_bool).unwrap_or(false);
        Ok(match text("say")?.as_str() {
            "listener" => {
                let admin = value.get("admin").and_then(Value::as_bool);
                Self::Listener { bind: text("bind")?, lent: is("lent"), admin }
            }
            // A version that does not say it is one before.
            "end" => Self::End(HandoverRest {
                sizes: value.get("sizes").map(sizes).unwrap_or_default(),
                tickets: value.get("tickets").map(tickets).unwrap_or_default(),
                maintenance: value.get("maintenance").cloned().unwrap_or_default(),
                drained: value.get("drained").cloned().unwrap_or_default(),
                processes: value.get("processes").map(names).unwrap_or_default(),
            }),
            "ready" => {
                let taken = value.get("taken").and_then(Value::as_array).ok_or_else(nonsense)?;
                let taken = taken.iter().filter_map(Value::as_str).map(str::to_owned).collect();
                Self::Ready { taken, histories: is("histories") }
            }
            "failed" => Self::Failed(text("why")?),
            "go" => Self::Go { histories: is("histories") },
            "ended" => Self::Ended { process: text("process")? },
            _ => return Err(nonsense()),
        })
    }
}

fn sizes(value: &Value) -> BTreeMap<String, usize> {
    let pairs = value.as_object().into_iter().flatten();
    pairs.filter_map(|(app, size)| Some((app.clone(), usize::try_from(size.as_u64()?).ok()?))).collect()
}

fn names(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn ticket(secret: &TicketSecret) -> Value {
    json!({ "name": HEXLOWER.encode(&secret.name), "secret": HEXLOWER.encode(&secret.secret), "created": secret.created })
}

/// Those that are not understood are left out: their sessions are not resumed.
fn tickets(value: &Value) -> Vec<TicketSecret> {
    let bytes = |value: &Value, key| HEXLOWER.decode(value.get(key)?.as_str()?.as_bytes()).ok();
    let ticket = |value: &Value| {
        Some(TicketSecret {
            name: bytes(value, "name")?.try_into().ok()?,
            secret: bytes(value, "secret")?.try_into().ok()?,
            created: value.get("created")?.as_u64()?,
        })
    };
    value.as_array().into_iter().flatten().filter_map(ticket).collect()
}

/// Sends a packet, with descriptors beside it: at most [`SOCKETS`].
pub(super) fn send(to: impl AsFd, say: &HandoverMessage, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SOCKETS))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !beside.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::Error::other("too many sockets for one packet"));
    }
    sendmsg(to, &[IoSlice::new(&say.to_bytes())], &mut beside, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// The next packet and what was beside it; `None`: the other process has gone.
pub(super) fn receive(from: impl AsFd) -> io::Result<Option<(HandoverMessage, Vec<OwnedFd>)>> {
    let mut bytes = vec![0; PACKET];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SOCKETS))];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let got = match recvmsg(from, &mut [IoSliceMut::new(&mut bytes)], &mut beside, RecvFlags::CMSG_CLOEXEC) {
        Ok(got) => got,
        // Gone without having read what was sent to it.
        Err(rustix::io::Errno::CONNRESET) => return Ok(None),
        Err(rustix::io::Errno::AGAIN) => {
            return Err(io::Error::other("the other process sent nothing in time"));
        }
        Err(error) => return Err(error.into()),
    };
    if got.flags.contains(ReturnFlags::TRUNC) {
        return Err(io::Error::other("the other process sent a packet that is too long"));
    }
    let mut sockets = Vec::new();
    for message in beside.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            sockets.extend(descriptors);
        }
    }
    match bytes.get(..got.bytes).filter(|bytes| !bytes.is_empty()) {
        Some(bytes) => {
            let say = HandoverMessage::from_bytes(bytes)?;
            // Fewer sockets would be fewer addresses; what is beside other packets can be done without.
            if got.flags.contains(ReturnFlags::CTRUNC) && matches!(say, HandoverMessage::Listener { .. }) {
                return Err(io::Error::other("not all sockets arrived: the limit on open files is too low"));
            }
            Ok(Some((say, sockets)))
        }
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use keepwarm_net::ListeningSocket;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    fn pair() -> (OwnedFd, OwnedFd) {
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap()
    }

    #[test]
    fn packets_arrive_as_they_were_sent() {
        let (ours, theirs) = pair();
        let all = [
            HandoverMessage::Listener { bind: "unix:/a b".to_owned(), lent: true, admin: Some(false) },
            HandoverMessage::End(HandoverRest {
                sizes: [("shop".to_owned(), 3)].into(),
                tickets: vec![TicketSecret { name: [1; 16], secret: [2; 32], created: 3 }],
                maintenance: json!([{ "scope": {} }]),
                drained: json!({ "search": ["10.0.0.1:80"] }),
                processes: vec!["mail".to_owned()],
            }),
            HandoverMessage::Ready { taken: ["127.0.0.1:80".to_owned()].into(), histories: true },
            HandoverMessage::Failed("because\n\"so\"".to_owned()),
            HandoverMessage::Go { histories: true },
            HandoverMessage::Ended { process: "mail".to_owned() },
        ];
        for say in all {
            send(&ours, &say, &[]).unwrap();
            assert_eq!(receive(&theirs).unwrap().unwrap().0, say);
        }
        drop(ours);
        assert!(receive(&theirs).unwrap().is_none());
    }

    /// A version before sends no histories and reads none; one to come may send members that this one does not know.
    #[test]
    fn packets_of_other_versions_are_understood() {
        let read = |packet: &str| HandoverMessage::from_bytes(packet.as_bytes()).unwrap();
        let taken = BTreeSet::from(["127.0.0.1:80".to_owned()]);
        let ready = HandoverMessage::Ready { taken, histories: false };
        assert_eq!(read(r#"{ "say": "ready", "taken": ["127.0.0.1:80"] }"#), ready);
        let listener = HandoverMessage::Listener { bind: "a:1".to_owned(), lent: true, admin: None };
        assert_eq!(read(r#"{ "say": "listener", "bind": "a:1", "lent": true }"#), listener);
        assert_eq!(read(r#"{ "say": "go" }"#), HandoverMessage::Go { histories: false });
        let go = r#"{ "say": "go", "histories": true, "more": [1] }"#;
        assert_eq!(read(go), HandoverMessage::Go { histories: true });
    }

    #[test]
    fn sockets_arrive_beside_their_packet() {
        let (ours, theirs) = pair();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let bound = ListeningSocket::adopt(listener.into()).unwrap();
        let say = HandoverMessage::Listener { bind: "127.0.0.1:0".to_owned(), lent: false, admin: None };
        send(&ours, &say, &[bound.as_fd(); SOCKETS]).unwrap();
        drop(bound);
        let (_, sockets) = receive(&theirs).unwrap().unwrap();
        assert_eq!(sockets.len(), SOCKETS);
        for socket in sockets {
            assert_eq!(ListeningSocket::adopt(socket).unwrap().address, Some(address));
        }
    }

    /// Fewer sockets than were sent would be fewer addresses than were served. Histories are no reason to give an upgrade up.
    #[test]
    fn sockets_that_do_not_all_arrive_are_an_error() {
        let (ours, theirs) = pair();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        // What a lack of descriptors does at any number: there is room for fewer than were sent.
        let send = |say: HandoverMessage| {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2 * SOCKETS))];
            let mut beside = SendAncillaryBuffer::new(&mut space);
            let descriptors = [listener.as_fd(); 2 * SOCKETS];
            assert!(beside.push(SendAncillaryMessage::ScmRights(&descriptors)));
            sendmsg(&ours, &[IoSlice::new(&say.to_bytes())], &mut beside, SendFlags::NOSIGNAL).unwrap();
        };
        send(HandoverMessage::Listener { bind: "127.0.0.1:0".to_owned(), lent: false, admin: None });
        assert!(receive(&theirs).unwrap_err().to_string().contains("open files"));
        let go = HandoverMessage::Go { histories: true };
        send(go.clone());
        assert_eq!(receive(&theirs).unwrap().unwrap().0, go);
    }

    #[test]
    fn a_failure_of_any_length_fits_a_packet() {
        let (ours, theirs) = pair();
        send(&ours, &HandoverMessage::Failed("é\u{1}".repeat(PACKET)), &[]).unwrap();
        assert!(matches!(receive(&theirs).unwrap().unwrap().0, HandoverMessage::Failed(_)));
    }
}
