//! The spellings of values: times, sizes, and what stands in `${...}`.
//!
//! Pure functions from text to value. One spelling per meaning, always with its unit.

use std::time::Duration;

use super::{defaults::LONGEST, error::Wrong};

/// `"30s"`, `"250ms"`, `"2m"`, `"1h"`.
pub(super) fn duration(text: &str) -> Result<Duration, Wrong> {
    let wrong = || {
        let what = format!("\"{text}\" is not a time");
        Wrong::new(what, "write a whole number and ms, s, m or h, like \"30s\" or \"250ms\"")
    };
    let (number, unit) = number_and_unit(text).ok_or_else(wrong)?;
    let millis = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(wrong()),
    };
    let time = number.checked_mul(millis).map(Duration::from_millis);
    time.filter(|time| *time <= LONGEST)
        .ok_or_else(|| Wrong::new(format!("\"{text}\" is too long"), "write at most \"8760h\""))
}

/// The same, and not zero.
pub(super) fn positive_duration(text: &str) -> Result<Duration, Wrong> {
    match duration(text)? {
        Duration::ZERO => {
            Err(Wrong::new(format!("\"{text}\" is no time"), "write at least \"1ms\""))
        }
        time => Ok(time),
    }
}

/// `"64KiB"`, in bytes.
pub(super) fn size(text: &str) -> Result<u64, Wrong> {
    let wrong = || {
        let what = format!("\"{text}\" is not a size");
        Wrong::new(what, "write a whole number and B, KiB, MiB, GiB or TiB, like \"64KiB\"")
    };
    let (number, unit) = number_and_unit(text).ok_or_else(wrong)?;
    let shift = match unit {
        "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        "TiB" => 40,
        _ => return Err(wrong()),
    };
    number.checked_mul(1 << shift).filter(|size| *size <= 1 << 60).ok_or_else(|| {
        Wrong::new(format!("\"{text}\" is too large"), "write at most \"1048576TiB\"")
    })
}

/// The same within bounds in bytes.
pub(super) fn size_within(text: &str, (least, most): (u64, u64)) -> Result<u64, Wrong> {
    let size = size(text)?;
    if (least..=most).contains(&size) {
        return Ok(size);
    }
    let what = format!("\"{text}\" is out of bounds");
    Err(Wrong::new(what, format!("write {} to {}", written_size(least), written_size(most))))
}

/// One of a few words.
pub(super) fn one_of<T: Clone>(text: &str, words: &[(&str, T)]) -> Result<T, Wrong> {
    if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
        return Ok(value.clone());
    }
    let known: Vec<String> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
    Err(Wrong::new(format!("\"{text}\" is not known here"), format!("write {}", any_of(&known))))
}

/// `a, b or c`.
pub(super) fn any_of(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

/// Replaces each `${NAME}` by that variable; `$${` stands for `${` itself.
pub(super) fn expand(text: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<String, Wrong> {
    let mut expanded = String::new();
    let mut left = text;
    while let Some(at) = left.find("${") {
        let (before, found) = left.split_at(at);
        if let Some(before) = before.strip_suffix('$') {
            expanded.push_str(before);
            expanded.push_str("${");
            left = &found[2..];
            continue;
        }
        expanded.push_str(before);
        let (name, after) = found[2..].split_once('}').ok_or_else(|| {
            Wrong::new("a \"${\" is not closed", "write ${NAME}, or \"$${\" for the characters")
        })?;
        expanded.push_str(&variable(name, env)?);
        left = after;
    }
    expanded.push_str(left);
    Ok(expanded)
}

/// How a time is written.
pub fn written_duration(time: Duration) -> String {
    let millis = time.as_millis();
    match millis {
        0 => "0s".to_owned(),
        _ if millis.is_multiple_of(3_600_000) => format!("{}h", millis / 3_600_000),
        _ if millis.is_multiple_of(60_000) => format!("{}m", millis / 60_000),
        _ if millis.is_multiple_of(1000) => format!("{}s", millis / 1000),
        _ => format!("{millis}ms"),
    }
}

fn written_size(size: u64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    let unit = units.iter().find(|(shift, _)| size.trailing_zeros() >= *shift && size > 0);
    let (shift, unit) = unit.copied().unwrap_or((0, "B"));
    format!("\"{}{unit}\"", size >> shift)
}

/// A plain decimal number, and what follows it.
fn number_and_unit(text: &str) -> Option<(u64, &str)> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    Some((number.parse().ok()?, unit))
}

fn variable(name: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<String, Wrong> {
    let word = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if name.is_empty() || !word || name.starts_with(|c: char| c.is_ascii_digit()) {
        let what = format!("\"${{{name}}}\" names no environment variable");
        return Err(Wrong::new(
            what,
            "use letters, digits and _; \"$${\" stands for \"${\" itself",
        ));
    }
    env(name).ok_or_else(|| {
        let what = format!("the environment variable {name} is not set");
        Wrong::new(what, "set it, or write \"$${\" for \"${\" itself")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_carry_their_unit() {
        for (text, millis) in [
            ("250ms", 250),
            ("30s", 30_000),
            ("2m", 120_000),
            ("1h", 3_600_000),
            ("0s", 0),
            ("8760h", 31_536_000_000),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for bad in ["", "30", "s", "1.5s", "-1s", "+1s", "30 s", "30S", "1d", "1s1s", "1us", "s1"] {
            let wrong = duration(bad).unwrap_err();
            assert_eq!(wrong.what, format!("\"{bad}\" is not a time"));
        }
        for long in ["8761h", "18446744073709551615h"] {
            assert_eq!(duration(long).unwrap_err().what, format!("\"{long}\" is too long"));
        }
        assert!(positive_duration("0ms").is_err());
    }

    #[test]
    fn a_time_is_written_as_it_is_read() {
        for text in ["250ms", "30s", "2m", "1h", "0s", "90s", "1001ms"] {
            assert_eq!(written_duration(duration(text).unwrap()), text);
        }
    }

    #[test]
    fn sizes_carry_their_unit() {
        for (text, bytes) in [("1B", 1), ("64KiB", 65_536), ("2MiB", 2_097_152), ("1GiB", 1 << 30)]
        {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for bad in ["", "64", "64KB", "64kib", "1.5MiB", "-1B", "64 KiB"] {
            assert_eq!(size(bad).unwrap_err().what, format!("\"{bad}\" is not a size"));
        }
        assert_eq!(size("99999999TiB").unwrap_err().what, "\"99999999TiB\" is too large");
        let bounds = (8 << 10, 1 << 20);
        assert_eq!(size_within("8KiB", bounds), Ok(8192));
        assert_eq!(size_within("1MiB", bounds), Ok(1_048_576));
        for out in ["8191B", "1048577B"] {
            let wrong = size_within(out, bounds).unwrap_err();
            assert_eq!(wrong.remedy, "write \"8KiB\" to \"1MiB\"");
        }
    }

    #[test]
    fn variables_are_replaced_once() {
        let env = |name: &str| match name {
            "HOST" => Some("store".to_owned()),
            "TRAP" => Some("${HOST}".to_owned()),
            _ => None,
        };
        for (text, expanded) in [
            ("http://${HOST}:80", "http://store:80"),
            ("${HOST}${HOST}", "storestore"),
            ("$${HOST}", "${HOST}"),
            ("$HOST {HOST} $", "$HOST {HOST} $"),
            ("${TRAP}", "${HOST}"),
        ] {
            assert_eq!(expand(text, &env).as_deref(), Ok(expanded), "{text}");
        }
        for (text, what) in [
            ("${GONE}", "the environment variable GONE is not set"),
            ("${HOST", "a \"${\" is not closed"),
            ("${}", "\"${}\" names no environment variable"),
            ("${1A}", "\"${1A}\" names no environment variable"),
            ("${A-B}", "\"${A-B}\" names no environment variable"),
        ] {
            assert_eq!(expand(text, &env).unwrap_err().what, what, "{text}");
        }
    }
}
