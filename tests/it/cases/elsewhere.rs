//! The cases that a table of HTTP/1.1 cannot ask: HTTP/2, TLS and identity. Each has its test.

/// Where a case is tried.
pub enum Place {
    /// A file, and the test in it.
    Test(&'static str, &'static str),
    /// Nowhere, and why.
    Not(&'static str),
}

use Place::{Not, Test};

const FRAMES: &str = "tests/it/http2/frames.rs";
const HEADS: &str = "tests/it/http2/heads.rs";
const TLS: &str = "tests/it/tls.rs";

pub const CASES: [(&str, Place); 19] = [
    ("B16", Test(FRAMES, "a_read_with_a_body_is_refused")),
    ("B18", Test(HEADS, "fields_of_a_connection_and_other_fields_that_are_none")),
    ("B20", Test(HEADS, "pseudo_fields_that_are_none")),
    ("B21", Test(HEADS, "pseudo_fields_that_are_none")),
    ("B22", Test(HEADS, "fields_of_a_connection_and_other_fields_that_are_none")),
    ("B23", Test(FRAMES, "a_length_and_the_frames_must_agree")),
    ("B27", Test(HEADS, "pseudo_fields_that_are_none")),
    ("B28", Test(FRAMES, "a_flood_of_resets")),
    ("B28", Test("tests/it/http2/floods.rs", "frames_without_end_harm_nobody_else")),
    ("B28", Test("tests/it/http2/floods.rs", "a_body_of_empty_frames_has_an_end")),
    ("F01", Test(TLS, "a_certificate_for_each_name")),
    ("F02", Test(TLS, "a_certificate_for_each_name")),
    ("F03", Test("src/server/tests/tls.rs", "the_certificate_is_chosen_by_name")),
    (
        "F04",
        Test(
            "src/server/tests/tls.rs",
            "a_session_is_resumed_only_where_no_certificate_is_asked_for",
        ),
    ),
    ("F06", Not("certificates are read at the start; there is no reload yet")),
    (
        "F07",
        Test("tests/it/forward.rs", "a_write_in_early_data_is_refused_and_a_read_says_so_upstream"),
    ),
    ("F08", Test(TLS, "what_is_no_handshake_ends")),
    ("F08", Test("src/server/tests/tls.rs", "a_slow_handshake_is_closed")),
    ("F08", Test("tests/it/tls/agreed.rs", "what_was_agreed_on_is_spoken")),
];
