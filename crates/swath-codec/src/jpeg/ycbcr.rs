//! YCbCr as the TIFF tags define it (TIFF 6.0, section 21): luma coefficients and reference black and white.

use std::array::from_fn;

/// One half with 16 fraction bits.
const HALF: i32 = 1 << 15;

/// Turns 8-bit YCbCr into RGB by the tags of the file: what each code adds to which colour.
pub(crate) struct Ycbcr {
    luma: [i32; 256],
    red: [i32; 256],
    blue: [i32; 256],
    /// These two have 16 fraction bits.
    green_by_red: [i32; 256],
    green_by_blue: [i32; 256],
}

impl Ycbcr {
    /// `coefficients` is the YCbCrCoefficients tag (529), `reference` the ReferenceBlackWhite tag (532).
    pub(crate) fn new(coefficients: [f32; 3], reference: [f32; 6]) -> Ycbcr {
        let [luma_red, luma_green, luma_blue] = coefficients;
        // Codes become whole numbers first, as readers do that keep to 8 bits.
        let scaled = |black: f32, white: f32, range: f32| {
            let span = if white == black { 1.0 } else { white - black };
            move |code: usize| ((code as f32 - black) * range / span).clamp(-1024.0, 1024.0) as i32
        };
        let luma = scaled(reference[0], reference[1], 255.0);
        let (blue, red) = (scaled(reference[2], reference[3], 127.0), scaled(reference[4], reference[5], 127.0));
        let fixed = |factor: f32| (factor.clamp(-8.0, 8.0) * 65536.0 + 0.5) as i32;
        let (to_red, to_blue) = (2.0 - 2.0 * luma_red, 2.0 - 2.0 * luma_blue);
        let green = if luma_green == 0.0 { 1.0 } else { luma_green };
        let (green_by_red, green_by_blue) = (fixed(luma_red * to_red / green), fixed(luma_blue * to_blue / green));
        let (to_red, to_blue) = (fixed(to_red), fixed(to_blue));
        Ycbcr {
            luma: from_fn(luma),
            red: from_fn(|code| (to_red * red(code) + HALF) >> 16),
            blue: from_fn(|code| (to_blue * blue(code) + HALF) >> 16),
            green_by_red: from_fn(|code| -green_by_red * red(code)),
            green_by_blue: from_fn(|code| -green_by_blue * blue(code) + HALF),
        }
    }

    /// Converts one row of 8-bit samples.
    pub(super) fn write_rgb(&self, luma: &[u16], blue: &[u16], red: &[u16], out: &mut [u8]) {
        let code = |sample: u16| usize::from(sample & 255);
        for (out, ((&y, &cb), &cr)) in out.as_chunks_mut::<3>().0.iter_mut().zip(luma.iter().zip(blue).zip(red)) {
            let y = self.luma[code(y)];
            let green = (self.green_by_red[code(cr)] + self.green_by_blue[code(cb)]) >> 16;
            let offsets = [self.red[code(cr)], green, self.blue[code(cb)]];
            *out = offsets.map(|offset| (y + offset).clamp(0, 255) as u8);
        }
    }
}
