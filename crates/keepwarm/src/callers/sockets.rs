//! The kernel's table of TCP sockets, asked for one of them (sock_diag(7)). It takes no rights.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use netlink_packet_core::{NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP};
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, SocketId, StateFlags};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};

/// A connection to the table.
pub(super) struct SocketTable(OwnedFd);

impl SocketTable {
    /// # Errors
    /// The kernel has no such table, or does not let this process ask.
    pub(super) fn open() -> io::Result<Self> {
        let (family, flags) = (AddressFamily::NETLINK, SocketFlags::CLOEXEC);
        Ok(Self(socket_with(family, SocketType::RAW, flags, Some(netlink::SOCK_DIAG))?))
    }

    /// The inode of the socket of `own` that is connected to `peer`; `None`: there is none, or nobody has it open any more.
    pub(super) fn inode(&self, own: SocketAddr, peer: SocketAddr) -> Option<u64> {
        let request = request(own, peer);
        let mut bytes = vec![0; request.buffer_len()];
        request.serialize(&mut bytes);
        send(&self.0, &bytes, SendFlags::empty()).ok()?;
        // The response is there when the request was taken.
        let mut response = [0; 1024];
        let (length, _) = recv(&self.0, response.as_mut_slice(), RecvFlags::DONTWAIT).ok()?;
        let response = NetlinkMessage::<SockDiagMessage>::deserialize(response.get(..length)?).ok()?;
        match response.payload {
            NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(found)) => {
                Some(u64::from(found.header.inode)).filter(|inode| *inode != 0)
            }
            _ => None,
        }
    }
}

fn request(own: SocketAddr, peer: SocketAddr) -> NetlinkMessage<SockDiagMessage> {
    let (source, destination) = (own.ip().to_canonical(), peer.ip().to_canonical());
    let (family, id) = match source {
        IpAddr::V4(_) => (AF_INET, SocketId::new_v4()),
        IpAddr::V6(_) => (AF_INET6, SocketId::new_v6()),
    };
    let socket_id = SocketId {
        source_port: own.port(),
        destination_port: peer.port(),
        source_address: source,
        destination_address: destination,
        // Any: INET_DIAG_NOCOOKIE.
        cookie: [0xff; 8],
        ..id
    };
    let (extensions, states) = (ExtensionFlags::empty(), StateFlags::all());
    let wanted = InetRequest { family, protocol: IPPROTO_TCP, extensions, states, socket_id };
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST;
    let mut message = NetlinkMessage::new(header, SockDiagMessage::InetRequest(wanted).into());
    message.finalize();
    message
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    use rustix::fs::fstat;

    use super::*;
    use crate::process_sockets::sockets_of;

    #[test]
    fn a_connection_is_found_by_its_two_ends_in_each_family() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(address).unwrap();
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (ours, its_address) = listener.accept().unwrap();
            let table = SocketTable::open().unwrap();
            let own = ours.local_addr().unwrap();
            let inode = |end: &TcpStream| fstat(end.as_fd()).unwrap().st_ino;
            assert_eq!(table.inode(its_address, own), Some(inode(&client)));
            assert_eq!(table.inode(own, its_address), Some(inode(&ours)));
            assert!(sockets_of(std::process::id()).any(|socket| socket == inode(&client)));
            drop(client);
            assert_eq!(table.inode(its_address, own), None, "nobody has it open");
        }
    }

    /// A listener of both families has clients of the older one under names of the newer.
    #[test]
    fn a_mapped_address_is_that_of_the_older_family() {
        let listener = TcpListener::bind("[::]:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let (ours, mapped) = listener.accept().unwrap();
        assert!(mapped.is_ipv6());
        let inode = SocketTable::open().unwrap().inode(mapped, ours.local_addr().unwrap());
        assert_eq!(inode, Some(fstat(client.as_fd()).unwrap().st_ino));
    }
}
