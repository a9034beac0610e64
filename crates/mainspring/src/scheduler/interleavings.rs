//! Every interleaving of the mailbox, of parking, and of the word that decides cancellations, with the production types.
//! Run by `scripts/loom`.

use alloc::vec::Vec;

use loom::thread;

use super::mailbox::{Mailbox, Refusal};
use super::state::{Cancelled, State};
use crate::sync::Arc;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::time::Instant;
use crate::timers::TimerKey;

const FAR: u64 = 1_000;
const NEAR: u64 = 10;

/// Takes what has come; sleeps without a time limit if there is nothing, so that a lost wake-up is a deadlock.
fn receive(mailbox: &Mailbox<u32>, until: u64) -> (Vec<u32>, Vec<TimerKey>) {
    let (mut messages, mut cancelled) = (Vec::new(), Vec::new());
    loop {
        mailbox.take(&mut messages, &mut cancelled);
        if !messages.is_empty() || mailbox.is_stopped() {
            return (messages, cancelled);
        }
        mailbox.sleep(until, |woken, wake| drop(woken.wait(wake)));
    }
}

#[test]
fn an_earlier_message_is_never_missed_by_a_thread_that_parks() {
    loom::model(|| {
        let mailbox = Arc::new(Mailbox::new(4));
        let sender = Arc::clone(&mailbox);
        let sending = thread::spawn(move || sender.send(0, 7, NEAR).unwrap());
        assert_eq!(receive(&mailbox, FAR).0, [7]);
        sending.join().unwrap();
    });
}

#[test]
fn a_full_half_wakes_even_for_messages_that_could_wait() {
    loom::model(|| {
        let mailbox = Arc::new(Mailbox::new(2));
        let sender = Arc::clone(&mailbox);
        let sending = thread::spawn(move || sender.send(0, 7, FAR + 1).unwrap());
        assert_eq!(receive(&mailbox, FAR).0, [7]);
        sending.join().unwrap();
    });
}

#[test]
fn a_message_is_taken_or_refused_but_never_lost_at_the_end() {
    loom::model(|| {
        let mailbox = Arc::new(Mailbox::new(4));
        let sender = Arc::clone(&mailbox);
        let sending = thread::spawn(move || match sender.send(0, 7, NEAR) {
            Ok(()) => true,
            Err(Refusal::Stopped(7)) => false,
            Err(other) => panic!("{other:?}"),
        });
        let stopper = Arc::clone(&mailbox);
        let stopping = thread::spawn(move || stopper.stop());
        let (mut messages, mut cancelled) = (Vec::new(), Vec::new());
        while !mailbox.is_stopped() {
            mailbox.take(&mut messages, &mut cancelled);
            mailbox.sleep(FAR, |woken, wake| drop(woken.wait(wake)));
        }
        mailbox.close();
        mailbox.take(&mut messages, &mut cancelled);
        stopping.join().unwrap();
        assert_eq!(sending.join().unwrap(), messages == [7]);
    });
}

#[test]
fn either_the_callback_runs_or_the_cancellation_prevents_it() {
    loom::model(|| {
        let state = Arc::new(State::new(Instant::ORIGIN));
        let ran = Arc::new(AtomicUsize::new(0));
        let (theirs, count) = (Arc::clone(&state), Arc::clone(&ran));
        let firing = thread::spawn(move || {
            if theirs.start() {
                count.fetch_add(1, Ordering::SeqCst);
                theirs.finish(true);
            }
        });
        let (answer, is_first) = state.cancel();
        let (again, is_first_again) = state.cancel();
        assert!(!is_first_again);
        firing.join().unwrap();
        let ran = ran.load(Ordering::SeqCst);
        match answer {
            Cancelled::Prevented => assert_eq!((ran, is_first), (0, true)),
            Cancelled::Running => assert_eq!((ran, is_first), (1, true)),
            Cancelled::AlreadyRun => assert_eq!((ran, is_first), (1, false)),
        }
        assert_eq!(answer, again, "asked again, the first answer");
        assert_eq!(state.cancel().0, answer);
    });
}

#[test]
fn of_two_that_cancel_one_is_first_and_both_say_the_same() {
    loom::model(|| {
        let state = Arc::new(State::new(Instant::ORIGIN));
        let theirs = Arc::clone(&state);
        let other = thread::spawn(move || theirs.cancel());
        let (mine, is_mine) = state.cancel();
        let (their, is_their) = other.join().unwrap();
        assert_eq!((mine, their), (Cancelled::Prevented, Cancelled::Prevented));
        assert!(is_mine != is_their);
    });
}

#[test]
fn a_timer_cancelled_while_it_is_armed_is_noticed_by_one_of_the_two() {
    let key = TimerKey::from_bits(1 << 32 | 5).unwrap();
    loom::model(move || {
        let state = Arc::new(State::new(Instant::ORIGIN));
        let theirs = Arc::clone(&state);
        let arming = thread::spawn(move || theirs.armed(key));
        assert_eq!(state.cancel(), (Cancelled::Prevented, true));
        let canceller_knows = state.key() == Some(key);
        let thread_knows = !arming.join().unwrap();
        assert!(canceller_knows || thread_knows, "nobody takes the timer's memory back");
    });
}

#[test]
fn the_last_handle_may_go_while_the_thread_parks() {
    let key = TimerKey::from_bits(1 << 32 | 5).unwrap();
    loom::model(move || {
        let mailbox = Arc::new(Mailbox::<u32>::new(4));
        let state = Arc::new(State::new(Instant::ORIGIN));
        assert!(state.armed(key));
        let (theirs, last) = (Arc::clone(&mailbox), Arc::clone(&state));
        let dropping = thread::spawn(move || {
            // What dropping a handle does; then the scheduler is stopped.
            assert_eq!(last.cancel(), (Cancelled::Prevented, true));
            theirs.cancelled(0, key);
            theirs.stop();
        });
        let (_, mut cancelled) = receive(&mailbox, FAR);
        dropping.join().unwrap();
        mailbox.close();
        mailbox.take(&mut Vec::new(), &mut cancelled);
        assert_eq!(cancelled, [key]);
        assert!(!state.start(), "a cancelled timer does not fire");
    });
}
