//! What can be wrong with a stored Program.

use std::path::PathBuf;
use thiserror::Error;

/// A file that is no Program of ours.
#[derive(Debug, Error)]
pub enum FileError {
    /// The system could not read or write it.
    #[error("program file {path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// It does not start like one.
    #[error(
        "program file {path}: not a trn3 program (it does not start with TRN3PROG); give a file that Program.save wrote"
    )]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// Another version wrote it.
    #[error("program file {path}: format version {found}, this trn3 reads {expected}; record the kernel again")]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// Ours.
        expected: u32,
    },
    /// Bytes are missing.
    #[error("program file {path}: truncated, {found} of {expected} bytes; copy it again or record the kernel again")]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Bytes there.
        found: u64,
        /// Bytes that its head promises.
        expected: u64,
    },
    /// Bytes have changed.
    #[error("program file {path}: damaged, its checksum does not match; copy it again or record the kernel again")]
    Damaged {
        /// The file.
        path: PathBuf,
    },
}
