//! Rules taken out on purpose, in doubles around the product: the judge must find each.

/// What is done wrong.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Breakage {
    /// R1: a write with a stale token is sent all the same.
    ForwardsStale,
    /// R2: the store answers before a raise is synced.
    AnswersBeforeTheSync,
    /// R2: the store answers for a raise whose sync failed.
    AnswersForAFailedSync,
    /// R3: a write that is told to wait for lower ones is sent.
    SendsDespiteLower,
    /// R4: an unknown outcome is settled as an answer.
    UnknownIsSettled,
    /// R4: a 202 is taken for an answer.
    AcceptedIsAnAnswer,
    /// R4: the doubt begins before the connection has ended.
    DoubtBeforeTheEnd,
    /// R5: no quarantine after a crash.
    SkipsQuarantine,
    /// R5: the quarantine is as long as this run's lifetime, whatever the last run's was.
    ForgetsTheLongerLifetime,
    /// R5: a clean mark though writes are in doubt.
    MarksCleanInDoubt,
    /// R6: of several keys only the first is judged.
    JudgesOneOfSeveral,
    /// R7: a write whose answer was lost is sent again.
    SendsAgain,
    /// R10: earlier unfenced writes are forgotten.
    ForgetsUnfenced,
    /// R12: an operator releases writes that still come.
    ReleasesWhatComes,
    /// R12: an advance is answered before it is durable.
    AdvancesWithoutTheStore,
}

/// Each, and the rule that it breaks.
pub(super) const ALL: [(&str, Breakage); 15] = [
    ("R1", Breakage::ForwardsStale),
    ("R2", Breakage::AnswersBeforeTheSync),
    ("R2", Breakage::AnswersForAFailedSync),
    ("R3", Breakage::SendsDespiteLower),
    ("R4", Breakage::UnknownIsSettled),
    ("R4", Breakage::AcceptedIsAnAnswer),
    ("R4", Breakage::DoubtBeforeTheEnd),
    ("R5", Breakage::SkipsQuarantine),
    ("R5", Breakage::ForgetsTheLongerLifetime),
    ("R5", Breakage::MarksCleanInDoubt),
    ("R6", Breakage::JudgesOneOfSeveral),
    ("R7", Breakage::SendsAgain),
    ("R10", Breakage::ForgetsUnfenced),
    ("R12", Breakage::ReleasesWhatComes),
    ("R12", Breakage::AdvancesWithoutTheStore),
];
