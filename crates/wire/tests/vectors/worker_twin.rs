//! A worker's view of a connection, as naive as possible: it checks Keepwarm's frames.

use keepwarm_wire::frame::{FromWorker, MAX_CREDIT, Request, Response, ToWorker, flags};
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(crate) struct WorkerTwin {
    welcomed: bool,
    /// HELLO's streams and initial credit for a stream.
    hello: Option<(u32, u32)>,
    first_credit: u32,
    last: u32,
    drained: bool,
    measures: bool,
    /// Keepwarm's credit on the connection, and the worker's.
    keepwarm_credit: u32,
    worker_credit: u32,
    pub(crate) streams: BTreeMap<u32, TwinStream>,
}

#[derive(Debug)]
pub(crate) struct TwinStream {
    websocket: bool,
    accepted: bool,
    body_over: bool,
    closed: bool,
    message: Option<&'static str>,
    keepwarm_credit: u32,
    worker_credit: u32,
}

type Judged<T> = Result<T, &'static str>;

impl WorkerTwin {
    /// Checks a frame of Keepwarm. True: the frame must be ignored, since its stream is over.
    pub(crate) fn hear(&mut self, frame: &ToWorker<'_>) -> Judged<bool> {
        if let ToWorker::Welcome(welcome) = frame {
            if self.welcomed {
                return Err("second_welcome");
            }
            self.welcomed = true;
            self.first_credit = welcome.stream_credit;
            self.worker_credit = welcome.connection_credit;
            return Ok(false);
        }
        if !self.welcomed {
            return Err("before_welcome");
        }
        match *frame {
            ToWorker::Welcome(_) | ToWorker::Ping { .. } => Ok(false),
            ToWorker::Drain => {
                self.drained = true;
                Ok(false)
            }
            ToWorker::Leaks { end } => {
                let Some(_) = self.hello else { return Err("before_hello") };
                if end != self.measures || (!end && !self.streams.is_empty()) {
                    return Err("leaks");
                }
                self.measures = !end;
                Ok(false)
            }
            ToWorker::Request(request) => self.hear_request(&request),
            ToWorker::Credit { stream: 0, amount } => add(&mut self.worker_credit, amount).map(|()| false),
            ToWorker::Credit { stream, amount } => {
                self.on_stream(stream, |open| add(&mut open.worker_credit, amount))
            }
            ToWorker::Reset { stream, .. } => self.on_stream(stream, |open| {
                open.body_over = true;
                open.closed = true;
                Ok(())
            }),
            ToWorker::HalfClose { stream } => self.on_stream(stream, |_| Ok(())),
            ToWorker::Trailers { stream, .. } => self.on_stream(stream, |open| open.hear_body(true)),
            ToWorker::Data { stream, bytes, end } => {
                self.spend(bytes.len())?;
                self.on_stream(stream, |open| {
                    open.hear_body(end)?;
                    spend(&mut open.keepwarm_credit, bytes.len())
                })
            }
            ToWorker::Text { stream, bytes, end } => self.hear_message(stream, "text", bytes, end),
            ToWorker::Binary { stream, bytes, end } => self.hear_message(stream, "binary", bytes, end),
            ToWorker::Close { stream, .. } => self.on_stream(stream, |open| {
                open.needs_websocket()?;
                open.closed = true;
                Ok(())
            }),
        }
    }

    /// Records an allowed frame of the worker.
    pub(crate) fn say(&mut self, frame: &FromWorker<'_>, ended: bool) {
        match *frame {
            FromWorker::Hello(hello) => {
                self.hello = Some((hello.streams, hello.stream_credit));
                self.keepwarm_credit = hello.connection_credit;
            }
            FromWorker::Credit { stream: 0, amount } => add(&mut self.keepwarm_credit, amount).unwrap(),
            FromWorker::Credit { stream, amount } => {
                add(&mut self.streams.get_mut(&stream).unwrap().keepwarm_credit, amount).unwrap();
            }
            FromWorker::Response(Response { stream, status: 101, .. }) => {
                self.streams.get_mut(&stream).unwrap().accepted = true;
            }
            FromWorker::Data { stream, bytes, .. } => self.said(stream, bytes.len()),
            FromWorker::Text { stream, bytes, .. } | FromWorker::Binary { stream, bytes, .. } => {
                self.said(stream, bytes.len().max(64));
            }
            _ => {}
        }
        if ended {
            self.streams.remove(&frame.stream()).expect("it was open");
        }
    }

    fn hear_request(&mut self, request: &Request<'_>) -> Judged<bool> {
        let Some((streams, credit)) = self.hello else { return Err("before_hello") };
        if self.drained {
            return Err("after_drain");
        }
        if request.stream <= self.last {
            return Err("stream_order");
        }
        if self.streams.len() >= streams as usize || (self.measures && !self.streams.is_empty()) {
            return Err("stream_limit");
        }
        self.last = request.stream;
        let open = TwinStream {
            websocket: request.flags & flags::WEBSOCKET != 0,
            accepted: false,
            body_over: request.end(),
            closed: false,
            message: None,
            keepwarm_credit: credit,
            worker_credit: self.first_credit,
        };
        self.streams.insert(request.stream, open);
        Ok(false)
    }

    fn hear_message(&mut self, stream: u32, kind: &'static str, bytes: &[u8], end: bool) -> Judged<bool> {
        let cost = bytes.len().max(64);
        self.spend(cost)?;
        self.on_stream(stream, |open| {
            open.needs_websocket()?;
            if open.message.is_some_and(|within| within != kind) {
                return Err("mixed_message");
            }
            open.message = (!end).then_some(kind);
            spend(&mut open.keepwarm_credit, cost)
        })
    }

    fn on_stream(&mut self, stream: u32, judge: impl FnOnce(&mut TwinStream) -> Judged<()>) -> Judged<bool> {
        if stream > self.last {
            return Err("unknown_stream");
        }
        match self.streams.get_mut(&stream) {
            Some(open) => judge(open).map(|()| false),
            None => Ok(true),
        }
    }

    fn spend(&mut self, cost: usize) -> Judged<()> {
        spend(&mut self.keepwarm_credit, cost)
    }

    fn said(&mut self, stream: u32, cost: usize) {
        spend(&mut self.worker_credit, cost).unwrap();
        spend(&mut self.streams.get_mut(&stream).unwrap().worker_credit, cost).unwrap();
    }
}

impl TwinStream {
    fn hear_body(&mut self, end: bool) -> Judged<()> {
        if self.body_over {
            return Err("body_over");
        }
        self.body_over = end;
        Ok(())
    }

    fn needs_websocket(&self) -> Judged<()> {
        match self {
            Self { websocket: false, .. } => Err("not_websocket"),
            Self { accepted: false, .. } => Err("before_response"),
            Self { closed: true, .. } => Err("body_over"),
            _ => Ok(()),
        }
    }
}

fn add(credit: &mut u32, amount: u32) -> Judged<()> {
    *credit = credit.checked_add(amount).filter(|sum| *sum <= MAX_CREDIT).ok_or("credit_overflow")?;
    Ok(())
}

fn spend(credit: &mut u32, cost: usize) -> Judged<()> {
    *credit = credit.checked_sub(cost as u32).ok_or("credit_spent")?;
    Ok(())
}
