//! The closed sets that label values come from.

/// Declares [`ResultLabel`] with its words in one place, so that none can be forgotten.
macro_rules! result_labels {
    ($($(#[$doc:meta])* $name:ident = $words:literal,)*) => {
        /// How a request ended, as users see it: what was let through, or the code of a refusal.
        ///
        /// The `result` label; the words are also those of `Fencing-Result` and of a problem's `code`.
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        pub enum ResultLabel {
            $($(#[$doc])* $name,)*
        }

        impl ResultLabel {
            /// All of them, each at its own number.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Its words.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $words,)*
                }
            }
        }
    };
}

result_labels! {
    /// A write was let through.
    Admitted = "admitted",
    /// A claim was let through.
    Claimed = "claimed",
    /// A read was passed on.
    Read = "read",
    /// A write passed only because its route does not enforce.
    WouldRefuse = "would-refuse",
    /// R1.
    StaleToken = "stale-token",
    /// Cut by a takeover.
    Superseded = "superseded",
    /// No token where one is required.
    TokenMissing = "token-missing",
    /// A token in no known spelling.
    TokenMalformed = "token-malformed",
    /// R9.
    TokenImplausible = "token-implausible",
    /// R1: another holder has this token.
    HolderConflict = "holder-conflict",
    /// The path has not one key for certain.
    TargetAmbiguous = "target-ambiguous",
    /// R6.
    NotFenceable = "not-fenceable",
    /// The route knows no such method.
    MethodNotAllowed = "method-not-allowed",
    /// A route's `auth`: no credentials.
    Unauthenticated = "unauthenticated",
    /// A route's `auth`: not these credentials.
    Forbidden = "forbidden",
    /// No route names the path.
    NoRoute = "no-route",
    /// R3: `drain_timeout` passed.
    DrainingWrites = "draining-writes",
    /// R3 to R5.
    InDoubt = "in-doubt",
    /// R2.
    StoreUnavailable = "store-unavailable",
    /// A limit.
    Overloaded = "overloaded",
    /// The process is stopping.
    ShuttingDown = "shutting-down",
    /// Nothing was sent.
    UpstreamUnreachable = "upstream-unreachable",
    /// No whole answer.
    UpstreamFailed = "upstream-failed",
    /// A redirect past the fence.
    RedirectRefused = "redirect-refused",
    /// No answer in time.
    UpstreamTimeout = "upstream-timeout",
    /// `Expect` asks for something unknown.
    ExpectationFailed = "expectation-failed",
    /// A request's body is too large.
    BodyTooLarge = "body-too-large",
    /// A request's head is too large.
    HeadersTooLarge = "headers-too-large",
    /// A request did not come in time.
    RequestTimeout = "request-timeout",
    /// A write in TLS early data.
    TooEarly = "too-early",
    /// A connection that was made to another host.
    MisdirectedRequest = "misdirected-request",
    /// Not a request that can be understood.
    BadRequest = "bad-request",
}

/// The `class` label: what a method means to the fence.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum MethodClass {
    /// GET, HEAD, OPTIONS and what the route adds; claims too.
    Read,
    /// PUT, POST, PATCH, DELETE and what the route adds.
    Write,
}

impl MethodClass {
    /// All of them, each at its own number.
    pub const ALL: [Self; 2] = [Self::Read, Self::Write];

    /// Its words.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}
