//! A responder of FastCGI 1.0, by a script: what it does with each request stands in the plan. Shares no code with Keepwarm; sections are those of the specification.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use keepwarm_net::simulation::{Peer, PeerListener, Rng};
use tokio::task::JoinSet;

use crate::origin::{Framing, HANDED, OriginPlan, filling, own_body};
use crate::pattern;
use crate::worker::{BodyRead, Fault, Observations};

/// A script's work for one request, beside what every server does.
#[derive(Debug, Clone)]
pub(crate) struct ScriptPlan {
    pub(crate) response: OriginPlan,
    /// The query to expect.
    pub(crate) query: String,
    /// So often it names another path in place of its response, which is asked in its turn.
    pub(crate) redirects: usize,
    /// How often it has.
    pub(crate) redirected: usize,
    /// Bytes of content in one record, at most.
    pub(crate) record: usize,
    /// Bytes of padding behind one, at most.
    pub(crate) padding: usize,
    /// Records of STDERR between those of STDOUT.
    pub(crate) words: usize,
    /// Bytes of one, at most.
    pub(crate) word: usize,
    /// Ends both streams before it ends the request, which it need not.
    pub(crate) ends_streams: bool,
    /// Behind each record of the request's body of more than 1,000 bytes.
    pub(crate) reads: Duration,
    /// Between the last of the response and END_REQUEST.
    pub(crate) late: Duration,
}

pub(crate) type Scripts = Rc<dyn Fn(&str) -> Option<(u64, ScriptPlan)>>;

/// Types of records (§8).
const BEGIN: u8 = 1;
const END: u8 = 3;
const PARAMS: u8 = 4;
const STDIN: u8 = 5;
const STDOUT: u8 = 6;
const STDERR: u8 = 7;
const GET_VALUES: u8 = 9;
const GET_VALUES_RESULT: u8 = 10;

/// Serves until it is dropped, with this many processes, each of which has one connection at a time.
pub(crate) async fn serve(
    listener: PeerListener,
    processes: usize,
    scripts: Scripts,
    seen: Rc<RefCell<Observations>>,
) {
    let listener = Rc::new(listener);
    let mut all = JoinSet::new();
    for _ in 0..processes {
        let (listener, scripts, seen) = (Rc::clone(&listener), Rc::clone(&scripts), Rc::clone(&seen));
        all.spawn_local(async move {
            loop {
                let peer = listener.accept().await;
                connection(peer, &scripts, &seen).await;
            }
        });
    }
    // The runner knows the panic of each of them.
    while all.join_next().await.is_some() {}
}

struct Record {
    kind: u8,
    id: u16,
    content: Vec<u8>,
}

struct Records<'p> {
    peer: &'p Peer,
    buffer: Vec<u8>,
}

impl Records<'_> {
    /// `None`: the connection has ended.
    async fn next(&mut self) -> Option<Record> {
        loop {
            if let [version, kind, id @ .., high, low, padding, _] = self.buffer.get(..8).unwrap_or_default()
            {
                assert_eq!(*version, 1, "a record of another version");
                let id = u16::from_be_bytes([id[0], id[1]]);
                let (kind, length) = (*kind, usize::from(u16::from_be_bytes([*high, *low])));
                let whole = 8 + length + usize::from(*padding);
                if self.buffer.len() >= whole {
                    let mut record: Vec<u8> = self.buffer.drain(..whole).collect();
                    record.truncate(8 + length);
                    return Some(Record { kind, id, content: record.split_off(8) });
                }
            }
            match self.peer.read(&mut self.buffer, 64 * 1024).await {
                Ok(1..) => {}
                Ok(0) | Err(_) => return None,
            }
        }
    }
}

async fn connection(peer: Peer, scripts: &Scripts, seen: &RefCell<Observations>) {
    let mut records = Records { peer: &peer, buffer: Vec::new() };
    let mut last = 0;
    while let Some(record) = records.next().await {
        match record.kind {
            GET_VALUES if record.id == 0 => {
                let values = encode(GET_VALUES_RESULT, 0, b"\x0f\x01FCGI_MPXS_CONNS0", 3);
                if peer.write(&values).await.is_err() {
                    return;
                }
            }
            BEGIN => {
                assert!(record.id != 0 && record.id != last, "the id {} again", record.id);
                last = record.id;
                assert_eq!(record.content.len(), 8);
                assert_eq!(record.content[..2], [0, 1], "the role of a responder");
                let keeps = record.content[2] & 1 != 0;
                if !request(&peer, &mut records, last, scripts, seen).await || !keeps {
                    return;
                }
            }
            // The rest of what was ended before it was read.
            STDIN if record.id == last => {}
            other => panic!("FastCGI: a record of type {other} for {}, behind {last}", record.id),
        }
    }
}

/// `false`: the connection is over.
async fn request(
    peer: &Peer,
    records: &mut Records<'_>,
    id: u16,
    scripts: &Scripts,
    seen: &RefCell<Observations>,
) -> bool {
    let mut params = Vec::new();
    loop {
        let Some(record) = records.next().await else { return false };
        assert_eq!((record.kind, record.id), (PARAMS, id), "PARAMS come first");
        if record.content.is_empty() {
            break;
        }
        params.extend(record.content);
    }
    let params = pairs(&params);
    let uri = &params["REQUEST_URI"];
    let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
    let Some((number, plan)) = scripts(path) else { panic!("a request nobody sent: {path}") };
    assert!(query == plan.query && params["QUERY_STRING"] == plan.query, "another query");
    assert!(params["SCRIPT_FILENAME"].ends_with("/index.php"), "{}", params["SCRIPT_FILENAME"]);
    let declared = params["CONTENT_LENGTH"].parse().unwrap_or(0);
    if plan.redirected == 0 {
        *seen.borrow_mut().begun.entry(number).or_default() += 1;
    }
    tokio::time::sleep(plan.response.delay).await;
    match plan.response.fault {
        Fault::DiesBefore => return false,
        Fault::Hangs => {
            peer.closed().await;
            return false;
        }
        _ => {}
    }
    let failed = Cell::new(false);
    let read = async {
        match stdin(records, id, number, declared, plan.reads).await {
            Some(size) if plan.redirected == 0 => drop(seen.borrow_mut().whole.insert(number, size)),
            // A request for the path that was named has no body.
            Some(size) => assert_eq!(size, 0, "the body of {number:x} came again"),
            None => failed.set(true),
        }
    };
    let sent = match plan.response.reads {
        BodyRead::Before => {
            read.await;
            !failed.get() && respond(peer, id, number, &plan).await
        }
        BodyRead::Beside | BodyRead::Throughout => tokio::join!(respond(peer, id, number, &plan), read).0,
        BodyRead::Never => respond(peer, id, number, &plan).await,
    };
    sent && !failed.get() && plan.response.closes.is_none()
}

/// The length of the request's body. `None`: the connection has ended.
async fn stdin(
    records: &mut Records<'_>,
    id: u16,
    number: u64,
    declared: usize,
    pause: Duration,
) -> Option<usize> {
    let mut got = 0;
    loop {
        let record = records.next().await?;
        assert_eq!((record.kind, record.id), (STDIN, id), "STDIN behind PARAMS");
        if record.content.is_empty() {
            assert_eq!(got, declared, "CONTENT_LENGTH says another size");
            return Some(got);
        }
        if let Err(wrong) = pattern::check(number, got, &record.content) {
            panic!("bytes: the request body of {number:x} is wrong at {wrong}");
        }
        got += record.content.len();
        if record.content.len() > 1000 {
            tokio::time::sleep(pause).await;
        }
    }
}

/// Names and values (§3.4); each name once.
fn pairs(mut bytes: &[u8]) -> BTreeMap<String, String> {
    fn length(bytes: &mut &[u8]) -> usize {
        let (value, used) = match bytes {
            [short @ 0..=127, ..] => (usize::from(*short), 1),
            [a, b, c, d, ..] => (u32::from_be_bytes([a & 0x7f, *b, *c, *d]) as usize, 4),
            _ => panic!("FastCGI: half a length"),
        };
        *bytes = &bytes[used..];
        value
    }
    let mut all = BTreeMap::new();
    while !bytes.is_empty() {
        let (name, value) = (length(&mut bytes), length(&mut bytes));
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("nothing else was sent");
        let (name, value) = (text(&bytes[..name]), text(&bytes[name..name + value]));
        bytes = &bytes[name.len() + value.len()..];
        assert!(!all.contains_key(&name), "FastCGI: {name} twice");
        all.insert(name, value);
    }
    all
}

/// `false`: it broke off.
async fn respond(peer: &Peer, id: u16, number: u64, plan: &ScriptPlan) -> bool {
    let (bytes, end) = encode_response(id, number, plan);
    let response = &plan.response;
    let most = match response.fault {
        Fault::DiesInside | Fault::Resets => bytes.len() / 2,
        _ => bytes.len(),
    };
    for part in bytes[..most].chunks(response.piece.max(most / 300).max(1)) {
        if peer.write(part).await.is_err() {
            return false;
        }
        tokio::time::sleep(response.pause).await;
    }
    if most < bytes.len() {
        return false;
    }
    tokio::time::sleep(plan.late).await;
    peer.write(&end).await.is_ok()
}

/// The streams, and the end of the request.
fn encode_response(id: u16, number: u64, plan: &ScriptPlan) -> (Vec<u8>, Vec<u8>) {
    let mut rng = Rng::new(number);
    let response = &plan.response;
    let end = |protocol| encode(END, id, &[0, 0, 0, 0, protocol, 0, 0, 0], plan.padding as u8);
    if response.fault == Fault::Refuses {
        return (Vec::new(), end(1 + (number % 3) as u8));
    }
    // CGI leaves the line's end to the system (RFC 3875 §6.3.4).
    let line = if rng.chance(500) { "\r\n" } else { "\n" };
    let mut stream = (head(number, plan) + "\r\n").replace("\r\n", line).into_bytes();
    stream.extend(own_body(number, 0, response.body, response));

    let mut out = Vec::new();
    let mut words = plan.words;
    let mut rest = &stream[..];
    while !rest.is_empty() {
        let count = (1 + rng.size(plan.record)).max(stream.len() / 200).min(rest.len()).min(0xffff);
        let (part, behind) = rest.split_at(count);
        let padding = rng.below(plan.padding + 1) as u8;
        if words > 0 && rng.chance(300) {
            words -= 1;
            let text = pattern::text(number, rng.size(plan.word)) + "\n";
            out.extend(encode(STDERR, id, text.as_bytes(), padding));
        }
        out.extend(encode(STDOUT, id, part, padding));
        rest = behind;
    }
    if plan.ends_streams {
        out.extend(encode(STDOUT, id, b"", rng.below(plan.padding + 1) as u8));
        out.extend(encode(STDERR, id, b"", 0));
    }
    let mut end = end(0);
    match response.fault {
        Fault::Garbage => out = spoiled(out, id, &mut rng),
        Fault::SaysMore => end.extend(encode(STDOUT, id, b"more", 0)),
        _ => {}
    }
    (out, end)
}

fn head(number: u64, plan: &ScriptPlan) -> String {
    if plan.redirected < plan.redirects {
        // Without anything else (RFC 3875 §6.2.2).
        return format!("Location: /{}/{}/{}\r\n", number >> 16, number & 0xffff, plan.redirected + 1);
    }
    let response = &plan.response;
    let mut head = format!("Status: {} X\r\nX-Id: {number:x}\r\n", response.status);
    head += &filling(number, response.fill);
    if response.hands {
        head += &format!("X-Accel-Redirect: {HANDED}{number:x}\r\n");
    }
    if response.framing == Framing::Length {
        head += &format!("Content-Length: {}\r\n", response.body);
    }
    head
}

/// Bytes that are not a response, or not this one's, at the front or the end.
fn spoiled(response: Vec<u8>, id: u16, rng: &mut Rng) -> Vec<u8> {
    let kind = rng.below(7);
    let garbage = match kind {
        0 => b"HTTP/1.1 200 OK\r\n\r\n".to_vec(),
        1 => encode(STDOUT, id.wrapping_add(1), b"of another", 0),
        2 => encode(BEGIN, id, &[0, 1, 1, 0, 0, 0, 0, 0], 0),
        3 => encode(77, id, b"", 255),
        4 => encode(END, id, b"", 0),
        5 => encode(END, id, &[0, 0, 0, 0, 9, 0, 0, 0], 0),
        _ => encode(STDOUT, id, b"Status: many\r\n\r\n", 0),
    };
    // A head that is none would be body at the end.
    match kind == 6 || rng.chance(500) {
        true => [garbage, response].concat(),
        false => [response, garbage].concat(),
    }
}

fn encode(kind: u8, id: u16, content: &[u8], padding: u8) -> Vec<u8> {
    let ([id_high, id_low], [high, low]) = (id.to_be_bytes(), (content.len() as u16).to_be_bytes());
    let mut record = vec![1, kind, id_high, id_low, high, low, padding, 0];
    record.extend_from_slice(content);
    record.resize(record.len() + usize::from(padding), 0xee);
    record
}
