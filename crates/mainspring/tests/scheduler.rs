//! What the scheduler promises, with real threads. Nothing here depends on a fast or quiet machine: what must happen is
//! waited for, and what must not happen is prevented from ever happening.
#![cfg(feature = "std")]

use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use mainspring::cadence::Missed;
use mainspring::scheduler::{Cancelled, Group, OnPanic, Refused, Scheduler};
use mainspring::time::Clock;
use mainspring::timers::{Fired, Overlap, Plan};

const SOON: Duration = Duration::from_millis(2);
const NEVER: Duration = Duration::from_secs(100_000);
/// How long to wait for what must happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// A scheduler whose timers' values are sent to the receiver as they fire.
fn sending<T: Send + Clone + 'static>() -> (Scheduler<T>, Receiver<(T, Fired)>) {
    let (sender, receiver) = mpsc::channel();
    let sink = move |fired: &Fired, value: &mut T| drop(sender.send((value.clone(), *fired)));
    (Scheduler::builder().start(sink).expect("a thread"), receiver)
}

fn next<T>(receiver: &Receiver<T>) -> T {
    receiver.recv_timeout(PATIENCE).expect("what must happen, happens")
}

#[test]
fn a_timer_fires_once_at_or_after_its_deadline() {
    let (scheduler, fired) = sending();
    let before = scheduler.now();
    let timer = scheduler.after(SOON, 7).unwrap();
    let (value, told) = next(&fired);
    assert_eq!((value, told.number, told.missed), (7, 1, 0));
    assert!(told.nominal >= before.saturating_add(SOON) && told.actual >= told.nominal);
    while timer.is_armed() {
        std::thread::yield_now();
    }
    assert_eq!(timer.remaining(), None);
    assert_eq!(timer.cancel_and_wait(), Cancelled::AlreadyRun);
    assert_eq!(timer.cancel(), Cancelled::AlreadyRun);
}

#[test]
fn a_periodic_timer_keeps_its_grid_to_the_nanosecond() {
    let (scheduler, fired) = sending();
    let at_most = NonZeroU32::new(1_000_000).unwrap();
    let period = Duration::from_nanos(1_000_003);
    let _timer = scheduler.every(SOON, period, Missed::CatchUp { at_most }, ()).unwrap();
    let first = next(&fired).1;
    for n in 1..50 {
        let told = next(&fired).1;
        assert_eq!(told.nominal, first.nominal.saturating_add(period * n));
        assert_eq!(told.number, u64::from(n) + 1);
        assert!(told.actual >= told.nominal, "never early");
    }
}

#[test]
fn a_cancelled_timer_does_not_run_and_says_so_again() {
    let (scheduler, fired) = sending();
    let waiting = scheduler.after(NEVER, "cancelled").unwrap();
    let periodic = scheduler.every(NEVER, SOON, Missed::Skip, "cancelled too").unwrap();
    for _ in 0..3 {
        assert_eq!(waiting.cancel(), Cancelled::Prevented);
        assert_eq!(periodic.cancel_and_wait(), Cancelled::Prevented);
    }
    drop(scheduler.after(NEVER, "dropped").unwrap());
    scheduler.after(SOON, "detached").unwrap().detach();
    assert_eq!(next(&fired).0, "detached");
    assert!(scheduler.shutdown().is_empty(), "cancelled timers are not handed back");
    assert!(fired.try_recv().is_err());
}

#[test]
fn cancelling_a_running_callback_says_so_and_waiting_waits() {
    let (entered, has_entered) = mpsc::channel();
    let (leave, may_leave) = mpsc::channel::<()>();
    let returned = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&returned);
    let scheduler = Scheduler::builder()
        .start(move |_, (): &mut ()| {
            entered.send(()).unwrap();
            may_leave.recv().unwrap();
            count.fetch_add(1, Ordering::SeqCst);
        })
        .unwrap();
    let timer = scheduler.every(SOON, SOON, Missed::Skip, ()).unwrap();
    next(&has_entered);
    assert_eq!(timer.cancel(), Cancelled::Running);
    let waiter = std::thread::spawn(move || {
        let answer = timer.cancel_and_wait();
        (answer, returned.load(Ordering::SeqCst))
    });
    leave.send(()).unwrap();
    assert_eq!(waiter.join().unwrap(), (Cancelled::Running, 1), "it returned before the wait did");
    scheduler.shutdown();
    assert!(has_entered.try_recv().is_err(), "a cancelled timer ran again");
}

#[test]
fn a_callback_cancels_itself_without_waiting_for_itself() {
    let (sender, receiver) = mpsc::channel();
    let scheduler = Arc::new(Scheduler::closures().unwrap());
    let (give, take) = mpsc::channel::<mainspring::scheduler::Timer<_>>();
    let timer = scheduler
        .call_every(SOON, SOON, Missed::Skip, move |_| {
            let own = take.recv().unwrap();
            sender.send(own.cancel_and_wait()).unwrap();
        })
        .unwrap();
    give.send(timer).unwrap();
    assert_eq!(next(&receiver), Cancelled::Running);
}

#[test]
fn an_earlier_timer_wakes_a_thread_that_sleeps_for_a_later_one() {
    let (scheduler, fired) = sending();
    let _later = scheduler.after(NEVER, 0).unwrap();
    for round in 1..500 {
        scheduler.after(Duration::from_micros(50), round).unwrap().detach();
        assert_eq!(next(&fired).0, round);
    }
}

#[test]
fn a_panic_stops_no_other_timer_and_the_hook_decides_about_its_own() {
    for (on_panic, goes_on) in [(OnPanic::Continue, true), (OnPanic::Stop, false)] {
        let (sender, receiver) = mpsc::channel();
        let (report, reported) = mpsc::channel();
        let scheduler = Scheduler::builder()
            .on_panic(move |payload| {
                report.send(payload.downcast_ref::<&str>().copied()).unwrap();
                on_panic
            })
            .start(move |_, value: &mut u32| {
                if *value == 0 {
                    panic!("on purpose");
                }
                let _ = sender.send(*value);
            })
            .unwrap();
        let bad = scheduler.every(SOON, SOON, Missed::Skip, 0).unwrap();
        assert_eq!(next(&reported), Some("on purpose"));
        let _good = scheduler.every(SOON, SOON, Missed::Skip, 1).unwrap();
        for _ in 0..5 {
            assert_eq!(next(&receiver), 1);
        }
        if goes_on {
            assert_eq!(next(&reported), Some("on purpose"));
            assert!(bad.is_armed());
        } else {
            assert!(!bad.is_armed());
        }
        assert!(scheduler.metrics().panicked >= 1);
    }
}

/// A scheduler whose thread is inside a callback until the sender is used or dropped.
fn held(mailbox: usize) -> (Scheduler<u32>, Sender<()>) {
    let (release, released) = mpsc::channel::<()>();
    let entered = Arc::new(Barrier::new(2));
    let inside = Arc::clone(&entered);
    let scheduler = Scheduler::builder()
        .mailbox(mailbox)
        .start(move |_, value: &mut u32| {
            if *value == 0 {
                inside.wait();
                let _ = released.recv();
            }
        })
        .unwrap();
    scheduler.after(Duration::ZERO, 0).unwrap().detach();
    entered.wait();
    (scheduler, release)
}

#[test]
fn a_full_mailbox_hands_the_value_back_and_loses_nothing() {
    let (scheduler, release) = held(10);
    let mut timers = Vec::new();
    let refused = loop {
        match scheduler.after(NEVER, 1 + u32::try_from(timers.len()).unwrap()) {
            Ok(timer) => timers.push(timer),
            Err(refused) => break refused,
        }
    };
    assert_eq!((timers.len(), refused), (10, Refused::Full(11)));
    assert_eq!(timers[3].cancel(), Cancelled::Prevented, "cancelling needs no room");
    assert!(matches!(timers[4].change(Plan::after(SOON)), Err(Refused::Full(_))));
    assert!(matches!(timers[4].pause(), Err(Refused::Full(()))));
    drop(release);
    let mut left = scheduler.shutdown();
    left.sort_unstable();
    assert_eq!(left, [1, 2, 3, 5, 6, 7, 8, 9, 10]);
    assert_eq!(timers[5].cancel(), Cancelled::Prevented);
    assert!(matches!(timers[4].pause(), Err(Refused::Stopped(()))));
    assert!(matches!(timers[4].change(Plan::after(SOON)), Ok(false)), "it fires no more");
}

#[test]
fn from_inside_a_callback_the_mailbox_is_never_full() {
    let (sender, receiver) = mpsc::channel();
    let scheduler = Arc::new(Scheduler::builder().mailbox(1).closures().unwrap());
    let inside = Arc::clone(&scheduler);
    let many = 1_000;
    scheduler
        .call_after(SOON, move |_| {
            for number in 0..many {
                let sender = sender.clone();
                let send = move |_: &Fired| {
                    let _ = sender.send(number);
                };
                inside.call_after(Duration::ZERO, send).expect("never full").detach();
            }
        })
        .unwrap()
        .detach();
    for number in 0..many {
        assert_eq!(next(&receiver), number, "armed in this order for the same time");
    }
}

#[test]
fn shutdown_hands_back_all_that_had_still_to_fire() {
    let (scheduler, _fired) = sending();
    for value in 0..100 {
        scheduler.after(NEVER, value).unwrap().detach();
    }
    scheduler.after(Duration::MAX, 100).unwrap().detach();
    let mut left = scheduler.shutdown();
    left.sort_unstable();
    assert_eq!(left, (0..=100).collect::<Vec<_>>());
}

#[test]
fn a_scheduler_may_be_dropped_by_its_own_callback() {
    let (sender, receiver) = mpsc::channel();
    let scheduler = Scheduler::closures().unwrap();
    let (give, take) = mpsc::channel::<Scheduler<_>>();
    scheduler
        .call_after(SOON, move |_| {
            drop(take.recv());
            sender.send(()).unwrap();
        })
        .unwrap()
        .detach();
    give.send(scheduler).unwrap();
    next(&receiver);
}

#[test]
fn every_value_is_dropped_once_whatever_becomes_of_its_timer() {
    struct Counted(Arc<AtomicUsize>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let drops = Arc::new(AtomicUsize::new(0));
    let value = || Counted(Arc::clone(&drops));
    let scheduler = Scheduler::builder().start(|_, _: &mut Counted| {}).unwrap();
    let mut made = 0;
    for round in 0..300 {
        let timer = scheduler.after(if round % 2 == 0 { SOON } else { NEVER }, value()).unwrap();
        made += 1;
        match round % 3 {
            0 => drop(timer),
            1 => timer.detach(),
            _ => drop(timer.cancel_and_wait()),
        }
    }
    let left = scheduler.shutdown();
    drop(left);
    assert_eq!(drops.load(Ordering::SeqCst), made);
}

#[test]
fn a_group_ends_with_all_its_timers() {
    let (scheduler, fired) = sending();
    let mut group = Group::new();
    for value in 0..1_000 {
        group.add(scheduler.after(NEVER, value).unwrap());
    }
    assert_eq!((group.len(), group.cancel(), group.is_empty()), (1_000, 1_000, true));
    group.add(scheduler.after(NEVER, 0).unwrap());
    drop(group);
    assert!(scheduler.shutdown().is_empty());
    assert!(fired.try_recv().is_err());
}

#[test]
fn a_paused_timer_keeps_what_is_left_and_a_changed_one_follows_the_new_plan() {
    let (scheduler, fired) = sending();
    let timer = scheduler.after(NEVER, "it").unwrap();
    timer.pause().unwrap();
    timer.resume().unwrap();
    let left = timer.remaining().expect("it has still to fire");
    assert!(left <= NEVER && left > NEVER - PATIENCE);
    assert_eq!(timer.change(Plan::every(SOON, NEVER, Missed::Skip)), Ok(true));
    assert_eq!(next(&fired).0, "it");
    assert!(timer.is_armed());
}

#[test]
fn idle_costs_no_wake_ups() {
    let (scheduler, fired) = sending();
    let _later = scheduler.after(NEVER, 0).unwrap();
    scheduler.after(Duration::from_millis(300), 1).unwrap().detach();
    next(&fired);
    // One for the timer that fired, and a few for the messages that armed the two.
    let wakeups = scheduler.metrics().wakeups;
    assert!(wakeups <= 6, "{wakeups} wake-ups for two timers");
}

#[test]
fn cancelled_timers_hold_no_memory() {
    let (scheduler, _fired) = sending();
    for round in 0..200_000_u32 {
        while let Err(refused) = scheduler.after(NEVER, round).map(drop) {
            assert_eq!(refused, Refused::Full(round));
            std::thread::yield_now();
        }
    }
    let pending = scheduler.metrics().pending;
    assert!(pending <= 1 << 17, "{pending} timers are held after all were cancelled");
    assert!(scheduler.shutdown().is_empty());
}

/// Overlapping firings of one timer on a pool: (most at a time, firings started while the first was held).
fn overlap(policy: Overlap) -> (usize, usize) {
    let running = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    let (entered, has_entered) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let released = std::sync::Mutex::new(released);
    let (running_in, most_in) = (Arc::clone(&running), Arc::clone(&most));
    let first_seen = AtomicBool::new(false);
    let threads = NonZeroUsize::new(3).unwrap();
    let scheduler = Scheduler::builder()
        .start_pool(threads, move |fired, (): &()| {
            let now = running_in.fetch_add(1, Ordering::SeqCst) + 1;
            most_in.fetch_max(now, Ordering::SeqCst);
            entered.send(fired.number).unwrap();
            if !first_seen.swap(true, Ordering::SeqCst) {
                let _ = released.lock().unwrap().recv();
            }
            running_in.fetch_sub(1, Ordering::SeqCst);
        })
        .unwrap();
    let timer = scheduler.arm(Plan::every(SOON, SOON, Missed::Skip).overlap(policy), ()).unwrap();
    next(&has_entered);
    // Long enough for many periods to fall due; the thread counts them as missed, or starts them.
    let mut started = 0;
    let begin = mainspring::clock::Monotonic.now();
    while mainspring::clock::Monotonic.now().saturating_duration_since(begin) < PATIENCE {
        if policy == Overlap::Allow {
            next(&has_entered);
            started += 1;
        }
        if started >= 5 || policy != Overlap::Allow && scheduler.metrics().missed >= 5 {
            break;
        }
        std::thread::yield_now();
    }
    release.send(()).unwrap();
    next(&has_entered);
    timer.cancel_and_wait();
    scheduler.shutdown();
    (most.load(Ordering::SeqCst), started)
}

#[test]
fn callbacks_of_one_timer_overlap_as_the_policy_says() {
    assert_eq!(overlap(Overlap::Skip).0, 1);
    assert_eq!(overlap(Overlap::QueueOne).0, 1);
    let (most, started) = overlap(Overlap::Allow);
    assert!(most >= 2 && started >= 5);
}

#[test]
fn a_pool_runs_all_firings_and_answers_truthfully() {
    let (sender, receiver) = mpsc::channel();
    let sender = std::sync::Mutex::new(sender);
    let threads = NonZeroUsize::new(2).unwrap();
    let scheduler = Scheduler::builder()
        .start_pool(threads, move |_, value: &u32| sender.lock().unwrap().send(*value).unwrap())
        .unwrap();
    let many = 5_000;
    let timers: Vec<_> = (0..many).map(|n| scheduler.after(SOON, n).unwrap()).collect();
    let prevented: Vec<u32> = (0..many)
        .filter(|n| n % 7 == 0)
        .filter(|&n| timers[n as usize].cancel_and_wait() == Cancelled::Prevented)
        .collect();
    let mut ran: Vec<u32> = (0..many as usize - prevented.len()).map(|_| next(&receiver)).collect();
    ran.sort_unstable();
    let expected: Vec<u32> = (0..many).filter(|n| !prevented.contains(n)).collect();
    assert_eq!(ran, expected, "those prevented did not run, all others did, once");
    scheduler.shutdown();
    assert!(receiver.try_recv().is_err());
}
