//! Compares the pixels and files of a device with those of the CPU.

use swath::device::DeviceReport;
use swath::{Dataset, Layout};

use super::Bench;
use super::case::{Case, Picture};
use crate::failure::Failure;

/// JPEG decoders and encoders round differently: a sample may differ by `JPEG_MOST`, and all samples by `JPEG_MEAN` on average.
const JPEG_MOST: u8 = 32;
const JPEG_MEAN: f64 = 1.5;

/// The result of a comparison.
#[derive(Debug)]
pub(super) struct Checked {
    /// Whether the device reads the pixels that the CPU reads.
    read: bool,
    /// Whether the files of the device and of the CPU have the same pixels, both read by the CPU.
    written: bool,
    /// Whether both wrote the same bytes. Only compared for kernels that must write the bytes of the CPU.
    pub(super) same_bytes: Option<bool>,
    /// The largest difference of samples of a lossy codec.
    pub(super) largest_difference: Option<u8>,
    pub(super) read_by: String,
    pub(super) decoded_by: String,
    pub(super) compressed_by: String,
    pub(super) written_by: String,
    /// Work that the CPU did instead of the device.
    pub(super) fallbacks: Vec<String>,
}

impl Checked {
    /// A result without any difference.
    pub(super) fn new(case: &Case) -> Checked {
        Checked {
            read: true,
            written: true,
            same_bytes: case.has_bytes_of_cpu().then_some(true),
            largest_difference: case.is_lossy().then_some(0),
            read_by: String::new(),
            decoded_by: String::new(),
            compressed_by: String::new(),
            written_by: String::new(),
            fallbacks: Vec::new(),
        }
    }

    /// Whether all pixels equal those of the CPU, or, with a lossy codec, are within the tolerance.
    pub(super) fn same_pixels(&self) -> bool {
        self.read && self.written
    }

    /// The first difference, if there is one.
    pub(super) fn problem(&self) -> Option<&'static str> {
        match (self.read, self.written, self.same_bytes) {
            (false, ..) => Some("the device reads other pixels than the CPU"),
            (_, false, _) => Some("the file that the device writes has other pixels than the file that the CPU writes"),
            (.., Some(false)) => Some("the device writes other bytes than the CPU"),
            _ => None,
        }
    }

    /// Compares pixels that the CPU and the device read.
    pub(super) fn compare_read(&mut self, expected: &[u8], found: &[u8]) {
        self.read &= self.same(expected, found);
    }

    /// Compares the pixels of files that the CPU and the device wrote.
    pub(super) fn compare_written(&mut self, expected: &[u8], found: &[u8]) {
        self.written &= self.same(expected, found);
    }

    /// Compares the bytes of files that the CPU and the device wrote.
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

    /// Records what read, decoded, compressed and wrote.
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

    /// Adds a later result of the same case.
    pub(super) fn add(&mut self, later: Checked) {
        self.read &= later.read;
        self.written &= later.written;
        self.same_bytes = self.same_bytes.zip(later.same_bytes).map(|(one, other)| one && other);
        self.largest_difference = self.largest_difference.max(later.largest_difference);
        self.add_fallbacks(later.fallbacks.into_iter());
    }
}

/// Lets the CPU and the device write an image, lets the CPU read every level of both files, and lets both read the file of the CPU: all of
/// it and a window, into host memory and into device memory.
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
        // Also compares with the original samples, to notice an error that the CPU and the device share.
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
    use swath::device::{CodecBackend, Storage};

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
        let mut found = checked("lzw");
        found.compare_bytes(&[1], &[2]);
        assert!(found.same_pixels() && found.problem() == Some("the device writes other bytes than the CPU"));
        let mut first = checked("lzw");
        first.add(found);
        assert!(first.problem().is_some(), "a difference found during timing counts too");
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
