//! Each distribution has the frequencies of its law.

use ensile_base::random::Random;

use super::{Distribution, KeyChooser, THETA, Zipfian};

#[test]
fn zipfian_ranks_have_the_frequencies_of_the_law() {
    let (count, draws) = (1_000u64, 400_000u64);
    let zipfian = Zipfian::new(count);
    let mut random = Random::from_seed(11);
    let mut seen = vec![0u64; count as usize];
    for _ in 0..draws {
        seen[zipfian.draw(&mut random) as usize] += 1;
    }
    let zeta: f64 = (1..=count).map(|rank| (rank as f64).powf(-THETA)).sum();
    // The first two ranks are exact; the formula only approximates the middle of the law.
    for (rank, tolerance) in [(0usize, 0.03), (1, 0.05), (10, 0.35), (100, 0.25)] {
        let expected = draws as f64 * ((rank + 1) as f64).powf(-THETA) / zeta;
        let error = (seen[rank] as f64 - expected).abs() / expected;
        assert!(error < tolerance, "rank {rank}: {} against {expected:.0}", seen[rank]);
    }
    let head: u64 = seen[..100].iter().sum();
    assert!(head * 100 / draws > 60, "a tenth of the keys takes most requests: {head}");
}

#[test]
fn popular_keys_are_scattered_and_all_keys_lie_in_the_table() {
    let chooser = KeyChooser::new(10_000, Distribution::Zipfian);
    let mut random = Random::from_seed(12);
    let mut seen = vec![0u32; 10_000];
    for _ in 0..200_000 {
        seen[chooser.draw(&mut random, 10_000) as usize] += 1;
    }
    let mut popular: Vec<usize> = (0..seen.len()).collect();
    popular.sort_by_key(|&key| std::cmp::Reverse(seen[key]));
    let neighbours = popular[..20].windows(2).filter(|pair| pair[0].abs_diff(pair[1]) < 15).count();
    assert!(neighbours <= 2, "popular keys share leaves: {:?}", &popular[..20]);
}

#[test]
fn uniform_keys_are_uniform_and_the_latest_are_late() {
    let mut random = Random::from_seed(13);
    let uniform = KeyChooser::new(100, Distribution::Uniform);
    let mut seen = [0u32; 100];
    for _ in 0..100_000 {
        seen[uniform.draw(&mut random, 100) as usize] += 1;
    }
    assert!(seen.iter().all(|&count| (850..1150).contains(&count)), "{seen:?}");
    let latest = KeyChooser::new(100, Distribution::Latest);
    let late = (0..1000).filter(|_| latest.draw(&mut random, 5_000) >= 4_980).count();
    assert!(late > 500, "{late}");
    assert_eq!(KeyChooser::new(1, Distribution::Zipfian).draw(&mut random, 1), 0);
}
