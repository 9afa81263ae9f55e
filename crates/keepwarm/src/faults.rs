//! Faults on request, for tests: only in `keepwarm-faulty`, which is built with the feature `fault-injection` and never shipped.
//!
//! The field `Keepwarm-Fault` of a request names the fault to inject. The key `!` lets `keepwarm-faulty top` panic (`top/screen.rs`).

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;

use keepwarm_serve::{Exchange, Frontend, Handler, Outcome, Refusal, Request};

/// A handler, with faults in front of it.
pub(crate) struct FaultyHandler(pub(crate) Arc<dyn Frontend>);

impl Handler for FaultyHandler {
    fn handle<'a>(&'a self, exchange: &'a mut Exchange<'_>) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        let fault = exchange.request().head.fields.all("keepwarm-fault").next().map(<[u8]>::to_vec);
        match fault {
            None => self.0.handle(exchange),
            Some(fault) => Box::pin(fail(exchange, fault)),
        }
    }
}

impl Frontend for FaultyHandler {
    fn refuse(&self, exchange: &mut Exchange<'_>, refusal: &Refusal) {
        self.0.refuse(exchange, refusal);
    }

    fn is_forward_proxy(&self) -> bool {
        self.0.is_forward_proxy()
    }

    fn finished(&self, request: &Request, outcome: &Outcome) {
        self.0.finished(request, outcome);
    }
}

async fn fail(exchange: &mut Exchange<'_>, fault: Vec<u8>) {
    match fault.as_slice() {
        b"panic" => panic!("as the request wants it"),
        b"panic-in-body" => {
            let _ = exchange.head(200, None, false, std::iter::empty());
            exchange.data(b"half");
            let _ = poll_fn(|cx| exchange.poll_flush(cx)).await;
            panic!("as the request wants it");
        }
        b"hang" => hang(),
        _ => exchange.abort("no_such_fault"),
    }
}

/// Does not return, and does not let others have their turn.
#[inline(never)]
fn hang() {
    loop {
        std::hint::spin_loop();
    }
}
