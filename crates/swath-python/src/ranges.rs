//! A place to read from that Python knows: a file object, a URL.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use swath::io::{Fetch, MergeRule, ReadAt, Source, Span};

/// An object with `name`, `size`, `fetch` and `sibling`.
#[derive(Debug)]
pub(crate) struct Ranges {
    object: Py<PyAny>,
    name: String,
    size: u64,
    /// The last exception of `fetch`.
    failure: Mutex<Option<PyErr>>,
}

impl Ranges {
    pub(crate) fn new(object: &Bound<'_, PyAny>) -> PyResult<Ranges> {
        let name = object.getattr("name")?.extract()?;
        let size = object.getattr("size")?.extract()?;
        Ok(Ranges { object: object.clone().unbind(), name, size, failure: Mutex::default() })
    }

    /// Ask for all spans at once and hand each to `take`.
    fn ask(&self, spans: Vec<(u64, usize)>, mut take: impl FnMut(usize, &[u8])) -> std::io::Result<()> {
        if spans.iter().any(|&(offset, len)| offset.checked_add(len as u64).is_none_or(|end| end > self.size)) {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        Python::attach(|py| {
            let wanted = spans.clone();
            let fetched = self.object.bind(py).call_method1("fetch", (spans,));
            let parts = fetched.inspect_err(|error| self.note(error.clone_ref(py)))?;
            let mut count = 0;
            for (part, &(offset, len)) in parts.try_iter()?.zip(&wanted) {
                let part = part?;
                let bytes = part.cast::<PyBytes>()?.as_bytes();
                if bytes.len() != len {
                    let found = bytes.len();
                    return Err(std::io::Error::new(
                        std::io::ErrorKind::UnexpectedEof,
                        format!("{found} of {len} bytes came at offset {offset}"),
                    )
                    .into());
                }
                take(count, bytes);
                count += 1;
            }
            if count < wanted.len() {
                return Err(std::io::Error::new(
                    std::io::ErrorKind::UnexpectedEof,
                    format!("{count} of {} ranges came", wanted.len()),
                )
                .into());
            }
            Ok::<_, PyErr>(())
        })
        .map_err(std::io::Error::other)
    }
}

impl Ranges {
    fn note(&self, error: PyErr) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    }
}

impl ReadAt for Ranges {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        self.ask(vec![(offset, out.len())], |_, bytes| out.copy_from_slice(bytes))
    }
}

impl Source for Ranges {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn fetch_into(&self, fetch: &Fetch, out: &mut [u8]) -> std::io::Result<()> {
        let reads: Vec<_> = fetch.reads().collect();
        let spans = reads.iter().map(|(span, range)| (span.offset, range.len())).collect();
        self.ask(spans, |i, bytes| out[reads[i].1.clone()].copy_from_slice(bytes))
    }

    fn is_high_latency(&self) -> bool {
        true
    }

    fn take_failure(&self) -> Option<std::io::Error> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take().map(std::io::Error::other)
    }

    fn sibling(&self, change: &dyn Fn(&Path) -> PathBuf) -> swath::io::Result<Option<Box<dyn Source>>> {
        let name = change(Path::new(&self.name)).to_string_lossy().into_owned();
        let found = Python::attach(|py| {
            let sibling = self.object.bind(py).call_method1("sibling", (&name,))?;
            if sibling.is_none() { Ok(None) } else { Ranges::new(&sibling).map(Some) }
        });
        match found {
            Ok(found) => Ok(found.map(|ranges| Box::new(ranges) as Box<dyn Source>)),
            Err(error) => Err(swath::io::Error::Open { path: name.into(), cause: std::io::Error::other(error) }),
        }
    }
}

/// Returns the ranges (start, stop) that contain all (offset, length) spans, and the indices of the spans in each. Spans with at most
/// `gap` bytes between them share a range of at most `max_bytes` bytes; with a negative gap, no spans are merged.
#[pyfunction]
pub(crate) fn coalesce(spans: Vec<(u64, u64)>, gap: i64, max_bytes: u64) -> Vec<(u64, u64, Vec<usize>)> {
    let spans: Vec<Span> = spans.into_iter().map(|(offset, len)| Span { offset, len }).collect();
    let rule = MergeRule { gap: u64::try_from(gap).ok(), max_bytes };
    let ranges = swath::io::coalesce(&spans, rule);
    let stop = |span: Span| span.offset.saturating_add(span.len);
    ranges.into_iter().map(|range| (range.span.offset, stop(range.span), range.members)).collect()
}
