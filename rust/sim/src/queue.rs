//! The queue of pending events.
//!
//! Models nothing but order: events leave by time, and same-time events leave in the order they were scheduled. The
//! order depends on nothing else, so it is the same on every machine. Events cannot be withdrawn; a component that
//! changes its mind lets the stale event come and ignores it.
//!
//! A four-way heap over small keys, with the events beside them in a slab: sifting moves 16 bytes however large an
//! event is, and a level of four children lies in one cache line.

use crate::error::LimitError;
use crate::time::Picos;

/// How far a run may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most events that may run.
    pub events_max: u64,
    /// The last moment at which an event may run.
    pub time_max: Picos,
}

impl Limits {
    /// No limit: the run ends when its events do.
    pub const NONE: Limits = Limits { events_max: u64::MAX, time_max: Picos::MAX };
}

impl Default for Limits {
    fn default() -> Limits {
        Limits::NONE
    }
}

/// Order of leaving: time first, then the order of scheduling; `slot` is where the event lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    time: Picos,
    order: u64,
    slot: u32,
}

impl Key {
    #[inline]
    fn rank(self) -> u128 {
        u128::from(self.time.0) << 64 | u128::from(self.order)
    }
}

const ARITY: usize = 4;

/// Pending events, earliest first.
#[derive(Clone, Debug)]
pub struct EventQueue<E> {
    heap: Vec<Key>,
    slots: Vec<Option<E>>,
    free: Vec<u32>,
    scheduled: u64,
    popped: u64,
    now: Picos,
    limits: Limits,
}

impl<E> Default for EventQueue<E> {
    fn default() -> Self {
        EventQueue::new(Limits::NONE)
    }
}

impl<E> EventQueue<E> {
    /// An empty queue at time zero.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        EventQueue {
            heap: Vec::new(),
            slots: Vec::new(),
            free: Vec::new(),
            scheduled: 0,
            popped: 0,
            now: Picos::ZERO,
            limits,
        }
    }

    /// Time of the last event that left.
    #[must_use]
    pub fn now(&self) -> Picos {
        self.now
    }

    /// Number of pending events.
    #[must_use]
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether nothing is pending.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// Number of events that have left.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.popped
    }

    /// The limits in force.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Replaces the limits; a run that stopped at one can go on.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Time of the next event.
    #[must_use]
    pub fn next_time(&self) -> Option<Picos> {
        self.heap.first().map(|key| key.time)
    }

    /// Schedules `event` for the moment `at`.
    ///
    /// # Panics
    ///
    /// If `at` has passed, or 2³² events are pending.
    #[inline]
    pub fn schedule(&mut self, at: Picos, event: E) {
        assert!(at >= self.now, "event scheduled for {at}, which has passed: it is {}", self.now);
        let slot = if let Some(slot) = self.free.pop() {
            self.slots[slot as usize] = Some(event);
            slot
        } else {
            self.slots.push(Some(event));
            u32::try_from(self.slots.len() - 1).expect("fewer than 2^32 events are pending")
        };
        let key = Key { time: at, order: self.scheduled, slot };
        self.scheduled += 1;
        self.heap.push(key);
        self.sift_up(self.heap.len() - 1);
    }

    /// Schedules `event` for `delay` from now.
    ///
    /// # Panics
    ///
    /// As [`EventQueue::schedule`], and past the end of time.
    pub fn schedule_after(&mut self, delay: Picos, event: E) {
        self.schedule(self.now + delay, event);
    }

    /// Takes the next event; `None` when nothing is pending.
    ///
    /// # Errors
    ///
    /// [`LimitError`] if running the next event would cross a limit; the event stays.
    #[inline]
    pub fn pop(&mut self) -> Result<Option<(Picos, E)>, LimitError> {
        let Some(&Key { time, slot, .. }) = self.heap.first() else {
            return Ok(None);
        };
        if time > self.limits.time_max {
            return Err(LimitError::Time { time_max: self.limits.time_max, next: time });
        }
        if self.popped >= self.limits.events_max {
            return Err(LimitError::Events { events_max: self.limits.events_max, now: self.now });
        }
        let last = self.heap.pop().expect("the heap has a first key");
        if !self.heap.is_empty() {
            self.sift_down(last);
        }
        self.free.push(slot);
        self.popped += 1;
        self.now = time;
        let event = self.slots[slot as usize].take().expect("a pending key has its event");
        Ok(Some((time, event)))
    }

    /// Takes the next event if it is due by `until`.
    ///
    /// # Errors
    ///
    /// As [`EventQueue::pop`].
    pub fn pop_until(&mut self, until: Picos) -> Result<Option<(Picos, E)>, LimitError> {
        match self.next_time() {
            Some(time) if time <= until => self.pop(),
            _ => Ok(None),
        }
    }

    fn sift_up(&mut self, mut at: usize) {
        let key = self.heap[at];
        while at > 0 {
            let parent = (at - 1) / ARITY;
            if self.heap[parent].rank() <= key.rank() {
                break;
            }
            self.heap[at] = self.heap[parent];
            at = parent;
        }
        self.heap[at] = key;
    }

    /// Puts `key` in at the root, whose own key has left, and lets it sink.
    fn sift_down(&mut self, key: Key) {
        let mut at = 0;
        let count = self.heap.len();
        loop {
            let first = at * ARITY + 1;
            if first >= count {
                break;
            }
            let mut least = first;
            let mut least_rank = self.heap[first].rank();
            for child in first + 1..(first + ARITY).min(count) {
                let rank = self.heap[child].rank();
                if rank < least_rank {
                    (least, least_rank) = (child, rank);
                }
            }
            if key.rank() <= least_rank {
                break;
            }
            self.heap[at] = self.heap[least];
            at = least;
        }
        self.heap[at] = key;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn drain<E>(queue: &mut EventQueue<E>) -> Vec<(u64, E)> {
        std::iter::from_fn(|| queue.pop().expect("no limit is near")).map(|(t, e)| (t.0, e)).collect()
    }

    #[test]
    fn same_time_events_leave_in_scheduling_order() {
        let mut queue = EventQueue::default();
        for (at, event) in [(5, 'a'), (3, 'b'), (5, 'c'), (3, 'd'), (0, 'e')] {
            queue.schedule(Picos(at), event);
        }
        assert_eq!(queue.next_time(), Some(Picos(0)));
        assert_eq!(drain(&mut queue), [(0, 'e'), (3, 'b'), (3, 'd'), (5, 'a'), (5, 'c')]);
        assert_eq!((queue.events(), queue.now(), queue.len()), (5, Picos(5), 0));
    }

    #[test]
    fn an_event_is_not_due_one_picosecond_early() {
        let mut queue = EventQueue::default();
        queue.schedule(Picos(100), ());
        assert_eq!(queue.pop_until(Picos(99)), Ok(None));
        assert_eq!(queue.pop_until(Picos(100)), Ok(Some((Picos(100), ()))));
    }

    #[test]
    fn the_limit_of_events_stops_a_loop_and_can_be_raised() {
        let mut queue = EventQueue::new(Limits { events_max: 10, ..Limits::NONE });
        queue.schedule(Picos(0), ());
        let error = loop {
            match queue.pop() {
                Ok(_) => queue.schedule_after(Picos(7), ()),
                Err(error) => break error,
            }
        };
        assert_eq!(error, LimitError::Events { events_max: 10, now: Picos(63) });
        assert_eq!(queue.len(), 1);
        queue.set_limits(Limits::NONE);
        assert_eq!(queue.pop(), Ok(Some((Picos(70), ()))));
    }

    #[test]
    fn the_limit_of_time_includes_its_moment() {
        let mut queue = EventQueue::new(Limits { time_max: Picos(20), ..Limits::NONE });
        queue.schedule(Picos(20), 'a');
        queue.schedule(Picos(21), 'b');
        assert_eq!(queue.pop(), Ok(Some((Picos(20), 'a'))));
        let error = queue.pop().expect_err("21 ps lies past the limit");
        assert_eq!(error, LimitError::Time { time_max: Picos(20), next: Picos(21) });
        assert_eq!(
            error.to_string(),
            "simulation: time: next event is at 0.021 ns, limit 0.02 ns; raise the limit or look for a loop \
             [sim.time_max]"
        );
    }

    #[test]
    #[should_panic(expected = "which has passed")]
    fn the_past_is_closed() {
        let mut queue = EventQueue::default();
        queue.schedule(Picos(5), ());
        queue.pop().expect("no limit");
        queue.schedule(Picos(4), ());
    }

    proptest! {
        #[test]
        fn order_is_a_stable_sort(times in prop::collection::vec(0u64..50, 0..300)) {
            let mut queue = EventQueue::default();
            for (event, &time) in times.iter().enumerate() {
                queue.schedule(Picos(time), event);
            }
            let mut expected: Vec<(u64, usize)> = times.iter().copied().zip(0..).collect();
            expected.sort_by_key(|&(time, _)| time);
            prop_assert_eq!(drain(&mut queue), expected);
        }

        #[test]
        fn interleaved_use_equals_a_sorted_list(steps in prop::collection::vec((any::<bool>(), 0u64..20), 0..300)) {
            let mut queue = EventQueue::default();
            let mut list: Vec<(u64, usize)> = Vec::new();
            for (event, &(take, delay)) in steps.iter().enumerate() {
                if take && !list.is_empty() {
                    let earliest = list.iter().copied().min().expect("the list has an entry");
                    list.retain(|entry| *entry != earliest);
                    prop_assert_eq!(queue.pop(), Ok(Some((Picos(earliest.0), earliest.1))));
                } else {
                    let at = queue.now().0 + delay;
                    queue.schedule(Picos(at), event);
                    list.push((at, event));
                }
            }
        }
    }
}
