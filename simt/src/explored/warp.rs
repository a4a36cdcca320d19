//! Warps under an explorer.
//!
//! Loom: a warp of one lane. Shuttle: each lane is a task, and a masked collective is a
//! rendezvous: it waits until every lane of its mask has come, then all get every lane's value.
//! [`raw_active_mask`] closes its group at a moment that the schedule chooses, so it gives *some*
//! group with the caller in it, as the hardware does; lanes that have ended are in no group.
//!
//! What the PTX ISA leaves undefined is a panic here: a caller outside its own mask, lanes of a
//! mask in different collectives, a shuffle from outside the mask. So is a mask with a lane that
//! has ended: the hardware would go on without it, but [`crate::warp`] asks for all lanes.

#[cfg(loom)]
pub(crate) use crate::single_lane::*;

#[cfg(shuttle)]
pub use emulated::*;

#[cfg(shuttle)]
mod emulated {
    use shuttle::rand::Rng;
    use std::cell::RefCell;
    use std::collections::BTreeMap;
    use std::future::poll_fn;
    use std::panic::Location;
    use std::sync::{Arc, Mutex, MutexGuard};
    use std::task::{Poll, Waker};

    const LANES: usize = 32;
    type Values = [u64; LANES];

    /// What the lanes of a mask do together; they must all do the same.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Collective {
        Sync,
        Ballot,
        MatchAny,
        Shuffle,
        Reduce,
    }

    /// A collective that waits for lanes.
    struct Meeting {
        collective: Collective,
        came: u32,
        values: Values,
    }

    #[derive(Default)]
    struct Meetings {
        /// Collectives that wait for lanes, by their masks.
        open: BTreeMap<u32, Meeting>,
        /// Groups that `raw_active_mask` gathers, by the place that calls it.
        gathering: BTreeMap<(&'static str, u32, u32), u32>,
        /// What each lane is to be given when it wakes.
        values: [Option<Values>; LANES],
        group: [Option<u32>; LANES],
        /// The lanes that wait.
        waiting: [Option<Waker>; LANES],
        /// Lanes whose body has returned.
        ended: u32,
    }

    impl Meetings {
        /// Wakes those lanes of `mask` that wait; they have been given what they wait for.
        fn wake(&mut self, mask: u32) {
            (0..LANES)
                .filter(|lane| mask & 1 << lane != 0)
                .filter_map(|lane| self.waiting[lane].take())
                .for_each(Waker::wake);
        }

        /// The lane ends: nobody may count on it any more.
        fn end(&mut self, lane: u32) {
            self.ended |= 1 << lane;
            for (mask, meeting) in &self.open {
                assert!(
                    mask & 1 << lane == 0,
                    "lane {lane} ended while lanes {:#x} wait for it in {:?} of mask {mask:#x}",
                    meeting.came,
                    meeting.collective
                );
            }
        }
    }

    /// The lock is never held across a scheduling point, so it is an ordinary one.
    #[derive(Default)]
    struct Warp(Mutex<Meetings>);

    impl Warp {
        fn meetings(&self) -> MutexGuard<'_, Meetings> {
            self.0.lock().expect("no lane panics with the lock held")
        }

        /// Waits until the lane is given what `take` takes. As a future it sleeps until it is woken: a parked task is
        /// scheduled for nothing, as often as one that has work to do.
        fn wait<T>(&self, lane: u32, take: impl Fn(&mut Meetings) -> Option<T>) -> T {
            shuttle::future::block_on(poll_fn(|context| {
                let mut meetings = self.meetings();
                if let Some(given) = take(&mut meetings) {
                    return Poll::Ready(given);
                }
                meetings.waiting[lane as usize] = Some(context.waker().clone());
                Poll::Pending
            }))
        }
    }

    shuttle::thread_local! {
        static LANE: RefCell<Option<(Arc<Warp>, u32)>> = RefCell::new(None);
    }

    fn current() -> Option<(Arc<Warp>, u32)> {
        LANE.with(|lane| lane.borrow().clone())
    }

    /// Runs `body(lane)` on `lanes` lanes of one warp and waits for them all.
    ///
    /// # Panics
    ///
    /// When `lanes` is not 1 to 32, or when a lane panics.
    pub fn run_warp(lanes: u32, body: impl Fn(u32) + Send + Sync + 'static) {
        assert!(
            (1..=32).contains(&lanes),
            "a warp has 1 to 32 lanes, not {lanes}"
        );
        let warp = Arc::new(Warp::default());
        let body = Arc::new(body);
        let place = super::super::emulation::place();
        let tasks: Vec<_> = (0..lanes)
            .map(|lane| {
                let (warp, body) = (warp.clone(), body.clone());
                shuttle::thread::spawn(move || {
                    super::super::emulation::set_place(place);
                    LANE.with(|cell| *cell.borrow_mut() = Some((warp.clone(), lane)));
                    body(lane);
                    warp.meetings().end(lane);
                })
            })
            .collect();
        for task in tasks {
            task.join().expect("a lane panicked");
        }
    }

    /// Waits for all lanes of `mask`, then gives what each of them brought.
    fn meet(collective: Collective, mask: u32, value: u64) -> Values {
        let Some((warp, lane)) = current() else {
            return [value; LANES];
        };
        assert!(
            mask & 1 << lane != 0,
            "lane {lane} calls {collective:?} of mask {mask:#x}"
        );
        {
            let mut meetings = warp.meetings();
            let ended = meetings.ended & mask;
            assert!(
                ended == 0,
                "lane {lane} calls {collective:?} of mask {mask:#x}, of which {ended:#x} ended"
            );
            let meeting = meetings.open.entry(mask).or_insert(Meeting {
                collective,
                came: 0,
                values: [0; LANES],
            });
            assert!(
                meeting.collective == collective,
                "lane {lane} calls {collective:?}, lanes {:#x} of its mask {mask:#x} call {:?}",
                meeting.came,
                meeting.collective
            );
            meeting.came |= 1 << lane;
            meeting.values[lane as usize] = value;
            if meeting.came == mask {
                let values = meetings.open.remove(&mask).expect("just filled").values;
                for member in (0..LANES).filter(|member| mask & 1 << member != 0) {
                    meetings.values[member] = Some(values);
                }
                meetings.wake(mask);
            }
        }
        warp.wait(lane, |meetings| meetings.values[lane as usize].take())
    }

    pub fn lane_id() -> u32 {
        current().map_or(0, |(_, lane)| lane)
    }

    pub fn lanes_below() -> u32 {
        (1 << lane_id()) - 1
    }

    pub fn opaque(value: u32) -> u32 {
        value
    }

    pub fn own_mask(mask: u32) -> u32 {
        let lane = lane_id();
        assert!(
            mask & 1 << lane != 0,
            "lane {lane} is not in its mask {mask:#x}"
        );
        mask
    }

    #[track_caller]
    pub fn raw_active_mask() -> u32 {
        let Some((warp, lane)) = current() else {
            return 1;
        };
        let place = Location::caller();
        let key = (place.file(), place.line(), place.column());
        let first = {
            let mut meetings = warp.meetings();
            let group = meetings.gathering.entry(key).or_insert(0);
            let first = *group == 0;
            *group |= 1 << lane;
            first
        };
        if first {
            // From a lane alone to all that can come.
            let patience = 1_u32 << shuttle::rand::thread_rng().gen_range(0..9);
            for _ in 0..shuttle::rand::thread_rng().gen_range(0..patience) {
                shuttle::thread::yield_now();
            }
            let mut meetings = warp.meetings();
            let group = meetings
                .gathering
                .remove(&key)
                .expect("only its first lane closes a group");
            for member in (0..LANES).filter(|member| group & 1 << member != 0) {
                meetings.group[member] = Some(group);
            }
            meetings.wake(group);
        }
        warp.wait(lane, |meetings| meetings.group[lane as usize].take())
    }

    pub fn sync(mask: u32) {
        meet(Collective::Sync, mask, 0);
    }

    fn lanes_where(mask: u32, values: &Values, predicate: impl Fn(u64) -> bool) -> u32 {
        (0..LANES)
            .filter(|lane| mask & 1 << lane != 0 && predicate(values[*lane]))
            .fold(0, |set, lane| set | 1 << lane)
    }

    pub fn ballot(mask: u32, predicate: bool) -> u32 {
        lanes_where(
            mask,
            &meet(Collective::Ballot, mask, u64::from(predicate)),
            |value| value != 0,
        )
    }

    pub fn match_any(mask: u32, value: u32) -> u32 {
        match_any_u64(mask, u64::from(value))
    }

    pub fn match_any_u64(mask: u32, value: u64) -> u32 {
        lanes_where(mask, &meet(Collective::MatchAny, mask, value), |other| {
            other == value
        })
    }

    #[allow(clippy::cast_possible_truncation, reason = "the values came in as u32")]
    pub fn shuffle(mask: u32, value: u32, source: u32) -> u32 {
        shuffle_u64(mask, u64::from(value), source) as u32
    }

    pub fn shuffle_u64(mask: u32, value: u64, source: u32) -> u64 {
        assert!(
            current().is_none() || mask & 1 << source != 0,
            "shuffle from lane {source} outside mask {mask:#x}"
        );
        meet(Collective::Shuffle, mask, value)[source as usize]
    }

    #[allow(clippy::cast_possible_truncation, reason = "the values came in as u32")]
    fn fold(mask: u32, value: u32, combine: impl Fn(u32, u32) -> u32) -> u32 {
        let mask = if current().is_none() { 1 } else { mask };
        let values = meet(Collective::Reduce, mask, u64::from(value));
        (0..LANES)
            .filter(|lane| mask & 1 << lane != 0)
            .fold(0, |result, lane| combine(result, values[lane] as u32))
    }

    pub fn reduce_or(mask: u32, value: u32) -> u32 {
        fold(mask, value, |left, right| left | right)
    }

    pub fn reduce_add(mask: u32, value: u32) -> u32 {
        fold(mask, value, u32::wrapping_add)
    }
}
