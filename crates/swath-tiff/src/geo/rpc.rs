//! Rational polynomial coefficients: the sensor model of satellite scenes before rectification.

/// The reason why a set of coefficients is not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RpcError {
    /// The tag has too few numbers.
    #[error("the RPC tag has {found} numbers; 92 are required")]
    Length {
        /// The number of values in the tag.
        found: usize,
    },
    /// A sidecar text has no value for a name, or a value that is not a number.
    #[error("the RPC text has no number for {name}")]
    Missing {
        /// The name, as in an `_RPC.TXT` file.
        name: &'static str,
    },
}

/// Ratios of cubic polynomials that map (longitude, latitude, height) to (line, sample).
#[derive(Debug, Clone, PartialEq)]
pub struct Rpc {
    /// Root mean square bias error in metres per axis, -1 if unknown.
    pub err_bias: f64,
    /// Root mean square random error in metres per axis, -1 if unknown.
    pub err_rand: f64,
    /// Offsets: line, sample, latitude, longitude, height.
    pub offset: [f64; 5],
    /// Scales, in the order of the offsets.
    pub scale: [f64; 5],
    /// Numerator of the line.
    pub line_num: [f64; 20],
    /// Denominator of the line.
    pub line_den: [f64; 20],
    /// Numerator of the sample.
    pub samp_num: [f64; 20],
    /// Denominator of the sample.
    pub samp_den: [f64; 20],
}

const OFFSETS: [&str; 5] = ["LINE_OFF", "SAMP_OFF", "LAT_OFF", "LONG_OFF", "HEIGHT_OFF"];
const SCALES: [&str; 5] = ["LINE_SCALE", "SAMP_SCALE", "LAT_SCALE", "LONG_SCALE", "HEIGHT_SCALE"];
const POLYNOMIALS: [&str; 4] = ["LINE_NUM_COEFF", "LINE_DEN_COEFF", "SAMP_NUM_COEFF", "SAMP_DEN_COEFF"];

/// The corresponding names in an RPB file.
const RPB_NAMES: [(&str, &str); 16] = [
    ("LINE_OFF", "lineOffset"),
    ("SAMP_OFF", "sampOffset"),
    ("LAT_OFF", "latOffset"),
    ("LONG_OFF", "longOffset"),
    ("HEIGHT_OFF", "heightOffset"),
    ("LINE_SCALE", "lineScale"),
    ("SAMP_SCALE", "sampScale"),
    ("LAT_SCALE", "latScale"),
    ("LONG_SCALE", "longScale"),
    ("HEIGHT_SCALE", "heightScale"),
    ("LINE_NUM_COEFF", "lineNumCoef"),
    ("LINE_DEN_COEFF", "lineDenCoef"),
    ("SAMP_NUM_COEFF", "sampNumCoef"),
    ("SAMP_DEN_COEFF", "sampDenCoef"),
    ("ERR_BIAS", "errBias"),
    ("ERR_RAND", "errRand"),
];

impl Rpc {
    /// Reads the numbers of an RPCCoefficient tag (50844). Numbers after the 92nd are ignored.
    pub fn from_tag(values: &[f64]) -> Result<Self, RpcError> {
        let short = || RpcError::Length { found: values.len() };
        let (&[err_bias, err_rand], rest) = values.split_first_chunk().ok_or_else(short)?;
        let (&offset, rest) = rest.split_first_chunk().ok_or_else(short)?;
        let (&scale, rest) = rest.split_first_chunk().ok_or_else(short)?;
        let (&line_num, rest) = rest.split_first_chunk().ok_or_else(short)?;
        let (&line_den, rest) = rest.split_first_chunk().ok_or_else(short)?;
        let (&samp_num, rest) = rest.split_first_chunk().ok_or_else(short)?;
        let (&samp_den, _) = rest.split_first_chunk().ok_or_else(short)?;
        Ok(Self { err_bias, err_rand, offset, scale, line_num, line_den, samp_num, samp_den })
    }

    /// Returns the 92 numbers of the tag.
    pub fn to_tag(&self) -> Vec<f64> {
        let polynomials = [&self.line_num, &self.line_den, &self.samp_num, &self.samp_den];
        let head = [self.err_bias, self.err_rand].into_iter().chain(self.offset).chain(self.scale);
        head.chain(polynomials.into_iter().flatten().copied()).collect()
    }

    /// Parses an `_RPC.TXT` sidecar, which has one `NAME: value unit` per line.
    pub fn from_rpc_txt(text: &str) -> Result<Self, RpcError> {
        let find = |name: &str| {
            text.lines().find_map(|line| {
                let (key, value) = line.split_once(':')?;
                (key.trim() == name).then(|| value.split_ascii_whitespace().next()?.parse().ok()).flatten()
            })
        };
        Self::from_names(find, |name, index| find(&format!("{name}_{}", index + 1)))
    }

    /// Parses an `.RPB` sidecar, which has `name = value;` and `name = (value, ...);`.
    pub fn from_rpb(text: &str) -> Result<Self, RpcError> {
        let find = |name: &str| {
            let (_, rpb) = RPB_NAMES.iter().find(|(known, _)| *known == name)?;
            let at = text.match_indices(rpb).find_map(|(at, _)| {
                // `latOffset` must not match inside another word.
                let before = text.get(..at)?.bytes().next_back();
                let rest = text.get(at + rpb.len()..)?.trim_start().strip_prefix('=')?;
                before.is_none_or(|c| !c.is_ascii_alphanumeric()).then_some(rest)
            })?;
            Some(at.split(';').next().unwrap_or(at).trim().trim_start_matches('(').trim_end_matches(')'))
        };
        let number = |text: &str| text.trim().parse().ok();
        Self::from_names(|name| number(find(name)?), |name, index| number(find(name)?.split(',').nth(index)?))
    }

    fn from_names(
        single: impl Fn(&str) -> Option<f64>,
        coefficient: impl Fn(&str, usize) -> Option<f64>,
    ) -> Result<Self, RpcError> {
        let five = |names: [&'static str; 5]| {
            let mut values = [0.0; 5];
            for (value, name) in values.iter_mut().zip(names) {
                *value = single(name).ok_or(RpcError::Missing { name })?;
            }
            Ok(values)
        };
        let twenty = |name: &'static str| {
            let mut values = [0.0; 20];
            for (index, value) in values.iter_mut().enumerate() {
                *value = coefficient(name, index).ok_or(RpcError::Missing { name })?;
            }
            Ok(values)
        };
        let [line_num, line_den, samp_num, samp_den] = POLYNOMIALS;
        Ok(Self {
            err_bias: single("ERR_BIAS").unwrap_or(-1.0),
            err_rand: single("ERR_RAND").unwrap_or(-1.0),
            offset: five(OFFSETS)?,
            scale: five(SCALES)?,
            line_num: twenty(line_num)?,
            line_den: twenty(line_den)?,
            samp_num: twenty(samp_num)?,
            samp_den: twenty(samp_den)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered() -> Vec<f64> {
        (0..92).map(f64::from).collect()
    }

    #[test]
    fn coefficients_are_in_the_order_of_the_tag() {
        let rpc = Rpc::from_tag(&numbered()).unwrap();
        assert_eq!((rpc.err_bias, rpc.err_rand, rpc.offset[0], rpc.scale[0]), (0.0, 1.0, 2.0, 7.0));
        assert_eq!((rpc.line_num[0], rpc.line_den[0], rpc.samp_num[0], rpc.samp_den[19]), (12.0, 32.0, 52.0, 91.0));
        assert_eq!(rpc.to_tag(), numbered());
    }

    #[test]
    fn short_tag_is_an_error_not_zeros() {
        assert_eq!(Rpc::from_tag(&numbered()[..91]), Err(RpcError::Length { found: 91 }));
        assert_eq!(Rpc::from_tag(&[]), Err(RpcError::Length { found: 0 }));
    }

    #[test]
    fn sidecar_texts_give_the_same_model_as_the_tag() {
        let rpc = Rpc::from_tag(&numbered()).unwrap();
        let mut txt = String::from("ERR_BIAS: 0\nERR_RAND: 1.0 metres\n");
        let mut rpb = String::from("satId = \"X\";\nBEGIN_GROUP = IMAGE\n\terrBias = 0;\n\terrRand = 1.0;\n");
        for (names, values) in [(OFFSETS, rpc.offset), (SCALES, rpc.scale)] {
            for (name, value) in names.iter().zip(values) {
                txt += &format!("{name}: {value:+} pixels\n");
                rpb += &format!("\t{} = {value};\n", RPB_NAMES.iter().find(|(n, _)| n == name).unwrap().1);
            }
        }
        for (name, values) in POLYNOMIALS.iter().zip([rpc.line_num, rpc.line_den, rpc.samp_num, rpc.samp_den]) {
            let list: Vec<String> = values.iter().map(|v| format!("\n\t\t\t{v:e}")).collect();
            rpb += &format!("\t{} = ({});\n", RPB_NAMES.iter().find(|(n, _)| n == name).unwrap().1, list.join(","));
            for (index, value) in values.iter().enumerate() {
                txt += &format!("{name}_{}: {value:e}\n", index + 1);
            }
        }
        assert_eq!(Rpc::from_rpc_txt(&txt).as_ref(), Ok(&rpc));
        assert_eq!(Rpc::from_rpb(&rpb).as_ref(), Ok(&rpc));
    }

    #[test]
    fn error_for_a_missing_coefficient_names_it() {
        assert_eq!(Rpc::from_rpc_txt("LINE_OFF: 1"), Err(RpcError::Missing { name: "SAMP_OFF" }));
        assert_eq!(Rpc::from_rpb("lineOffset = x;"), Err(RpcError::Missing { name: "LINE_OFF" }));
    }
}
