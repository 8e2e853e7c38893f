//! Why a command fails, and its exit code.

use std::fmt::{self, Display};
use std::path::Path;
use std::process::ExitCode;

use crate::output::one_line;

/// Why a command did not succeed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The arguments are wrong: exit code 2.
    Usage(String),
    /// The arguments are right and the work failed: exit code 1.
    Failed(String),
    /// The command printed a negative result, such as an invalid file: exit code 1, no message.
    No,
}

impl Failure {
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Failure::Usage(_) => ExitCode::from(2),
            Failure::Failed(_) | Failure::No => ExitCode::from(1),
        }
    }

    /// An operation on a file failed. `operation` is a verb, such as "write".
    pub(crate) fn file(operation: &str, path: &Path, error: impl Display) -> Failure {
        Failure::Failed(format!("cannot {operation} {}: {error}", path.display()))
    }

    /// A file exceeds a limit.
    fn limit(problem: String, name: &str, limit: u64) -> Failure {
        Failure::Failed(format!("{problem}, the limit is {limit}; pass --limit {name}=N if the file is trusted"))
    }

    /// The output file exists, and `--overwrite` was not given.
    pub(crate) fn exists(file: impl Display) -> Failure {
        Failure::Failed(format!("{file} already exists; pass --overwrite to replace it"))
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Failure::Usage(message) | Failure::Failed(message)) = self else { return Ok(()) };
        // One sentence on one line, even if a file name or a library message contains line breaks.
        one_line(message).fmt(f)
    }
}

impl From<swath::Error> for Failure {
    fn from(error: swath::Error) -> Failure {
        match error {
            // The flags count bands from 1.
            swath::Error::Band { file, band, count } => {
                Failure::Failed(format!("{file}: band {} does not exist; the image has {count}", band + 1))
            }
            swath::Error::Source(swath::io::Error::Open { path, .. }) if path.to_string_lossy().contains("://") => {
                let text = "is an address; the command reads local files only, the Python package also reads addresses";
                Failure::Failed(format!("{} {text}", path.display()))
            }
            error @ swath::Error::Setting { .. } => Failure::Usage(error.to_string()),
            swath::Error::Exists { file } => Failure::exists(file),
            swath::Error::Limit { file, what, name, value, limit } => {
                Failure::limit(format!("{file}: {what} would need {value}"), name, limit)
            }
            swath::Error::Container { file, cause: swath::tiff::Error::Limit { what, name, value, limit } } => {
                Failure::limit(format!("{file}: {what} is {value}"), name, limit)
            }
            swath::Error::Block { file, block, cause: swath::codec::Error::MemoryLimit { codec, needed, limit } } => {
                let problem =
                    format!("{file}: {block}: the {codec} decoder needs about {needed} bytes of working memory");
                Failure::limit(problem, "max_codec_memory", limit)
            }
            other => Failure::Failed(other.to_string()),
        }
    }
}
