//! What a session writes when there is nothing to write, and when there is no room for its close_notify.

use std::io::IoSlice;
use std::sync::mpsc::channel;

use tokio::io::AsyncWriteExt;

use super::*;
use crate::TransportStream;
use crate::transport::Transport;

async fn transport(endpoint: &Endpoint, tls: &crate::ClientTls) -> Transport {
    let limit = Duration::from_secs(10);
    let dial = Dial { endpoint, tls: Some(tls), connect_timeout: limit, handshake_timeout: limit };
    dial.run().await.unwrap().0
}

#[tokio::test]
async fn a_goodbye_that_finds_the_socket_full_is_followed_by_fin_once_it_has_left() {
    run(async {
        let authority = Authority::new();
        let (go, wait) = channel::<()>();
        let (tell, told) = channel();
        let io = std::sync::Mutex::new((wait, tell));
        let server = start(server(&authority.identity("a.test"), V13), move |mut stream| {
            let (wait, tell) = &*io.lock().unwrap();
            // The handshake is the server's, too.
            stream.read_exact(&mut [0]).unwrap();
            wait.recv().unwrap();
            let all = stream.read_to_end(&mut Vec::new());
            stream.sock.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            let fin = stream.sock.read(&mut [0]);
            tell.send((all.is_ok(), fin.is_ok_and(|got| got == 0))).unwrap();
        });
        let mut transport = transport(&server.endpoint, &authority.client("a.test")).await;
        let block = vec![b'x'; 64 * 1024];
        // Room may still appear: buffers grow, and acknowledgements are late on a busy machine.
        loop {
            while transport.unsent() == 0 {
                transport.write(&[IoSlice::new(&block)]).unwrap();
            }
            let left = poll_fn(|cx| transport.poll_flush(cx));
            if tokio::time::timeout(Duration::from_millis(100), left).await.is_err() {
                break;
            }
        }
        transport.shutdown_write();
        assert!(transport.unsent() > 0, "the socket is full");
        go.send(()).unwrap();
        poll_fn(|cx| transport.poll_flush(cx)).await.unwrap();
        let told = tokio::task::spawn_blocking(move || told.recv()).await.unwrap();
        assert_eq!(told, Ok((true, true)), "close_notify, FIN");
        drop(transport);
    })
    .await;
}

#[tokio::test]
async fn a_write_of_nothing_is_nothing() {
    run(async {
        let authority = Authority::new();
        let server = start(server(&authority.identity("a.test"), V13), |mut stream| {
            let _ = stream.read_to_end(&mut Vec::new());
        });
        let transport = transport(&server.endpoint, &authority.client("a.test")).await;
        let mut stream = TransportStream::from(transport);
        assert_eq!(stream.write(b"").await.unwrap(), 0);
        assert_eq!(stream.write(b"something").await.unwrap(), 9);
        let crate::Endpoint::Tcp(address) = server.endpoint else { unreachable!("it is TCP") };
        let plain = Endpoint::Tcp(address).connect().await.unwrap();
        assert_eq!(TransportStream::from(Transport::from(plain)).write(b"").await.unwrap(), 0);
    })
    .await;
}
