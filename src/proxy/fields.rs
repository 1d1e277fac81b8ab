//! The `Fencing-...` fields of a request, and the names of an answer's.

use http::{HeaderMap, HeaderName};

use super::{
    lines::{Fields, Lines},
    refusal::Refusal,
};
use crate::fence::{Holder, Token, TokenError};

/// `Fencing-Token`.
pub const TOKEN: HeaderName = HeaderName::from_static("fencing-token");
/// Its older name.
pub const X_TOKEN: HeaderName = HeaderName::from_static("x-fencing-token");
/// `Fencing-Holder`.
pub const HOLDER: HeaderName = HeaderName::from_static("fencing-holder");
/// `Fencing-Claim`.
pub const CLAIM: HeaderName = HeaderName::from_static("fencing-claim");

/// `Fencing-Result`, of an answer.
pub const RESULT: HeaderName = HeaderName::from_static("fencing-result");
/// `Fencing-Highest`, of an answer.
pub const HIGHEST: HeaderName = HeaderName::from_static("fencing-highest");
/// `Fencing-Outcome`, of an answer to a write.
pub const OUTCOME: HeaderName = HeaderName::from_static("fencing-outcome");

/// What a request says of its writer's lock grant.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// The token; `None` where no field names one. An error is kept, because a route that does not
    /// enforce goes on without it.
    pub token: Result<Option<Token>, TokenFault>,
    /// The holder.
    pub holder: Option<Holder>,
    /// `Fencing-Claim: true`.
    pub claim: bool,
}

/// Why the token field is malformed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TokenFault {
    /// More than one line, or two fields that differ.
    NotOne,
    /// One value that is no token.
    Value(TokenError),
}

impl TokenFault {
    /// The reason, for the client to read.
    pub fn reason(self) -> &'static str {
        match self {
            Self::NotOne => "there must be exactly one token field",
            Self::Value(TokenError::NotPlainDecimal) => {
                "the token is not a plain decimal number without sign, blanks or leading zeros"
            }
            Self::Value(TokenError::TooLarge) => "the token is above 18446744073709551615",
        }
    }
}

impl Credentials {
    /// Reads the fields; `names` are those in which the route takes a token.
    ///
    /// # Errors
    /// [`Refusal::BadRequest`] for a malformed holder or claim.
    pub fn read(
        fields: &Fields<'_>,
        names: &[HeaderName],
        generations: bool,
    ) -> Result<Self, Refusal> {
        Ok(Self {
            token: token(fields, names, generations),
            holder: fields.unusual.map(holder).transpose()?.flatten(),
            claim: fields.unusual.map(claim).transpose()?.unwrap_or_default(),
        })
    }
}

/// Every line of every name is looked at: a map's `get` sees only the first of two.
fn token(
    fields: &Fields<'_>,
    names: &[HeaderName],
    generations: bool,
) -> Result<Option<Token>, TokenFault> {
    let mut found: Option<&[u8]> = None;
    for name in names {
        let line = match fields.lines(name) {
            Lines::None => continue,
            Lines::One(line) => line.as_bytes(),
            Lines::More => return Err(TokenFault::NotOne),
        };
        if found.is_some_and(|found| found != line) {
            return Err(TokenFault::NotOne);
        }
        found = Some(line);
    }
    found.map(|text| Token::parse(text, generations).map_err(TokenFault::Value)).transpose()
}

fn holder(headers: &HeaderMap) -> Result<Option<Holder>, Refusal> {
    let text = match Lines::of(headers, &HOLDER) {
        Lines::None => return Ok(None),
        Lines::One(text) => text.as_bytes(),
        Lines::More => return Err(Refusal::BadRequest("two Fencing-Holder fields")),
    };
    match Holder::parse(text) {
        Some(holder) => Ok(Some(holder)),
        None => Err(Refusal::BadRequest("Fencing-Holder is not 1 to 128 visible ASCII characters")),
    }
}

fn claim(headers: &HeaderMap) -> Result<bool, Refusal> {
    match Lines::of(headers, &CLAIM) {
        Lines::None => Ok(false),
        Lines::One(claim) if claim == "true" => Ok(true),
        Lines::One(_) => Err(Refusal::BadRequest("Fencing-Claim has one value, `true`")),
        Lines::More => Err(Refusal::BadRequest("two Fencing-Claim fields")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    fn read(lines: &[(&'static str, &str)]) -> Result<Credentials, Refusal> {
        let headers = headers(lines);
        Credentials::read(&Fields::of(&headers), &[TOKEN, X_TOKEN], false)
    }

    #[test]
    fn one_token_in_one_line() {
        let token = |lines: &[(&'static str, &str)]| read(lines).unwrap().token;
        assert_eq!(token(&[("fencing-token", "5")]), Ok(Some(Token::new(5))));
        assert_eq!(token(&[("x-fencing-token", "5")]), Ok(Some(Token::new(5))));
        assert_eq!(
            token(&[("fencing-token", "5"), ("x-fencing-token", "5")]),
            Ok(Some(Token::new(5)))
        );
        assert_eq!(token(&[]), Ok(None));
        for name in ["fencing.token", "fencing-token-", "fencing_token", "token"] {
            assert_eq!(token(&[(name, "5")]), Ok(None), "{name} is another field");
        }
        for lines in [
            &[("fencing-token", "5"), ("fencing-token", "99")][..],
            &[("fencing-token", "99"), ("fencing-token", "5")],
            &[("fencing-token", "5"), ("fencing-token", "5")],
            &[("fencing-token", "5"), ("x-fencing-token", "6")],
        ] {
            assert_eq!(token(lines), Err(TokenFault::NotOne));
        }
        for value in ["5, 99", "99;q=1", "\"99\"", "99 5", "+9", "-1", "0x9", "09", "", "9.0"] {
            let fault = TokenFault::Value(TokenError::NotPlainDecimal);
            assert_eq!(token(&[("fencing-token", value)]), Err(fault), "{value}");
        }
    }

    #[test]
    fn holder_and_claim_have_one_form() {
        assert!(read(&[("fencing-claim", "true")]).unwrap().claim);
        assert!(!read(&[]).unwrap().claim);
        for value in ["True", "1", "false", "true, true", ""] {
            assert!(read(&[("fencing-claim", value)]).is_err(), "{value}");
        }
        assert!(read(&[("fencing-claim", "true"), ("fencing-claim", "true")]).is_err());
        assert_eq!(read(&[("fencing-holder", "w-7")]).unwrap().holder.unwrap().as_str(), "w-7");
        assert!(read(&[("fencing-holder", "a b")]).is_err());
        assert!(read(&[("fencing-holder", "a"), ("fencing-holder", "a")]).is_err());
    }
}
