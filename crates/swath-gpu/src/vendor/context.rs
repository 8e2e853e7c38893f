//! Objects of NVIDIA's libraries that must be destroyed in the CUDA context in which they were created.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use crate::gpu::Gpu;
use crate::memory::buffer::Shared;

/// A value that is dropped while the CUDA context of its device is current.
#[derive(Debug)]
pub(crate) struct InContext<T> {
    /// `Some` until the drop.
    value: Option<T>,
    shared: Arc<Shared>,
}

impl<T> InContext<T> {
    pub(crate) fn new(gpu: &Gpu, value: T) -> InContext<T> {
        InContext { value: Some(value), shared: Arc::clone(&gpu.shared) }
    }
}

impl<T> InContext<Option<T>> {
    /// Drops the value, if there is one.
    pub(crate) fn clear(&mut self) {
        if self.is_some() {
            let value = &mut self.value;
            self.shared.device.in_cuda_context(&mut || *value = Some(None));
        }
    }
}

impl<T> Deref for InContext<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_ref().expect("it is there until the drop")
    }
}

impl<T> DerefMut for InContext<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_mut().expect("it is there until the drop")
    }
}

impl<T> Drop for InContext<T> {
    fn drop(&mut self) {
        let value = &mut self.value;
        if !self.shared.device.in_cuda_context(&mut || drop(value.take())) {
            // In another context, or in none, the library would destroy something else.
            std::mem::forget(value.take());
        }
    }
}
