//! Numbers of scripts as text, as `printf` writes `%.17g`.
//!
//! Neighbours: arguments of commands, replies and JSON have numbers.

/// The number in this number of digits at most, without zeros at its end.
pub(super) fn general(number: f64, digits: usize) -> String {
    debug_assert!(digits > 0, "a number has a digit");
    if number.is_nan() {
        return if number.is_sign_negative() { "-nan" } else { "nan" }.to_owned();
    }
    if number.is_infinite() {
        return if number < 0.0 { "-inf" } else { "inf" }.to_owned();
    }
    let scientific = format!("{number:.*e}", digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let most = i32::try_from(digits).unwrap_or(i32::MAX);
    if exponent < -4 || exponent >= most {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", without_zeros(mantissa), exponent.abs());
    }
    let behind = usize::try_from(most - 1 - exponent).unwrap_or(0);
    without_zeros(&format!("{number:.behind$}")).to_owned()
}

/// A decimal without zeros at its end behind the point.
fn without_zeros(decimal: &str) -> &str {
    if decimal.contains('.') { decimal.trim_end_matches('0').trim_end_matches('.') } else { decimal }
}

#[cfg(test)]
mod tests {
    use super::general;

    #[test]
    fn numbers_are_written_as_printf_does() {
        let cases = [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (1.5, "1.5"),
            (3.1, "3.1000000000000001"),
            (1e15, "1000000000000000"),
            (1e17, "1e+17"),
            (1e-5, "1.0000000000000001e-05"),
            (123456.789, "123456.789"),
            (f64::INFINITY, "inf"),
        ];
        for (number, text) in cases {
            assert_eq!(general(number, 17), text);
        }
        assert_eq!(general(3.1, 14), "3.1");
        assert_eq!(general(1e15, 14), "1e+15");
    }
}
