//! The cases of each test: sizes and numbers of threads, for the device, its memory and the time that
//! there is.
//!
//! A GPU gets the numbers of the survey. The CPU gets fewer threads, because it has fewer. CUDA's own malloc is ten
//! thousand times slower than the others: for it there are extra cases with fewer threads, which every allocator does.

use crate::case::{Case, Test};
use crate::tests::{GRAPH_VERTICES, LATENCY_ROUNDS};

/// What the cases are for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope {
    /// A GPU, or the CPU.
    pub gpu: bool,
    /// Fewer of everything.
    pub quick: bool,
    /// Bytes of the heap.
    pub heap_bytes: u64,
    /// Bytes of the device that are free.
    pub free_bytes: u64,
}

/// Threads of the extra cases for CUDA's malloc.
pub(crate) const NATIVE_THREADS: u32 = 1 << 16;
/// Threads of its churn.
pub(crate) const NATIVE_CHURNERS: u32 = 1 << 10;
/// Sizes of its uniform cases.
pub(crate) const NATIVE_SIZES: [u64; 3] = [16, 256, 4096];

const DOUBLING: [u64; 10] = [16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192];
/// Those of `sizes`.
const UP_TO_64_KIB: [u64; 13] = [
    16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536,
];
/// Few of them, each with a neighbour; and those of a small heap, which has no slots of 64 KiB.
const FEW_TO_64_KIB: [u64; 6] = [16, 32, 4096, 8192, 32768, 65536];
const LARGE_OF_SMALL: [u64; 2] = [16384, 32768];
const BETWEEN: [u64; 5] = [24, 48, 96, 200, 1000];
const MIXED: [u64; 4] = [64, 512, 4096, 8192];
const LEAST: u64 = 16;
const MIB: u64 = 1 << 20;

/// The cases of the tests, in their order.
pub(crate) fn of(scope: &Scope, tests: &[Test]) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for test in Test::ALL.into_iter().filter(|test| tests.contains(test)) {
        for case in scope.cases(test) {
            if !cases.contains(&case) {
                cases.push(case);
            }
        }
    }
    cases
}

impl Scope {
    /// What fits the device and the haste; the first two are a GPU's.
    pub fn choose<T>(&self, full: T, quick: T, on_cpu: T, quick_on_cpu: T) -> T {
        match (self.gpu, self.quick) {
            (true, false) => full,
            (true, true) => quick,
            (false, false) => on_cpu,
            (false, true) => quick_on_cpu,
        }
    }

    fn threads(&self) -> u32 {
        self.choose(1 << 20, 1 << 20, 1 << 12, 1 << 11)
    }

    fn cases(&self, test: Test) -> Vec<Case> {
        match test {
            Test::Uniform => self.uniform(),
            Test::Mixed => self.mixed(),
            Test::UniformAged | Test::MixedAged => self.aged(test),
            Test::Sizes | Test::SizesAged => self.sizes(test),
            Test::MixedChurned => self.churned(),
            Test::UniformNew | Test::MixedNew => self.new_heaps(test),
            Test::Scale => self.scale(),
            Test::MixedScale => self.mixed_scale(),
            Test::Warp => {
                let warps = self.choose(1 << 17, 1 << 14, 1 << 9, 1 << 8);
                self.each_size(test, &NATIVE_SIZES, warps)
            }
            Test::Churn => self.churn(),
            Test::Latency => self.latency(),
            Test::Large => [MIB, 16 * MIB]
                .map(|size| self.fitting(test, size, size, 64))
                .into(),
            Test::Oom => self.oom(),
            Test::Oommix => vec![case(test, LEAST, 4096, self.fillers(4096))],
            Test::Frag => self.frag(),
            Test::Init => self.init(),
            Test::Resources if self.gpu => vec![case(test, 0, 0, 0)],
            Test::Resources => Vec::new(),
            Test::Workgen => self.programs(test, 4, &[64, 4096]),
            Test::Access => self.programs(test, 0, self.accessed()),
            Test::AllocHeavy => self.alloc_heavy(),
            Test::Graph => vec![case(test, 0, 0, GRAPH_VERTICES)],
        }
    }

    /// A case with at most `n` threads, halved until their blocks take little more than half of the heap.
    fn fitting(&self, test: Test, least: u64, most: u64, n: u32) -> Case {
        fitting_into(self.heap_bytes, test, least, most, n)
    }

    fn each_size(&self, test: Test, sizes: &[u64], n: u32) -> Vec<Case> {
        sizes
            .iter()
            .map(|size| self.fitting(test, *size, *size, n))
            .collect()
    }

    fn uniform(&self) -> Vec<Case> {
        let sizes = if self.quick {
            vec![16, 64, 256, 1024, 4096, 8192]
        } else {
            [&DOUBLING[..], &BETWEEN].concat()
        };
        let mut cases = self.each_size(Test::Uniform, &sizes, self.threads());
        if self.gpu {
            cases.extend(self.each_size(Test::Uniform, &NATIVE_SIZES, NATIVE_THREADS));
        }
        cases
    }

    fn mixed(&self) -> Vec<Case> {
        let most = if self.quick { &[512, 8192] } else { &MIXED[..] };
        let of = |most, n| self.fitting(Test::Mixed, LEAST, most, n);
        let mut cases: Vec<_> = most.iter().map(|most| of(*most, self.threads())).collect();
        if self.gpu {
            cases.push(of(4096, NATIVE_THREADS));
        }
        cases
    }

    /// As many threads whatever the size, so that sizes can be compared: those whose largest blocks fit an aged heap, too.
    fn sizes(&self, test: Test) -> Vec<Case> {
        let sizes = self.choose(
            &UP_TO_64_KIB[..],
            &FEW_TO_64_KIB,
            &UP_TO_64_KIB,
            &LARGE_OF_SMALL,
        );
        let most = sizes.iter().fold(0, |most, size| most.max(*size));
        let threads = self.choose(1 << 15, 1 << 15, 1 << 9, 1 << 8);
        let Case { n, .. } = fitting_into(self.room_when_aged(), test, most, most, threads);
        sizes
            .iter()
            .map(|size| case(test, *size, *size, n))
            .collect()
    }

    /// Bytes of which launches in a heap that is 70 % full may take half.
    fn room_when_aged(&self) -> u64 {
        self.heap_bytes / 100 * 27
    }

    /// What fits into half of what is left when a heap is 70 % full.
    fn aged(&self, test: Test) -> Vec<Case> {
        let room = self.room_when_aged();
        let of = |least, most| fitting_into(room, test, least, most, self.threads());
        let uniform = self.choose(
            &DOUBLING[..],
            &NATIVE_SIZES,
            &NATIVE_SIZES,
            &NATIVE_SIZES[..1],
        );
        let mixed = self.choose(&MIXED[..], &MIXED[2..3], &MIXED[..], &MIXED[2..3]);
        match test {
            Test::UniformAged => uniform.iter().map(|size| of(*size, *size)).collect(),
            _ => mixed.iter().map(|most| of(LEAST, *most)).collect(),
        }
    }

    /// Only what fits: fewer threads are cases of their own.
    fn scale(&self) -> Vec<Case> {
        let shifts: &[u32] = self.choose(
            &[0, 5, 10, 14, 16, 18, 20, 22],
            &[0, 10, 14, 18, 22],
            &[0, 5, 8, 10, 12, 14],
            &[0, 6, 12],
        );
        let sizes = self.choose(
            &[16, 256, 4096, 8192][..],
            &[16, 4096],
            &[16, 256, 4096, 8192],
            &[16],
        );
        let cases = shifts.iter().flat_map(|shift| {
            sizes
                .iter()
                .map(move |size| case(Test::Scale, *size, *size, 1 << shift))
        });
        cases
            .filter(|wanted| {
                self.fitting(Test::Scale, wanted.least, wanted.most, wanted.n) == *wanted
            })
            .collect()
    }

    fn churn(&self) -> Vec<Case> {
        let threads = self.choose(1 << 17, 1 << 17, 1 << 11, 1 << 9);
        let of = |n| [16, 256, 4096].map(|most| self.fitting(Test::Churn, LEAST, most, n));
        let mut cases = of(threads).to_vec();
        if self.gpu {
            cases.extend(of(NATIVE_CHURNERS));
        }
        cases
    }

    /// Fewer threads than those of `mixed`.
    fn mixed_scale(&self) -> Vec<Case> {
        let shifts: &[u32] = self.choose(&[10, 12, 14, 16, 18], &[12, 16], &[5, 8, 10], &[8]);
        let most = self.choose(&MIXED[1..], &MIXED[2..3], &MIXED[1..], &MIXED[2..3]);
        let of = |shift: &u32| {
            let n = 1 << *shift;
            most.iter()
                .map(move |most| self.fitting(Test::MixedScale, LEAST, *most, n))
        };
        shifts.iter().flat_map(of).collect()
    }

    /// Small launches, and large ones.
    fn new_heaps(&self, test: Test) -> Vec<Case> {
        let threads: &[u32] = self.choose(&[1 << 16, 1 << 20], &[1 << 16], &[1 << 11], &[1 << 9]);
        let sizes = match test {
            Test::UniformNew => self.choose(
                &NATIVE_SIZES[..],
                &NATIVE_SIZES,
                &NATIVE_SIZES,
                &NATIVE_SIZES[..1],
            ),
            _ => self.choose(&MIXED[..3], &MIXED[2..3], &MIXED[..3], &MIXED[2..3]),
        };
        let of = |most: &u64| {
            let most = *most;
            let least = if test == Test::UniformNew {
                most
            } else {
                LEAST
            };
            threads
                .iter()
                .map(move |n| self.fitting(test, least, most, *n))
        };
        sizes.iter().flat_map(of).collect()
    }

    /// Launches as large as those of `churn`, and as those of `mixed`.
    fn churned(&self) -> Vec<Case> {
        let most: &[u64] = self.choose(&[256, 4096], &[256], &[256], &[256]);
        let threads: &[u32] = self.choose(&[1 << 17, 1 << 20], &[1 << 17], &[1 << 11], &[1 << 9]);
        let of = |most: &u64| {
            let most = *most;
            threads
                .iter()
                .map(move |n| self.fitting(Test::MixedChurned, LEAST, most, *n))
        };
        most.iter().flat_map(of).collect()
    }

    /// One warp alone, as many threads as CUDA's malloc can do with, and many.
    fn latency(&self) -> Vec<Case> {
        let threads = self.choose(1 << 17, 1 << 17, 1 << 9, 1 << 8);
        let rounds = u64::from(LATENCY_ROUNDS);
        let mut cases = Vec::new();
        for n in [32, NATIVE_CHURNERS, threads] {
            for (least, most) in [(16, 16), (256, 256), (LEAST, 512), (4096, 4096)] {
                cases.push(Case {
                    least,
                    most,
                    ..self.fitting(Test::Latency, least * rounds, most * rounds, n)
                });
            }
        }
        cases
    }

    /// Threads of a launch that fills a heap.
    fn fillers(&self, size: u64) -> u32 {
        let threads = self.choose(1 << 16, 1 << 16, 1 << 12, 1 << 12);
        // Not all of the heap in one launch.
        if size > 4096 { threads >> 4 } else { threads }
    }

    fn oom(&self) -> Vec<Case> {
        let sizes = self.choose(
            &[16, 256, 4096, 65536][..],
            &[16, 4096, 65536],
            &[16, 256, 4096, 65536],
            &[256, 65536],
        );
        sizes
            .iter()
            .map(|size| case(Test::Oom, *size, *size, self.fillers(*size)))
            .collect()
    }

    fn frag(&self) -> Vec<Case> {
        let sizes = self.choose(&DOUBLING[..], &NATIVE_SIZES, &DOUBLING, &NATIVE_SIZES);
        self.each_size(Test::Frag, sizes, self.threads())
    }

    fn accessed(&self) -> &'static [u64] {
        let few = &NATIVE_SIZES[..];
        self.choose(&DOUBLING[..9], few, few, few)
    }

    fn init(&self) -> Vec<Case> {
        let heaps = self.choose(
            vec![16 << 30, 128 << 30],
            vec![16 << 30],
            vec![self.heap_bytes],
            vec![self.heap_bytes],
        );
        // Metadata come on top.
        let fits = |bytes: &u64| bytes + bytes / 32 < self.free_bytes;
        heaps
            .into_iter()
            .filter(fits)
            .map(|bytes| case(Test::Init, bytes, bytes, 0))
            .collect()
    }

    /// Cases of programs whose threads have a block each; `least` 0: all have the same size.
    fn programs(&self, test: Test, least: u64, sizes: &[u64]) -> Vec<Case> {
        let mut cases = Vec::new();
        for most in sizes {
            let least = if least == 0 { *most } else { least };
            cases.push(self.fitting(test, least, *most, self.threads()));
            if self.gpu && (least != *most || NATIVE_SIZES.contains(most)) {
                cases.push(self.fitting(test, least, *most, NATIVE_THREADS));
            }
        }
        cases
    }

    /// While a block grows, the old one is there too.
    fn alloc_heavy(&self) -> Vec<Case> {
        let of = |n| self.fitting(Test::AllocHeavy, 64 << 10, 128 << 10, n);
        let n = self.choose(1 << 16, 1 << 16, 1 << 10, 1 << 8);
        let reduced = self.choose(NATIVE_CHURNERS, NATIVE_CHURNERS, n, n);
        [n, reduced]
            .map(|n| Case {
                least: 16,
                most: 64 << 10,
                ..of(n)
            })
            .into()
    }
}

/// A case with at most `n` threads, halved until their blocks take little more than half of so many bytes.
fn fitting_into(bytes: u64, test: Test, least: u64, most: u64, mut n: u32) -> Case {
    let average = u64::midpoint(least, most);
    while n > 1 && u64::from(n) * average > bytes / 100 * 55 {
        n /= 2;
    }
    case(test, least, most, n)
}

fn case(test: Test, least: u64, most: u64, n: u32) -> Case {
    Case {
        test,
        least,
        most,
        n,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(gpu: bool, quick: bool, heap_bytes: u64) -> Scope {
        Scope {
            gpu,
            quick,
            heap_bytes,
            free_bytes: 140 << 30,
        }
    }

    #[test]
    fn a_gpu_gets_the_cases_of_the_survey() {
        let cases = of(&scope(true, false, 16 << 30), &Test::ALL);
        for expected in [
            case(Test::Uniform, 8192, 8192, 1 << 20),
            case(Test::Uniform, 24, 24, 1 << 20),
            case(Test::Mixed, 16, 8192, 1 << 20),
            case(Test::Scale, 16, 16, 1 << 22),
            case(Test::Scale, 256, 256, 1 << 22),
            case(Test::Warp, 16, 16, 1 << 17),
            case(Test::Churn, 16, 4096, 1 << 17),
            case(Test::Large, 16 * MIB, 16 * MIB, 64),
            case(Test::Oom, 65536, 65536, 4096),
            case(Test::Init, 128 << 30, 128 << 30, 0),
        ] {
            assert!(cases.contains(&expected), "{expected:?}");
        }
        assert!(
            !cases.contains(&case(Test::Scale, 8192, 8192, 1 << 22)),
            "that does not fit"
        );
    }

    #[test]
    fn every_size_has_a_neighbour_with_as_many_threads() {
        for (gpu, quick) in [(true, false), (true, true), (false, false), (false, true)] {
            let cases = of(
                &scope(gpu, quick, 256 * MIB),
                &[Test::Sizes, Test::SizesAged],
            );
            for case in &cases {
                let near = cases
                    .iter()
                    .filter(|other| case.is_neighbour(other))
                    .count();
                let is_between = !quick && (32..65536).contains(&case.most);
                let expected = if is_between { 2 } else { 1 };
                assert_eq!(near, expected, "{case:?}");
            }
            assert!(cases.iter().any(|case| case.test == Test::SizesAged));
        }
    }

    #[test]
    fn blocks_fit_into_the_smallest_heap() {
        for (gpu, quick) in [(true, false), (true, true), (false, false), (false, true)] {
            for heap_bytes in [16 * MIB, 256 * MIB, 16 << 30] {
                let cases = of(&scope(gpu, quick, heap_bytes), &Test::ALL);
                for case in cases {
                    case.check().expect("kernels can do it");
                    let average = u64::midpoint(case.least, case.most);
                    let makes_its_own = matches!(case.test, Test::Init | Test::Oom | Test::Oommix);
                    let one_at_least = case.n == 1;
                    assert!(
                        makes_its_own
                            || one_at_least
                            || u64::from(case.n) * average <= heap_bytes * 3 / 4,
                        "{case:?} in {heap_bytes}"
                    );
                }
            }
        }
    }
}
