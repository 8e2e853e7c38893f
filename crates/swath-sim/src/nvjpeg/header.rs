//! Reads the header of a JPEG stream before it is decoded (ITU-T T.81, annex B).

use crate::picture::{Outcome, Status};

/// A component: its sampling factors, across and down.
type Sampling = (usize, usize);

/// The frame of a picture that nvJPEG supports: 8 bits, Huffman coding, one to four components.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) width: usize,
    pub(super) height: usize,
    sampling: Vec<Sampling>,
    /// The transform in an Adobe marker.
    adobe: Option<u8>,
}

/// Values of `nvjpegChromaSubsampling_t`.
pub(super) const CSS_444: i32 = 0;
pub(super) const CSS_422: i32 = 1;
pub(super) const CSS_420: i32 = 2;
pub(super) const CSS_GRAY: i32 = 6;
const CSS_UNKNOWN: i32 = -1;

impl Header {
    pub(super) fn parse(src: &[u8]) -> Outcome<Header> {
        let mut rest = src.strip_prefix(&[0xff, 0xd8]).ok_or(Status::BAD_JPEG)?;
        let (mut adobe, mut header) = (None, None);
        loop {
            let (marker, body) = segment(&mut rest).ok_or(Status::BAD_JPEG)?;
            match (marker, body) {
                (0xee, [b'A', b'd', b'o', b'b', b'e', _, _, _, _, _, _, transform, ..]) => adobe = Some(*transform),
                (0xc0..=0xc2, _) => header = Some(Header::frame(body)?),
                (0xc4 | 0xc8 | 0xcc, _) => {}
                // Lossless, differential and arithmetic coding.
                (0xc3..=0xcf, _) => return Err(Status::NOT_SUPPORTED),
                // The first scan: all segments that describe the picture come before it.
                (0xda, _) => break,
                _ => {}
            }
        }
        let header = header.ok_or(Status::BAD_JPEG)?;
        Ok(Header { adobe, ..header })
    }

    fn frame(body: &[u8]) -> Outcome<Header> {
        let [precision, y1, y0, x1, x0, count, components @ ..] = body else { return Err(Status::BAD_JPEG) };
        let side = |high: u8, low: u8| usize::from(u16::from_be_bytes([high, low]));
        let (width, height) = (side(*x1, *x0), side(*y1, *y0));
        if width == 0 || height == 0 || *count == 0 || components.len() != 3 * usize::from(*count) {
            return Err(Status::BAD_JPEG);
        }
        if *precision != 8 || *count > 4 {
            return Err(Status::NOT_SUPPORTED);
        }
        let sampling = |component: &[u8; 3]| (usize::from(component[1] >> 4), usize::from(component[1] & 15));
        let sampling: Vec<Sampling> = components.as_chunks::<3>().0.iter().map(sampling).collect();
        if sampling.iter().any(|(across, down)| !(1..=4).contains(across) || !(1..=4).contains(down)) {
            return Err(Status::BAD_JPEG);
        }
        Ok(Header { width, height, sampling, adobe: None })
    }

    pub(super) fn components(&self) -> usize {
        self.sampling.len()
    }

    /// The largest sampling factors.
    fn most(&self) -> Sampling {
        let most = |of: fn(&Sampling) -> usize| self.sampling.iter().map(of).max().unwrap_or(1);
        (most(|s| s.0), most(|s| s.1))
    }

    /// Returns the size of a component; a missing component has size 0.
    pub(super) fn size(&self, component: usize) -> (usize, usize) {
        let most = self.most();
        let size = |s: &Sampling| ((self.width * s.0).div_ceil(most.0), (self.height * s.1).div_ceil(most.1));
        self.sampling.get(component).map_or((0, 0), size)
    }

    /// Whether all components have the size of the picture.
    pub(super) fn is_even(&self) -> bool {
        self.sampling.iter().all(|s| *s == self.sampling[0])
    }

    /// Whether three components are colours that must be converted. Only an Adobe marker can state that they
    /// are not.
    pub(super) fn is_ycc(&self) -> bool {
        self.components() == 3 && self.adobe != Some(0)
    }

    /// Returns the sampling as a `nvjpegChromaSubsampling_t`.
    pub(super) fn subsampling(&self) -> i32 {
        let most = self.most();
        match self.sampling[..] {
            [_] => CSS_GRAY,
            [luma, blue, red] if luma == most && blue == red => {
                match (most.0 % blue.0, most.1 % blue.1, most.0 / blue.0, most.1 / blue.1) {
                    (0, 0, 1, 1) => CSS_444,
                    (0, 0, 2, 1) => CSS_422,
                    (0, 0, 2, 2) => CSS_420,
                    (0, 0, 1, 2) => 3,
                    (0, 0, 4, 1) => 4,
                    (0, 0, 4, 2) => 5,
                    (0, 0, 2, 4) => 7,
                    _ => CSS_UNKNOWN,
                }
            }
            _ => CSS_UNKNOWN,
        }
    }
}

/// Returns the next marker segment of the rest.
fn segment<'a>(rest: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let start = rest.strip_prefix(&[0xff])?;
    // Any number of fill bytes may come before a marker.
    let (&marker, behind) = start[start.iter().position(|&byte| byte != 0xff)?..].split_first()?;
    let (length, behind) = behind.split_first_chunk::<2>()?;
    let (body, behind) = behind.split_at_checked(usize::from(u16::from_be_bytes(*length)).checked_sub(2)?)?;
    *rest = behind;
    Some((marker, body))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(marker: u8, precision: u8, sampling: &[u8], adobe: Option<u8>) -> Vec<u8> {
        let mut out = vec![0xff, 0xd8, 0xff, 0xfe, 0, 4, 1, 2, 0xff];
        if let Some(transform) = adobe {
            out.extend(b"\xff\xee\0\x0eAdobe\0\x64\0\0\0\0");
            out.push(transform);
        }
        out.extend([0xff, marker, 0, 8 + 3 * sampling.len() as u8, precision, 0, 33, 0, 17, sampling.len() as u8]);
        sampling.iter().for_each(|&sampling| out.extend([1, sampling, 0]));
        out.extend([0xff, 0xda, 0, 2]);
        out
    }

    #[test]
    fn sampling_has_the_value_of_the_enumeration() {
        let subsampling = |sampling: &[u8]| Header::parse(&stream(0xc0, 8, sampling, None)).unwrap().subsampling();
        assert_eq!(subsampling(&[0x11]), CSS_GRAY);
        assert_eq!(subsampling(&[0x22]), CSS_GRAY);
        assert_eq!(subsampling(&[0x11, 0x11, 0x11]), CSS_444);
        assert_eq!(subsampling(&[0x22, 0x22, 0x22]), CSS_444);
        assert_eq!(subsampling(&[0x21, 0x11, 0x11]), CSS_422);
        assert_eq!(subsampling(&[0x22, 0x11, 0x11]), CSS_420);
        assert_eq!(subsampling(&[0x12, 0x11, 0x11]), 3);
        assert_eq!(subsampling(&[0x41, 0x11, 0x11]), 4);
        assert_eq!(subsampling(&[0x11, 0x22, 0x11]), CSS_UNKNOWN);
        assert_eq!(subsampling(&[0x31, 0x21, 0x21]), CSS_UNKNOWN);
        assert_eq!(subsampling(&[0x11; 4]), CSS_UNKNOWN);
        let header = Header::parse(&stream(0xc2, 8, &[0x22, 0x11, 0x11], None)).unwrap();
        assert_eq!([0, 1, 2, 3].map(|component| header.size(component)), [(17, 33), (9, 17), (9, 17), (0, 0)]);
    }

    #[test]
    fn only_an_adobe_marker_makes_three_components_rgb() {
        let is_ycc = |adobe, sampling: &[u8]| Header::parse(&stream(0xc0, 8, sampling, adobe)).unwrap().is_ycc();
        assert!(is_ycc(None, &[0x11; 3]) && is_ycc(Some(1), &[0x11; 3]));
        assert!(!is_ycc(Some(0), &[0x11; 3]) && !is_ycc(None, &[0x11]));
    }

    #[test]
    fn unsupported_frames_are_refused() {
        let refused =
            |marker, precision, sampling: &[u8]| Header::parse(&stream(marker, precision, sampling, None)).err();
        assert_eq!(refused(0xc0, 8, &[0x11]), None);
        assert_eq!(refused(0xc3, 8, &[0x11]), Some(Status::NOT_SUPPORTED));
        assert_eq!(refused(0xc9, 8, &[0x11]), Some(Status::NOT_SUPPORTED));
        assert_eq!(refused(0xc1, 12, &[0x11]), Some(Status::NOT_SUPPORTED));
        assert_eq!(refused(0xc0, 8, &[0x11; 5]), Some(Status::NOT_SUPPORTED));
        assert_eq!(refused(0xc0, 8, &[0x01]), Some(Status::BAD_JPEG));
    }

    #[test]
    fn truncated_headers_are_refused() {
        let whole = stream(0xc0, 8, &[0x22, 0x11, 0x11], Some(1));
        for length in 0..whole.len() {
            assert_eq!(Header::parse(&whole[..length]), Err(Status::BAD_JPEG), "{length} bytes");
        }
    }
}
