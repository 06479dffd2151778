//! The state of a GPU.

use super::Uid;

/// The state of a GPU or MIG device. Only a free one may be lent, granted or wiped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GpuState {
    /// A pod has it, as far as is known.
    Held(Uid),
    /// Its node has confirmed that no pod and no process has it.
    Free,
    /// Its node reports that it cannot be used, or no longer lists it.
    Unfit,
    /// It is not known whether it is in use.
    Unconfirmed(Doubt),
}

/// The reason why it is not known whether a GPU is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Doubt {
    /// The holder's object disappeared before the kubelet reported the end of its containers.
    EndUnseen,
    /// More than one pod has it.
    SeveralHolders,
    /// The node object disappeared.
    NodeGone,
    /// The node object belongs to another machine than the node of this name before.
    OtherMachine,
    /// Another ready node object has the same machine.
    SharedMachine,
    /// The node is not ready.
    NodeNotReady,
    /// The last report of the node is too old.
    Silent,
    /// The report is of another boot than the node object.
    OtherBoot,
    /// The node does not know the holder.
    HolderUnknown,
    /// The node does not know the processes or the health.
    NotLooked,
    /// A process without a pod has it open.
    Open,
    /// The last holder ended, and the node has not yet confirmed often enough that the GPU is unused.
    Releasing,
}

impl GpuState {
    /// Returns true if it may be lent, granted or wiped.
    #[must_use]
    pub fn is_free(self) -> bool {
        match self {
            Self::Free => true,
            Self::Held(_) | Self::Unfit | Self::Unconfirmed(_) => false,
        }
    }
}
