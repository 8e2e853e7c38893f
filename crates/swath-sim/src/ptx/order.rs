//! The order in which the threads of a block run.

use std::fmt;
use std::str::FromStr;

/// An order of threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Each thread runs to the next barrier, the first thread first.
    Forward,
    /// The last thread and the last block first.
    Reverse,
    /// Threads and blocks in random order; threads are preempted after a random number of instructions.
    Random(u64),
    /// The lanes of a warp execute an instruction together if they are at the same one.
    Warp,
}

/// The value of an environment variable is not an order.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not an order of threads: use forward, reverse, warp, random or random:SEED")]
pub(crate) struct UnknownOrder(String);

impl FromStr for Order {
    type Err = UnknownOrder;

    fn from_str(text: &str) -> Result<Order, UnknownOrder> {
        match text {
            "forward" => Ok(Order::Forward),
            "reverse" => Ok(Order::Reverse),
            "warp" => Ok(Order::Warp),
            "random" => Ok(Order::Random(1)),
            _ => match text.strip_prefix("random:").and_then(|seed| seed.parse().ok()) {
                Some(seed) => Ok(Order::Random(seed)),
                None => Err(UnknownOrder(text.to_owned())),
            },
        }
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Order::Forward => f.write_str("forward"),
            Order::Reverse => f.write_str("reverse"),
            Order::Random(seed) => write!(f, "random:{seed}"),
            Order::Warp => f.write_str("warp"),
        }
    }
}

/// Random numbers (splitmix64), equal for equal seeds.
#[derive(Debug, Clone)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    pub(super) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, (self.roll() % (last as u64 + 1)) as usize);
        }
    }

    /// The instructions after which a thread is preempted: mostly many, sometimes few.
    pub(super) fn slice(&mut self) -> u64 {
        let roll = self.roll();
        if roll & 3 == 0 { 1 + (roll >> 8) % 16 } else { 64 + (roll >> 8) % 4096 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_parsed_as_they_are_printed() {
        for order in [Order::Forward, Order::Reverse, Order::Random(42), Order::Warp] {
            assert_eq!(order.to_string().parse(), Ok(order));
        }
        assert!("random:x".parse::<Order>().is_err() && "".parse::<Order>().is_err());
    }
}
