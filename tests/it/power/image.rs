//! What a loss of power may do with changes that were not synced.

use fastrand::Rng;

/// The smallest part of a file that a disk writes whole, and the part that a kernel does.
const SECTOR: usize = 512;
const PAGE: usize = 4096;

/// How an image is made.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// Nothing of it is there.
    Nothing,
    /// All of it is: as after a kill.
    All,
    /// Each change is there or not, whatever came after it.
    Subset,
    /// And of a write some sectors, or some pages.
    Sectors,
    Pages,
    /// Files have grown, and of the data nothing is there.
    Growth,
    /// Some sectors are there, and new space holds what the file held there before.
    Stale,
}

impl Kind {
    pub const EACH: [Self; 7] = [
        Self::Nothing,
        Self::All,
        Self::Subset,
        Self::Sectors,
        Self::Pages,
        Self::Growth,
        Self::Stale,
    ];

    pub fn keeps_name(self, rng: &mut Rng) -> bool {
        match self {
            Self::Nothing => false,
            Self::All => true,
            Self::Subset | Self::Sectors | Self::Pages | Self::Growth | Self::Stale => rng.bool(),
        }
    }

    pub fn keeps_length(self, rng: &mut Rng) -> bool {
        self.keeps_name(rng)
    }

    pub fn keeps_write(self, rng: &mut Rng) -> Kept {
        let torn = |unit, rng: &mut Rng| {
            // Some writes are whole or lost among those that are torn.
            [Kept::Torn(unit), Kept::Torn(unit), Kept::Whole, Kept::Lost][rng.usize(..4)]
        };
        match self {
            Self::Nothing => Kept::Lost,
            Self::All => Kept::Whole,
            Self::Subset => [Kept::Lost, Kept::Whole][rng.usize(..2)],
            Self::Sectors | Self::Stale => torn(SECTOR, rng),
            Self::Pages => torn(PAGE, rng),
            Self::Growth => Kept::Torn(PAGE),
        }
    }

    pub fn keeps_part(self, rng: &mut Rng) -> bool {
        self != Self::Growth && rng.bool()
    }
}

/// What becomes of a write.
#[derive(Clone, Copy, Debug)]
pub enum Kept {
    Lost,
    Whole,
    /// Cut into parts of this many bytes.
    Torn(usize),
}
