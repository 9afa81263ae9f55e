use super::Coding;

/// The qualities of codings in `Accept-Encoding` (RFC 9110 §12.5.3), in thousandths.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AcceptEncoding {
    /// By [`Coding::index`].
    codings: [Option<u16>; 3],
    identity: Option<u16>,
    /// `*`: all that are not listed.
    any: Option<u16>,
}

impl AcceptEncoding {
    /// Reads the lines of the field. Without any nothing is accepted: any coding would be allowed, but such clients seldom decode one.
    pub fn parse<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut accept = Self::default();
        for member in lines.flat_map(|line| line.split(|&byte| byte == b',')) {
            let mut parts = member.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
            let name = parts.next().unwrap_or_default();
            let quality = parts.find_map(quality).unwrap_or(1000);
            if let Some(slot) = accept.slot(name) {
                slot.get_or_insert(quality);
            }
        }
        accept
    }

    fn slot(&mut self, name: &[u8]) -> Option<&mut Option<u16>> {
        let is = |coding: &str| name.eq_ignore_ascii_case(coding.as_bytes());
        let [zstd, brotli, gzip] = &mut self.codings;
        match name.len() {
            1 if is("*") => Some(&mut self.any),
            2 if is("br") => Some(brotli),
            4 if is("gzip") => Some(gzip),
            4 if is("zstd") => Some(zstd),
            // RFC 9110 §8.4.1.3: the same coding.
            6 if is("x-gzip") => Some(gzip),
            8 if is("identity") => Some(&mut self.identity),
            _ => None,
        }
    }

    /// How much the client wants a coding; 0: it does not accept it.
    pub fn quality(&self, coding: Coding) -> u16 {
        self.codings.get(coding.index()).copied().flatten().or(self.any).unwrap_or(0)
    }

    /// Whether the client accepts a coding.
    pub fn accepts(&self, coding: Coding) -> bool {
        self.quality(coding) > 0
    }

    /// Whether the client has ruled out a response without a coding.
    pub fn refuses_identity(&self) -> bool {
        self.identity.or(self.any) == Some(0)
    }

    /// The coding that the client wants most of those `offered`, the first of equals. `None`: no coding, which is what is sent also to a client
    /// that accepts nothing at all: 406 would be as useless.
    pub fn best(&self, offered: &[Coding]) -> Option<Coding> {
        let mut best: Option<(u16, Coding)> = None;
        for &coding in offered {
            let quality = self.quality(coding);
            if quality > best.map_or(0, |(most, _)| most) {
                best = Some((quality, coding));
            }
        }
        let (quality, coding) = best?;
        // Unless it is listed, `identity` is acceptable and wanted least.
        let identity = self.identity.or(self.any).unwrap_or(0);
        (quality >= identity).then_some(coding)
    }
}

/// The weight of `q=0.5` (RFC 9110 §12.4.2). An invalid one counts as none; more digits than three are cut off.
fn quality(parameter: &[u8]) -> Option<u16> {
    let (name, value) = parameter.split_at_checked(2)?;
    if !name.eq_ignore_ascii_case(b"q=") {
        return None;
    }
    let mut digits = match value {
        [b'0', b'.', digits @ ..] => digits,
        [b'0'] => return Some(0),
        [b'.', digits @ ..] if !digits.is_empty() => digits,
        _ => return None,
    }
    .iter();
    let mut thousandths = 0;
    for place in [100, 10, 1] {
        match digits.next() {
            Some(digit @ b'0'..=b'9') => thousandths += u16::from(digit - b'0') * place,
            Some(_) => return None,
            None => break,
        }
    }
    Some(thousandths)
}
