//! Large bodies: refused before they are read, passed on in constant memory, and not forgotten by a
//! client that is still sending.

use std::{io::Write as _, net::TcpStream, thread};

use crate::harness::{
    Act, Backend, Client, Config, Palisade, Request, Response, kernel::peak_memory_kib, put,
};

const LARGE: u64 = 5 << 30;
const MEMORY_KIB: u64 = 64 << 10;

fn upload(token: &str, size: u64) -> Request {
    Request::new("PUT", "/k").token(token).field("Content-Length", &size.to_string())
}

/// Sends so many zeros, or as many as the other side takes.
fn send_zeros(mut stream: TcpStream, mut left: u64) -> u64 {
    let block = vec![0; 1 << 18];
    while left > 0 {
        let size = left.min(block.len() as u64);
        if stream.write_all(&block[..size as usize]).is_err() {
            return left;
        }
        left -= size;
    }
    0
}

fn upload_all(palisade: &Palisade, token: &str, size: u64) -> (Response, u64) {
    let mut client = Client::connect(palisade.addr());
    client.wait_long();
    client.send(&upload(token, size).head());
    let stream = client.stream();
    let sender = thread::spawn(move || send_zeros(stream, size));
    let response = client.response();
    drop(client);
    (response, sender.join().unwrap())
}

#[test]
fn a_stale_upload_of_5_gb_is_refused_before_its_body() {
    let backend = Backend::start();
    let palisade = Palisade::start(&Config::http(backend.addr()));
    put("/k", "6").send(palisade.addr()).assert_status(201);
    // One that waits for the answer reads it before it has sent a byte.
    let mut client = Client::connect(palisade.addr());
    client.send(&upload("5", LARGE).head());
    let refused = client.response();
    refused.assert_refused(412, "stale-token");
    assert_eq!(refused.field("connection"), Some("close"));
    // One that just sends can read it too, and is stopped.
    let (refused, left) = upload_all(&palisade, "5", LARGE);
    refused.assert_refused(412, "stale-token");
    assert!(left > LARGE / 2, "it was read, to {left} bytes before its end");
    assert_eq!(backend.log().count("5"), 0);
    assert!(peak_memory_kib(palisade.pid()) < MEMORY_KIB);
}

#[test]
fn an_upload_of_5_gb_passes_in_constant_memory() {
    let backend = Backend::start();
    let palisade = Palisade::start(&Config::http(backend.addr()));
    let (response, left) = upload_all(&palisade, "5", LARGE);
    assert_eq!((response.assert_status(201).outcome(), left), ("applied", 0));
    assert_eq!(backend.until_settled("5").body, LARGE);
    let peak = peak_memory_kib(palisade.pid());
    assert!(peak < MEMORY_KIB, "{peak} KiB");
}

#[test]
fn a_download_passes_in_constant_memory_and_at_the_clients_pace() {
    const SIZE: u64 = 1 << 30;
    let backend = Backend::start();
    let palisade = Palisade::start(&Config::http(backend.addr()));
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\n\r\n").into_bytes();
    backend.script("GET", [Act::Read, Act::Send(head), Act::Flood(SIZE)]);
    let mut client = Request::new("GET", "/k").start(palisade.addr());
    assert_eq!(client.head().status(), 200);
    let mut read = 0;
    let mut block = vec![0; 1 << 18];
    while read < SIZE {
        let got = client.read(&mut block).unwrap();
        assert!(got > 0, "cut after {read} bytes");
        read += got as u64;
    }
    let peak = peak_memory_kib(palisade.pid());
    assert!(peak < MEMORY_KIB, "{peak} KiB");
}

#[test]
fn a_body_beyond_the_limit_is_refused() {
    let backend = Backend::start();
    let config =
        Config::http(backend.addr()).upstream("partial_body", "discarded").set("max_body", "64KiB");
    let palisade = Palisade::start(&config);
    let mut client = Client::connect(palisade.addr());
    client.send(&upload("5", 65_537).head());
    client.response().assert_refused(413, "body-too-large");
    assert_eq!(backend.connections(), 0);
    put("/k", "5").body(vec![b'x'; 65_536]).send(palisade.addr()).assert_status(201);
    // One that does not say its length is cut where it goes beyond.
    let mut client = Client::connect(palisade.addr());
    client.send(&Request::new("PUT", "/k").token("6").field("Transfer-Encoding", "chunked").head());
    let chunk = [b"8000\r\n".to_vec(), vec![b'x'; 0x8000], b"\r\n".to_vec()].concat();
    for _ in 0..3 {
        let _ = client.try_send(&chunk);
    }
    client.response().assert_refused(413, "body-too-large");
    palisade.until_quiet();
    assert_eq!(backend.log().effects("/k"), ["5"]);
}
