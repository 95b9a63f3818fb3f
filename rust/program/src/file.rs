//! Stored Programs: a head of magic, version, length and checksum, then the Program itself.

use crate::error::FileError;
use crate::program::Program;
use std::fs;
use std::io::Write;
use std::path::Path;

const MAGIC: &[u8; 8] = b"TRN3PROG";
/// Raised whenever the stored form of a Program or an instruction changes.
const VERSION: u32 = 6;
const HEAD_BYTES: usize = 8 + 4 + 8 + 4;

impl Program {
    /// Writes the Program; a file of that name is replaced in one step, or left as it was.
    ///
    /// # Errors
    /// The system's.
    pub fn save(&self, path: &Path) -> Result<(), FileError> {
        let body = postcard::to_stdvec(self).expect("a Program is plain data, which always serialises");
        let io = |source| FileError::Io { path: path.into(), source };
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(".part");
        let temporary = Path::new(&temporary);
        let write = || -> std::io::Result<()> {
            let mut file = fs::File::create(temporary)?;
            file.write_all(MAGIC)?;
            file.write_all(&VERSION.to_le_bytes())?;
            file.write_all(&(body.len() as u64).to_le_bytes())?;
            file.write_all(&crc32fast::hash(&body).to_le_bytes())?;
            file.write_all(&body)?;
            file.sync_all()?;
            fs::rename(temporary, path)
        };
        write().map_err(|error| {
            // The half-written file is of no use to anybody; that it may not exist is fine.
            let _ = fs::remove_file(temporary);
            io(error)
        })
    }

    /// Reads a Program that [`Program::save`] wrote.
    ///
    /// # Errors
    /// The system's, or a file that is foreign, of another version, truncated or damaged.
    pub fn load(path: &Path) -> Result<Program, FileError> {
        let bytes = fs::read(path).map_err(|source| FileError::Io { path: path.into(), source })?;
        let path = path.to_path_buf();
        let shared = bytes.len().min(MAGIC.len());
        if bytes.is_empty() || bytes[..shared] != MAGIC[..shared] {
            return Err(FileError::Foreign { path });
        }
        if bytes.len() < HEAD_BYTES {
            return Err(FileError::Truncated { path, found: bytes.len() as u64, expected: HEAD_BYTES as u64 });
        }
        let field = |at: usize, length: usize| &bytes[at..at + length];
        let version = u32::from_le_bytes(field(8, 4).try_into().expect("four bytes"));
        let length = u64::from_le_bytes(field(12, 8).try_into().expect("eight bytes"));
        let checksum = u32::from_le_bytes(field(20, 4).try_into().expect("four bytes"));
        if version != VERSION {
            return Err(FileError::Version { path, found: version, expected: VERSION });
        }
        let body = &bytes[HEAD_BYTES..];
        if (body.len() as u64) < length {
            let expected = length.saturating_add(HEAD_BYTES as u64);
            return Err(FileError::Truncated { path, found: bytes.len() as u64, expected });
        }
        if body.len() as u64 > length || crc32fast::hash(body) != checksum {
            return Err(FileError::Damaged { path });
        }
        postcard::from_bytes(body).map_err(|_| FileError::Damaged { path })
    }
}
