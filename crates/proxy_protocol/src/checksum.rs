/// CRC32c (RFC 3720 appendix B.4) of `parts` in a row. Bit by bit: few headers carry one, and none is longer than [`crate::MAX_V2`].
pub(crate) fn crc32c<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> u32 {
    let mut crc = u32::MAX;
    for &byte in parts.into_iter().flatten() {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 };
        }
    }
    !crc
}

#[cfg(test)]
mod tests {
    use super::crc32c;

    /// RFC 3720 appendix B.4.
    #[test]
    fn the_examples_of_the_rfc() {
        let ascending: Vec<u8> = (0..32).collect();
        assert_eq!(crc32c([[0; 32].as_slice()]), 0x8a91_36aa);
        assert_eq!(crc32c([[0xff; 32].as_slice()]), 0x62a8_ab43);
        assert_eq!(crc32c([ascending.as_slice()]), 0x46dd_794e);
        assert_eq!(crc32c([b"12345".as_slice(), b"6789"]), 0xe306_9283);
    }
}
