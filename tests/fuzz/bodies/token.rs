//! Tokens, one a line: one spelling each, and one order in text, in memory and on disk.

use palisade::fence::{Token, TokenError};

use super::{lines, shown};

/// A token as this file understands it.
type Rank = (u64, u64);

pub fn run(data: &[u8]) {
    let mut tokens: Vec<(Token, Rank)> = Vec::new();
    for text in lines(data, 16) {
        for generations in [false, true] {
            let read = Token::parse(text, generations);
            let rank = reference(text, generations);
            let found = read.ok().map(|token| (token.generation, token.counter));
            assert_eq!(found, rank, "{} with generations: {generations}", shown(text));
            if read == Err(TokenError::TooLarge) {
                let number = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
                assert!(text.split(|byte| *byte == b'.').any(number), "{}", shown(text));
            }
            tokens.extend(read.ok().zip(rank));
        }
    }
    for (token, rank) in &tokens {
        assert_eq!(Token::parse(token.to_string().as_bytes(), true), Ok(*token), "printed");
        assert_eq!(Token::from_bytes(token.to_bytes()), *token, "from the disk");
        for (other, other_rank) in &tokens {
            let order = rank.cmp(other_rank);
            assert_eq!(token.cmp(other), order, "{token} and {other}");
            assert_eq!(token.to_bytes().cmp(&other.to_bytes()), order, "{token} and {other}");
        }
    }
}

fn reference(text: &[u8], generations: bool) -> Option<Rank> {
    let text = std::str::from_utf8(text).ok()?;
    let pair = generations.then(|| text.split_once('.')).flatten();
    let (generation, counter) = pair.unwrap_or(("0", text));
    Some((number(generation)?, number(counter)?))
}

/// A number whose print is its text: no sign, no zero in front.
pub fn number(text: &str) -> Option<u64> {
    text.parse::<u64>().ok().filter(|number| number.to_string() == text)
}
