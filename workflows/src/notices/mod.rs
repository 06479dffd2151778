//! Who is told of what: the events that are told, how grave each is, and the routes from them to channels.
//!
//! Pure: a channel is a name here, and what it sends is not known. Whoever delivers asks [`Routes::channel_shares`] once for each
//! notification, and [`QuietHours::quiet_until`] before it sends. Described in `docs/notifications.md`.

mod kind;
mod quiet;
mod route;

pub use kind::{KINDS, MatterChange, NoticeKind, Severity, kind_of, matter};
pub use quiet::QuietHours;
pub use route::{ChannelShare, Pattern, Route, Routes};
