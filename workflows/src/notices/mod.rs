//! Notification routing: the kinds of events, their severity, and the routes to channels.
//!
//! Pure: channels are only names here. Delivery calls [`Routes::channel_shares`] once for each notification, and [`QuietHours::quiet_until`] before
//! it sends. Described in `docs/notifications.md`.

mod kind;
mod quiet;
mod route;

pub use kind::{KINDS, MatterChange, NoticeKind, Severity, kind_of, matter};
pub use quiet::QuietHours;
pub use route::{ChannelShare, Pattern, Route, Routes};
