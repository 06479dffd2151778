//! Agents: GPUs of machines that are not the server's, over real processes and a stand-in for the driver's libraries.

mod far;
mod keys;
mod mailbox;
mod rig;
mod tested;
