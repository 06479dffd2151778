//! Agents: GPUs of other machines, with real processes and a fake of the driver's libraries.

mod far;
mod keys;
mod mailbox;
mod rig;
mod tested;
