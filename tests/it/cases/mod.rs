//! Hostile and awkward requests: a table of bytes in and verdict out per group, and the judge is what
//! the store received. After each case nothing is in flight or waits, others are served, and
//! palisade has counted the requests that it has answered and no more.
//!
//! To add a case, add a block to a text file; its grammar is in `table.rs`. What needs a script of
//! the store's, or a clock, is in `delivery.rs`; `elsewhere.rs` names the tests of HTTP/2 and TLS.

mod delivery;
mod elsewhere;
mod run;
mod table;

use std::{collections::BTreeSet, fs, path::Path};

use self::table::Table;

const FILES: [&str; 7] = [
    "keys.txt",
    "folded.txt",
    "query.txt",
    "framing.txt",
    "token.txt",
    "doors.txt",
    "delivery.txt",
];

#[test]
fn keys() {
    run::run("keys.txt", |config| config);
}

#[test]
fn folded_keys() {
    run::run("folded.txt", |config| config.upstream("fold_case", true));
}

#[test]
fn keys_of_a_query() {
    run::run("query.txt", |config| {
        config
            .upstream("store_honours", "query.v")
            .without_routes()
            .route("/{name}")
            .route("/versions/{name}")
            .set("fence", "versions/{name}/{query.v}")
    });
}

#[test]
fn framing() {
    run::run("framing.txt", |config| config);
}

#[test]
fn tokens() {
    run::run("token.txt", |config| config);
}

#[test]
fn doors() {
    run::run("doors.txt", |config| config);
}

#[test]
fn delivery() {
    run::run("delivery.txt", |config| config.route("/small/{name}").set("max_body", "1KiB"));
}

/// The catalogue: each of its cases has a table's rows, another test, or a reason.
const CATALOGUE: [(char, &[u8]); 6] = [
    ('A', &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 17, 18, 19, 20]),
    (
        'B',
        &[
            1, 2, 3, 4, 6, 7, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 20, 21, 22, 23, 24, 25, 27,
            28, 29,
        ],
    ),
    ('C', &[1, 3, 4, 5, 6, 7, 9, 10, 11, 13, 14, 15, 16]),
    ('D', &[1, 2, 3, 4, 5, 7, 9, 10, 11, 12, 14, 15, 16, 17, 19, 20]),
    (
        'E',
        &[
            1, 3, 4, 5, 6, 7, 8, 10, 11, 12, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 25, 26, 27,
            28, 29, 30, 31, 33, 34, 35,
        ],
    ),
    ('F', &[1, 2, 3, 4, 6, 7, 8, 9]),
];

#[test]
fn every_case_of_the_catalogue_has_its_place() {
    let tables = FILES.map(Table::read);
    let mut known: BTreeSet<&str> = tables.iter().flat_map(Table::ids).collect();
    known.extend(elsewhere::CASES.iter().map(|(id, _)| *id));
    let wanted = CATALOGUE.iter().flat_map(|(group, numbers)| {
        numbers.iter().map(move |number| format!("{group}{number:02}"))
    });
    let wanted: BTreeSet<String> = wanted.collect();
    let missing: Vec<_> = wanted.iter().filter(|id| !known.contains(id.as_str())).collect();
    let strange: Vec<_> = known.iter().filter(|id| !wanted.contains(**id)).collect();
    assert!(missing.is_empty() && strange.is_empty(), "missing {missing:?}, strange {strange:?}");
}

#[test]
fn a_test_that_a_table_names_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (id, file, function) in FILES.iter().flat_map(|file| Table::read(file).seen) {
        let text = fs::read_to_string(root.join(&file)).unwrap_or_default();
        let there = text.contains(&format!("fn {function}("));
        assert!(there, "{id}: {file} has no {function}");
    }
    for (id, place) in &elsewhere::CASES {
        match place {
            elsewhere::Place::Test(file, function) => {
                let text = fs::read_to_string(root.join(file)).unwrap_or_default();
                assert!(
                    text.contains(&format!("fn {function}(")),
                    "{id}: {file} has no {function}"
                );
            }
            elsewhere::Place::Not(why) => assert!(!why.is_empty(), "{id}: no reason"),
        }
    }
}
