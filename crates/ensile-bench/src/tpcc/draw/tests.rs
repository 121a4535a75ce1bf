//! Drawn names, numbers and strings have the distributions of the specification.

use ensile_base::random::Random;

use super::{Constants, data, digits, is_original, last_name, letters, nurand};

#[test]
fn last_names_are_those_of_the_specification() {
    assert_eq!(&last_name(371), b"PRICALLYOUGHT\0\0\0");
    assert_eq!(&last_name(40), b"BARPRESBAR\0\0\0\0\0\0");
    assert_eq!(&last_name(777), b"CALLYCALLYCALLY\0");
}

#[test]
fn the_constants_for_last_names_keep_their_distance() {
    for seed in 0..1_000 {
        let constants = Constants::seeded(seed);
        let distance = constants.last_name_run - constants.last_name_load;
        assert!((65..=119).contains(&distance) && distance != 96 && distance != 112);
        assert!(constants.last_name_run <= 255 && constants.customer <= 1023 && constants.item <= 8191);
    }
}

#[test]
fn nurand_covers_its_range_and_is_not_uniform() {
    let mut random = Random::from_seed(3);
    let mut seen = vec![0u32; 3_001];
    for _ in 0..300_000 {
        seen[nurand(&mut random, 1023, 123, 1, 3_000) as usize] += 1;
    }
    assert_eq!(seen[0], 0);
    // A uniform draw would put 100 on each; the law's popular customers get several times that.
    let popular = seen.iter().filter(|&&count| count > 200).count();
    let rare = seen[1..].iter().filter(|&&count| count < 50).count();
    assert!(popular > 100 && rare > 500, "{popular} popular, {rare} rare");
    assert!(seen[1..].iter().filter(|&&count| count > 0).count() > 2_500);
}

#[test]
fn strings_have_their_lengths_and_a_tenth_of_the_data_is_original() {
    let mut random = Random::from_seed(4);
    for _ in 0..100 {
        let field = letters::<24>(&mut random, 14);
        let length = field.iter().position(|&byte| byte == 0).unwrap_or(24);
        assert!(length >= 14 && field[..length].iter().all(u8::is_ascii_alphanumeric));
        assert!(digits::<16>(&mut random).iter().all(u8::is_ascii_digit));
    }
    let original = (0..10_000).filter(|_| is_original(&data(&mut random))).count();
    assert!((900..1_100).contains(&original), "{original}");
}

#[test]
fn a_brand_is_found_wherever_it_stands_and_no_other_word_is_one() {
    let mut field = [b'O'; 50];
    assert!(!is_original(&field));
    for at in 0..=42 {
        for field in [&mut [b'R'; 50], &mut [b'O'; 50], &mut [0; 50]] {
            field[at..at + 8].copy_from_slice(b"ORIGINAL");
            assert!(is_original(field), "at {at}");
            field[at + 7] = b'l';
            assert!(!is_original(field), "at {at}");
        }
    }
    field[43..].copy_from_slice(b"ORIGINA");
    assert!(!is_original(&field), "cut off");
}
