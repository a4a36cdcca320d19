//! Numbers in as few bytes as they need: seven bits a byte, least significant first (LEB128), and signs folded in.

/// The most bytes that a 64-bit number takes.
pub(crate) const MAXIMUM_BYTES: usize = 10;

/// Appends `number` to `bytes`.
pub(crate) fn write(bytes: &mut Vec<u8>, mut number: u64) {
    loop {
        let low = (number & 0x7f) as u8;
        number >>= 7;
        if number == 0 {
            bytes.push(low);
            return;
        }
        bytes.push(low | 0x80);
    }
}

/// Reads a number whose bytes come from `next`; `None` if they end or exceed 64 bits.
pub(crate) fn read(mut next: impl FnMut() -> Option<u8>) -> Option<u64> {
    let mut number = 0_u64;
    for index in 0..MAXIMUM_BYTES {
        let byte = next()?;
        let bits = u64::from(byte & 0x7f);
        if index == MAXIMUM_BYTES - 1 && bits > 1 {
            return None;
        }
        number |= bits << (7 * index);
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// Takes a number off the front of `bytes`.
pub(crate) fn take(bytes: &mut &[u8]) -> Option<u64> {
    read(|| {
        let (&first, rest) = bytes.split_first()?;
        *bytes = rest;
        Some(first)
    })
}

/// Folds the sign of a difference into the lowest bit, so that small differences of either sign are small numbers.
pub(crate) const fn fold_sign(difference: u64) -> u64 {
    let signed = difference.cast_signed();
    ((signed << 1) ^ (signed >> 63)).cast_unsigned()
}

/// Undoes [`fold_sign`].
pub(crate) const fn unfold_sign(folded: u64) -> u64 {
    (folded >> 1) ^ 0_u64.wrapping_sub(folded & 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_survives() {
        for shift in 0..64 {
            for number in [
                1_u64 << shift,
                (1_u64 << shift).wrapping_sub(1),
                u64::MAX >> shift,
            ] {
                let mut bytes = Vec::new();
                write(&mut bytes, number);
                assert_eq!(take(&mut bytes.as_slice()), Some(number));
                assert_eq!(unfold_sign(fold_sign(number)), number);
                assert_eq!(take(&mut &bytes[..bytes.len() - 1]), None);
            }
        }
    }

    #[test]
    fn what_exceeds_64_bits_is_refused() {
        assert_eq!(take(&mut [0xff; 20].as_slice()), None);
        assert_eq!(
            take(&mut [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 2].as_slice()),
            None
        );
    }
}
