//! The place of the cases of TLS and identity: they get tests of their own beside the listener's.

/// Id, and what must be shown.
pub const CASES: [(&str, &str); 8] = [
    ("F01", "a server name and another Host: 421"),
    ("F02", "two authorities on one HTTP/2 connection: as F01, per request"),
    ("F03", "no server name, an address, an unknown one: never another host's rules"),
    ("F04", "a session taken up under another policy, or after a CA was exchanged: refused"),
    ("F06", "certificates exchanged under traffic, and bad ones: the old ones stay"),
    ("F07", "early data stays off; `Early-Data: 1` on a write is 425 (forward.rs has it)"),
    ("F08", "half a handshake, and bytes of another protocol than agreed: closed in time"),
    ("F09", "a PROXY line is no HTTP (framing.txt, B27): 400"),
];
