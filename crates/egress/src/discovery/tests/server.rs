//! The test's own name server, over UDP and TCP, with replies that change.

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use hickory_resolver::proto::op::{Message, MessageType, ResponseCode};
use hickory_resolver::proto::rr::rdata::{A, AAAA, CNAME, SRV};
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// The reply to a query.
#[derive(Debug, Clone)]
pub(super) enum Reply {
    Records(Vec<(RData, u32)>),
    Code(ResponseCode),
    Silence,
    /// Over UDP only the flag that it is truncated.
    Long(Vec<(RData, u32)>),
}

type Replies = Arc<Mutex<HashMap<(String, RecordType), Reply>>>;

/// Replies until it is dropped; names that were not set do not exist.
pub(super) struct DnsServer {
    pub(super) address: SocketAddr,
    replies: Replies,
    asked: watch::Sender<u64>,
    _tasks: JoinSet<()>,
}

impl DnsServer {
    pub(super) async fn start() -> Self {
        let (udp, tcp) = loop {
            let udp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            // The port may be somebody else's for TCP.
            if let Ok(tcp) = TcpListener::bind(udp.local_addr().unwrap()).await {
                break (udp, tcp);
            }
        };
        let address = udp.local_addr().unwrap();
        let (replies, asked) = (Replies::default(), watch::Sender::new(0));
        let mut tasks = JoinSet::new();
        let (over_udp, counted) = (Arc::clone(&replies), asked.clone());
        tasks.spawn(async move {
            let mut buffer = vec![0; 4096];
            while let Ok((length, peer)) = udp.recv_from(&mut buffer).await {
                counted.send_modify(|count| *count += 1);
                if let Some(answer) = answer(&over_udp, &buffer[..length], true) {
                    let _ = udp.send_to(&answer, peer).await;
                }
            }
        });
        let over_tcp = Arc::clone(&replies);
        tasks.spawn(async move {
            while let Ok((stream, _)) = tcp.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&over_tcp)));
            }
        });
        Self { address, replies, asked, _tasks: tasks }
    }

    pub(super) fn set(&self, name: &str, kind: RecordType, reply: Reply) {
        self.replies.lock().unwrap().insert((name.to_owned(), kind), reply);
    }

    /// Addresses of a name, of the first family; it has none of the other.
    pub(super) fn set_v4(&self, name: &str, ttl: u32, addresses: &[[u8; 4]]) {
        let records = addresses.iter().map(|address| (v4(*address), ttl)).collect();
        self.set(name, RecordType::A, Reply::Records(records));
        self.set(name, RecordType::AAAA, Reply::Records(Vec::new()));
    }

    /// Waits for questions that come from now on.
    pub(super) async fn asked(&self, times: u64) {
        let mut asked = self.asked.subscribe();
        let before = *asked.borrow();
        asked.wait_for(|count| *count >= before + times).await.unwrap();
    }
}

pub(super) fn v4([a, b, c, d]: [u8; 4]) -> RData {
    RData::A(A(Ipv4Addr::new(a, b, c, d)))
}

pub(super) fn v6(address: Ipv6Addr) -> RData {
    RData::AAAA(AAAA(address))
}

pub(super) fn srv(priority: u16, weight: u16, port: u16, target: &str) -> RData {
    RData::SRV(SRV::new(priority, weight, port, Name::from_ascii(target).unwrap()))
}

pub(super) fn alias(target: &str) -> RData {
    RData::CNAME(CNAME(Name::from_ascii(target).unwrap()))
}

async fn serve(mut stream: TcpStream, replies: Replies) {
    loop {
        let Ok(length) = stream.read_u16().await else { return };
        let mut question = vec![0; usize::from(length)];
        if stream.read_exact(&mut question).await.is_err() {
            return;
        }
        if let Some(answer) = answer(&replies, &question, false) {
            let mut framed = u16::try_from(answer.len()).unwrap().to_be_bytes().to_vec();
            framed.extend(answer);
            if stream.write_all(&framed).await.is_err() {
                return;
            }
        }
    }
}

fn answer(replies: &Replies, question: &[u8], is_udp: bool) -> Option<Vec<u8>> {
    let mut message = Message::from_vec(question).unwrap();
    message.metadata.message_type = MessageType::Response;
    let query = message.queries[0].clone();
    let name = query.name().to_ascii().trim_end_matches('.').to_ascii_lowercase();
    let reply = replies.lock().unwrap().get(&(name, query.query_type())).cloned();
    let mut add = |records: Vec<(RData, u32)>| {
        // An alias names the records behind it.
        let mut owner = query.name().clone();
        for (data, ttl) in records {
            let next = match &data {
                RData::CNAME(target) => target.0.clone(),
                _ => owner.clone(),
            };
            message.add_answer(Record::from_rdata(std::mem::replace(&mut owner, next), ttl, data));
        }
    };
    match reply {
        None => message.metadata.response_code = ResponseCode::NXDomain,
        Some(Reply::Records(records)) => add(records),
        Some(Reply::Long(_)) if is_udp => message.metadata.truncation = true,
        Some(Reply::Long(records)) => add(records),
        Some(Reply::Code(code)) => message.metadata.response_code = code,
        Some(Reply::Silence) => return None,
    }
    Some(message.to_vec().unwrap())
}
