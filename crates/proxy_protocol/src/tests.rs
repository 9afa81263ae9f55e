//! The specification's rules, each header fed whole, byte by byte, and with bytes after it.

use super::*;

const V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

fn tcp(source: &str, destination: &str) -> ProxiedAddresses {
    ProxiedAddresses::Tcp { source: source.parse().unwrap(), destination: destination.parse().unwrap() }
}

fn v2(command: u8, family: u8, length: usize, block: &[u8]) -> Vec<u8> {
    let length = u16::try_from(length).unwrap().to_be_bytes();
    [V2, &[command, family], &length, block].concat()
}

/// Reads as a socket is read: never a byte more than is needed.
fn read_exactly(bytes: &[u8]) -> (Result<ProxyHeader, HeaderFault>, usize) {
    let mut held = 0;
    loop {
        match decode(&bytes[..held]) {
            Ok(Decoded::NeedMore(more)) => {
                assert!(more > 0);
                held += more;
                assert!(held <= bytes.len(), "asks for bytes that are not part of the header: {held}");
            }
            Ok(Decoded::Complete(header, length)) => {
                assert_eq!(length, held, "took more than the header");
                return (Ok(header), held);
            }
            Err(fault) => return (Err(fault), held),
        }
    }
}

fn accepts(bytes: &[u8], expected: &ProxyHeader) {
    let (header, length) = read_exactly(bytes);
    assert_eq!((header.as_ref(), length), (Ok(expected), bytes.len()), "{}", bytes.escape_ascii());
    let followed = [bytes, b"GET / HTTP/1.1\r\n"].concat();
    assert_eq!(decode(&followed), Ok(Decoded::Complete(expected.clone(), bytes.len())));
    for cut in 0..bytes.len() {
        let part = decode(&bytes[..cut]);
        let Ok(Decoded::NeedMore(more)) = part else { panic!("{cut} of {}: {part:?}", bytes.escape_ascii()) };
        assert!(more > 0 && cut + more <= bytes.len(), "{cut} + {more} of {}", bytes.escape_ascii());
    }
}

fn plain(addresses: ProxiedAddresses) -> ProxyHeader {
    ProxyHeader { addresses, tls: false }
}

#[test]
fn lines_of_version_1() {
    accepts(
        b"PROXY TCP4 192.168.0.1 192.168.0.11 56324 443\r\n",
        &plain(tcp("192.168.0.1:56324", "192.168.0.11:443")),
    );
    accepts(b"PROXY TCP4 1.1.1.1 1.1.1.1 0 1\r\n", &plain(tcp("1.1.1.1:0", "1.1.1.1:1")));
    accepts(b"PROXY TCP6 :: ::1 1 65535\r\n", &plain(tcp("[::]:1", "[::1]:65535")));
    accepts(b"PROXY UNKNOWN\r\n", &plain(ProxiedAddresses::Unspecified));
    // The longest lines of §2.1.
    accepts(
        b"PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n",
        &plain(tcp("255.255.255.255:65535", "255.255.255.255:65535")),
    );
    let all = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
    accepts(
        format!("PROXY TCP6 {all} {all} 65535 65535\r\n").as_bytes(),
        &plain(tcp(&format!("[{all}]:65535"), &format!("[{all}]:65535"))),
    );
    let longest = format!("PROXY UNKNOWN {all} {all} 65535 65535\r\n");
    assert_eq!(longest.len(), MAX_V1);
    accepts(longest.as_bytes(), &plain(ProxiedAddresses::Unspecified));
}

#[test]
fn malformed_lines_of_version_1() {
    for line in [
        "PROXY TCP4 192.168.0.1 192.168.0.11 56324 443 \r\n",
        "PROXY TCP4 192.168.0.1 192.168.0.11 56324\r\n",
        "PROXY TCP4  192.168.0.1 192.168.0.11 56324 443\r\n",
        "PROXY TCP4 192.168.0.01 192.168.0.11 56324 443\r\n",
        "PROXY TCP4 ::1 ::1 56324 443\r\n",
        "PROXY TCP6 1.2.3.4 1.2.3.4 56324 443\r\n",
        "PROXY TCP6 fe80::1%eth0 ::1 56324 443\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 65536 443\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 +1 443\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 01 443\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 1 \r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 1 2\n\r\n",
        "PROXY UDP4 1.2.3.4 1.2.3.4 1 2\r\n",
        "PROXY UNKNOWNS\r\n",
        "PROXY UNKNOWN a\rb\r\n",
        "PROXY UNKNOWN a\nb\r\n",
        "PROXY UNKNOWN a\r\r\n",
        "PROXY tcp4 1.2.3.4 1.2.3.4 1 2\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 1 2\nGET / HTTP/1.1\r\n",
        "PROXY TCP4 1.2.3.4 1.2.3.4 1 2\rGET / HTTP/1.1\r\n",
    ] {
        assert_eq!(decode(line.as_bytes()), Err(HeaderFault::Line), "{line:?}");
    }
    let endless = [b"PROXY UNKNOWN ".as_slice(), &[b'x'; 200]].concat();
    assert_eq!(decode(&endless), Err(HeaderFault::TooLong));
    assert_eq!(decode(&endless[..MAX_V1]), Err(HeaderFault::TooLong));
    assert_eq!(decode(&endless[..MAX_V1 - 1]), Ok(Decoded::NeedMore(1)));
}

#[test]
fn other_beginnings_are_no_header() {
    for bytes in
        [b"GET / HTTP/1.1\r\n".as_slice(), b"PRI * HTTP/2.0", b"PROXX", b"\r\n\r\nG", b"\x16\x03\x01"]
    {
        assert_eq!(decode(bytes), Err(HeaderFault::Missing), "{}", bytes.escape_ascii());
    }
}

#[test]
fn headers_of_version_2() {
    let v4 = [192, 0, 2, 1, 198, 51, 100, 2, 0xdc, 0x04, 0x01, 0xbb];
    let ends = tcp("192.0.2.1:56324", "198.51.100.2:443");
    accepts(&v2(0x21, 0x11, 12, &v4), &plain(ends.clone()));
    let mut v6 = [0; 36];
    v6[15] = 1;
    v6[31] = 2;
    v6[33] = 7;
    v6[35] = 8;
    accepts(&v2(0x21, 0x21, 36, &v6), &plain(tcp("[::1]:7", "[::2]:8")));
    let mut unix = [0; 216];
    unix[108..118].copy_from_slice(b"/run/proxy");
    let addresses = ProxiedAddresses::Unix { source: Vec::new(), destination: b"/run/proxy".to_vec() };
    accepts(&v2(0x21, 0x31, 216, &unix), &plain(addresses));
    accepts(&v2(0x21, 0x00, 0, b""), &plain(ProxiedAddresses::Unspecified));
    accepts(&v2(0x21, 0x00, 5, b"abcde"), &plain(ProxiedAddresses::Unspecified));
    accepts(&v2(0x20, 0x00, 0, b""), &plain(ProxiedAddresses::Local));
    // LOCAL: the block is discarded, whatever its family.
    accepts(&v2(0x20, 0x11, 12, &v4), &plain(ProxiedAddresses::Local));
    accepts(&v2(0x20, 0xff, 3, b"xyz"), &plain(ProxiedAddresses::Local));
    // TLVs that mean nothing here: ALPN, NOOP of no length, a private one.
    let tlvs = [v4.as_slice(), b"\x01\0\x02h2", b"\x04\0\0", b"\xe0\0\x01z"].concat();
    accepts(&v2(0x21, 0x11, tlvs.len(), &tlvs), &plain(ends.clone()));
    // PP2_TYPE_SSL: the client used TLS, or did not.
    for (client, tls) in [(1, true), (7, true), (6, false), (0, false)] {
        let block = [v4.as_slice(), &[0x20, 0, 5, client, 0, 0, 0, 0]].concat();
        accepts(&v2(0x21, 0x11, block.len(), &block), &ProxyHeader { addresses: ends.clone(), tls });
    }
}

#[test]
fn malformed_headers_of_version_2() {
    let v4 = [192, 0, 2, 1, 198, 51, 100, 2, 0xdc, 0x04, 0x01, 0xbb];
    let with = |tlv: &[u8]| {
        let block = [v4.as_slice(), tlv].concat();
        v2(0x21, 0x11, block.len(), &block)
    };
    for (bytes, fault) in [
        (v2(0x11, 0x11, 12, &v4), HeaderFault::Version),
        (v2(0x31, 0x11, 12, &v4), HeaderFault::Version),
        (v2(0x22, 0x11, 12, &v4), HeaderFault::Command),
        (v2(0x2f, 0x11, 12, &v4), HeaderFault::Command),
        // A datagram, a family without a protocol, a protocol without a family, one that does not exist.
        (v2(0x21, 0x12, 12, &v4), HeaderFault::Family),
        (v2(0x21, 0x10, 12, &v4), HeaderFault::Family),
        (v2(0x21, 0x01, 12, &v4), HeaderFault::Family),
        (v2(0x21, 0x41, 12, &v4), HeaderFault::Family),
        (v2(0x21, 0x11, 11, &v4[..11]), HeaderFault::Addresses),
        (v2(0x21, 0x21, 12, &v4), HeaderFault::Addresses),
        (v2(0x21, 0x31, 12, &v4), HeaderFault::Addresses),
        (with(b"\x04"), HeaderFault::Tlv),
        (with(b"\x04\0"), HeaderFault::Tlv),
        (with(b"\x04\0\x01"), HeaderFault::Tlv),
        (with(b"\x04\xff\xffxx"), HeaderFault::Tlv),
        (with(b"\x03\0\x03abc"), HeaderFault::Tlv),
        (with(b"\x03\0\x04abcd"), HeaderFault::Checksum),
    ] {
        assert_eq!(decode(&bytes), Err(fault), "{}", bytes.escape_ascii());
        assert_eq!(read_exactly(&bytes).0, Err(fault), "{}", bytes.escape_ascii());
    }
    // Refused by its length, before a byte of it is held.
    assert_eq!(decode(&v2(0x21, 0x11, MAX_V2 - 15, b"")), Err(HeaderFault::TooLong));
    assert_eq!(decode(&v2(0x20, 0x11, 65_535, b"")), Err(HeaderFault::TooLong));
    assert_eq!(decode(&v2(0x21, 0x11, MAX_V2 - 16, b"")), Ok(Decoded::NeedMore(MAX_V2 - 16)));
}

/// All but its own kind: a TLV of another kind is skipped.
#[test]
fn the_checksum_covers_every_byte() {
    let mut bytes = Vec::new();
    encode_v2(&tcp("127.0.0.1:40000", "127.0.0.1:80"), true, &mut bytes);
    bytes.extend_from_slice(b"\x04\0\x01x");
    let length = bytes.len() - 16;
    bytes[14..16].copy_from_slice(&u16::try_from(length).unwrap().to_be_bytes());
    let at = bytes.len() - 8;
    bytes[at..at + 4].fill(0);
    let sum = checksum::crc32c([bytes.as_slice()]).to_be_bytes();
    bytes[at..at + 4].copy_from_slice(&sum);
    accepts(&bytes, &plain(tcp("127.0.0.1:40000", "127.0.0.1:80")));
    for byte in 16..bytes.len() {
        let mut changed = bytes.clone();
        changed[byte] ^= 0x40;
        assert!(decode(&changed).is_err() || byte == 28, "{byte}");
    }
}

#[test]
fn what_is_encoded_decodes_to_itself() {
    let unix = |source: &[u8], destination: &[u8]| ProxiedAddresses::Unix {
        source: source.to_vec(),
        destination: destination.to_vec(),
    };
    for addresses in [
        ProxiedAddresses::Local,
        ProxiedAddresses::Unspecified,
        tcp("192.0.2.1:1", "198.51.100.2:65535"),
        tcp("[2001:db8::1]:1", "[2001:db8::2]:65535"),
        unix(b"", b""),
        unix(&[b'/'; 108], b"/run/x"),
    ] {
        for checksum in [false, true] {
            let mut bytes = Vec::new();
            encode_v2(&addresses, checksum, &mut bytes);
            accepts(&bytes, &plain(addresses.clone()));
        }
        let mut line = Vec::new();
        encode_v1(&addresses, &mut line);
        match addresses {
            ProxiedAddresses::Tcp { .. } => accepts(&line, &plain(addresses)),
            _ => accepts(&line, &plain(ProxiedAddresses::Unspecified)),
        }
    }
}

#[test]
fn what_is_known_of_tls_is_in_tlvs() {
    let tls = ClientTls {
        alpn: Some(b"h2"),
        server_name: Some(b"a.test"),
        version: Some(b"TLSv1.3"),
        has_certificate: true,
    };
    let (mut bytes, addresses) = (Vec::new(), tcp("192.0.2.1:1", "192.0.2.2:2"));
    encode_v2_with(&addresses, &tls, true, &mut bytes);
    accepts(&bytes, &ProxyHeader { addresses: addresses.clone(), tls: true });
    let tlvs = b"\x01\0\x02h2\x02\0\x06a.test\x20\0\x0f\x03\0\0\0\0\x21\0\x07TLSv1.3\x03\0\x04";
    assert_eq!(&bytes[16 + 12..bytes.len() - 4], tlvs);
    // Without a certificate, its check is not a success (§2.2.6).
    let mut bytes = Vec::new();
    encode_v2_with(&addresses, &ClientTls { has_certificate: false, ..tls }, false, &mut bytes);
    assert!(bytes.windows(8).any(|part| part == b"\x20\0\x0f\x01\0\0\0\x01"), "{}", bytes.escape_ascii());
}

#[test]
fn addresses_of_two_families_are_written_as_one() {
    let mut bytes = Vec::new();
    encode_v2(&tcp("192.0.2.1:1", "[2001:db8::2]:2"), false, &mut bytes);
    accepts(&bytes, &plain(tcp("[::ffff:192.0.2.1]:1", "[2001:db8::2]:2")));
    // Both are v4 in truth: a listener on [::] of a dual-stack socket.
    let mut bytes = Vec::new();
    encode_v1(&tcp("[::ffff:192.0.2.1]:1", "[::ffff:192.0.2.2]:2"), &mut bytes);
    assert_eq!(bytes, b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n");
}
