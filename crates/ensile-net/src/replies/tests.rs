//! Order of replies, and their limits.
use super::ReplyQueue;
use crate::event::ConnectionId;
use crate::limits::NetLimits;

const ID: ConnectionId = ConnectionId { index: 3, generation: 5 };

fn queue(unsent_bytes_max: usize, parked_max: usize) -> ReplyQueue {
    let limits = NetLimits { unsent_bytes_max, parked_max, ..NetLimits::default() };
    ReplyQueue::new(ID, &limits)
}

fn put(text: &str) -> impl FnOnce(&mut Vec<u8>) {
    move |buffer| buffer.extend_from_slice(text.as_bytes())
}

#[test]
fn replies_go_in_the_order_of_their_places() {
    let mut replies = queue(1000, 10);
    replies.reply(put("a"));
    let b = replies.reserve(0);
    replies.reply(put("c"));
    let d = replies.reserve(0);
    let e = replies.reserve(0);
    replies.reply(put("f"));
    assert_eq!((replies.to_send(), replies.deferred_count(), replies.unsent_bytes()), (&b"a"[..], 5, 3));
    replies.fill(e.number, put("e"));
    assert_eq!(replies.to_send(), b"a");
    replies.fill(b.number, put("b"));
    assert_eq!(replies.to_send(), b"abc");
    replies.mark_sent(2);
    replies.fill(d.number, put("d"));
    assert_eq!((replies.to_send(), replies.deferred_count()), (&b"cdef"[..], 0));
    replies.mark_sent(4);
    assert!(replies.is_empty());
    replies.reply(put("g"));
    let h = replies.reserve(0);
    replies.fill(h.number, put("h"));
    assert_eq!((replies.to_send(), replies.unsent_bytes()), (&b"gh"[..], 2));
}

#[test]
fn a_full_queue_turns_away_until_there_is_room() {
    let mut replies = queue(10, 2);
    assert!(replies.has_room() && !replies.takes_again());
    let (a, b) = (replies.reserve(0), replies.reserve(0));
    assert!(!replies.has_room());
    assert!(!replies.takes_again());
    replies.fill(a.number, put("123456"));
    assert!(!replies.takes_again(), "more than half of the bytes wait");
    replies.mark_sent(1);
    assert!(!replies.has_room(), "it was turned away, and is told when there is room");
    assert!(replies.takes_again() && !replies.takes_again());
    assert!(replies.has_room());
    replies.fill(b.number, put("78901"));
    assert!(!replies.is_beyond());
    replies.reply(put("2"));
    assert!(replies.is_beyond());
    assert_eq!(replies.to_send(), b"", "nothing follows what is missing");
    let c = replies.reserve(0);
    replies.reply(put("x"));
    replies.fill(c.number, put("y"));
    assert_eq!((replies.to_send(), replies.unsent_bytes()), (&b""[..], 0));
}

#[test]
fn much_that_was_sent_is_let_go() {
    let mut replies = queue(usize::MAX, 2);
    replies.reply(|buffer| buffer.resize(1 << 20, 7));
    replies.mark_sent(1 << 19);
    assert!(replies.sending.len() == 1 << 19 && replies.to_send().len() == 1 << 19);
    replies.mark_sent(1 << 19);
    assert!(replies.sending.capacity() <= ReplyQueue::KEEP_BYTES);
}

#[test]
fn what_is_kept_for_a_place_counts_until_it_is_told() {
    let mut replies = queue(100, 10);
    let (a, b) = (replies.reserve(40), replies.reserve(20));
    assert_eq!(replies.unsent_bytes(), 60);
    assert!(!replies.has_room(), "W2: more than half of the bytes are kept");
    replies.fill(b.number, put("12345678901234567890"));
    assert_eq!(replies.unsent_bytes(), 60);
    replies.fill(a.number, put("short"));
    assert_eq!((replies.to_send().len(), replies.unsent_bytes()), (25, 25));
    assert!(replies.takes_again() && replies.has_room());
}

#[test]
fn w15_a_panic_behind_an_open_place_ends_the_stream() {
    let mut replies = queue(100, 10);
    replies.reply(put("a"));
    let (_open, behind) = (replies.reserve(0), replies.reserve(0));
    replies.fill(behind.number, |_| std::panic::resume_unwind(Box::new("the owner's bug")));
    assert!(replies.has_panicked() && replies.is_beyond(), "W15");
    assert_eq!(replies.to_send(), b"", "W15: nothing follows what is missing");
    assert_eq!(replies.take_panic().as_deref(), Some("the owner's bug"));
}

#[test]
fn replies_that_wait_and_the_one_that_is_not_sent_whole_are_unheard() {
    let mut replies = queue(100, 10);
    assert_eq!(replies.unheard(), 0);
    replies.reply(put("first"));
    replies.reply(put("second"));
    assert_eq!(replies.unheard(), 1, "of those that are told, one");
    let slot = replies.reserve(0);
    replies.reply(put("third"));
    assert_eq!(replies.unheard(), 3);
    replies.mark_sent("firstsecond".len());
    assert_eq!(replies.unheard(), 2);
    replies.fill(slot.number, put(""));
    replies.mark_sent("third".len());
    assert_eq!(replies.unheard(), 0);
}

#[test]
fn w16_a_client_that_takes_most_of_a_large_reply_leaves_no_room_behind_it() {
    let mut replies = queue(64 << 20, 10);
    replies.reply(|buffer| buffer.resize(32 << 20, b'x'));
    while replies.to_send().len() > 1000 {
        replies.mark_sent(replies.to_send().len().div_ceil(2));
    }
    let (room, left) = (replies.memory_bytes(), replies.to_send().len());
    assert!(room <= 2 * left.max(ReplyQueue::KEEP_BYTES), "W16: {room} bytes, of which {left} wait");
}

#[test]
fn w16_places_of_many_replies_are_given_back_once_they_are_told() {
    let mut replies = queue(1 << 20, 1 << 20);
    let slots: Vec<_> = (0..50_000).map(|_| replies.reserve(0)).collect();
    let (last, others) = slots.split_last().expect("there are some");
    others.iter().for_each(|slot| replies.fill(slot.number, put("x")));
    replies.mark_sent(replies.to_send().len());
    let room = replies.waiting.capacity();
    assert!(room <= 2 * ReplyQueue::KEEP_PLACES, "W16: {room} places");
    replies.fill(last.number, put("x"));
}

#[test]
fn a_written_reply_keeps_its_place_whatever_its_length() {
    let mut replies = queue(1 << 20, 10);
    for (number, length) in [1, 100_000, 3, 100_000, 50_000].into_iter().enumerate() {
        let mut written = vec![number as u8; length];
        let place = (number == 3).then(|| replies.reserve(0));
        replies.reply_written(&mut written);
        assert!(written.is_empty(), "{number}");
        if let Some(place) = place {
            replies.fill(place.number, put("before the fourth"));
        }
        if number == 1 {
            assert_eq!(replies.to_send().len(), 100_001);
            replies.mark_sent(100_001);
        }
    }
    let sent: Vec<u8> = replies.to_send().to_vec();
    let wanted = [&[2; 3][..], b"before the fourth", &[3; 100_000], &[4; 50_000]].concat();
    assert!(sent == wanted, "{} bytes", sent.len());
    replies.mark_sent(sent.len());
    let mut long = vec![7; 40_000];
    replies.reply_written(&mut long);
    assert!(replies.to_send() == [7; 40_000] && replies.deferred_count() == 0 && long.is_empty());
}
