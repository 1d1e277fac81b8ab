//! The fencing token: what a lock service hands out with a grant, compared and never computed.

use std::fmt;

/// A fencing token: `counter`, or `generation.counter` compared as the pair.
///
/// A bare counter is generation 0. Order is the order of grants: the greater one is the newer.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Token {
    /// How often the lock service has started counting from 1 again.
    pub generation: u64,
    /// The number of the grant within its generation.
    pub counter: u64,
}

impl Token {
    /// A token of generation 0.
    pub const fn new(counter: u64) -> Self {
        Self { generation: 0, counter }
    }

    /// Reads a token as it stands in a header field: plain decimal, 0 to 2^64-1, without sign,
    /// blanks or leading zeros; `generation.counter` only where `generations` is set.
    ///
    /// # Errors
    /// [`TokenError`] for every other spelling. There is one spelling per token.
    pub fn parse(text: &[u8], generations: bool) -> Result<Self, TokenError> {
        match text.iter().position(|b| *b == b'.') {
            Some(dot) if generations => {
                Ok(Self { generation: number(&text[..dot])?, counter: number(&text[dot + 1..])? })
            }
            _ => Ok(Self::new(number(text)?)),
        }
    }

    /// As it stands in a header field. The same as its `Display`, without a machinery of formats,
    /// which shows in the cost of a refusal.
    pub fn text(self) -> String {
        if self.generation == 0 { self.counter.to_string() } else { self.to_string() }
    }

    /// The bytes of a token on disk: both numbers big-endian, so that byte order is token order.
    pub fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.generation.to_be_bytes());
        bytes[8..].copy_from_slice(&self.counter.to_be_bytes());
        bytes
    }

    /// The inverse of [`Token::to_bytes`].
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        let both = u128::from_be_bytes(bytes);
        Self { generation: (both >> 64) as u64, counter: both as u64 }
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.generation == 0 {
            self.counter.fmt(f)
        } else {
            write!(f, "{}.{}", self.generation, self.counter)
        }
    }
}

/// Why a field's value is not a token.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TokenError {
    /// Not a plain decimal number in its one spelling.
    NotPlainDecimal,
    /// A number above 2^64-1.
    TooLarge,
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotPlainDecimal => "not a plain decimal number without sign or leading zeros",
            Self::TooLarge => "above 18446744073709551615",
        })
    }
}

impl std::error::Error for TokenError {}

/// `"+9".parse::<u64>()` succeeds, so the digits are checked first.
fn number(text: &[u8]) -> Result<u64, TokenError> {
    let plain = match text {
        [b'0'] => true,
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    if !plain {
        return Err(TokenError::NotPlainDecimal);
    }
    text.iter().try_fold(0_u64, |sum, digit| {
        sum.checked_mul(10)
            .and_then(|sum| sum.checked_add(u64::from(digit - b'0')))
            .ok_or(TokenError::TooLarge)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_spelling_per_token() {
        assert_eq!(Token::parse(b"0", false), Ok(Token::new(0)));
        assert_eq!(Token::parse(b"18446744073709551615", false), Ok(Token::new(u64::MAX)));
        assert_eq!(
            Token::parse(b"3.7", true),
            Ok(Token { generation: 3, counter: 7 }),
            "a pair where the route has generations"
        );
        for bad in [
            "", "+9", "-1", "0x9", "9.0", "9e0", "9_9", " 9", "9 ", "09", "00", "5, 99", "99;q=1",
            "\"99\"", "\u{ff19}", "9\0",
        ] {
            assert_eq!(
                Token::parse(bad.as_bytes(), false),
                Err(TokenError::NotPlainDecimal),
                "{bad:?}"
            );
        }
        for bad in ["1.", ".1", "1.01", "01.1", "1.2.3", "+1.2", "."] {
            assert_eq!(
                Token::parse(bad.as_bytes(), true),
                Err(TokenError::NotPlainDecimal),
                "{bad:?}"
            );
        }
        assert_eq!(Token::parse(b"18446744073709551616", false), Err(TokenError::TooLarge));
    }

    #[test]
    fn byte_order_is_token_order() {
        let ascending = [
            Token::new(0),
            Token::new(9_007_199_254_740_992),
            Token::new(9_007_199_254_740_993),
            Token::new(u64::MAX),
            Token { generation: 1, counter: 0 },
            Token { generation: u64::MAX, counter: u64::MAX },
        ];
        for pair in ascending.windows(2) {
            assert!(pair[0] < pair[1] && pair[0].to_bytes() < pair[1].to_bytes());
        }
        for token in ascending {
            assert_eq!(Token::from_bytes(token.to_bytes()), token);
            assert_eq!(Token::parse(token.to_string().as_bytes(), true), Ok(token));
            assert_eq!(token.text(), token.to_string());
        }
    }
}
