//! Property: no bytes make the decoder panic, it never takes or requests a byte after the header, and what it reads is what it would write.
#![no_main]

use keepwarm_proxy_protocol::{
    Decoded, MAX_V1, MAX_V2, ProxiedAddresses, ProxyHeader, decode, encode_v1, encode_v2,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let whole = decode(data);
    assert_eq!(
        read_exactly(data),
        whole.clone().map(|decoded| match decoded {
            Decoded::Complete(header, length) => Some((header, length)),
            Decoded::NeedMore(_) => None,
        })
    );
    let Ok(Decoded::Complete(header, length)) = whole else { return };
    assert!(length <= data.len() && length <= MAX_V1.max(MAX_V2));
    // Bytes after the header change nothing.
    assert_eq!(decode(&data[..length]), Ok(Decoded::Complete(header.clone(), length)));
    for checksum in [false, true] {
        let mut written = Vec::new();
        encode_v2(&header.addresses, checksum, &mut written);
        let again = plain(canonical(&header.addresses));
        assert_eq!(decode(&written), Ok(Decoded::Complete(again, written.len())));
    }
    let mut line = Vec::new();
    encode_v1(&header.addresses, &mut line);
    let again = match canonical(&header.addresses) {
        tcp @ ProxiedAddresses::Tcp { .. } => tcp,
        _ => ProxiedAddresses::Unspecified,
    };
    assert_eq!(decode(&line), Ok(Decoded::Complete(plain(again), line.len())));
});

fn plain(addresses: ProxiedAddresses) -> ProxyHeader {
    ProxyHeader { addresses, tls: false }
}

/// Two v4-mapped addresses are written as the v4 ones.
fn canonical(addresses: &ProxiedAddresses) -> ProxiedAddresses {
    let ProxiedAddresses::Tcp { mut source, mut destination } = addresses.clone() else {
        return addresses.clone();
    };
    let (from, to) = (source.ip().to_canonical(), destination.ip().to_canonical());
    if from.is_ipv4() == to.is_ipv4() {
        source.set_ip(from);
        destination.set_ip(to);
    }
    ProxiedAddresses::Tcp { source, destination }
}

/// As from a socket: never more than the decoder needs. `None`: it ended before the header.
fn read_exactly(data: &[u8]) -> Result<Option<(ProxyHeader, usize)>, keepwarm_proxy_protocol::HeaderFault> {
    let mut held = 0;
    loop {
        match decode(&data[..held])? {
            Decoded::Complete(header, length) => {
                assert_eq!(length, held);
                return Ok(Some((header, length)));
            }
            Decoded::NeedMore(more) if held + more > data.len() => {
                // What is there must not be a fault yet, or all of it would be one by now.
                return decode(data).map(|_| None);
            }
            Decoded::NeedMore(more) => held += more,
        }
    }
}
