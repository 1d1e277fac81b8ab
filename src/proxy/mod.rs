//! proxy.
mod keying;
mod pattern;
pub mod route;
mod shape;
mod table;
mod template;

pub use keying::{KeyForm, keys_conflict};
pub use pattern::{Captures, MAX_CAPTURES, MAX_SEGMENTS, Pattern, PatternError, overlaps_text};
pub use route::Route;
pub use table::{Found, RouteTable, TableError, host_name};
pub use template::{KeyParts, PartError, RenderError, Template, TemplateError};
