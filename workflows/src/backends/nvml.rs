//! GPU facts of this machine, by NVML. Optional at run time: without library or driver it says so, and nothing fails.
