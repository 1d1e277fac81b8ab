//! Sets of bytes, as tables: a look takes the same few steps whatever is in the set.

/// A set of bytes.
pub(super) struct ByteSet([bool; 256]);

impl ByteSet {
    pub(super) const EMPTY: Self = Self([false; 256]);

    /// The same with the bytes from `first` to `last`.
    pub(super) const fn with_range(mut self, first: u8, last: u8) -> Self {
        let mut byte = first as usize;
        while byte <= last as usize {
            self.0[byte] = true;
            byte += 1;
        }
        self
    }

    /// The same with these bytes.
    pub(super) const fn with(self, bytes: &[u8]) -> Self {
        self.put(bytes, true)
    }

    /// The same without these bytes.
    pub(super) const fn without(self, bytes: &[u8]) -> Self {
        self.put(bytes, false)
    }

    /// Whether a byte is in it.
    pub(super) fn has(&self, byte: u8) -> bool {
        self.0[usize::from(byte)]
    }

    const fn put(mut self, bytes: &[u8], is_in: bool) -> Self {
        let mut at = 0;
        while at < bytes.len() {
            self.0[bytes[at] as usize] = is_in;
            at += 1;
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_what_it_was_given() {
        static SET: ByteSet =
            ByteSet::EMPTY.with_range(b'a', b'z').with(b"-\xff").without(b"m").with_range(0, 1);
        let has = |byte: u8| matches!(byte, 0 | 1 | b'a'..=b'l' | b'n'..=b'z' | b'-' | 0xff);
        assert!((0..=u8::MAX).all(|byte| SET.has(byte) == has(byte)));
    }
}
