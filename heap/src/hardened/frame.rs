//! Framed blocks: finding one by the user's pointer, and verifying what is round it.

use super::fill::{fill, is_filled};
use super::header::{BYTES, Header};
use super::{CANARY, Hardening};
use crate::class;
use crate::entry::Kind;
use crate::heap::{Core, Mark};
use crate::misuse::Misuse;

/// A framed block that is handed out.
#[derive(Clone, Copy)]
pub(super) struct Framed {
    /// Where its slot or run begins.
    pub slot: u64,
    /// Bytes of the slot or run.
    pub room: u64,
    /// The user's pointer.
    pub user: u64,
    pub header: Header,
    /// Whether the header is not as it was left.
    pub damaged: bool,
}

impl Framed {
    pub fn end(&self) -> u64 {
        self.slot + self.room
    }

    /// Bytes asked for; as many as there may have been, if the header is damaged.
    pub fn bytes(&self, modes: Hardening) -> u64 {
        if self.damaged {
            self.most(modes)
        } else {
            self.header.bytes()
        }
    }

    /// Bytes that the slot has for the user.
    pub fn most(&self, modes: Hardening) -> u64 {
        (self.end() - self.user).saturating_sub(modes.tail())
    }
}

impl Core {
    pub(crate) fn modes(&self) -> Hardening {
        Hardening::of_flags(self.flags)
    }

    pub(super) fn generation(&self) -> u32 {
        self.mark().generation()
    }

    /// The slot or run that an address lies in: where it begins, its bytes, and whether it is
    /// handed out.
    fn surroundings(&self, mark: Mark, address: u64) -> Result<(u64, u64, bool), Misuse> {
        let (page, entry) = self.look_up(address).ok_or(Misuse::Foreign)?;
        if mark != self.mark() {
            return Err(Misuse::Stale);
        }
        if entry.kind() == Kind::Slab {
            let head = entry.head(page);
            let slot = entry.slot_holding(self.offset_in_slab(head, address));
            if slot >= entry.slots(u32::from(self.page_shift)) {
                return Err(Misuse::Interior);
            }
            let bytes = u64::from(class::slot_bytes(entry.class()));
            let begin = self.page_address(head) + u64::from(slot) * bytes;
            return self.within(begin, bytes, self.is_handed_out(head, slot));
        }
        let (head, pages) = self.run_of(page).ok_or(Misuse::Retired)?;
        let bytes = u64::from(pages) << self.page_shift;
        self.within(self.page_address(head), bytes, true)
    }

    /// What was looked up, if it lies in the heap. If not, the entry is damaged, which counting the misuse finds out.
    fn within(&self, begin: u64, bytes: u64, handed_out: bool) -> Result<(u64, u64, bool), Misuse> {
        let room = self.capacity.saturating_sub(begin - self.base);
        if bytes <= room {
            Ok((begin, bytes, handed_out))
        } else {
            Err(Misuse::Interior)
        }
    }

    /// The block whose user's pointer is `address`, passed through a handle of `mark`; or why there
    /// is none.
    pub(super) fn find(&self, mark: Mark, address: u64) -> Result<Framed, Misuse> {
        let (slot, room, handed_out) = self.surroundings(mark, address)?;
        // SAFETY: it is one of this heap's, which is framed.
        let header = unsafe { Header::read(slot) };
        let (live, freed) = (
            header.is_live(slot, self.generation()),
            header.is_freed(slot, self.generation()),
        );
        let is_usual = address == slot + BYTES;
        let begins = address == slot + header.distance();
        let misuse = match (handed_out, live, freed) {
            (true, true, _) if begins => None,
            // Whoever wrote over the header: it was the usual one, or its distance is still there.
            (true, false, false) if begins || is_usual => None,
            (_, false, true) if begins => Some(Misuse::DoubleFree),
            (false, _, false) if is_usual => Some(Misuse::NeverAllocated),
            _ => Some(Misuse::Interior),
        };
        misuse.map_or(
            Ok(Framed {
                slot,
                room,
                user: address,
                header,
                damaged: !live,
            }),
            Err,
        )
    }

    /// Writes header, gap and tail of a block of the caller's.
    pub(super) fn frame(&self, slot: u64, room: u64, user: u64, bytes: u64, site: u32) -> Framed {
        let header = Header::live(slot, bytes, user - slot, site, self.generation());
        // SAFETY: the slot is the caller's, and all of this lies in it.
        unsafe {
            header.write(slot);
            if self.modes().contains(Hardening::RED_ZONES) {
                fill(slot + BYTES, user, CANARY);
                fill(user + bytes, slot + room, CANARY);
            }
        }
        Framed {
            slot,
            room,
            user,
            header,
            damaged: false,
        }
    }

    /// Turns a block's seal to freed; false if another did.
    pub(super) fn seal_freed(&self, block: &Framed) -> bool {
        let next = if block.damaged {
            let distance = block.user - block.slot;
            Header::live(block.slot, 0, distance, 0, self.generation())
        } else {
            block.header
        };
        let next = next.freed(block.slot, self.generation());
        // SAFETY: the block is one of this heap's.
        unsafe {
            let first = block.header.become_in(block.slot, next);
            if first && block.damaged {
                next.write(block.slot);
            }
            first
        }
    }

    /// Reports what was written round a block of the caller's.
    pub(super) fn verify_frame(&self, block: &Framed) {
        let mut underrun = block.damaged;
        let mut overrun = false;
        if self.modes().contains(Hardening::RED_ZONES) {
            // SAFETY: all of this lies in the slot.
            unsafe {
                underrun |= !is_filled(block.slot + BYTES, block.user, CANARY);
                // Without a header nobody knows where the tail begins.
                overrun = !block.damaged
                    && !is_filled(block.user + block.header.bytes(), block.end(), CANARY);
            }
        }
        if underrun {
            self.report_misuse(Misuse::Underrun, block.user);
        }
        if overrun {
            self.report_misuse(Misuse::Overrun, block.user);
        }
    }
}
