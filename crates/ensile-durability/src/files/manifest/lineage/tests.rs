//! The line, what is remembered, and which lineage is behind another one.

use super::*;
use crate::files::manifest::generation::Generation;
use crate::samples;

fn generation(number: u64, salt: &str) -> Generation {
    Generation { salt: samples::salt(salt), ..samples::generation(number, number, None) }
}

fn ended(number: u64, salt: &str, durable: u64) -> Generation {
    Generation { durable: Some(Epoch::new(durable)), ..generation(number, salt) }
}

fn of(generations: &[(u64, &str)]) -> Lineage {
    let mut lineage = Lineage::default();
    let generations: Vec<_> = generations.iter().map(|(number, salt)| generation(*number, salt)).collect();
    lineage.add(generations.iter());
    lineage
}

#[test]
fn what_is_written_is_read_and_nothing_else() {
    let mut lineage = of(&[(1, "1a2b3c4d"), (2, "5e6f7a8b"), (7, "00000001")]);
    let line = lineage.to_string();
    assert_eq!(line, "lineage 1:1a2b3c4d,2:5e6f7a8b,7:00000001");
    assert_eq!(Lineage::parse(&line), Some(lineage.clone()));
    lineage.add([ended(1, "1a2b3c4d", 0), ended(2, "5e6f7a8b", 66)].iter());
    let line = lineage.to_string();
    assert_eq!(line, "lineage 1:1a2b3c4d:0,2:5e6f7a8b:66,7:00000001");
    assert_eq!(Lineage::parse(&line), Some(lineage));
    for wrong in [
        "lineage ",
        "lineage",
        "lineage 1",
        "lineage 1:",
        "lineage 0:1a2b3c4d",
        "lineage 1:1a2b3c4d,",
        "lineage 1:1a2b3c4d, 2:5e6f7a8b",
        "lineage 2:1a2b3c4d,1:5e6f7a8b",
        "lineage 1:1a2b3c4d,1:1a2b3c4d",
        "lineage 1:00000000",
        "lineage 1:1a2b3c4",
        "lineage 9223372036854775808:1a2b3c4d",
        "lineage 1:1a2b3c4d:",
        "lineage 1:1a2b3c4d:x",
        "lineage 1:1a2b3c4d:66:66",
    ] {
        assert_eq!(Lineage::parse(wrong), None, "{wrong}");
    }
}

#[test]
fn n23_the_newest_generations_are_remembered() {
    let mut lineage = Lineage::default();
    let all: Vec<_> = (1..=LINEAGE_MAX as u64 + 5).map(|number| generation(number, "1a2b3c4d")).collect();
    lineage.add(all.iter());
    let line = lineage.to_string();
    assert!(line.starts_with("lineage 6:1a2b3c4d,7:"), "{}", &line[..40]);
    assert!(line.ends_with(&format!(",{}:1a2b3c4d", LINEAGE_MAX + 5)));
    assert_eq!(Lineage::parse(&line).as_ref(), Some(&lineage));
    assert_eq!(Lineage::parse(&line.replacen("lineage ", "lineage 5:1a2b3c4d,", 1)), None, "one too many");
    // One that had begun as another database goes on with its own.
    lineage.add([generation(9, "5e6f7a8b")].iter());
    assert!(lineage.to_string().contains(",8:1a2b3c4d,9:5e6f7a8b,10:1a2b3c4d,"));
}

#[test]
fn n23_a_history_that_has_gone_on_otherwise_or_ended_before_the_state_is_told_apart() {
    let before = of(&[(1, "00000001"), (2, "00000002")]);
    let another = Err(NotBehind::Another { generation: 2 });
    for (now, answer) in [
        (of(&[(1, "00000001"), (2, "00000002")]), Ok(())),
        (of(&[(1, "00000001"), (2, "00000002"), (9, "00000009")]), Ok(())),
        (of(&[(2, "00000002"), (9, "00000009")]), Ok(())),
        (of(&[(1, "00000001")]), another),
        (of(&[(1, "00000001"), (2, "0000000a")]), another),
        (of(&[(1, "00000001"), (2, "0000000a"), (9, "00000009")]), another),
        // Its number was skipped there.
        (of(&[(1, "00000001"), (3, "00000002")]), another),
        (Lineage::default(), another),
    ] {
        assert_eq!(now.check_continues(&before), answer, "{now}");
        assert_eq!(now.check_continues(&Lineage::default()), Ok(()), "a version before this one wrote it");
    }
    let mut before = of(&[(1, "00000001")]);
    before.add([ended(2, "00000002", 60)].iter());
    let ended_before = Err(NotBehind::Ended { generation: 2, durable: Epoch::new(59) });
    for (durable, answer) in [(59, ended_before), (60, Ok(())), (61, Ok(()))] {
        let mut now = of(&[(3, "00000003")]);
        now.add([ended(1, "00000001", 5), ended(2, "00000002", durable)].iter());
        assert_eq!(now.check_continues(&before), answer);
    }
    assert_eq!(of(&[(1, "00000001"), (2, "00000002")]).check_continues(&before), Ok(()), "it is open");
    let mut another = of(&[(1, "00000001")]);
    another.add([ended(2, "0000000a", 70)].iter());
    assert_eq!(another.check_continues(&before), Err(NotBehind::Another { generation: 2 }));
    let before = of(&[(1, "00000001"), (2, "00000002")]);
    assert_eq!(of(&[(3, "00000003"), (9, "00000009")]).check_continues(&before), Ok(()));
    let mut opened_often = before.clone();
    let all: Vec<_> = (3..LINEAGE_MAX as u64 + 3).map(|number| generation(number, "00000001")).collect();
    opened_often.add(all.iter());
    assert_eq!(opened_often.check_continues(&before), Ok(()));
}

#[test]
fn n23_a_states_lineage_ends_with_it() {
    let mut lives = of(&[(3, "00000003")]);
    lives.add([ended(1, "00000001", 5), ended(2, "00000002", 60)].iter());
    for (generation, epoch, line) in [
        (3, 70, "lineage 1:00000001:5,2:00000002:60,3:00000003:70"),
        (2, 50, "lineage 1:00000001:5,2:00000002:50"),
        // Nothing was durable behind it.
        (2, 69, "lineage 1:00000001:5,2:00000002:60"),
        (1, 5, "lineage 1:00000001:5"),
    ] {
        let until = lives.clone().truncate_at(generation, Epoch::new(epoch));
        assert_eq!(until.to_string(), line);
        assert_eq!(lives.check_continues(&until), Ok(()));
    }
    assert!(lives.truncate_at(0, Epoch::new(4)).is_empty());
}

/// A backup whose newest state, of epoch 70, was taken in generation 5.
fn backed_up() -> Lineage {
    let mut lineage = Lineage::default();
    let lives = [ended(2, "00000002", 30), ended(3, "00000003", 50), ended(5, "00000005", 80)];
    lineage.add(lives.iter());
    lineage.truncate_at(5, Epoch::new(70))
}

#[test]
fn a4_an_archive_of_the_same_history_is_known_and_one_of_another_history_is_told() {
    let listed = [
        // Older than all that is remembered.
        ended(1, "77777777", 9),
        ended(2, "00000002", 30),
        // 3 was merged before the archive was begun, or left no entry.
        ended(5, "00000005", 80),
        Generation { first: Epoch::new(90), ..generation(6, "00000006") },
    ];
    for from in 0..listed.len() {
        for to in from..=listed.len() {
            assert_eq!(backed_up().check_archive_history(&listed[from..to]), Ok(()), "{from} to {to}");
        }
    }
    // What is open has ended nowhere yet.
    assert_eq!(backed_up().check_archive_history(&[generation(5, "00000005")]), Ok(()));
    assert_eq!(backed_up().check_archive_history(&[ended(5, "00000005", 70)]), Ok(()));
    assert_eq!(
        Lineage::default().check_archive_history(&[generation(5, "77777777")]),
        Ok(()),
        "it remembers nothing"
    );
    let later = |first| Generation { first: Epoch::new(first), ..generation(6, "00000006") };
    for (at, other) in [
        (3, ended(3, "77777777", 50)),
        (3, ended(3, "00000003", 51)),
        (3, ended(3, "00000003", 49)),
        // It had no generation of this number.
        (4, ended(4, "00000004", 60)),
        (5, ended(5, "77777777", 80)),
        (5, generation(5, "77777777")),
        (5, ended(5, "00000005", 69)),
        // It begins before the state.
        (6, later(70)),
        (6, later(60)),
    ] {
        assert_eq!(backed_up().check_archive_history(std::slice::from_ref(&other)), Err(at), "{other}");
        let listed = [ended(2, "00000002", 30), other.clone()];
        assert_eq!(backed_up().check_archive_history(&listed), Err(at), "{other}");
    }
    assert_eq!(backed_up().check_archive_history(&[later(71)]), Ok(()));
}
