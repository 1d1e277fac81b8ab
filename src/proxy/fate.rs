//! R4: what became of a write, judged from what its connection and its answer show.
//!
//! Pure: the facts come in, the one outcome goes out.

use http::StatusCode;

use super::refusal::WriteOutcome;
use crate::{
    fence::Outcome,
    upstream::{Options, PartialBody, http::Sent},
};

/// How an answer came.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Answer {
    /// None.
    None,
    /// Bytes that are no final answer, or not the whole head of one.
    Unread,
    /// A head, and a body that did not come whole.
    Cut(StatusCode),
    /// Head and body, whole.
    Whole(StatusCode),
}

/// The outcome for the fence, and the word for the client.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Fate {
    /// For the permit.
    pub outcome: Outcome,
    /// `Fencing-Outcome`.
    pub told: WriteOutcome,
}

impl Fate {
    /// Nothing was sent.
    pub const NOT_SENT: Self = Self { outcome: Outcome::NotSent, told: WriteOutcome::NotApplied };
    /// It may have been applied, or may yet be.
    pub const UNKNOWN: Self = Self { outcome: Outcome::Unknown, told: WriteOutcome::Unknown };
    /// The upstream has decided against it.
    const NOT_APPLIED: Self = Self { outcome: Outcome::Answered, told: WriteOutcome::NotApplied };

    /// The built-in file store's answer: it is whole, and says what was done.
    pub fn of_file(status: StatusCode) -> Self {
        let applied = status.is_success();
        let told = if applied { WriteOutcome::Applied } else { WriteOutcome::NotApplied };
        Self { outcome: Outcome::Answered, told }
    }

    /// Judges a write whose connection has done all that it will: `sent` before a final answer came.
    pub fn judge(sent: Sent, answer: Answer, upstream: &Options) -> Self {
        if !sent.any {
            return Self::NOT_SENT;
        }
        if !sent.whole {
            return Self::of_a_part(answer, upstream);
        }
        match answer {
            Answer::Whole(status) if settles(status, upstream) => {
                Self { outcome: Outcome::Answered, told: told(status) }
            }
            Answer::Whole(_) | Answer::Cut(_) | Answer::Unread | Answer::None => Self::UNKNOWN,
        }
    }

    /// The same of a connection that was ended: `at_most` may have been sent by then. Where that is
    /// more, the answer was to a part, and the upstream may have all.
    pub fn judge_ended(sent: Sent, at_most: Sent, answer: Answer, upstream: &Options) -> Self {
        if sent == at_most { Self::judge(sent, answer, upstream) } else { Self::UNKNOWN }
    }

    /// The upstream got a part of the request only.
    fn of_a_part(answer: Answer, upstream: &Options) -> Self {
        let refused = match answer {
            Answer::None => true,
            Answer::Unread => false,
            Answer::Whole(status) | Answer::Cut(status) => status.is_client_error(),
        };
        match upstream.partial_body {
            PartialBody::Discarded if refused => Self::NOT_APPLIED,
            PartialBody::Discarded | PartialBody::Unknown => Self::UNKNOWN,
        }
    }
}

/// Whether a status says that the upstream is through with the write. A 202 is through with the
/// talking only, and behind a 408 or a 5xx a gateway may still hold the write.
fn settles(status: StatusCode, upstream: &Options) -> bool {
    match status.as_u16() {
        202 | 408 => upstream.settled_statuses.contains(&status.as_u16()),
        200..=499 | 501 | 505 => true,
        other => upstream.settled_statuses.contains(&other),
    }
}

fn told(status: StatusCode) -> WriteOutcome {
    match status.as_u16() {
        200..=299 => WriteOutcome::Applied,
        // Settled because the operator says so; whether it was applied, the status does not say.
        408 => WriteOutcome::Unknown,
        300..=499 | 501 | 505 => WriteOutcome::NotApplied,
        _ => WriteOutcome::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::upstream::Kind;

    fn upstream(partial_body: PartialBody, settled_statuses: &[u16]) -> Options {
        Options {
            name: "store".into(),
            kind: Kind::Http { host: "127.0.0.1".into(), port: 1 },
            connect_timeout: Duration::ZERO,
            response_timeout: Duration::ZERO,
            body_idle_timeout: Duration::ZERO,
            max_write_lifetime: Duration::ZERO,
            partial_body,
            settled_statuses: settled_statuses.to_vec(),
            eof_is_end: false,
            pass_redirects: false,
            same_token_doubt_waits: false,
            pool_max_idle: 0,
            pool_idle_timeout: Duration::ZERO,
            tls: None,
            host: None,
        }
    }

    const WHOLE: Sent = Sent { any: true, whole: true };
    const PART: Sent = Sent { any: true, whole: false };
    const NOTHING: Sent = Sent { any: false, whole: false };

    fn answer(status: u16) -> Answer {
        Answer::Whole(StatusCode::from_u16(status).unwrap())
    }

    #[test]
    fn a_whole_answer_settles_by_its_status() {
        let plain = upstream(PartialBody::Unknown, &[]);
        let judge = |status| Fate::judge(WHOLE, answer(status), &plain);
        for status in [200, 201, 204, 206, 299] {
            assert_eq!(judge(status).outcome, Outcome::Answered, "{status}");
            assert_eq!(judge(status).told, WriteOutcome::Applied, "{status}");
        }
        for status in [301, 304, 307, 400, 404, 409, 412, 413, 499, 501, 505] {
            assert_eq!(judge(status).outcome, Outcome::Answered, "{status}");
            assert_eq!(judge(status).told, WriteOutcome::NotApplied, "{status}");
        }
        for status in [202, 408, 500, 502, 503, 504, 507, 599, 101, 600] {
            assert_eq!(judge(status), Fate::UNKNOWN, "{status}");
        }
    }

    #[test]
    fn what_is_cut_is_unknown() {
        let plain = upstream(PartialBody::Unknown, &[]);
        let discards = upstream(PartialBody::Discarded, &[]);
        for upstream in [&plain, &discards] {
            assert_eq!(Fate::judge(WHOLE, Answer::Cut(StatusCode::OK), upstream), Fate::UNKNOWN);
            assert_eq!(Fate::judge(WHOLE, Answer::None, upstream), Fate::UNKNOWN);
            assert_eq!(Fate::judge(NOTHING, Answer::None, upstream), Fate::NOT_SENT);
        }
    }

    #[test]
    fn a_part_is_not_applied_only_where_parts_are_discarded() {
        let plain = upstream(PartialBody::Unknown, &[]);
        let discards = upstream(PartialBody::Discarded, &[]);
        for early in [Answer::None, answer(413), Answer::Cut(StatusCode::FORBIDDEN)] {
            assert_eq!(Fate::judge(PART, early, &plain), Fate::UNKNOWN);
            assert_eq!(Fate::judge(PART, early, &discards), Fate::NOT_APPLIED);
        }
        for early in [answer(200), answer(503), answer(307), Answer::Unread] {
            assert_eq!(Fate::judge(PART, early, &discards), Fate::UNKNOWN, "{early:?}");
        }
    }

    #[test]
    fn a_part_that_may_have_become_whole_is_unknown() {
        let discards = upstream(PartialBody::Discarded, &[]);
        let cut = Answer::Cut(StatusCode::FORBIDDEN);
        for answer in [Answer::None, Answer::Unread, answer(204), answer(413), cut] {
            let fate = |at_most| Fate::judge_ended(PART, at_most, answer, &discards);
            assert_eq!(fate(WHOLE), Fate::UNKNOWN, "{answer:?}");
            assert_eq!(fate(PART), Fate::judge(PART, answer, &discards), "{answer:?}");
        }
    }

    #[test]
    fn an_upstream_may_declare_more_statuses_settled() {
        let declared = upstream(PartialBody::Unknown, &[202, 503]);
        assert_eq!(Fate::judge(WHOLE, answer(202), &declared).outcome, Outcome::Answered);
        assert_eq!(Fate::judge(WHOLE, answer(202), &declared).told, WriteOutcome::Applied);
        assert_eq!(Fate::judge(WHOLE, answer(503), &declared).outcome, Outcome::Answered);
        assert_eq!(Fate::judge(WHOLE, answer(503), &declared).told, WriteOutcome::Unknown);
        assert_eq!(Fate::judge(WHOLE, answer(500), &declared), Fate::UNKNOWN);
    }
}
