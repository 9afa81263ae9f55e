//! Lists of `allow` and `deny` in which the first match decides, as sets of address blocks.

use std::net::IpAddr;

/// A block of addresses. IPv4 and IPv6 are apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Block {
    v6: bool,
    bits: u128,
    length: u8,
}

/// What a rule says of the clients that it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Allow,
    Deny,
}

/// A rule: a verdict, and an address, a block or `all`.
pub(crate) type Rule<'a> = (Verdict, &'a str);

/// The clients that rules let in.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Clients {
    All,
    None,
    /// These only.
    Only(Vec<String>),
    /// All but these.
    Except(Vec<String>),
}

/// A rule's address, if it is one.
pub(crate) fn is_address(text: &str) -> bool {
    text == "all" || parse(text).is_some()
}

/// What ordered rules mean, of which the first match decides; `end` is for clients that none matches.
pub(crate) fn resolve(rules: &[Rule<'_>], end: Verdict) -> Option<Clients> {
    let mut blocks: Vec<(Verdict, Option<Block>)> = Vec::new();
    for (verdict, text) in rules {
        match *text {
            "all" => blocks.push((*verdict, None)),
            text => blocks.push((*verdict, Some(parse(text)?))),
        }
    }
    // What decides for all the rest.
    let rest = blocks.iter().find(|(_, block)| block.is_none()).map_or(end, |(verdict, _)| *verdict);
    let mut exceptions = Vec::new();
    for v6 in [false, true] {
        collect(Block { v6, bits: 0, length: 0 }, &blocks, rest, &mut exceptions);
    }
    let texts: Vec<String> = exceptions.iter().map(text).collect();
    Some(match (rest, texts.is_empty()) {
        (Verdict::Allow, true) => Clients::All,
        (Verdict::Deny, true) => Clients::None,
        (Verdict::Allow, false) => Clients::Except(texts),
        (Verdict::Deny, false) => Clients::Only(texts),
    })
}

/// The blocks within `block` whose verdict is not `rest`. Each step halves a block that a rule lies in.
fn collect(block: Block, rules: &[(Verdict, Option<Block>)], rest: Verdict, out: &mut Vec<Block>) {
    for (verdict, rule) in rules {
        let Some(rule) = rule else { break };
        if contains(*rule, block) {
            if *verdict != rest {
                out.push(block);
            }
            return;
        }
        if contains(block, *rule) {
            // Only where something in the block is decided otherwise.
            let (low, high) = halves(block);
            let before = out.len();
            collect(low, rules, rest, out);
            let middle = out.len();
            collect(high, rules, rest, out);
            if out.get(before..middle) == Some(&[low]) && out.get(middle..) == Some(&[high]) {
                out.truncate(before);
                out.push(block);
            }
            return;
        }
    }
}

fn halves(block: Block) -> (Block, Block) {
    let length = block.length + 1;
    let width = if block.v6 { 128 } else { 32 };
    let high = block.bits | 1 << (width - u32::from(length));
    (Block { length, ..block }, Block { length, bits: high, ..block })
}

fn contains(outer: Block, inner: Block) -> bool {
    let width = if outer.v6 { 128 } else { 32 };
    let shift = width - u32::from(outer.length);
    outer.v6 == inner.v6
        && outer.length <= inner.length
        && inner.bits.checked_shr(shift).unwrap_or(0) == outer.bits.checked_shr(shift).unwrap_or(0)
}

fn parse(text: &str) -> Option<Block> {
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address, Some(length)),
        None => (text, None),
    };
    let address: IpAddr = address.trim_matches(['[', ']']).parse().ok()?;
    let (v6, bits, width) = match address {
        IpAddr::V4(v4) => (false, u128::from(v4.to_bits()), 32),
        IpAddr::V6(v6) => (true, v6.to_bits(), 128u8),
    };
    let length = match length {
        None => width,
        Some(length) => length.parse::<u8>().ok().or_else(|| mask_length(length))?,
    };
    if length > width {
        return None;
    }
    let shift = u32::from(width - length);
    let bits = bits.checked_shr(shift).unwrap_or(0).checked_shl(shift).unwrap_or(0);
    Some(Block { v6, bits, length })
}

/// The length of a mask such as 255.255.255.0.
fn mask_length(mask: &str) -> Option<u8> {
    let bits = mask.parse::<std::net::Ipv4Addr>().ok()?.to_bits();
    let ones = bits.leading_ones();
    (bits.count_ones() == ones).then_some(u8::try_from(ones).ok()?)
}

fn text(block: &Block) -> String {
    let (address, width) = match block.v6 {
        true => (std::net::Ipv6Addr::from_bits(block.bits).to_string(), 128),
        false => (std::net::Ipv4Addr::from_bits(u32::try_from(block.bits).unwrap_or(0)).to_string(), 32),
    };
    if block.length == width { address } else { format!("{address}/{}", block.length) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Verdict::{Allow, Deny};

    fn only(blocks: &[&str]) -> Clients {
        Clients::Only(blocks.iter().map(|&block| block.to_owned()).collect())
    }

    fn except(blocks: &[&str]) -> Clients {
        Clients::Except(blocks.iter().map(|&block| block.to_owned()).collect())
    }

    #[test]
    fn the_first_match_decides() {
        let cases: [(&[Rule<'_>], Clients); 9] = [
            (&[], Clients::All),
            (&[(Deny, "all")], Clients::None),
            (&[(Allow, "all"), (Deny, "10.0.0.1")], Clients::All),
            (&[(Allow, "10.0.0.0/8"), (Allow, "::1"), (Deny, "all")], only(&["10.0.0.0/8", "::1"])),
            (&[(Deny, "192.0.2.7")], except(&["192.0.2.7"])),
            (
                &[(Deny, "10.0.0.1"), (Allow, "10.0.0.0/30"), (Deny, "all")],
                only(&["10.0.0.0", "10.0.0.2/31"]),
            ),
            (&[(Allow, "10.0.0.1"), (Deny, "10.0.0.0/30")], except(&["10.0.0.0", "10.0.0.2/31"])),
            (&[(Deny, "10.0.0.0/255.0.0.0")], except(&["10.0.0.0/8"])),
            (&[(Deny, "0.0.0.0/0")], except(&["0.0.0.0/0"])),
        ];
        for (rules, expected) in cases {
            assert_eq!(resolve(rules, Allow), Some(expected), "{rules:?}");
        }
        assert_eq!(resolve(&[(Allow, "unix:")], Allow), None);
        assert_eq!(resolve(&[(Allow, "10.0.0.0/33")], Allow), None);
    }
}
