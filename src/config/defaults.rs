//! Every default and limit of the configuration, in one place.

use std::time::Duration;

pub(super) const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// `client_idle_timeout`.
pub(super) const CLIENT_IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes. hyper needs at least 8 KiB of buffer for a head.
pub(super) const MAX_HEADER_SIZE: u64 = 32 << 10;
pub(super) const MAX_HEADER_SIZES: (u64, u64) = (8 << 10, 1 << 20);
pub(super) const MAX_HEADERS: u64 = 100;
pub(super) const MAX_HEADERS_RANGE: (u64, u64) = (10, 1000);
pub(super) const MAX_CONNECTIONS: u64 = 4096;
pub(super) const MAX_CONNECTIONS_RANGE: (u64, u64) = (1, 1 << 20);
pub(super) const STOP_TIMEOUT: Duration = Duration::from_secs(30);
pub(super) const WORKERS_RANGE: (u64, u64) = (1, 1024);
/// Each request's peer is compared with them.
pub(super) const MAX_TRUSTED_PROXIES: usize = 64;

/// Bytes.
pub(super) const CACHE: u64 = 64 << 20;
pub(super) const CACHE_RANGE: (u64, u64) = (1 << 20, 1 << 40);

pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
pub(super) const RESPONSE_TIMEOUT: Duration = Duration::from_mins(1);
pub(super) const BODY_IDLE_TIMEOUT: Duration = Duration::from_secs(30);
pub(super) const POOL_MAX_IDLE: u64 = 64;
pub(super) const POOL_MAX_IDLE_RANGE: (u64, u64) = (0, 1 << 16);
/// Shorter than the keep-alive of common servers (5 s and up): a write on a connection that the
/// server is closing has an unknown outcome, and its key is in doubt for a while.
pub(super) const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(4);

pub(super) const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
pub(super) const MAX_WAITERS: u64 = 1000;
pub(super) const MAX_WAITERS_RANGE: (u64, u64) = (1, 1 << 20);
pub(super) const TOKEN_HEADERS: [&str; 2] = ["fencing-token", "x-fencing-token"];
pub(super) const MAX_TOKEN_HEADERS: usize = 8;
pub(super) const READS: [&str; 3] = ["GET", "HEAD", "OPTIONS"];
pub(super) const WRITES: [&str; 4] = ["PUT", "POST", "PATCH", "DELETE"];
pub(super) const STALE_STATUS: u64 = 412;

/// The longest time that can be written.
pub(super) const LONGEST: Duration = Duration::from_hours(8760);
