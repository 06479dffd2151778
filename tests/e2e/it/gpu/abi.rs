//! The fake library has the interface that the bindings were generated for.

use nvml_stand_in::abi;
use nvml_wrapper_sys::bindings as sys;

#[test]
fn the_structs_of_the_fake_library_have_the_size_and_alignment_of_the_bindings() {
    let same = [
        (layout::<abi::Memory>(), layout::<sys::nvmlMemory_v2_t>()),
        (layout::<abi::ProcessInfo>(), layout::<sys::nvmlProcessInfo_t>()),
        (layout::<abi::FieldValue>(), layout::<sys::nvmlFieldValue_t>()),
        (layout::<abi::Placement>(), layout::<sys::nvmlGpuInstancePlacement_t>()),
        (layout::<abi::Placement>(), layout::<sys::nvmlComputeInstancePlacement_t>()),
        (layout::<abi::GpuProfile>(), layout::<sys::nvmlGpuInstanceProfileInfo_v2_t>()),
        (layout::<abi::ComputeProfile>(), layout::<sys::nvmlComputeInstanceProfileInfo_t>()),
        (layout::<abi::GpuInstanceInfo>(), layout::<sys::nvmlGpuInstanceInfo_t>()),
        (layout::<abi::ComputeInstanceInfo>(), layout::<sys::nvmlComputeInstanceInfo_t>()),
        (layout::<abi::Handle>(), layout::<sys::nvmlDevice_t>()),
        (layout::<abi::Out<u32>>(), layout::<*mut u32>()),
    ];
    for (number, (ours, theirs)) in same.into_iter().enumerate() {
        assert_eq!(ours, theirs, "struct {number} of the list");
    }
}

fn layout<T>() -> (usize, usize) {
    (size_of::<T>(), align_of::<T>())
}
