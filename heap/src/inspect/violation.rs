//! What is wrong in a heap, and where.

use core::fmt;
use serde::Serialize;
use std::error::Error;

/// An invariant that does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// The invariant.
    pub rule: Rule,
    /// Where it does not hold.
    pub place: Place,
    /// The value expected there.
    pub expected: u64,
    /// The value found.
    pub found: u64,
}

/// A place in a heap's metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Place {
    /// The heap as a whole.
    Heap,
    /// A page.
    Page(u32),
    /// The slab that begins at a page.
    Slab {
        /// Its first page.
        page: u32,
        /// Its size class.
        class: u32,
    },
    /// A word of the slots' bitmap.
    SlotWord {
        /// The page that the word belongs to.
        page: u32,
        /// Index of the word in the whole bitmap.
        word: u64,
        /// The first slot whose bit is wrong, counted from the beginning of its slab, or of the
        /// page if no slab is there.
        slot: u64,
    },
    /// A stripe.
    Stripe {
        /// Its size class.
        class: u32,
        /// Its index among the class's stripes.
        index: u32,
    },
    /// A size class.
    Class(u32),
    /// A set of pages.
    Set(Members),
    /// A word of a set of pages.
    SetWord {
        /// The set.
        set: Members,
        /// Index of the word.
        word: u32,
    },
    /// A summary word of a set of pages.
    Summary {
        /// The set.
        set: Members,
        /// Index of the summary word.
        word: u32,
    },
}

/// Which set of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Members {
    /// The free pages.
    Free,
    /// The listed slabs of a size class.
    Listed(u32),
}

/// An invariant of a heap that no thread is using.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum Rule {
    /// The heap's pages begin at a multiple of the page size.
    BaseAligned,
    /// The heap has as many pages as it was made with, or, if it grows, at most as many as it may
    /// have.
    PageCount,
    /// No thread holds the lease of the mailbox.
    Lease,
    /// All that was to be taken out of the quarantine was given back: else requests would wait for it.
    Drains,
    /// The constants of a class are those of the layout. (Expected and found: the words that
    /// differ first.)
    ClassInfo,
    /// A page's entry is blank, a run's that ends inside the heap, or a slab's.
    Entry,
    /// All pages of a slab carry its entry.
    SlabEntry,
    /// Inside a run, entries are blank.
    RunEntry,
    /// A page that nothing uses is in the free set.
    PageLost,
    /// A page that is used, or has no memory yet, is not in the free set.
    PageNotFree,
    /// A page at which no slab begins has no use.
    StrayUsage,
    /// Bits are clear where no slot is.
    StrayBits,
    /// A slab's use is its slots handed out and the units left in the stripe that has it.
    Usage,
    /// A slab is flagged as installed exactly while a stripe has it.
    Installed,
    /// A slab without use that no stripe has was retired.
    Retired,
    /// A slab is listed exactly while it has slots free and no stripe has it.
    Listed,
    /// A slab counts as away, once, exactly while it is full and no stripe has it.
    Away,
    /// A slab that is flagged as punched lacks a page, and no stripe has it. (Expected: 1; found: 0.)
    Punched,
    /// What is listed is a slab of that class.
    ListedSlab,
    /// A stripe without a slab is blank but for hints; one beyond the class's count was never used.
    StripeEmpty,
    /// A stripe's slab is a slab of its class, of that order, and its density is at most a word of
    /// the bitmap. (Found: the stripe's word; expected: the slab's entry, or 0.)
    StripeSlab,
    /// A stripe with a slab has at most as many units left as the slab has, and not fewer than
    /// none: the group that draws the last replaces the slab before it leaves. (Found: the units,
    /// as a signed number.)
    StripeLeft,
    /// At most one stripe has a slab. (Expected and found: the indices of both.)
    StripeShared,
    /// The counters of stripes that have a slab, of all and of each class, are right; free pages have none.
    InstalledCount,
    /// A set's count is the number of its members.
    SetCount,
    /// A set has no members beyond the last page.
    SetBeyond,
    /// Summary bits are set over words with members.
    SetSummary,
    /// No summary bit is set beyond the last word.
    SummaryBeyond,
}

impl Rule {
    /// The invariant in words.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::BaseAligned => "the pages begin at a multiple of the page size",
            Self::PageCount => "the heap has its pages, or fewer if it can grow",
            Self::Lease => "no thread holds the lease of the mailbox",
            Self::Drains => "what was taken out of the quarantine was given back",
            Self::ClassInfo => "a class's constants are the layout's",
            Self::Entry => "an entry is blank, a run's inside the heap, or a slab's",
            Self::SlabEntry => "all pages of a slab carry its entry",
            Self::RunEntry => "entries inside a run are blank",
            Self::PageLost => "a page that nothing uses is in the free set",
            Self::PageNotFree => {
                "a page that is used, or has no memory yet, is not in the free set"
            }
            Self::StrayUsage => "a page at which no slab begins has no use",
            Self::StrayBits => "bits are clear where no slot is",
            Self::Usage => "a slab's use is its slots handed out and its stripe's units left",
            Self::Installed => "a slab is flagged as installed exactly while a stripe has it",
            Self::Retired => "a slab without use was retired",
            Self::Listed => "a slab is listed exactly while it has slots free and no stripe",
            Self::Away => "a slab counts as away, once, exactly while it is full and in no stripe",
            Self::Punched => "a punched slab lacks a page and no stripe has it",
            Self::ListedSlab => "what is listed is a slab of that class",
            Self::StripeEmpty => "a stripe without a slab is blank",
            Self::StripeSlab => "a stripe's slab is one of its class and order",
            Self::StripeLeft => "a stripe has between no and all units of its slab",
            Self::StripeShared => "at most one stripe has a slab",
            Self::InstalledCount => "the counters of stripes with a slab are right",
            Self::SetCount => "a set's count is the number of its members",
            Self::SetBeyond => "a set has no members beyond the last page",
            Self::SetSummary => "summary bits are set over words with members",
            Self::SummaryBeyond => "no summary bit is set beyond the last word",
        }
    }

    /// Whether values under this rule are counts or indices, not bits.
    const fn is_number(self) -> bool {
        matches!(
            self,
            Self::Drains | Self::Usage | Self::StripeShared | Self::InstalledCount | Self::SetCount
        )
    }
}

impl fmt::Display for Members {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Free => formatter.write_str("the free set"),
            Self::Listed(class) => write!(formatter, "the listed set of class {class}"),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Heap => formatter.write_str("heap"),
            Self::Page(page) => write!(formatter, "page {page}"),
            Self::Slab { page, class } => write!(formatter, "slab of class {class} at page {page}"),
            Self::SlotWord { page, word, slot } => {
                write!(
                    formatter,
                    "slot {slot} at page {page}, in word {word} of the bitmap"
                )
            }
            Self::Stripe { class, index } => {
                write!(formatter, "stripe {index} of class {class}")
            }
            Self::Class(class) => write!(formatter, "class {class}"),
            Self::Set(set) => write!(formatter, "{set}"),
            Self::SetWord { set, word } => write!(formatter, "word {word} of {set}"),
            Self::Summary { set, word } => write!(formatter, "summary word {word} of {set}"),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            rule,
            place,
            expected,
            found,
        } = self;
        let text = rule.text();
        if *rule == Rule::StripeLeft {
            let found = found.cast_signed();
            write!(
                formatter,
                "{place}: expected at most {expected}, found {found}: {text}"
            )
        } else if rule.is_number() {
            write!(
                formatter,
                "{place}: expected {expected}, found {found}: {text}"
            )
        } else {
            write!(
                formatter,
                "{place}: expected {expected:#x}, found {found:#x}: {text}"
            )
        }
    }
}

impl Error for Violation {}
