//! Log lines to stderr, set up once from the environment.
//!
//! `PALISADE_LOG` is a filter in `tracing-subscriber`'s syntax (`info`, `debug`,
//! `info,palisade::gate=trace`); the default is `info`. The operator's changes (target `audit`) are
//! logged under every filter that does not name `audit` itself. `PALISADE_LOG_FORMAT=json` writes
//! one JSON object a line. Whether text is coloured is for the caller to say, who knows the terminal.

use std::{env, io};

use tracing_subscriber::{EnvFilter, filter::ParseError, fmt};

/// Starts logging. A setting that cannot be understood is reported and its default taken: a typing
/// error in it must not keep a fence from starting. A second call changes nothing.
pub fn init(colour: bool) {
    let wanted = env::var("PALISADE_LOG").unwrap_or_default();
    let (filter, mistake) = match filter(&wanted) {
        Ok(filter) => (filter, None),
        Err(error) => (EnvFilter::new(DEFAULT_FILTER), Some(error)),
    };
    let format = env::var("PALISADE_LOG_FORMAT").unwrap_or_default();
    // A log that nobody reads any more must cost nothing: reporting it would go to the same closed
    // stream, and panic there.
    let lines = fmt().log_internal_errors(false);
    let lines = lines.with_env_filter(filter).with_writer(io::stderr).with_ansi(colour);
    let started = match format.as_str() {
        "json" => lines.json().flatten_event(true).try_init(),
        _ => lines.try_init(),
    };
    if started.is_err() {
        return;
    }
    if let Some(error) = mistake {
        tracing::warn!(value = wanted, %error, "PALISADE_LOG is not a filter; {DEFAULT_FILTER} is used");
    }
    if !matches!(format.as_str(), "" | "text" | "json") {
        tracing::warn!(
            value = format,
            "PALISADE_LOG_FORMAT is neither text nor json; text is used"
        );
    }
}

const DEFAULT_FILTER: &str = "info";

/// The filter that a value of `PALISADE_LOG` asks for.
fn filter(wanted: &str) -> Result<EnvFilter, ParseError> {
    let wanted = if wanted.trim().is_empty() { DEFAULT_FILTER } else { wanted };
    let names_audit = wanted.split(',').any(|one| one.trim().starts_with("audit"));
    let directives = if names_audit { wanted.to_owned() } else { format!("{wanted},audit=info") };
    EnvFilter::try_new(directives)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_audit_trail_stays_on_unless_it_is_named() {
        for (wanted, expected) in [
            ("", "audit=info,info"),
            (" ", "audit=info,info"),
            ("warn", "audit=info,warn"),
            ("off", "audit=info,off"),
            ("warn,audit=off", "audit=off,warn"),
            ("palisade::gate=trace", "palisade::gate=trace,audit=info"),
        ] {
            assert_eq!(filter(wanted).unwrap().to_string(), expected, "{wanted:?}");
        }
    }

    #[test]
    fn what_is_no_filter_is_said_to_be_none() {
        for bad in ["palisade=loud", "a=b=c", "[unclosed"] {
            assert!(filter(bad).is_err(), "{bad:?}");
        }
    }
}
