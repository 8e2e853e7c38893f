//! Launches one kernel alone, with any arguments.

use swath_gpu::{Arg, Buffer, Kernel};

use crate::subject::Subject;

/// An argument of a kernel. Bytes become a buffer, and receive its contents after the launch.
pub(crate) enum Given<'a> {
    Bytes(&'a mut Vec<u8>),
    U32(u32),
    U64(u64),
}

/// Launches a kernel and waits for it.
pub(crate) fn launch(subject: &Subject, kernel: Kernel, groups: usize, given: &mut [Given<'_>]) {
    let buffer = |given: &Given<'_>| match given {
        Given::Bytes(bytes) => Some(subject.gpu.alloc("test", Some(bytes.len() as u64)).expect("there is room")),
        _ => None,
    };
    let buffers: Vec<Option<Buffer>> = given.iter().map(buffer).collect();
    let mut queue = subject.gpu.queue().expect("a queue");
    let args: Vec<Arg<'_>> = given
        .iter()
        .zip(&buffers)
        .map(|(given, buffer)| match (given, buffer) {
            (_, Some(buffer)) => Arg::Buffer(buffer),
            (&Given::U32(value), _) => Arg::U32(value),
            (&Given::U64(value), _) => Arg::U64(value),
            (Given::Bytes(_), None) => unreachable!("bytes have a buffer"),
        })
        .collect();
    // SAFETY: the bytes stay unchanged until the queue is synchronised. A kernel that accesses memory outside
    // its buffers is what the tests must find.
    unsafe {
        for (given, buffer) in given.iter().zip(&buffers) {
            if let (Given::Bytes(bytes), Some(buffer)) = (given, buffer) {
                queue.upload(bytes, buffer.handle(), 0).expect("upload");
            }
        }
        queue.launch(kernel, groups as u32, &args).expect("launch");
    }
    queue.synchronize().expect("the kernel runs");
    for (given, buffer) in given.iter_mut().zip(&buffers) {
        if let (Given::Bytes(bytes), Some(buffer)) = (given, buffer) {
            // SAFETY: nothing reads the bytes until the queue is synchronised.
            unsafe { queue.download(buffer.handle(), 0, bytes).expect("download") };
        }
    }
    queue.synchronize().expect("the results arrive");
}

/// Returns the bytes of numbers in memory order.
pub(crate) fn bytes_of<T: bytemuck::NoUninit>(numbers: &[T]) -> Vec<u8> {
    bytemuck::cast_slice(numbers).to_vec()
}

/// Reads bytes as numbers, at any alignment.
pub(crate) fn numbers<T: bytemuck::AnyBitPattern>(bytes: &[u8]) -> Vec<T> {
    bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect()
}
