//! A range of addresses: `10.0.0.0/8`, or one address.

use std::{fmt, net::IpAddr, str::FromStr};

/// The addresses that have their first `prefix` bits in common.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Network {
    first: IpAddr,
    prefix: u8,
}

/// Why a text is no network.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NetworkError {
    /// It is neither an address nor an address and a prefix.
    Malformed,
    /// Bits beyond the prefix are set; the network that was probably meant.
    MoreBits(Network),
    /// An IPv4 address written as an IPv6 one; the IPv4 address.
    Mapped(IpAddr),
}

impl Network {
    /// Whether an address is in it. An IPv4 address in IPv6 form counts as itself.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.first, address.to_canonical()) {
            (first @ IpAddr::V4(_), address @ IpAddr::V4(_))
            | (first @ IpAddr::V6(_), address @ IpAddr::V6(_)) => {
                self.prefix == 0 || (bits(first) ^ bits(address)) >> (128 - self.prefix) == 0
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| NetworkError::Malformed)?;
        if address.to_canonical() != address {
            return Err(NetworkError::Mapped(address.to_canonical()));
        }
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.map_or(Some(longest), plain_number);
        let prefix = prefix.filter(|prefix| *prefix <= longest).ok_or(NetworkError::Malformed)?;
        let kept = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
        if bits(address) & !kept != 0 {
            let first = from_bits(bits(address) & kept, address.is_ipv4());
            return Err(NetworkError::MoreBits(Self { first, prefix }));
        }
        Ok(Self { first: address, prefix })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.prefix)
    }
}

/// The address's bits, at the top of the number.
fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()) << 96,
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn from_bits(bits: u128, v4: bool) -> IpAddr {
    if v4 { IpAddr::V4(((bits >> 96) as u32).into()) } else { IpAddr::V6(bits.into()) }
}

fn plain_number(digits: &str) -> Option<u8> {
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0');
    if plain || digits == "0" { digits.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_holds_its_addresses() {
        for (network, within, beyond) in [
            ("10.0.0.0/8", "10.255.1.2", "11.0.0.0"),
            ("10.0.0.0/8", "::ffff:10.0.0.1", "::ffff:11.0.0.1"),
            ("192.0.2.128/25", "192.0.2.128", "192.0.2.127"),
            ("127.0.0.1", "127.0.0.1", "127.0.0.2"),
            ("0.0.0.0/0", "203.0.113.9", "::1"),
            ("::/0", "2001:db8::1", "203.0.113.9"),
            ("2001:db8::/33", "2001:db8:7fff::1", "2001:db8:8000::1"),
            ("::1", "::1", "::2"),
        ] {
            let network: Network = network.parse().unwrap();
            assert!(network.contains(within.parse().unwrap()), "{network} {within}");
            assert!(!network.contains(beyond.parse().unwrap()), "{network} {beyond}");
        }
    }

    #[test]
    fn a_network_has_one_spelling() {
        for bad in [
            "",
            "10",
            "10.0.0.0/33",
            "::/129",
            "10.0.0.0/",
            "10.0.0.0/+8",
            "10.0.0.0/08",
            "a/8",
            "10.0.0.0/8/8",
            "[::1]",
            "10.0.0.0/-1",
            "10.0.0.0/256",
        ] {
            assert_eq!(bad.parse::<Network>(), Err(NetworkError::Malformed), "{bad}");
        }
        let meant = |text: &str| match text.parse::<Network>() {
            Err(NetworkError::MoreBits(network)) => network.to_string(),
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(meant("10.1.2.3/8"), "10.0.0.0/8");
        assert_eq!(meant("1.0.0.0/0"), "0.0.0.0/0");
        assert_eq!(meant("2001:db8::1/32"), "2001:db8::/32");
        let mapped = NetworkError::Mapped("10.0.0.1".parse().unwrap());
        assert_eq!("::ffff:10.0.0.1".parse::<Network>(), Err(mapped));
    }
}
