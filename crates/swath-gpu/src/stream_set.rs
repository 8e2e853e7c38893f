//! Several streams that work side by side, for libraries that take one picture at a time: a picture does not fill a GPU.

use crate::error::Result;
use crate::stream::Stream;

/// Streams that pictures are distributed over.
pub(crate) const STREAMS: usize = 4;

/// The streams beside a main stream. Their work begins after what the main stream has to do at [`fork`](StreamSet::fork), and the main
/// stream goes on after their work at [`join`](StreamSet::join), so that one wait for the main stream waits for all.
#[derive(Debug, Default)]
pub(crate) struct StreamSet {
    others: Vec<Stream>,
}

impl StreamSet {
    /// Prepares streams for so many pictures. If the driver has no more streams, fewer are used.
    pub(crate) fn fork(&mut self, main: &mut Stream, pictures: usize) -> Result<()> {
        while self.others.len() + 1 < STREAMS.min(pictures) {
            let Ok(stream) = main.sibling() else { break };
            self.others.push(stream);
        }
        self.others.iter_mut().try_for_each(|other| other.follow(main))
    }

    /// The stream of the picture with this number.
    pub(crate) fn of<'a>(&'a mut self, main: &'a mut Stream, picture: usize) -> &'a mut Stream {
        match picture % (self.others.len() + 1) {
            0 => main,
            n => &mut self.others[n - 1],
        }
    }

    /// Lets the main stream wait for the others, also after an error. If that is not possible, the host waits for them.
    pub(crate) fn join(&mut self, main: &mut Stream) -> Result<()> {
        let mut joined = Ok(());
        for other in &mut self.others {
            joined = joined.and(main.follow(other).or_else(|error| other.synchronize().and(Err(error))));
        }
        joined
    }

    /// Notes that the main stream was synchronised after [`join`](StreamSet::join).
    pub(crate) fn was_waited_for(&mut self) {
        self.others.iter_mut().for_each(Stream::was_waited_for);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::copy_device::CopyDevice;
    use crate::gpu::Gpu;

    #[test]
    fn pictures_take_turns_and_one_picture_needs_one_stream() {
        let gpu = Gpu::new(CopyDevice::new().latency(Duration::ZERO));
        let mut main = gpu.stream().unwrap();
        let mut streams = StreamSet::default();
        streams.fork(&mut main, 1).unwrap();
        let first: *const Stream = &raw const main;
        assert!(std::ptr::eq(streams.of(&mut main, 7), first), "there is no other one");
        streams.fork(&mut main, 9).unwrap();
        let used: Vec<*const Stream> = (0..9).map(|picture| &raw const *streams.of(&mut main, picture)).collect();
        assert_eq!(used[..STREAMS], used[STREAMS..2 * STREAMS]);
        assert!((1..STREAMS).all(|n| used[n] != used[0]), "{used:?}");
    }

    #[test]
    fn wait_for_the_main_stream_waits_for_all() {
        let gpu = Gpu::new(CopyDevice::new().latency(Duration::ZERO));
        let mut main = gpu.stream().unwrap();
        let mut streams = StreamSet::default();
        streams.fork(&mut main, STREAMS).unwrap();
        let buffers: Vec<_> = (0..STREAMS).map(|_| gpu.alloc("test", Some(8)).unwrap()).collect();
        for (picture, buffer) in buffers.iter().enumerate() {
            // SAFETY: the bytes are static.
            unsafe { streams.of(&mut main, picture).upload(b"pictures", buffer, 0).unwrap() };
        }
        streams.join(&mut main).unwrap();
        main.synchronize().unwrap();
        streams.was_waited_for();
        let mut found = [0; 8];
        for buffer in &buffers {
            // SAFETY: the stream is synchronised before the memory is read.
            unsafe { main.download(buffer, 0, &mut found).unwrap() };
            main.synchronize().unwrap();
            assert_eq!(&found, b"pictures");
        }
    }
}
