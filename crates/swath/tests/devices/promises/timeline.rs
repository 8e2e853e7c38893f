//! The calls that NVIDIA's libraries received, in order, with queries on them.

/// One line for each call: its name, and numbers that identify it.
#[derive(Debug)]
pub(super) struct Timeline(Vec<String>);

impl Timeline {
    /// Runs `work` and records the calls. None of them may be a misuse of a library.
    pub(super) fn of<T>(work: impl FnOnce() -> T) -> (T, Timeline) {
        swath_sim::forget();
        let done = work();
        let timeline = Timeline(swath_sim::events());
        assert_eq!(timeline.count("reported:"), 0, "{timeline:?}");
        (done, timeline)
    }

    /// Returns the lines that start with these words, with their line numbers.
    fn lines<'a>(&'a self, words: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
        let lines = self.0.iter().enumerate();
        lines.filter_map(move |(at, line)| {
            let rest = line.strip_prefix(words)?;
            (rest.is_empty() || rest.starts_with(' ')).then_some((at, rest))
        })
    }

    /// The number of calls of this kind.
    pub(super) fn count(&self, words: &str) -> usize {
        self.lines(words).count()
    }

    /// The position of the first call of this kind.
    pub(super) fn first(&self, words: &str) -> Option<usize> {
        self.lines(words).next().map(|(at, _)| at)
    }

    /// The position of the call of this kind with this number, counted from 0.
    pub(super) fn nth(&self, words: &str, n: usize) -> Option<usize> {
        self.lines(words).nth(n).map(|(at, _)| at)
    }

    /// The position of the last call of this kind.
    pub(super) fn last(&self, words: &str) -> Option<usize> {
        self.lines(words).last().map(|(at, _)| at)
    }

    /// The last number of each line that begins with these words: bytes, groups or chunks.
    pub(super) fn numbers(&self, words: &str) -> Vec<u64> {
        let number = |rest: &str| rest.split(' ').next_back().and_then(|word| word.parse().ok());
        self.lines(words)
            .map(|(_, rest)| number(rest).unwrap_or_else(|| panic!("{words}{rest} has no number")))
            .collect()
    }

    /// Whether all calls free memory.
    pub(super) fn is_idle(&self) -> bool {
        self.0.iter().all(|line| line == "free" || line == "free async")
    }

    /// How many reads of cuFile were under way at once: one, if each is waited for before the next.
    pub(super) fn side_by_side(&self) -> usize {
        let (mut under_way, mut most) = (0_usize, 0);
        for line in &self.0 {
            match line.split(' ').next() {
                Some("cuFileRead") => under_way += 1,
                Some("ended") => under_way = under_way.saturating_sub(1),
                _ => {}
            }
            most = most.max(under_way);
        }
        most
    }
}

#[cfg(test)]
mod tests {
    use super::Timeline;

    fn of(lines: &[&str]) -> Timeline {
        Timeline(lines.iter().map(|line| (*line).to_owned()).collect())
    }

    #[test]
    fn seed2_timeline_with_reads_that_were_waited_for_one_by_one_is_told_from_others() {
        let reads = ["cuFileRead 8 90", "cuFileRead 98 90", "cuFileRead 188 90"];
        let together = of(&["upload 64", reads[0], reads[1], reads[2], "ended 8 90", "ended 188 90", "ended 98 90"]);
        assert_eq!(together.side_by_side(), 3);
        // Each list of its own is the same as above.
        let one_by_one = of(&["upload 64", reads[0], "ended 8 90", reads[1], "ended 98 90", reads[2], "ended 188 90"]);
        assert_eq!(one_by_one.side_by_side(), 1);
        assert_eq!(of(&["upload 64"]).side_by_side(), 0);
    }

    #[test]
    fn words_are_whole_words() {
        let timeline = of(&["launch gather 3", "launch gatherer 4", "synchronize", "cuFileRead 10 20"]);
        assert_eq!((timeline.count("launch gather"), timeline.count("launch")), (1, 2));
        assert_eq!((timeline.numbers("cuFileRead"), timeline.first("synchronize")), (vec![20], Some(2)));
        assert!(!timeline.is_idle() && of(&["free", "free async"]).is_idle());
    }
}
