//! What was asked of NVIDIA's libraries, in order, and what can be said of that.

/// A line for each call: its name, and numbers that tell it from others.
#[derive(Debug)]
pub(super) struct Timeline(Vec<String>);

impl Timeline {
    /// Do something, and note what is asked meanwhile. None of that may be a misuse.
    pub(super) fn of<T>(work: impl FnOnce() -> T) -> (T, Timeline) {
        swath_sim::forget();
        let done = work();
        let timeline = Timeline(swath_sim::events());
        assert_eq!(timeline.count("reported:"), 0, "{timeline:?}");
        (done, timeline)
    }

    /// The lines that begin with these words, and the numbers of them.
    fn lines<'a>(&'a self, words: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
        let lines = self.0.iter().enumerate();
        lines.filter_map(move |(at, line)| {
            let rest = line.strip_prefix(words)?;
            (rest.is_empty() || rest.starts_with(' ')).then_some((at, rest))
        })
    }

    /// How often this was asked for.
    pub(super) fn count(&self, words: &str) -> usize {
        self.lines(words).count()
    }

    /// When this was asked for first.
    pub(super) fn first(&self, words: &str) -> Option<usize> {
        self.lines(words).next().map(|(at, _)| at)
    }

    /// The last number of each line that begins with these words: bytes, groups or chunks.
    pub(super) fn numbers(&self, words: &str) -> Vec<u64> {
        let number = |rest: &str| rest.split(' ').next_back().and_then(|word| word.parse().ok());
        self.lines(words)
            .map(|(_, rest)| number(rest).unwrap_or_else(|| panic!("{words}{rest} has no number")))
            .collect()
    }

    /// Whether nothing was asked for but that memory be given back.
    pub(super) fn is_idle(&self) -> bool {
        self.0.iter().all(|line| line == "free")
    }

    /// How many transfers were submitted to cuFile, if all of them were before the first was waited for; else where they were not.
    pub(super) fn submitted_before_waited(&self) -> Result<usize, String> {
        let waited = self.first("wait").ok_or("nothing was waited for")?;
        let submits: Vec<usize> = self.lines("submit").map(|(at, _)| at).collect();
        match submits.iter().position(|&at| at > waited) {
            None if submits.is_empty() => Err("nothing was submitted".into()),
            None => Ok(submits.len()),
            Some(early) => Err(format!("{early} of {} transfers were submitted before the first wait", submits.len())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Timeline;

    fn of(lines: &[&str]) -> Timeline {
        Timeline(lines.iter().map(|line| (*line).to_owned()).collect())
    }

    #[test]
    fn seed2_timeline_with_reads_that_were_waited_for_one_by_one_is_refused() {
        let together =
            of(&["upload 64", "submit 8 90", "submit 98 90", "submit 188 90", "wait", "wait", "launch place 3"]);
        assert_eq!(together.submitted_before_waited(), Ok(3));
        // Each list of its own is the same as above.
        let one_by_one = of(&["upload 64", "submit 8 90", "wait", "submit 98 90", "wait", "submit 188 90", "wait"]);
        let refused = one_by_one.submitted_before_waited().unwrap_err();
        assert_eq!(refused, "1 of 3 transfers were submitted before the first wait");
        // All but the last, and batch by batch.
        let last_late = of(&["submit 8 90", "submit 98 90", "wait", "submit 188 90", "wait"]);
        assert!(last_late.submitted_before_waited().is_err());
        assert!(of(&["submit 8 90", "submit 98 90"]).submitted_before_waited().is_err(), "nothing was waited for");
        assert!(of(&["wait", "cuFileBatchIOSubmit 3"]).submitted_before_waited().is_err(), "nothing was submitted");
    }

    #[test]
    fn words_are_whole_words() {
        let timeline = of(&["launch gather 3", "launch gatherer 4", "synchronize", "submit 10 20"]);
        assert_eq!((timeline.count("launch gather"), timeline.count("launch")), (1, 2));
        assert_eq!((timeline.numbers("submit"), timeline.first("synchronize")), (vec![20], Some(2)));
        assert!(!timeline.is_idle() && of(&["free", "free"]).is_idle());
    }
}
