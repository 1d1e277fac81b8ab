//! The tables of cases: text files, read once.
//!
//! A block begins with its case's id and ends before the next. Within it:
//!
//! ```text
//! A01 words that say what it is
//!   mark TARGET [TOKEN]        a PUT that must be admitted before (token 9 where none is named)
//!   send BYTES                 what the client sends, in one write, with GET /smug behind it
//!   with VALUE                 what `{}` stands for in all other lines; a run for each
//!   gets STATUS WORD [KEY]     the answer: a code, or Fencing-Result; `bare`: the HTTP library's
//!                              own, without a body; KEY: the fence key that a refusal names.
//!                              No such line: the connection is closed without a word
//!   store [cut] BYTES          what has reached the store, exactly, but for the fields that
//!                              palisade adds; a body without its chunks. cut: without its end, or
//!                              not at all. No such line: nothing has reached it
//!   next served|closed         what becomes of GET /smug; where it is not said, it is served
//!                              behind an answer of 2xx or a refusal by the fence, and else the
//!                              connection is closed
//! skip A08 why it does not apply
//! see E03 FILE FUNCTION        the test that shows it
//! ```
//!
//! In BYTES `^` is CRLF, `\n \r \t \\ \xNN` are what they are in Rust, and `{TEXT*N}` repeats.

use std::{fs, path::Path};

/// One request and what must become of it.
#[derive(Clone, Debug, Default)]
pub struct Case {
    pub id: String,
    pub about: String,
    /// Targets and tokens.
    pub marks: Vec<(String, String)>,
    pub send: Vec<u8>,
    pub gets: Vec<Answer>,
    pub store: Vec<Stored>,
    pub served: bool,
}

/// An answer that must come.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub word: String,
    pub key: Option<String>,
}

/// A request that must have reached the store.
#[derive(Clone, Debug)]
pub struct Stored {
    /// Without the empty line.
    pub head: Vec<u8>,
    pub body: Vec<u8>,
    pub cut: bool,
}

/// A file of them.
#[derive(Debug, Default)]
pub struct Table {
    pub cases: Vec<Case>,
    /// Ids that do not apply, and why.
    pub skipped: Vec<(String, String)>,
    /// Ids that another test shows: id, file, function.
    pub seen: Vec<(String, String, String)>,
}

impl Table {
    /// Reads a file beside this one.
    pub fn read(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/cases");
        let text = fs::read_to_string(folder.join(name)).unwrap();
        let lines = text.lines().enumerate().map(|(n, line)| (n + 1, line));
        let mut lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let mut table = Self::default();
        let mut block: Vec<(usize, &str)> = Vec::new();
        for (n, line) in &mut lines {
            if !line.starts_with(' ') {
                table.end_block(name, &block);
                block.clear();
            }
            block.push((n, line));
        }
        table.end_block(name, &block);
        table
    }

    fn end_block(&mut self, file: &str, block: &[(usize, &str)]) {
        let Some(((n, first), rest)) = block.split_first() else { return };
        let (word, after) = split(first);
        match word {
            "skip" => {
                let (id, why) = split(after);
                assert!(!why.is_empty(), "{file}:{n}: without a reason");
                self.skipped.push((id.to_string(), why.to_string()));
            }
            "see" => {
                let words: Vec<_> = after.split(' ').collect();
                let [id, path, function] = words[..] else { panic!("{file}:{n}: {first}") };
                self.seen.push((id.to_string(), path.to_string(), function.to_string()));
            }
            id => {
                let lines = rest.iter().map(|(n, line)| (*n, split(line.trim_start())));
                let lines: Vec<_> = lines.collect();
                let mut values = lines.iter().filter(|(_, line)| line.0 == "with").peekable();
                if values.peek().is_none() {
                    self.cases.push(case(file, id, after, &lines, ""));
                }
                self.cases.extend(values.map(|(_, line)| case(file, id, after, &lines, line.1)));
            }
        }
    }

    /// Every id that it says something of.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        let cases = self.cases.iter().map(|case| case.id.as_str());
        let skipped = self.skipped.iter().map(|(id, _)| id.as_str());
        cases.chain(skipped).chain(self.seen.iter().map(|(id, _, _)| id.as_str()))
    }
}

fn split(line: &str) -> (&str, &str) {
    line.split_once(' ').unwrap_or((line, ""))
}

fn case(file: &str, id: &str, about: &str, lines: &[(usize, (&str, &str))], with: &str) -> Case {
    let about = if with.is_empty() { about.to_string() } else { format!("{about}: {with}") };
    let mut next = None;
    let mut case = Case { id: id.to_string(), about, ..Case::default() };
    for (n, (word, rest)) in lines {
        let rest = rest.replace("{}", with);
        let (first, after) = split(&rest);
        match *word {
            "with" => {}
            "mark" => {
                let token = if after.is_empty() { "9" } else { after };
                case.marks.push((first.to_string(), token.to_string()));
            }
            "send" => case.send = bytes(&rest),
            "gets" => {
                let (word, key) = split(after);
                let key = (!key.is_empty()).then(|| String::from_utf8(bytes(key)).unwrap());
                let status = first.parse().unwrap();
                case.gets.push(Answer { status, word: word.to_string(), key });
            }
            "store" => {
                let cut = first == "cut";
                let sent = bytes(if cut { after } else { &rest });
                let end = sent.windows(4).position(|four| four == b"\r\n\r\n");
                let end = end.unwrap_or_else(|| panic!("{file}:{n}: a head has an end"));
                let (head, body) = (sent[..end].to_vec(), sent[end + 4..].to_vec());
                case.store.push(Stored { head, body, cut });
            }
            "next" => next = Some(rest == "served"),
            other => panic!("{file}:{n}: {other}"),
        }
    }
    assert!(!case.send.is_empty(), "{file}: {id} sends nothing");
    let keeps =
        |answer: &Answer| (200..300).contains(&answer.status) || answer.word == "stale-token";
    case.served = next.unwrap_or(case.gets.last().is_some_and(keeps));
    case
}

/// The bytes that a text stands for.
fn bytes(text: &str) -> Vec<u8> {
    let text = repeated(text);
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [byte, tail @ ..] = rest {
        rest = match (byte, tail) {
            (b'^', _) => {
                bytes.extend_from_slice(b"\r\n");
                tail
            }
            (b'\\', [b'x', high, low, tail @ ..]) => {
                let digits = [*high, *low];
                let digits = str::from_utf8(&digits).unwrap();
                bytes.push(u8::from_str_radix(digits, 16).unwrap());
                tail
            }
            (b'\\', [letter, tail @ ..]) => {
                let known = [(b'n', b'\n'), (b'r', b'\r'), (b't', b'\t'), (b'\\', b'\\')];
                bytes.push(known.iter().find(|known| known.0 == *letter).expect("an escape").1);
                tail
            }
            (byte, tail) => {
                bytes.push(*byte);
                tail
            }
        };
    }
    bytes
}

/// With each `{TEXT*N}` written out.
fn repeated(text: &str) -> String {
    let Some((before, rest)) = text.split_once('{') else { return text.to_string() };
    let (inner, after) = rest.split_once('}').expect("a closing brace");
    let Some((what, times)) = inner.rsplit_once('*') else {
        return format!("{before}{{{inner}}}{}", repeated(after));
    };
    format!("{before}{}{}", what.repeat(times.parse().unwrap()), repeated(after))
}

#[test]
fn a_table_is_read_as_its_grammar_says() {
    assert_eq!(bytes(r"a^\n\x00\\{xy*2}"), b"a\r\n\n\0\\xyxy");
    let lines = [(1, ("send", "PUT {} H^^")), (2, ("gets", "400 stale store:{}"))];
    let case = case("f", "A01", "about", &lines, "/k");
    assert_eq!(case.send, b"PUT /k H\r\n\r\n");
    assert_eq!(case.gets[0].key.as_deref(), Some("store:/k"));
    assert!(!case.served && case.store.is_empty());
}
