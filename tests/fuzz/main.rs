//! The fuzz targets, as plain tests: their bodies over every seed, and the generated targets.
//!
//! `fuzz/` builds the same bodies for cargo-fuzz. A crash that is found there becomes a seed here.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by a panic")]
#![allow(unreachable_pub, reason = "pub within a test binary means: for the other modules")]
#![allow(clippy::missing_panics_doc, reason = "a body's panic is its finding")]

mod bodies;

use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
};

use bodies::{BODIES, target};

/// Every seed of one target; all that fail are named.
fn seeds(name: &str) {
    let (_, body) = BODIES.iter().find(|(known, _)| *known == name).unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(name);
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() >= 4, "{name} has {} seeds", paths.len());
    let fails = |path: &Path| {
        let data = fs::read(path).unwrap();
        catch_unwind(AssertUnwindSafe(|| body(&data))).is_err()
    };
    let failed: Vec<_> = paths.iter().filter(|path| fails(path)).collect();
    assert!(failed.is_empty(), "{failed:#?}");
}

macro_rules! seeds {
    ($($name:ident)*) => {$(
        #[test]
        fn $name() {
            seeds(stringify!($name));
        }
    )*
        #[test]
        fn every_target_has_its_test_its_binary_and_nothing_else() {
            let tested = [$(stringify!($name)),*];
            assert_eq!(tested, BODIES.map(|(name, _)| name));
            let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
            let manifest = fs::read_to_string(fuzz.join("Cargo.toml")).unwrap();
            for name in tested {
                assert!(manifest.contains(&format!("path = \"fuzz_targets/{name}.rs\"")), "{name}");
                let source = fs::read_to_string(fuzz.join(format!("fuzz_targets/{name}.rs")));
                assert!(source.unwrap().contains(&format!("bodies::{name}::run")), "{name}");
            }
            let seeded = fs::read_dir(fuzz.join("seeds")).unwrap().count();
            assert_eq!(seeded, tested.len());
        }
    };
}

seeds! { answer authority config front head pattern recovery target token }

/// Targets put together of everything that servers disagree about, each beside a spelling of its
/// own: what is let through has one meaning.
#[test]
fn an_admitted_target_has_one_path_under_every_common_reading() {
    const PARTS: &[&str] = &[
        "a",
        "b",
        "/",
        "//",
        ".",
        "..",
        "%2e",
        "%2E",
        "%2f",
        "%5c",
        "\\",
        ";",
        "%3b",
        "%25",
        "%252e",
        "%61",
        "%41",
        "A",
        "%",
        "%0",
        "+",
        "%2B",
        "%20",
        "~",
        "%7e",
        "%c3%a9",
        "%c0%af",
        "=",
        "-",
        "%c1%a1",
        "%c0%ae",
        "%e0%80%af",
        "%f0%80%80%ae",
        "%u0061",
        "%u002f",
        "%U002E",
        "%u",
        "%00",
        "%0a",
        "?v=",
        "&v=",
        "v",
        "&",
    ];
    let mut random = fastrand::Rng::with_seed(7);
    let (mut admitted, mut tried) = (0, 0);
    for _ in 0..20_000 {
        let mut target = |length| {
            let tail: String = (0..length).map(|_| PARTS[random.usize(..PARTS.len())]).collect();
            format!("/{tail}")
        };
        let [one, two, three] = [target(2), target(4), target(7)];
        let upper = one.replace('a', "%61").replace('b', "%62");
        let targets = [one, upper, two, three];
        admitted += target::check(&targets.each_ref().map(String::as_bytes));
        tried += targets.len();
    }
    assert!(admitted > 2_000 && admitted < tried - 2_000, "both sides: {admitted} of {tried}");
}
