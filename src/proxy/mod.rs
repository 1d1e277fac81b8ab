//! proxy.
pub mod route;
