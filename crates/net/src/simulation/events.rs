//! The events of virtual time: bytes arrive, room is made, connections are established, ends close.

use std::task::Waker;

use rustix::io::Errno;

use super::file::{FileEvent, Kind};
use super::kernel::Kernel;

#[derive(Debug, Clone, Copy)]
pub(super) enum Event {
    /// A part of the bytes in flight to this file arrives.
    Arrive(u64),
    /// There is room again for bytes of this file.
    Room(u64),
    /// A new registration learns the state of its file.
    Registered(u64),
    /// A handshake has ended: the second is what the listener will accept, if it was not refused.
    Connected(u64, Option<(u64, u64)>),
    /// A spurious wake-up for the waiter of this registration.
    Spurious(u64),
}

impl Kernel {
    pub(super) fn happen(&mut self, event: Event) -> Vec<Waker> {
        self.happened += 1;
        self.turns = 0;
        match event {
            Event::Arrive(file) => self.arrive(file),
            Event::Room(file) => self.tell(file, FileEvent::Room),
            Event::Registered(watch) => self.tell_state(watch),
            Event::Connected(file, accepted) => self.connected(file, accepted),
            Event::Spurious(watch) => match self.watches.get_mut(&watch) {
                Some(watch) => {
                    watch.readable = true;
                    watch.wake_all()
                }
                None => Vec::new(),
            },
        }
    }

    fn arrive(&mut self, file: u64) -> Vec<Waker> {
        let in_pieces = self.settings.in_pieces;
        let mut rng = self.rng.fork();
        let Some(stream) = self.stream(file) else { return Vec::new() };
        stream.coming = false;
        let whole = stream.wire.len();
        let count = if in_pieces { 1 + rng.size(whole.saturating_sub(1)) } else { whole }.min(whole);
        stream.incoming.extend(stream.wire.drain(..count));
        let mut edge = FileEvent::Data;
        let more = !stream.wire.is_empty();
        if !more && std::mem::take(&mut stream.reset_comes) {
            stream.broken = true;
            stream.error = Some(Errno::CONNRESET);
            edge = FileEvent::Reset;
        } else if !more && std::mem::take(&mut stream.end_comes) {
            stream.ended = true;
            edge = FileEvent::End;
        }
        self.note(file << 32 | count as u64);
        if more {
            self.send_off(file);
        }
        self.tell(file, edge)
    }

    fn connected(&mut self, file: u64, accepted: Option<(u64, u64)>) -> Vec<Waker> {
        let mut wakers = Vec::new();
        let mut edge = FileEvent::Room;
        if let Some(stream) = self.stream(file) {
            stream.connecting = false;
        }
        match accepted {
            Some((listener, server)) => match self.files.get_mut(&listener).map(|file| &mut file.kind) {
                Some(Kind::Listener { queue, refuses: false }) => {
                    queue.push_back(server);
                    wakers = self.tell(listener, FileEvent::Data);
                }
                _ => {
                    self.close(server);
                    edge = FileEvent::Reset;
                }
            },
            None => edge = FileEvent::Reset,
        }
        if let (FileEvent::Reset, Some(stream)) = (edge, self.stream(file)) {
            stream.broken = true;
            stream.error = Some(Errno::CONNREFUSED);
        }
        wakers.extend(self.tell(file, edge));
        wakers
    }

    /// Applies an edge to the registrations of a file.
    fn tell(&mut self, file: u64, edge: FileEvent) -> Vec<Waker> {
        let mut wakers = Vec::new();
        let hung_up = self.stream(file).is_some_and(|it| it.broken || (it.ended && it.shut));
        for watch in self.watches.values_mut().filter(|watch| watch.file == file) {
            watch.readable |= edge != FileEvent::Room && watch.interest.is_readable();
            watch.writable |=
                matches!(edge, FileEvent::Room | FileEvent::Reset) && watch.interest.is_writable();
            watch.read_closed |= matches!(edge, FileEvent::End | FileEvent::Reset);
            watch.write_closed |= hung_up;
            wakers.extend(watch.wake_ready());
        }
        if let Some(file) = self.files.get_mut(&file) {
            wakers.append(&mut file.observers);
        }
        wakers
    }

    fn tell_state(&mut self, watch: u64) -> Vec<Waker> {
        let Some(file) = self.watches.get(&watch).map(|watch| watch.file) else { return Vec::new() };
        let waits = match self.files.get(&file).map(|file| &file.kind) {
            Some(Kind::Listener { queue, .. }) => !queue.is_empty(),
            _ => false,
        };
        let room = match self.stream(file) {
            Some(stream) if stream.connecting => false,
            Some(stream) if stream.broken => true,
            Some(stream) => {
                let peer = stream.peer;
                self.stream(peer).is_none_or(|peer| peer.has_enough_room())
            }
            None => false,
        };
        let (readable, ended, hung_up) = match self.stream(file) {
            Some(stream) => (
                stream.is_readable(),
                stream.ended || stream.broken,
                stream.broken || (stream.ended && stream.shut),
            ),
            None => (waits, false, false),
        };
        let Some(watch) = self.watches.get_mut(&watch) else { return Vec::new() };
        watch.readable |= readable && watch.interest.is_readable();
        watch.writable |= room && watch.interest.is_writable();
        watch.read_closed |= ended;
        watch.write_closed |= hung_up;
        watch.wake_ready()
    }

    /// Wakes the observers of a file after a change: they are scripts, which look again.
    pub(super) fn touch(&mut self, file: u64) {
        let observers = self.files.get_mut(&file).map(|file| std::mem::take(&mut file.observers));
        observers.into_iter().flatten().for_each(Waker::wake);
    }

    /// Bytes sent to a closed end meet a reset. That end drops what it still had to send, and so loses a part of what was not read here: how much of that
    /// had left it is unknown (RFC 9112 §9.6).
    pub(super) fn meet_closed(&mut self, file: u64) {
        let lost = self.rng.next() as usize;
        let Some(stream) = self.stream(file) else { return };
        if !std::mem::replace(&mut stream.reset_comes, true) {
            let here = stream.incoming.len();
            let kept = lost % (here + stream.wire.len() + 1);
            stream.incoming.truncate(kept);
            stream.wire.truncate(kept.saturating_sub(here));
        }
        self.send_off(file);
    }

    /// A read has made room for the sender.
    pub(super) fn made_room(&mut self, file: u64) {
        let Some(stream) = self.stream(file) else { return };
        let (peer, enough) = (stream.peer, stream.has_enough_room());
        if enough && self.stream(peer).is_some_and(|peer| std::mem::take(&mut peer.no_room)) {
            self.schedule(Event::Room(peer));
        }
        self.touch(peer);
    }

    /// The last descriptor is gone.
    pub(super) fn close(&mut self, file: u64) {
        let Some(closed) = self.files.remove(&file) else { return };
        closed.observers.into_iter().for_each(Waker::wake);
        self.note(file ^ 0xC105E);
        match closed.kind {
            Kind::Listener { queue, .. } => {
                self.listeners.retain(|_, listener| *listener != file);
                queue.into_iter().for_each(|waiting| self.close(waiting));
            }
            Kind::Stream(stream) => {
                let unread = !stream.incoming.is_empty() || !stream.wire.is_empty();
                let resets = (stream.resets || unread) && !stream.broken;
                let lost = self.rng.next() as usize;
                if let Some(peer) = self.stream(stream.peer) {
                    peer.peer_gone = true;
                    peer.unarrived = stream.wire.len();
                    if resets {
                        // What has not left yet never will.
                        if !peer.unix {
                            peer.wire.truncate(lost % (peer.wire.len() + 1));
                        }
                        peer.reset_comes = true;
                    } else {
                        peer.end_comes = !peer.ended;
                    }
                    self.send_off(stream.peer);
                }
            }
        }
    }
}
