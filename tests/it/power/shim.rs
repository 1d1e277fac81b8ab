//! The library that is preloaded into palisade (`tests/tools/disk.c`): built once, and told what to
//! fail through a file that it shares with the test.

use std::{
    env,
    fs::{self, File},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use tempfile::TempDir;

use crate::harness::Config;

/// Every changing call but a sync, or every sync, fails with this error number.
pub const EIO: i64 = 5;
pub const EROFS: i64 = 30;

/// The words of the control file, in the order of `disk.c`.
#[derive(Clone, Copy, Debug)]
pub enum Word {
    WriteError,
    WriteSkip,
    SyncError,
    SyncSkip,
    /// The last byte of the names of the files that are meant; 0 is all.
    Only,
    /// Bytes that may still be written, and one more.
    Room,
    /// Microseconds before each sync.
    Delay,
    /// 1: only the first failure is one.
    Once,
}

const WORDS: usize = 8;

/// What a test and the processes of its palisade share.
pub struct Shim {
    control: File,
    dir: PathBuf,
}

impl Shim {
    /// For a palisade that lives in `dir`.
    pub fn new(dir: &Path) -> Self {
        let control = File::options().write(true).create_new(true).open(control(dir));
        let control = control.unwrap();
        control.write_all_at(&[0; WORDS * 8], 0).unwrap();
        fs::write(log(dir), "").unwrap();
        Self { control, dir: dir.to_owned() }
    }

    /// The same configuration, with its store at `DIR/disk/fences` and the library before it.
    pub fn under(config: Config) -> Config {
        let config = config.store("path", "DIR/disk/fences");
        let config = config.environment("LD_PRELOAD", &library().display().to_string());
        let config = config.environment("PALISADE_DISK_ROOT", "DIR/disk");
        let config =
            config.environment("PALISADE_DISK_LOG", &log(Path::new("DIR")).display().to_string());
        config
            .environment("PALISADE_DISK_CONTROL", &control(Path::new("DIR")).display().to_string())
    }

    pub fn set(&self, word: Word, value: i64) {
        self.control.write_all_at(&value.to_ne_bytes(), 8 * word as u64).unwrap();
    }

    /// No fault, no delay.
    pub fn heal(&self) {
        self.control.write_all_at(&[0; WORDS * 8], 0).unwrap();
    }

    /// How long the record is by now: a moment that can be found in it again.
    pub fn moment(&self) -> u64 {
        fs::metadata(self.log()).unwrap().len()
    }

    pub fn log(&self) -> PathBuf {
        log(&self.dir)
    }
}

fn control(dir: &Path) -> PathBuf {
    dir.join("control")
}

fn log(dir: &Path) -> PathBuf {
    dir.join("log")
}

/// The built library; it goes with the test's process.
fn library() -> &'static Path {
    static BUILT: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let (_, library) = BUILT.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let library = dir.path().join("disk.so");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tools/disk.c");
        let compiler = env::var_os("CC").unwrap_or_else(|| "cc".into());
        let mut command = Command::new(compiler);
        command.args(["-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror", "-o"]);
        let built = command.arg(&library).args([source, "-ldl", "-lpthread"]).output().unwrap();
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        (dir, library)
    });
    library
}
