//! HTTP MEANING.
pub mod authority;
pub mod classify;
pub mod fields;
pub mod headers;
pub mod refusal;
pub mod route;
pub mod target;
