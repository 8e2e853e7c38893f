//! Is what a device reads and writes what the CPU reads and writes.

use swath::device::{CodecBackend, DeviceReport};
use swath::{Dataset, Layout};

use super::Bench;
use super::case::{Case, Picture};
use crate::failure::Failure;

/// No two decoders or encoders of JPEG round alike: samples may differ by so much, and on average by no more than this.
const JPEG_MOST: u8 = 32;
const JPEG_MEAN: f64 = 1.5;

/// What was found.
#[derive(Debug)]
pub(super) struct Checked {
    /// Whether the device reads what the CPU reads.
    read: bool,
    /// Whether what the device wrote is what the CPU wrote, both read by the CPU.
    written: bool,
    /// Whether both wrote the same bytes, which they do where the encoders are our own.
    pub(super) same_bytes: Option<bool>,
    /// By how much the samples of a lossy codec differ.
    pub(super) largest_difference: Option<u8>,
    pub(super) read_by: String,
    pub(super) decoded_by: String,
    pub(super) compressed_by: String,
    pub(super) written_by: String,
    /// What the CPU did in the device's place.
    pub(super) fallbacks: Vec<String>,
}

impl Checked {
    /// Nothing is wrong so far.
    pub(super) fn new(case: &Case) -> Checked {
        Checked {
            read: true,
            written: true,
            same_bytes: (case.by == CodecBackend::Builtin).then_some(true),
            largest_difference: case.is_lossy().then_some(0),
            read_by: String::new(),
            decoded_by: String::new(),
            compressed_by: String::new(),
            written_by: String::new(),
            fallbacks: Vec::new(),
        }
    }

    /// Whether all pixels are the CPU's; of a lossy codec, near enough.
    pub(super) fn same_pixels(&self) -> bool {
        self.read && self.written
    }

    /// What is wrong, if anything is.
    pub(super) fn problem(&self) -> Option<&'static str> {
        match (self.read, self.written, self.same_bytes) {
            (false, ..) => Some("the device reads other pixels than the CPU"),
            (_, false, _) => Some("what the device writes has other pixels than what the CPU writes"),
            (.., Some(false)) => Some("the device writes other bytes than the CPU"),
            _ => None,
        }
    }

    /// Pixels that the CPU and the device have read.
    pub(super) fn compare_read(&mut self, expected: &[u8], found: &[u8]) {
        self.read &= self.same(expected, found);
    }

    /// Pixels of what the CPU and the device have written.
    pub(super) fn compare_written(&mut self, expected: &[u8], found: &[u8]) {
        self.written &= self.same(expected, found);
    }

    /// Files that the CPU and the device have written.
    pub(super) fn compare_bytes(&mut self, expected: &[u8], found: &[u8]) {
        self.same_bytes = self.same_bytes.map(|same| same && expected == found);
    }

    fn same(&mut self, expected: &[u8], found: &[u8]) -> bool {
        let Some(largest) = &mut self.largest_difference else { return expected == found };
        let (mut sum, mut most) = (0_u64, 0);
        for difference in expected.iter().zip(found).map(|(a, b)| a.abs_diff(*b)) {
            sum += u64::from(difference);
            most = difference.max(most);
        }
        *largest = most.max(*largest);
        expected.len() == found.len() && most <= JPEG_MOST && sum as f64 <= JPEG_MEAN * expected.len() as f64
    }

    /// Note who did what.
    pub(super) fn note(&mut self, device: Option<&DeviceReport>) {
        let Some(device) = device else { return };
        for (known, new) in [
            (&mut self.read_by, &device.read_by),
            (&mut self.decoded_by, &device.decoded_by),
            (&mut self.compressed_by, &device.compressed_by),
            (&mut self.written_by, &device.written_by),
        ] {
            if !new.is_empty() {
                known.clone_from(new);
            }
        }
        self.add_fallbacks(device.fallbacks.iter().map(ToString::to_string));
    }

    fn add_fallbacks(&mut self, fallbacks: impl Iterator<Item = String>) {
        for fallback in fallbacks {
            if !self.fallbacks.contains(&fallback) {
                self.fallbacks.push(fallback);
            }
        }
    }

    /// Add what was found in the same case later on.
    pub(super) fn add(&mut self, later: Checked) {
        self.read &= later.read;
        self.written &= later.written;
        self.same_bytes = self.same_bytes.zip(later.same_bytes).map(|(one, other)| one && other);
        self.largest_difference = self.largest_difference.max(later.largest_difference);
        self.add_fallbacks(later.fallbacks.into_iter());
    }
}

/// Write an image by the CPU and by the device, and read what the CPU wrote by both: all of it, a window, and to where the device keeps
/// it; and let the CPU read every level of both files.
pub(super) fn check(bench: &Bench, case: &Case, picture: &Picture) -> Result<Checked, Failure> {
    let mut checked = Checked::new(case);
    let plan = picture.plan(case)?;
    let (by_cpu, by_device) = (bench.scratch.file("cpu.tif"), bench.scratch.file("device.tif"));
    plan.write_file(&by_cpu, &mut picture.source()?, &bench.config)?;
    let written = plan.write_file(&by_device, &mut picture.source()?, &bench.config_for(case))?;
    checked.note(written.gpu.as_ref());
    let contents = |path: &std::path::Path| std::fs::read(path).map_err(|error| Failure::file("read", path, error));
    checked.compare_bytes(&contents(&by_cpu)?, &contents(&by_device)?);

    let (image, other) = (Dataset::open(&by_cpu)?.image(0)?, Dataset::open(&by_device)?.image(0)?);
    let on_cpu = bench.on_cpu();
    for level in 0..image.levels().len() {
        let (expected, found) = (image.read(&on_cpu.clone().level(level))?, other.read(&on_cpu.clone().level(level))?);
        checked.compare_written(expected.pixels.as_bytes(), found.pixels.as_bytes());
    }
    if !case.is_lossy() {
        // Whatever the device does, and whatever the CPU does on the way back.
        let found = image.read(&on_cpu.clone().layout(Layout::BandsLast))?;
        checked.compare_written(&picture.samples, found.pixels.as_bytes());
    }

    let (on_cpu, on_device) = (bench.on_cpu(), bench.request(case));
    let (third, half) = (picture.side / 3, picture.side / 2);
    let window = |all: &swath::ReadRequest<'static>| all.clone().window(third..picture.side, third / 2..half + 1);
    for (on_cpu, on_device) in [(on_cpu.clone(), on_device.clone()), (window(&on_cpu), window(&on_device))] {
        let (expected, found) = (image.read(&on_cpu)?, image.read(&on_device)?);
        checked.compare_read(expected.pixels.as_bytes(), found.pixels.as_bytes());
        checked.note(found.report.gpu.as_ref());
        let (kept, report) = image.read_to_device(&on_device, &bench.gpu)?;
        let mut pixels = vec![0; expected.pixels.as_bytes().len()];
        kept.download(&mut pixels).map_err(swath::Error::from)?;
        checked.compare_read(expected.pixels.as_bytes(), &pixels);
        checked.note(report.gpu.as_ref());
    }
    Ok(checked)
}

#[cfg(test)]
mod tests {
    use swath::Predictor;
    use swath::device::Storage;

    use super::*;

    fn checked(codec: &'static str) -> Checked {
        let (by, predictor, storage) = (CodecBackend::Builtin, Predictor::None, Storage::Auto);
        Checked::new(&Case { codec, by, predictor, storage, timed: false })
    }

    #[test]
    fn one_wrong_bit_is_a_problem_and_stays_one() {
        let mut found = checked("deflate");
        found.compare_read(&[1, 2, 3], &[1, 2, 3]);
        assert_eq!((found.same_pixels(), found.problem()), (true, None));
        found.compare_read(&[1, 2, 3], &[1, 3, 3]);
        found.compare_read(&[1, 2, 3], &[1, 2, 3]);
        assert_eq!((found.same_pixels(), found.problem()), (false, Some("the device reads other pixels than the CPU")));
        let mut found = checked("deflate");
        found.compare_written(&[1, 2, 3], &[1, 2]);
        assert!(!found.same_pixels() && found.problem().is_some());
        let mut found = checked("deflate");
        found.compare_bytes(&[1], &[2]);
        assert!(found.same_pixels() && found.problem() == Some("the device writes other bytes than the CPU"));
        let mut first = checked("deflate");
        first.add(found);
        assert!(first.problem().is_some(), "what is found when it is timed counts too");
    }

    #[test]
    fn lossy_pixels_may_differ_a_little_but_not_much() {
        let mut found = checked("jpeg");
        found.compare_read(&[100; 64], &[101; 64]);
        assert_eq!((found.same_pixels(), found.largest_difference), (true, Some(1)));
        found.compare_read(&[100; 64], &[102; 64]);
        assert!(!found.same_pixels(), "all of them by two");
        let mut found = checked("jpeg");
        let mut one = [100; 64];
        one[5] = 133;
        found.compare_read(&[100; 64], &one);
        assert_eq!((found.same_pixels(), found.largest_difference), (false, Some(33)));
        let mut found = checked("jpeg");
        found.compare_written(&[100; 64], &[100; 63]);
        assert!(!found.same_pixels(), "some are missing");
    }
}
