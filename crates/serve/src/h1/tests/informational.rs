//! Informational responses of a source that never sends its head.

use std::future::poll_fn;
use std::sync::mpsc;

use super::*;
use crate::{ResponseBuffer, UNSENT_ENOUGH};

/// Sends as many as there is room for; reports how many bytes that is.
struct InformationalFlood(mpsc::Sender<usize>);

impl ExchangeScript for InformationalFlood {
    fn act<'a>(&'a self, exchange: &'a mut Exchange<'_>) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        Box::pin(async move {
            let mut response = ResponseBuffer::new(true);
            let link = [b'x'; 1000];
            poll_fn(|cx| {
                for _ in 0..1000 {
                    if !response.poll_room(cx, exchange).unwrap() {
                        break;
                    }
                    exchange.informational(103, [(&b"link"[..], &link[..])].into_iter());
                }
                std::task::Poll::Ready(())
            })
            .await;
            self.0.send(exchange.unsent()).unwrap();
            exchange.abort("enough");
        })
    }
}

/// Only the body is buffered for a slow client. Informational responses are not, so that their source has to wait.
#[tokio::test]
async fn informational_responses_are_not_held_without_bound_where_a_response_is_buffered() {
    let (tell, told) = mpsc::channel();
    run(async {
        let mut client = connect(InformationalFlood(tell), ConnectionLimits::default());
        write(&mut client, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        let mut rest = Vec::new();
        let _reset = tokio::io::AsyncReadExt::read_to_end(&mut client, &mut rest).await;
    })
    .await;
    let unsent = told.recv().unwrap();
    assert!(unsent < UNSENT_ENOUGH + 2000, "{unsent} bytes are held");
}
