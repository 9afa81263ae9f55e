//! `keepwarm-bench-relay LISTEN TARGET [ROUND_TRIP_MS]`: accepts connections at LISTEN and passes their bytes to TARGET and back, one thread.
//!
//! With a round-trip time every byte takes half of it each way, and the first byte of a client half of it more on top of a whole one: in the place of the handshake of
//! TCP, which loopback acknowledges at once. Without, it is the least that any proxy costs: it copies bytes and parses nothing.

use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

/// Read at a time.
const BLOCK: usize = 64 * 1024;
/// Blocks on their way in one direction of a connection; more stay in the socket.
const IN_FLIGHT: usize = 256;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((listen, target, round_trip)) = parse(&arguments) else {
        eprintln!("usage: keepwarm-bench-relay LISTEN TARGET [ROUND_TRIP_MS]");
        return ExitCode::from(2);
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime.and_then(|runtime| runtime.block_on(serve(listen, target, round_trip))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("keepwarm-bench-relay: {listen}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn parse(arguments: &[String]) -> Option<(SocketAddr, SocketAddr, Duration)> {
    let (listen, target) = (arguments.first()?.parse().ok()?, arguments.get(1)?.parse().ok()?);
    let milliseconds: f64 = arguments.get(2).map_or(Some(0.0), |text| text.parse().ok())?;
    Some((listen, target, Duration::try_from_secs_f64(milliseconds / 1000.0).ok()?))
}

async fn serve(listen: SocketAddr, target: SocketAddr, round_trip: Duration) -> io::Result<()> {
    let listener = TcpListener::bind(listen).await?;
    loop {
        let (client, _) = listener.accept().await?;
        tokio::spawn(async move {
            // What one side does wrong ends its connection, and nothing else.
            let _ = relay(client, target, round_trip).await;
        });
    }
}

async fn relay(client: TcpStream, target: SocketAddr, round_trip: Duration) -> io::Result<()> {
    let begun = Instant::now();
    let server = TcpStream::connect(target).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    if round_trip.is_zero() {
        tokio::spawn(copy(from_server, to_client));
        copy(from_client, to_server).await;
        return Ok(());
    }
    let one_way = round_trip / 2;
    tokio::spawn(delay(from_server, to_client, begun, one_way));
    delay(from_client, to_server, begun + round_trip + one_way, one_way).await;
    Ok(())
}

async fn copy(mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
    let mut block = vec![0; BLOCK];
    while let Ok(got @ 1..) = from.read(&mut block).await {
        if to.write_all(&block[..got]).await.is_err() {
            return;
        }
    }
}

/// Everything arrives `after` its time, and nothing before `earliest`; the end, too.
async fn delay(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, earliest: Instant, after: Duration) {
    let (sender, mut receiver) = mpsc::channel::<(Instant, Vec<u8>)>(IN_FLIGHT);
    let read = async move {
        loop {
            let mut block = Vec::with_capacity(BLOCK);
            let got = from.read_buf(&mut block).await.unwrap_or(0);
            let due = (Instant::now() + after).max(earliest);
            if sender.send((due, block)).await.is_err() || got == 0 {
                return;
            }
        }
    };
    let write = async move {
        while let Some((due, block)) = receiver.recv().await {
            sleep_until(due).await;
            if block.is_empty() || to.write_all(&block).await.is_err() {
                return;
            }
        }
    };
    tokio::join!(read, write);
}
