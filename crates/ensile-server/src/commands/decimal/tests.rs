//! Texts of numbers, and sums.

use super::Decimal;

fn sum(left: &str, right: &str) -> Option<String> {
    let [left, right] = [left, right].map(|text| Decimal::parse(text.as_bytes()).expect(text));
    left.add(right).map(Decimal::text)
}

#[test]
fn sums_have_redis_form() {
    for (left, right, expected) in [
        ("0.1", "0.2", "0.3"),
        ("10.50", "0.1", "10.6"),
        ("5.0e3", "2.0e2", "5200"),
        ("0", "1e-7", "0.0000001"),
        ("0", "1e-17", "0.00000000000000001"),
        ("0", "1e-30", "0"),
        ("0", "0.123456789012345678", "0.12345678901234568"),
        ("0", "170141183460469231731687303715884105727e-38", "1.70141183460469232"),
        ("-0", "0", "0"),
        ("-0.0", "-0.5", "-0.5"),
        ("+5", ".5", "5.5"),
        ("1.", "-3", "-2"),
        ("17179869184", "17179869184", "34359738368"),
        ("3", "1.797e308", &format!("{}", 1.797e308)),
        ("99999999999999999999", "1", "100000000000000000000"),
        ("100000000000000000000", "-1e20", "0"),
    ] {
        assert_eq!(sum(left, right).as_deref(), Some(expected), "{left} + {right}");
    }
}

#[test]
fn a_sum_that_is_not_finite_is_none() {
    assert_eq!(sum("1", "inf"), None);
    assert_eq!(sum("-inf", "1"), None);
    assert_eq!(sum("1.7e308", "1.7e308"), None);
}

#[test]
fn texts_that_are_no_numbers_are_refused() {
    for text in ["", " 1", "1 ", "nan", "x", "1,5", "1e", "--1", ".", "1.5.2", "1\0"] {
        assert!(Decimal::parse(text.as_bytes()).is_err(), "{text:?}");
    }
}
