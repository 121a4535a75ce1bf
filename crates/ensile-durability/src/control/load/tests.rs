//! The average and the capacity, by windows of numbers.

use super::*;

const SECOND: u64 = 1_000_000_000;

fn terms() -> AdaptiveThreshold {
    AdaptiveThreshold::of_capacity(1000)
}

fn bytes(log_bytes: u64) -> LoadCounts {
    LoadCounts { log_bytes, ..LoadCounts::default() }
}

/// The load after windows of 5 s in which so much a second was counted.
fn after(rates: &[u64]) -> f64 {
    let (mut average, mut now, mut counted) = (LoadAverage::new(7, bytes(50)), 7, 50);
    for rate in rates {
        (now, counted) = (now + 5 * SECOND, counted + 5 * rate);
        average.observe(now, bytes(counted), &terms());
    }
    average.load()
}

fn assert_near(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-9, "{found}, and not {expected}");
}

#[test]
fn it_is_the_papers_average_of_whole_windows() {
    assert_near(after(&[]), 0.0);
    assert_near(after(&[500]), 0.5);
    assert_near(after(&[500, 1000]), 0.8 * 0.5 + 0.2);
    assert_near(after(&[500, 1000, 0]), 0.8 * (0.8 * 0.5 + 0.2));
    let mut average = LoadAverage::new(0, bytes(0));
    average.observe(5 * SECOND - 1, bytes(1_000_000), &terms());
    assert_near(average.load(), 0.0);
    average.observe(5 * SECOND, bytes(5 * 1000), &terms());
    assert_near(average.load(), 1.0);
    let mut seldom = LoadAverage::new(0, bytes(0));
    seldom.observe(5 * SECOND, bytes(5 * 200), &terms());
    seldom.observe(20 * SECOND, bytes(5 * 200 + 15 * 800), &terms());
    assert_near(seldom.load(), after(&[200, 800, 800, 800]));
    for terms in [AdaptiveThreshold::of_ups(1000), AdaptiveThreshold::of_time(1000)] {
        let mut average = LoadAverage::new(0, LoadCounts::default());
        average.observe(5 * SECOND, LoadCounts { log_records: 5 * 300, ..bytes(5_000_000) }, &terms);
        assert_near(average.load(), 0.3);
    }
}

/// Loads and capacities after windows of 5 s with so many requests a second, and so many of them lost.
fn probed(terms: &AdaptiveThreshold, windows: &[(u64, u64)]) -> Vec<(f64, f64)> {
    let (mut counted, mut now) = (LoadCounts { served: 1, ..LoadCounts::default() }, 0);
    let mut average = LoadAverage::new(0, counted);
    let window = |&(arrived, lost): &(u64, u64)| {
        now += 5 * SECOND;
        counted.served += 5 * (arrived - lost);
        counted.lost += 5 * lost;
        // What is logged beside them is not the load.
        counted.log_bytes += 7_777;
        average.observe(now, counted, terms);
        (average.load(), average.capacity(terms))
    };
    windows.iter().map(window).collect()
}

#[test]
fn reported_requests_are_the_load_reads_too() {
    assert_near(probed(&terms(), &[(500, 0)])[0].0, 0.5);
    // They begin to be reported: what was logged before is another measure.
    let mut average = LoadAverage::new(0, bytes(0));
    average.observe(5 * SECOND, bytes(5000), &terms());
    average.observe(10 * SECOND, LoadCounts { served: 9, ..bytes(10_000) }, &terms());
    assert_near(average.load(), 0.0);
    average.observe(15 * SECOND, LoadCounts { served: 9 + 5 * 700, ..bytes(99_999) }, &terms());
    assert_near(average.load(), 0.7);
}

#[test]
fn the_capacity_is_the_rate_at_which_5_percent_are_lost() {
    let terms = AdaptiveThreshold { is_probed: true, ..terms() };
    let found = probed(&terms, &[(900, 44), (1500, 0), (1500, 74), (2000, 100), (4000, 2100), (1000, 0)]);
    let capacities: Vec<f64> = found.iter().map(|(_, capacity)| *capacity).collect();
    // Below it nothing is learned; a rate that is served is no more than the capacity; 5 % lost is the capacity itself;
    // 1,900 served of however many are 95 % of 2,000.
    for (found, expected) in capacities.iter().zip([1000.0, 1500.0, 1500.0, 2000.0, 2000.0, 2000.0]) {
        assert_near(*found, expected);
    }
    assert_near(found[1].0, 0.8 * 0.9 + 0.2);
    let registered = AdaptiveThreshold { is_probed: false, ..terms };
    assert_near(probed(&registered, &[(4000, 2100)])[0].1, 1000.0);
}

/// The capacities after these windows, of 1,000 a second that are registered.
fn capacities(windows: &[(u64, u64)]) -> Vec<u64> {
    let terms = AdaptiveThreshold { is_probed: true, ..terms() };
    probed(&terms, windows).iter().map(|(_, capacity)| capacity.round() as u64).collect()
}

#[test]
fn stalls_lower_no_capacity_and_a_window_that_serves_more_raises_it_at_once() {
    assert_eq!(capacities(&[(10, 9), (200, 0), (10, 9), (10, 9), (200, 0)]), [1000; 5]);
    // What was served well before stands, too.
    assert_eq!(capacities(&[(1500, 0), (10, 10), (300, 200), (900, 0)]), [1500; 4]);
    // Nor is anything lost where nothing comes.
    assert_eq!(capacities(&[(0, 0), (0, 0), (0, 0), (0, 0)]), [1000; 4]);
    let stalled = [&[(100, 99); 7][..], &[(300, 0)]].concat();
    assert_eq!(capacities(&stalled), [1000, 1000, 1, 1, 1, 1, 1, 1000]);
    assert_eq!(capacities(&[(3000, 1100), (3000, 1100)]), [2000, 2000]);
}

#[test]
fn a_machine_that_has_become_slower_is_known_by_three_windows_to_their_most() {
    let slower = [(900, 425), (900, 520), (900, 425)];
    assert_eq!(capacities(&slower), [1000, 1000, 500]);
    // It is at its capacity, and not below, from there on.
    let and_then = [&slower[..], &[(900, 425), (500, 25), (450, 0)]].concat();
    assert_eq!(capacities(&and_then), [1000, 1000, 500, 500, 500, 500]);
    // Somewhat faster, and beyond its capacity still.
    let and_more = [&slower[..], &[(900, 330), (900, 425)]].concat();
    assert_eq!(capacities(&and_more), [1000, 1000, 500, 600, 600]);
    // As fast as ever: a window that serves more is enough.
    let and_again = [&slower[..], &[(600, 0), (1200, 0)]].concat();
    assert_eq!(capacities(&and_again), [1000, 1000, 500, 1000, 1200]);
    // It becomes slower still.
    let slower_yet = [&slower[..], &[(900, 710), (900, 710), (900, 805)]].concat();
    assert_eq!(capacities(&slower_yet), [1000, 1000, 500, 500, 500, 200]);
}

#[test]
fn k7_reported_requests_that_come_round_are_counted() {
    let terms = AdaptiveThreshold { is_probed: true, ..AdaptiveThreshold::of_ups(1000) };
    let of = |served, lost| LoadCounts { served, lost, ..LoadCounts::default() };
    // The sum comes round, and then what was served does.
    let mut average = LoadAverage::new(0, of(u64::MAX - 2000, 1500));
    average.observe(5 * SECOND, of(u64::MAX - 500, 1500), &terms);
    assert_near(average.load(), 0.3);
    average.observe(10 * SECOND, of(999, 1500), &terms);
    assert_near(average.load(), 0.3);
    // All that was reported comes to nothing: it was reported.
    let average = LoadAverage::new(0, of(u64::MAX, 1));
    assert!(average.is_of_requests);
}
