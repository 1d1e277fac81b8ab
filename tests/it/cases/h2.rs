//! The place of the cases that only HTTP/2 can ask: they get a table of their own, of frames, once
//! a raw HTTP/2 client is part of the harness. Until then: what is due, and what it must show.

/// Id, and what must be shown.
pub const CASES: [(&str, &str); 8] = [
    ("B16", "GET and HEAD with DATA frames of unknown length: refused, or forwarded framed"),
    ("B18", "names in capitals, with blanks or colons; values with CR, LF, NUL: reset"),
    ("B20", "pseudo fields doubled, missing, late, malformed: reset"),
    ("B21", "authority beside another host, two hosts, none; a scheme that is not the socket's"),
    ("B22", "connection-specific fields: reset"),
    ("B23", "a length that the DATA frames do not keep: reset, the store's write cut"),
    ("B27", "CONNECT, and the extended one: refused, nothing upstream"),
    ("B28", "rapid resets, CONTINUATION, empty DATA: cut by limits, no permit left"),
];
