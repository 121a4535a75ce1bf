//! Marks that go from attempt to attempt.

use super::*;
use crate::pictures::pending_removes::PageMarks;

/// What each attempt carries over, when this is what was wanted and what came of it.
fn carried(attempts: &[(WantedPages, Outcome)]) -> Vec<Option<PageMarks>> {
    let mut all = PictureAttempts::default();
    let carried = attempts.iter().map(|(wanted, outcome)| {
        let attempt = all.begin(*wanted);
        let carried = all.marks_to_carry();
        let is_published = *outcome != Outcome::NotPublished && all.may_publish(attempt);
        if is_published && *outcome != Outcome::NotCarriedOver {
            all.note_carried_over(attempt);
        }
        if *outcome == Outcome::Installed {
            all.note_installed(attempt);
        }
        assert_eq!(all.goes_on(attempt), is_published);
        assert!(all.end().is_some() == is_published && !all.goes_on(attempt));
        carried
    });
    carried.collect()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    NotPublished,
    NotCarriedOver,
    Failed,
    Installed,
}

#[test]
fn n13_an_attempt_carries_over_what_no_installed_picture_has() {
    use Outcome::*;
    use WantedPages::{All, Changed};
    let (both, after) = (Some(PageMarks::BOTH), Some(PageMarks::AFTER));
    assert_eq!(
        carried(&[(Changed, Installed), (Changed, Installed)]),
        [None, after],
        "the first has no maps"
    );
    assert_eq!(carried(&[(All, Failed), (Changed, Failed), (Changed, Installed)]), [None, both, both]);
    assert_eq!(carried(&[(All, Installed), (Changed, Failed), (Changed, Installed)]), [None, after, both]);
    assert_eq!(carried(&[(All, Installed), (All, Installed), (Changed, Failed)]), [None, None, after]);
    for without_marks in [NotPublished, NotCarriedOver] {
        let attempts = [(All, Installed), (Changed, without_marks), (Changed, Installed), (Changed, Failed)];
        assert_eq!(carried(&attempts), [None, after, None, after]);
    }
    assert_eq!(
        carried(&[(All, NotCarriedOver), (Changed, Failed)]),
        [None, both],
        "all of its pages are marked"
    );
}

#[test]
fn n13_a_picture_that_is_installed_late_lets_no_mark_of_the_next_one_go() {
    let mut all = PictureAttempts::default();
    let first = all.begin(WantedPages::All);
    assert!(all.may_publish(first) && all.end() == Some(first));
    let second = all.begin(WantedPages::Changed);
    assert_eq!(all.marks_to_carry(), Some(PageMarks::BOTH), "nobody has heard of it");
    all.note_installed(first);
    assert!(all.may_publish(second));
    all.note_carried_over(second);
    all.end();
    all.begin(WantedPages::Changed);
    assert_eq!(all.marks_to_carry(), Some(PageMarks::BOTH), "the second is not installed");
}

#[test]
fn n13_marks_that_an_attempt_has_missed_are_carried_over_once_no_commit_has_an_older_map() {
    let mut attempts = PictureAttempts::behind_load();
    assert_eq!(attempts.marks_missed(Epoch::MAX), None, "behind a load nothing was missed");
    for due in [10, 20] {
        let attempt = attempts.begin(WantedPages::Changed);
        assert_eq!(
            attempts.marks_to_carry(),
            Some(PageMarks::BOTH),
            "what was loaded has marks that nobody has written"
        );
        assert!(attempts.may_publish(attempt));
        attempts.note_published(attempt, Epoch::new(due - 2));
        assert_eq!(attempts.marks_missed(Epoch::new(due)), None, "it goes on");
        attempts.end();
        assert_eq!(attempts.marks_missed(Epoch::new(due - 1)), None, "a commit may have the map before");
        assert_eq!(attempts.marks_missed(Epoch::new(due)), Some(PageMarks::BOTH));
        attempts.note_caught_up();
        assert_eq!(attempts.marks_missed(Epoch::new(due)), None);
    }
    // Too early, and then the one behind has all pages.
    let attempt = attempts.begin(WantedPages::Changed);
    assert!(attempts.may_publish(attempt));
    attempts.note_published(attempt, Epoch::new(30));
    attempts.end();
    let last = attempts.begin(WantedPages::Changed);
    assert_eq!(attempts.marks_to_carry(), None);
    attempts.note_published(attempt, Epoch::new(31));
    assert!(attempts.may_publish(last));
    attempts.end();
    assert_eq!(attempts.marks_missed(Epoch::MAX), None, "of an older one, or all are marked");
}
