//! What the kernel and the process table know, read from /proc.

use std::{fs, net::SocketAddr};

/// Bytes towards a backend that were handed to the kernel and that the backend has not read: the
/// senders' queues and its own.
pub fn queued_bytes(backend: SocketAddr) -> u64 {
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    let port = format!(":{:04X}", backend.port());
    let rows = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    let queues = rows.map(|row| {
        let (sent, received) = row[4].split_once(':').unwrap();
        let listening = row[3] == "0A";
        if row[2].ends_with(&port) {
            u64::from_str_radix(sent, 16).unwrap()
        } else if row[1].ends_with(&port) && !listening {
            u64::from_str_radix(received, 16).unwrap()
        } else {
            0
        }
    });
    queues.sum()
}

/// The largest resident size that a process ever had, in KiB.
pub fn peak_memory_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
