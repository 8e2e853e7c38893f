//! Numbers in the form in which C programs write them into metadata.
//!
//! Programs fill tags and sidecars with `printf` and read them back with `atof`: any text may follow a number,
//! the decimal mark can be a comma, and infinities can have the names that Microsoft's runtime prints. Rust's
//! own parser accepts none of these, and its shortest output is not the text that GDAL writes.

/// The number at the start of a text, and whether it is a plain integer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Leading {
    /// Digits only, or digits followed by a fraction of zeros.
    Integer(i128),
    /// Any other number, including infinities and NaN.
    Float(f64),
}

impl Leading {
    /// The value as a double.
    pub(crate) fn value(self) -> f64 {
        match self {
            Self::Integer(value) => value as f64,
            Self::Float(value) => value,
        }
    }
}

/// Parses the number at the start of `text`. A comma is a decimal mark if `comma` is set.
///
/// Returns `None` if the text does not start with a number.
pub(crate) fn leading(text: &str, comma: bool) -> Option<Leading> {
    let text = text.trim_start_matches(|c: char| c.is_ascii_whitespace());
    if let Some(special) = leading_special(text) {
        return Some(Leading::Float(special));
    }
    let bytes = text.as_bytes();
    let digits_from = |start: usize| {
        bytes.get(start..).map_or(0, |rest| rest.iter().take_while(|byte| byte.is_ascii_digit()).count())
    };
    let sign = usize::from(matches!(bytes.first(), Some(b'+' | b'-')));
    let whole_end = sign + digits_from(sign);
    let mut end = whole_end;
    if matches!(bytes.get(end), Some(b'.')) || (comma && matches!(bytes.get(end), Some(b','))) {
        end += 1 + digits_from(end + 1);
    }
    let has_digit = bytes.get(sign..end)?.iter().any(u8::is_ascii_digit);
    if !has_digit {
        return None;
    }
    let mantissa_end = end;
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let exponent_sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent_digits = digits_from(end + 1 + exponent_sign);
        if exponent_digits > 0 {
            end += 1 + exponent_sign + exponent_digits;
        }
    }
    let fraction_is_zero = bytes.get(whole_end..mantissa_end)?.iter().skip(1).all(|byte| *byte == b'0');
    if end == mantissa_end && fraction_is_zero {
        // More than 38 digits do not fit and are parsed as a float.
        if let Some(value) = text.get(..whole_end).and_then(|digits| digits.parse::<i128>().ok())
            && (value != 0 || bytes.first() != Some(&b'-'))
        {
            return Some(Leading::Integer(value));
        }
    }
    let mut number = text.get(..end)?.to_owned();
    if comma {
        number = number.replace(',', ".");
    }
    number.parse().ok().map(Leading::Float)
}

/// Returns the whole number at the start of `text`, as C's `strtoll` reads it: 0 if there is none, and the
/// largest number if there are too many digits.
pub(crate) fn leading_whole(text: &str) -> i128 {
    let text = text.trim_start_matches(|c: char| c.is_ascii_whitespace());
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text).bytes().take_while(u8::is_ascii_digit);
    let whole = digits.fold(0_i128, |whole, digit| whole.saturating_mul(10).saturating_add((digit - b'0').into()));
    if text.starts_with('-') { -whole } else { whole }
}

/// Returns the double at the start of `text`, with a dot as the decimal mark.
pub(crate) fn leading_f64(text: &str) -> Option<f64> {
    leading(text, false).map(Leading::value)
}

/// Parses the names of infinities and NaN. C's `strtod` accepts any text after a name.
fn leading_special(text: &str) -> Option<f64> {
    let (negative, name) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let starts = |prefix: &str| name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
    let signed = |value: f64| if negative { -value } else { value };
    if starts("nan") || starts("1.#QNAN") || starts("1.#SNAN") || (negative && starts("1.#IND")) {
        Some(f64::NAN)
    } else if starts("inf") || starts("1.#INF") {
        Some(signed(f64::INFINITY))
    } else {
        None
    }
}

/// The value of a text that is Microsoft's spelling of an infinity or NaN, and nothing else.
pub(crate) fn microsoft_special(text: &str) -> Option<f64> {
    let name = text.trim_start_matches(['+', '-']).to_ascii_uppercase();
    let is_special = ["1.#INF", "1.#QNAN", "1.#SNAN", "1.#IND"].contains(&name.as_str());
    leading_special(text).filter(|_| is_special)
}

/// Formats a double as C's `%.17g`, the format in which GDAL writes scales, offsets and nodata values.
pub(crate) fn format_g17(value: f64) -> String {
    format_g(value, 17)
}

/// Formats a double as C's `%.{digits}g`.
pub(crate) fn format_g(value: f64, digits: u8) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let last = i32::from(digits.max(1)) - 1;
    let scientific = format!("{value:.*e}", usize::from(digits.max(1)) - 1);
    let Some((mantissa, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let strip = |digits: &str| {
        if digits.contains('.') {
            digits.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            digits.to_owned()
        }
    };
    if (-4..=last).contains(&exponent) {
        let decimals = usize::try_from(last - exponent).unwrap_or(0);
        strip(&format!("{value:.decimals$}"))
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{}e{sign}{:02}", strip(mantissa), exponent.unsigned_abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g17_is_what_printf_writes() {
        let cases = [
            (0.0, "0"),
            (-0.0, "-0"),
            (0.1, "0.10000000000000001"),
            (2e-5, "2.0000000000000002e-05"),
            (1.0 / 3.0, "0.33333333333333331"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (123_456_789_012_345_680.0, "1.2345678901234568e+17"),
            (-1.7e308, "-1.6999999999999999e+308"),
            (123_456_789.125, "123456789.125"),
            (f64::from(f32::MIN), "-3.4028234663852886e+38"),
            (0.0001, "0.0001"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
        ];
        for (value, text) in cases {
            assert_eq!(format_g17(value), text);
        }
    }

    #[test]
    fn fewer_digits_are_rounded_as_printf_does() {
        let cases = [(99.9667, "99.97"), (99.9967, "100"), (2.5e-5, "2.5e-05"), (12345.0, "1.234e+04"), (0.0, "0")];
        for (value, text) in cases {
            assert_eq!(format_g(value, 4), text);
        }
        assert_eq!(format_g(-0.6464149355888367, 14), "-0.64641493558884");
        assert_eq!(format_g(f64::from(f32::MIN), 14), "-3.4028234663853e+38");
    }

    #[test]
    fn trailing_junk_does_not_hide_the_number() {
        assert_eq!(leading("12abc", false), Some(Leading::Integer(12)));
        assert_eq!(leading(" \t-.5e-3;", false), Some(Leading::Float(-0.0005)));
        assert_eq!(leading("1e+", false), Some(Leading::Integer(1)));
        assert_eq!(leading("5.", false), Some(Leading::Integer(5)));
        assert_eq!(leading("1,5", true), Some(Leading::Float(1.5)));
        assert_eq!(leading("1,5", false), Some(Leading::Integer(1)));
        assert_eq!(leading("1.100,5", true), Some(Leading::Float(1.1)));
        for nothing in ["", " ", "-", ".", "abc", "--5", "e5", "+-1", ","] {
            assert_eq!(leading(nothing, true), None, "{nothing:?}");
        }
    }

    #[test]
    fn minus_zero_keeps_its_sign() {
        assert!(leading("-0", false).is_some_and(|zero| zero.value().is_sign_negative()));
    }

    #[test]
    fn infinities_of_every_compiler_are_parsed() {
        assert_eq!(leading_f64("1.#INF"), Some(f64::INFINITY));
        assert_eq!(leading_f64("-1.#INF"), Some(f64::NEG_INFINITY));
        assert_eq!(leading_f64("-Infinity"), Some(f64::NEG_INFINITY));
        assert_eq!(leading_f64("1e400"), Some(f64::INFINITY));
        for nan in ["nan", "NaN", "-nan", "+nan", "-1.#IND", "1.#QNAN", "-1.#QNAN", "1.#SNAN", "nan(0x1)"] {
            assert!(leading_f64(nan).is_some_and(f64::is_nan), "{nan}");
        }
    }

    #[test]
    fn more_digits_than_an_integer_holds_become_a_float() {
        let digits = "9".repeat(60);
        assert!(matches!(leading(&digits, false), Some(Leading::Float(value)) if value > 9e59));
    }
}
