//! What happens in the story.

use std::time::Duration;

use serde_json::{Value, json};

use super::wire::Message;

/// Something that happened.
#[derive(Clone, Debug)]
pub(super) struct Event {
    /// Since the story began.
    pub(super) at: Duration,
    pub(super) who: Who,
    pub(super) kind: Kind,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Who {
    A,
    B,
    Store,
    Nobody,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// A part of the story begins.
    Scene {
        title: String,
        words: String,
    },
    Says(String),
    /// The lock service grants the lock.
    Granted {
        token: u64,
    },
    Request {
        method: &'static str,
        path: &'static str,
        token: u64,
        claim: bool,
        body: String,
    },
    /// The answer to a writer's request, and how long it took where the story is about that.
    Answer {
        answer: Message,
        waited: Option<Duration>,
    },
    /// What the store has now, and whether it is what the last holder wrote.
    File {
        content: String,
        right: bool,
    },
    Verdict {
        kept: bool,
        naive_broke: bool,
    },
}

impl Who {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::B => "B",
            Self::Store => "store",
            Self::Nobody => "",
        }
    }
}

impl Event {
    /// One object; `event` says which members follow.
    pub(super) fn json(&self) -> Value {
        let mut object = self.kind.json();
        object["at_ms"] = json!(self.at.as_millis() as u64);
        if self.who != Who::Nobody {
            object["who"] = json!(self.who.name());
        }
        object
    }
}

impl Kind {
    fn json(&self) -> Value {
        match self {
            Self::Scene { title, words } => {
                json!({"event": "scene", "title": title, "words": words})
            }
            Self::Says(text) => json!({"event": "says", "text": text}),
            Self::Granted { token } => json!({"event": "granted", "token": token.to_string()}),
            Self::Request { method, path, token, claim, body } => json!({
                "event": "request",
                "method": method,
                "path": path,
                "token": token.to_string(),
                "claim": claim,
                "body": body,
            }),
            Self::Answer { answer, waited } => json!({
                "event": "answer",
                "status": answer.status(),
                "fields": answer.fencing().collect::<serde_json::Map<_, _>>(),
                "body": answer.text(),
                "waited_ms": waited.map(|waited| waited.as_millis() as u64),
            }),
            Self::File { content, right } => {
                json!({"event": "file", "content": content, "right": right})
            }
            Self::Verdict { kept, naive_broke } => {
                json!({"event": "verdict", "palisade_kept": kept, "naive_broke": naive_broke})
            }
        }
    }
}
