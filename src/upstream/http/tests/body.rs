use http_body::Body as _;
use http_body_util::BodyExt;
use tokio::{
    io::AsyncWriteExt,
    time::{Instant, advance},
};

use super::{LIMITS, incoming};
use crate::upstream::http::{BodyFault, BodyLimits, Outgoing};

const SIZED: &str = "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n";
const CHUNKED: &str = "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";

async fn collect(body: &mut Outgoing) -> Result<String, BodyFault> {
    let mut text = String::new();
    while let Some(frame) = body.frame().await {
        text += std::str::from_utf8(&frame?.into_data().expect("data frames only")).unwrap();
    }
    Ok(text)
}

#[tokio::test]
async fn a_body_ends_as_an_end_only_when_it_is_whole() {
    let gone = Err(BodyFault::ClientGone);
    let cases: [(&str, &str, Result<&str, _>); 9] = [
        (SIZED, "hello", Ok("hello")),
        (SIZED, "hell", gone),
        (SIZED, "", gone),
        (CHUNKED, "5\r\nhello\r\n0\r\n\r\n", Ok("hello")),
        (CHUNKED, "0\r\n\r\n", Ok("")),
        (CHUNKED, "5\r\nhello\r\n0\r\nfencing-token: 99\r\n\r\n", Ok("hello")),
        (CHUNKED, "5\r\nhello\r\n", gone),
        (CHUNKED, "5\r\nhel", gone),
        (CHUNKED, "5\r\nhelloXX0\r\n\r\n", gone),
    ];
    for (head, sent, expected) in cases {
        let (body, client) = incoming(&format!("{head}{sent}")).await;
        let mut body = Outgoing::new(body, LIMITS);
        let progress = body.progress();
        let left = (expected == gone).then(|| drop(client));
        let result = collect(&mut body).await;
        assert_eq!(result, expected.map(str::to_owned), "{sent:?}");
        assert_eq!(progress.is_whole(), expected.is_ok(), "{sent:?}");
        assert_eq!(progress.fault(), expected.err(), "{sent:?}");
        if left.is_some() {
            assert_eq!(collect(&mut body).await.err(), expected.err(), "polled again: {sent:?}");
        }
    }
}

#[tokio::test]
async fn no_body_is_whole_from_the_start() {
    for mut body in [
        Outgoing::empty(),
        Outgoing::new(incoming("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.0, LIMITS),
    ] {
        assert!(body.is_end_stream() && body.progress().is_whole());
        assert_eq!((body.length(), body.progress().silent_since()), (Some(0), None));
        assert_eq!(collect(&mut body).await, Ok(String::new()));
    }
}

#[tokio::test]
async fn a_sized_body_ends_with_its_last_byte() {
    let (body, _client) = incoming(&format!("{SIZED}hello")).await;
    let mut body = Outgoing::new(body, LIMITS);
    let progress = body.progress();
    assert_eq!((body.length(), body.is_end_stream(), progress.is_whole()), (Some(5), false, false));
    body.frame().await.unwrap().unwrap();
    assert!(body.is_end_stream() && progress.is_whole());
    assert_eq!(progress.taken(), 5);
}

#[tokio::test]
async fn a_body_may_be_as_large_as_the_limit_and_no_larger() {
    for (max, expected) in [(5, Ok("hello".to_owned())), (4, Err(BodyFault::TooLarge))] {
        let (body, _client) = incoming(&format!("{CHUNKED}3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n")).await;
        let mut body = Outgoing::new(body, BodyLimits { max: Some(max), ..LIMITS });
        assert_eq!(collect(&mut body).await, expected);
        assert_eq!(body.progress().is_whole(), expected.is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_client_is_a_fault_after_the_idle_time_out() {
    let (body, _client) = incoming(&format!("{SIZED}hel")).await;
    let mut body = Outgoing::new(body, LIMITS);
    let progress = body.progress();
    body.frame().await.unwrap().unwrap();
    let asked = Instant::now();
    assert_eq!(body.frame().await.unwrap().unwrap_err(), BodyFault::Idle);
    assert_eq!(asked.elapsed().as_secs(), LIMITS.idle.as_secs());
    assert_eq!((progress.taken(), progress.fault()), (3, Some(BodyFault::Idle)));
    assert_eq!(progress.silent_since(), Some(asked));
}

#[tokio::test(start_paused = true)]
async fn only_a_client_that_was_asked_is_silent() {
    let (body, _client) = incoming(&format!("{SIZED}hel")).await;
    let mut body = Outgoing::new(body, LIMITS);
    let progress = body.progress();
    assert_eq!(progress.silent_since(), None, "the store has asked for nothing yet");
    body.frame().await.unwrap().unwrap();
    assert_eq!(progress.silent_since(), None, "it has sent");
    let asked = Instant::now();
    let mut more = std::pin::pin!(body.frame());
    let waker = std::task::Waker::noop();
    assert!(more.as_mut().poll(&mut std::task::Context::from_waker(waker)).is_pending());
    assert_eq!(progress.silent_since(), Some(asked));
}

#[tokio::test]
async fn what_was_given_back_comes_first_and_is_counted_once() {
    let (body, _client) = incoming(&format!("{SIZED}hello")).await;
    let mut body = Outgoing::new(body, LIMITS);
    let data = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(body.is_end_stream());
    body.give_back(data);
    assert!(!body.is_end_stream());
    assert_eq!(collect(&mut body).await, Ok("hello".to_owned()));
    assert!(body.is_end_stream());
    assert_eq!(body.progress().taken(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_was_not_asked_is_not_silent() {
    let (body, mut client) = incoming(SIZED).await;
    let mut body = Outgoing::new(body, LIMITS);
    let almost = LIMITS.idle.mul_f64(0.9);
    for sent in ["he", "ll", "o"] {
        // The store asks late, the client answers late, each within its time.
        advance(LIMITS.idle * 2).await;
        let late = async {
            tokio::time::sleep(almost).await;
            client.write_all(sent.as_bytes()).await.unwrap();
        };
        let (frame, ()) = tokio::join!(body.frame(), late);
        assert_eq!(frame.unwrap().unwrap().into_data().unwrap(), sent);
    }
    assert!(body.is_end_stream());
}
