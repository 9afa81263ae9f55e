//! A socket of a process that has no descriptor left. Alone in its file, because the limit is the process's.

use std::future::poll_fn;
use std::io::{IoSlice, Read};
use std::os::unix::net::UnixStream;
use std::task::Poll;
use std::time::Duration;

use keepwarm_net::Io;
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// A registration of its own needs a descriptor (`EMFILE`): the existing one reports room, too.
#[tokio::test]
async fn room_is_learnt_of_without_a_descriptor() {
    let (ours, mut peer) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    let mut io = Io::new(ours.into());
    let block = [b'x'; 4096];
    let mut all = 0;
    while let Ok(wrote) = io.write(&[IoSlice::new(&block)]) {
        all += wrote;
    }
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(4), maximum }).unwrap();
    let refused = peer.try_clone().unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(Errno::MFILE.raw_os_error()));

    let early = poll_fn(|cx| Poll::Ready(io.poll_writable(cx))).await;
    assert!(early.is_pending(), "{early:?}");
    peer.read_exact(&mut vec![0; all]).unwrap();
    let room = tokio::time::timeout(Duration::from_secs(30), poll_fn(|cx| io.poll_writable(cx)));
    room.await.expect("somebody is told of the room").unwrap();
    assert_eq!(io.write(&[IoSlice::new(&block)]).unwrap(), block.len());
}
