//! The least that a server can cost which keeps the kernel's rules and does nothing else: what a figure of the benchmarks has to be seen against.
//!
//! * `keepwarm-bench-bare server LISTEN`: connections of clients on one side, one worker process at a Unix socket on the other; each read of a client is a
//!   request, each response is the same. No HTTP, no log, no clock.
//! * `keepwarm-bench-bare proxy LISTEN TARGET`: each read of a client goes to TARGET on a connection that is kept and lent to one client at a time; each
//!   read of that is the response. No HTTP, no TLS, no log, no clock.
//!
//! One thread, one `epoll`, a system call for each thing that has to be done.

use std::collections::{HashMap, VecDeque};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, ExitCode, Stdio};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType};

const RESPONSE: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 13\r\n\r\nHello, world!";
/// Bytes that tell the worker of a request: as many as Keepwarm's frame of a small one has.
const REQUEST_FRAME: usize = 128;
const BLOCK: usize = 64 * 1024;
const LISTENER: u64 = u64::MAX;
const BACKLOG: i32 = 4096;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["worker"] => work(),
        ["server", listen] => listen.parse().map_err(io::Error::other).and_then(serve),
        ["proxy", listen, target] => match (listen.parse(), target.parse()) {
            (Ok(listen), Ok(target)) => pass(listen, target),
            _ => Err(io::Error::other("not an address")),
        },
        _ => Err(io::Error::other("usage: keepwarm-bench-bare server LISTEN | proxy LISTEN TARGET")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("keepwarm-bench-bare: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The worker's process: standard input is the socket.
fn work() -> io::Result<()> {
    let mut socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut block = [0; BLOCK];
    let mut read = 0;
    loop {
        // Not a `read` that waits, which is woken when the response is read, too.
        rustix::event::poll(&mut [rustix::event::PollFd::new(&socket, rustix::event::PollFlags::IN)], None)?;
        let got = socket.read(&mut block)?;
        if got == 0 {
            return Ok(());
        }
        read += got;
        while read >= REQUEST_FRAME {
            read -= REQUEST_FRAME;
            socket.write_all(RESPONSE)?;
        }
    }
}

fn serve(listen: SocketAddr) -> io::Result<()> {
    let (mut worker, theirs) = UnixStream::pair()?;
    Command::new(std::env::current_exe()?).arg("worker").stdin(Stdio::from(OwnedFd::from(theirs))).spawn()?;
    let mut loops = Loop::new(listen)?;
    loops.watch(&worker, 0)?;
    let mut waiting = VecDeque::new();
    let mut block = [0; BLOCK];
    let mut read = 0;
    loop {
        for event in loops.wait()? {
            if event == 0 {
                read += worker.read(&mut block)?;
                while read >= RESPONSE.len() {
                    read -= RESPONSE.len();
                    let client = waiting.pop_front().and_then(|client| loops.clients.get(&client));
                    client.map(|client| rustix::io::write(client, RESPONSE));
                }
            } else if let Some((client, _)) = loops.read(event, &mut block)? {
                waiting.push_back(client);
                worker.write_all(&block[..REQUEST_FRAME])?;
            }
        }
    }
}

fn pass(listen: SocketAddr, target: SocketAddr) -> io::Result<()> {
    let mut loops = Loop::new(listen)?;
    let mut servers: HashMap<u64, (OwnedFd, Option<u64>)> = HashMap::new();
    let mut idle = Vec::new();
    let mut block = [0; BLOCK];
    loop {
        for event in loops.wait()? {
            if let Some((server, borrower)) = servers.get_mut(&event) {
                let got = rustix::io::read(&*server, &mut block)?;
                let client = borrower.take();
                if got == 0 {
                    servers.remove(&event);
                    idle.retain(|&one| one != event);
                    continue;
                }
                client
                    .and_then(|client| loops.clients.get(&client))
                    .map(|client| rustix::io::write(client, &block[..got]));
                idle.push(event);
            } else if let Some((client, got)) = loops.read(event, &mut block)? {
                let lent = match idle.pop() {
                    Some(lent) => lent,
                    None => {
                        let server =
                            rustix::net::socket(AddressFamily::of(target), SocketType::STREAM, None)?;
                        rustix::net::connect(&server, &target)?;
                        rustix::net::sockopt::set_tcp_nodelay(&server, true)?;
                        let number = number(&server);
                        loops.watch(&server, number)?;
                        servers.insert(number, (server, None));
                        number
                    }
                };
                if let Some((server, borrower)) = servers.get_mut(&lent) {
                    *borrower = Some(client);
                    rustix::io::write(&*server, &block[..got])?;
                }
            }
        }
    }
}

/// A listener, its clients, and what is watched.
struct Loop {
    epoll: OwnedFd,
    listener: OwnedFd,
    clients: HashMap<u64, OwnedFd>,
}

impl Loop {
    fn new(listen: SocketAddr) -> io::Result<Self> {
        let listener = rustix::net::socket(AddressFamily::of(listen), SocketType::STREAM, None)?;
        rustix::net::sockopt::set_socket_reuseaddr(&listener, true)?;
        rustix::net::sockopt::set_tcp_nodelay(&listener, true)?;
        rustix::net::bind(&listener, &listen)?;
        rustix::net::listen(&listener, BACKLOG)?;
        let made = Self { epoll: epoll::create(CreateFlags::CLOEXEC)?, listener, clients: HashMap::new() };
        made.watch(&made.listener, LISTENER)?;
        Ok(made)
    }

    fn watch(&self, what: impl AsFd, number: u64) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, what, EventData::new_u64(number), EventFlags::IN)?)
    }

    fn wait(&self) -> io::Result<Vec<u64>> {
        let mut events = Vec::with_capacity(256);
        epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), None)?;
        Ok(events.iter().map(|event: &Event| event.data.u64()).collect())
    }

    /// What an event of the listener or of a client brings: a client, and how many bytes it has sent.
    fn read(&mut self, event: u64, block: &mut [u8]) -> io::Result<Option<(u64, usize)>> {
        let client = if event == LISTENER {
            let client =
                rustix::net::accept_with(&self.listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)?;
            let number = number(&client);
            self.watch(&client, number)?;
            self.clients.insert(number, client);
            number
        } else {
            event
        };
        let Some(socket) = self.clients.get(&client) else { return Ok(None) };
        match rustix::io::read(socket, block) {
            Ok(got @ 1..) => Ok(Some((client, got))),
            Err(rustix::io::Errno::AGAIN) => Ok(None),
            Ok(_) | Err(_) => {
                self.clients.remove(&client);
                Ok(None)
            }
        }
    }
}

fn number(socket: &OwnedFd) -> u64 {
    use std::os::fd::AsRawFd;
    let number: RawFd = socket.as_raw_fd();
    u64::try_from(number).unwrap_or(LISTENER)
}

trait Family {
    fn of(address: SocketAddr) -> Self;
}

impl Family for AddressFamily {
    fn of(address: SocketAddr) -> Self {
        if address.is_ipv4() { Self::INET } else { Self::INET6 }
    }
}
