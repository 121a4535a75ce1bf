//! What a run is made of: how many threads, keys and transactions, and which kinds of them.
//!
//! Neighbours: `life` runs it; `hunt` has plans that bring one kind of fault out.

use ensile_base::random::Random;
use ensile_engine::checkpoint::Strategy;

/// Kinds of operations, by their place in [`Plan::operations`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Get,
    Put,
    Insert,
    Update,
    Delete,
    Scan,
    ScanReverse,
    ScanIndex,
}

impl Operation {
    const ALL: [Self; 8] = [
        Self::Get,
        Self::Put,
        Self::Insert,
        Self::Update,
        Self::Delete,
        Self::Scan,
        Self::ScanReverse,
        Self::ScanIndex,
    ];
}

/// Kinds of transactions, by their place in [`Plan::kinds`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A closure, run again after a conflict.
    Closure,
    /// Begun, and committed some steps later.
    Open,
    /// Of reads only.
    ReadOnly,
    /// A snapshot.
    Snapshot,
    /// A closure that fails with what it was told.
    Failing,
}

impl Kind {
    const ALL: [Self; 5] = [Self::Closure, Self::Open, Self::ReadOnly, Self::Snapshot, Self::Failing];
}

/// Where commits leave what they displace to a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pictures {
    /// In their pages' lists.
    Lists,
    /// In their workers' lists, which are written beside the pages.
    SemiFuzzy,
}

impl Pictures {
    pub(crate) fn drawn(random: &mut Random) -> Self {
        if random.percent(60) { Self::SemiFuzzy } else { Self::Lists }
    }
}

/// One run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) keys: u64,
    pub(crate) workers: usize,
    /// Transactions of each worker in one life.
    pub(crate) transactions: u64,
    pub(crate) operations_max: u64,
    /// None: a database in memory.
    pub(crate) loggers: usize,
    /// Every life of this many has no log; 0: none.
    pub(crate) without_log_every: usize,
    pub(crate) lives: usize,
    /// How often each kind of operation comes, against the others.
    pub(crate) operations: [u64; 8],
    pub(crate) kinds: [u64; 5],
    /// Of a hundred closures that fail, how many only read.
    pub(crate) failing_reads_percent: u64,
    /// Of a hundred results, how many are waited for.
    pub(crate) strict_percent: u64,
    /// Of a hundred open transactions, how many commit as tasks of an event loop, some of them in a turn.
    pub(crate) tasks_percent: u64,
    /// Bytes of the buffers of a log together, if not the usual number.
    pub(crate) log_buffer_bytes_max: Option<usize>,
    /// Lengths of rows beyond their value, one of them for each.
    pub(crate) fillers: &'static [usize],
    pub(crate) indexed: bool,
    pub(crate) garbage_bytes_max: u64,
    /// Of a hundred lives, how many end while their threads run.
    pub(crate) crash_percent: u64,
    /// The longest time until then, in steps of the thread that ends them.
    pub(crate) crash_rest_max: u64,
    /// The longest time between beats, in microseconds of the simulated clock.
    pub(crate) beat_micros_max: u64,
    pub(crate) snapshot_micros: u64,
    /// Whether old versions are kept for snapshots. Without, there are no transactions of that kind.
    pub(crate) snapshots: bool,
    /// The most reads of one snapshot: it is held meanwhile.
    pub(crate) snapshot_reads_max: u64,
    /// One row in this many is there at the start.
    pub(crate) filled_every: u64,
    /// The longest rest of the heartbeat between beats, in steps.
    pub(crate) beat_rest_max: u64,
    /// One worker, and nothing that could be in its way: no transaction may fail.
    pub(crate) undisturbed: bool,
    /// Whether the workers' keys come in layers of the index (one prefix, longer than a slice).
    pub(crate) layered: bool,
    /// Threads that step checkpoints; none: no checkpoints.
    pub(crate) checkpointers: usize,
    /// The strategies of the lives' checkpoints, in turn.
    pub(crate) strategies: Vec<Strategy>,
    /// Where commits leave what they displace, if there are pictures.
    pub(crate) pictures: Option<Pictures>,
    /// Ranges of a cycling checkpoint.
    pub(crate) ranges: usize,
    /// About how many bytes of rows a page of a picture has.
    pub(crate) page_bytes: usize,
    /// Bytes of displaced versions for which a picture gives way.
    pub(crate) displaced_bytes_max: u64,
    /// Tables of one row, its key behind `keys`, that clients open in the midst of a life.
    pub(crate) late_tables: u64,
    /// Whether the first checkpointer's device is full now and then.
    pub(crate) fills_checkpoint_device: bool,
}

impl Plan {
    /// Kinds of everything, drawn.
    pub(crate) fn in_memory(random: &mut Random) -> Self {
        let indexed = random.percent(40);
        let mut operations = [4, 3, 2, 3, 3, 2, 1, if indexed { 3 } else { 0 }];
        for share in &mut operations {
            // Some runs lack some kinds altogether, so that others meet each other more.
            if random.percent(25) {
                *share = 0;
            }
        }
        operations[0] += 1;
        Self {
            keys: random.next_between(2, 8),
            workers: random.next_between(2, 3) as usize,
            transactions: random.next_between(2, 5),
            operations_max: random.next_between(1, 5),
            loggers: 0,
            without_log_every: 0,
            lives: 1,
            operations,
            kinds: [5, 2, 1, 2, 1],
            failing_reads_percent: 50,
            strict_percent: 50,
            tasks_percent: 0,
            log_buffer_bytes_max: None,
            fillers: [&[0][..], &[0, 8, 60], &[0, 200]][random.next_below(3) as usize],
            indexed,
            garbage_bytes_max: if random.percent(30) { 64 } else { 1 << 20 },
            crash_percent: 0,
            crash_rest_max: 600,
            beat_micros_max: [300, 3_000, 60_000][random.next_below(3) as usize],
            snapshot_micros: [500, 10_000][random.next_below(2) as usize],
            snapshots: true,
            snapshot_reads_max: 3,
            filled_every: [1, 2, u64::MAX][random.next_below(3) as usize],
            beat_rest_max: [30, 30, 300][random.next_below(3) as usize],
            undisturbed: false,
            layered: random.percent(20),
            checkpointers: 0,
            strategies: vec![Strategy::Fuzzy],
            pictures: None,
            ranges: 1,
            page_bytes: 4 << 10,
            displaced_bytes_max: u64::MAX,
            late_tables: 0,
            fills_checkpoint_device: false,
        }
    }

    /// As in memory, with a log, crashes and lives after them.
    pub(crate) fn on_disk(random: &mut Random) -> Self {
        Self {
            loggers: random.next_between(1, 3) as usize,
            lives: random.next_between(2, 3) as usize,
            transactions: random.next_between(2, 4),
            crash_percent: 80,
            ..Self::in_memory(random)
        }
    }

    /// As on disk, with checkpoints beside the transactions.
    pub(crate) fn with_checkpoints(random: &mut Random) -> Self {
        Self {
            transactions: random.next_between(3, 8),
            lives: 3,
            checkpointers: random.next_between(1, 2) as usize,
            ..Self::on_disk(random)
        }
    }

    /// The same with pictures, most often of several pages, of a row or of many: pages are kept, split and joined.
    pub(crate) fn with_pictures(random: &mut Random) -> Self {
        // Fewer keys meet each other more.
        let keys = if random.percent(70) { random.next_between(30, 60) } else { random.next_between(2, 8) };
        Self {
            keys,
            // Part of the runs, without a draw that would make other runs of all known seeds.
            snapshots: !keys.is_multiple_of(3),
            page_bytes: [1, 64, 4 << 10][random.next_below(3) as usize],
            // Long lives with short epochs: a walk of many pages ends in them, and neighbours change between two.
            transactions: random.next_between(6, 20),
            crash_rest_max: 4_000,
            beat_micros_max: 60_000,
            beat_rest_max: [10, 30][random.next_below(2) as usize],
            pictures: Some(Pictures::drawn(random)),
            strategies: if random.percent(20) {
                vec![Strategy::Pictures, Strategy::Fuzzy]
            } else {
                vec![Strategy::Pictures]
            },
            displaced_bytes_max: displaced_bytes_max(random),
            ..Self::with_checkpoints(random)
        }
    }

    /// The same in lives without a log, all of them or every second one.
    pub(crate) fn without_log(random: &mut Random) -> Self {
        let without_log_every = random.next_between(1, 2) as usize;
        Self { without_log_every, strategies: vec![Strategy::Pictures], ..Self::with_pictures(random) }
    }

    /// As on disk, with checkpoints that go round by ranges, and lives of the other strategies among them.
    pub(crate) fn with_ranges(random: &mut Random) -> Self {
        let checkpoints = Self::with_checkpoints(random);
        Self { keys: random.next_between(2, 8), ..checkpoints }.going_round(random)
    }

    /// The same with cycling checkpoints, in all lives but a few.
    pub(crate) fn going_round(self, random: &mut Random) -> Self {
        let lives = random.next_between(3, 5) as usize;
        let strategy = |random: &mut Random| match random.next_below(10) {
            0..7 => Strategy::Cycling,
            7 => Strategy::Fuzzy,
            _ => Strategy::Pictures,
        };
        Self {
            strategies: (0..lives).map(|_| strategy(random)).collect(),
            pictures: Some(Pictures::drawn(random)),
            ranges: random.next_between(2, 4) as usize,
            late_tables: random.next_below(3),
            page_bytes: 64,
            lives,
            // Long lives with short epochs, as a turn waits for two of them.
            transactions: random.next_between(6, 16),
            crash_rest_max: 2_000,
            beat_micros_max: 60_000,
            beat_rest_max: 10,
            ..self
        }
    }

    /// The strategy of the checkpoints of the life of this number.
    pub(crate) fn strategy_of(&self, number: usize) -> Strategy {
        self.strategies[number % self.strategies.len()]
    }

    /// Whether some life's checkpoints go round by ranges.
    pub(crate) fn has_turns(&self) -> bool {
        self.strategies.contains(&Strategy::Cycling)
    }

    /// How many logs the life of this number has.
    pub(crate) fn loggers_of(&self, number: usize) -> usize {
        if self.is_without_log(number) { 0 } else { self.loggers }
    }

    /// Whether the life of this number has pictures, and no log.
    pub(crate) fn is_without_log(&self, number: usize) -> bool {
        self.without_log_every > 0 && number.is_multiple_of(self.without_log_every)
    }

    pub(crate) fn operation(&self, random: &mut Random) -> Operation {
        Operation::ALL[drawn(&self.operations, random)]
    }

    pub(crate) fn kind(&self, random: &mut Random) -> Kind {
        let mut kinds = self.kinds;
        if !self.snapshots {
            kinds[Kind::Snapshot as usize] = 0;
        }
        Kind::ALL[drawn(&kinds, random)]
    }
}

/// Some pictures give way to a commit or a few.
pub(crate) fn displaced_bytes_max(random: &mut Random) -> u64 {
    if random.percent(20) { random.next_between(1, 600) } else { u64::MAX }
}

/// One of the places, by their shares.
fn drawn(shares: &[u64], random: &mut Random) -> usize {
    let mut rest = random.next_below(shares.iter().sum());
    shares
        .iter()
        .position(|share| {
            let is_it = rest < *share;
            rest = rest.saturating_sub(*share);
            is_it
        })
        .expect("a number below the sum")
}
