//! What differs between operating systems. Elsewhere than on POSIX systems the stdio mock has no signals, process
//! groups or descriptors to report.

pub(crate) use imp::*;

#[cfg(unix)]
mod imp {
    use nix::sys::resource::{Resource, setrlimit};
    use nix::sys::signal::{self, SigSet, Signal};
    use nix::time::{ClockId, clock_gettime};
    use nix::unistd::{self, Pid};
    use std::io;
    use std::str::FromStr;
    use std::time::{Duration, Instant};

    pub(crate) fn monotonic_us() -> u64 {
        let Ok(now) = clock_gettime(ClockId::CLOCK_MONOTONIC) else { return 0 };
        let seconds = u64::try_from(now.tv_sec()).unwrap_or_default();
        seconds * 1_000_000 + u64::try_from(now.tv_nsec()).unwrap_or_default() / 1_000
    }

    /// Reads from stdin past the standard library's buffer.
    pub(crate) fn read_stdin(buffer: &mut [u8]) -> io::Result<usize> {
        retry(|| unistd::read(io::stdin(), buffer))
    }

    /// Writes to stdout past the standard library's buffer, with as few calls as the system allows.
    pub(crate) fn write_stdout(bytes: &[u8]) -> io::Result<()> {
        write_all(bytes, |rest| unistd::write(io::stdout(), rest))
    }

    /// Waits until the reader has taken all that was written to stdout, but no longer than `patience`. Where the system
    /// can't tell, it does not wait.
    pub(crate) fn wait_until_stdout_is_read(patience: Duration) {
        let begun = Instant::now();
        while rustix::io::ioctl_fionread(io::stdout()).is_ok_and(|unread| unread > 0)
            && begun.elapsed() < patience
        {
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    /// Writes to stderr.
    pub(crate) fn write_stderr(bytes: &[u8]) -> io::Result<()> {
        write_all(bytes, |rest| unistd::write(io::stderr(), rest))
    }

    fn write_all(mut bytes: &[u8], mut write: impl FnMut(&[u8]) -> nix::Result<usize>) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = retry(|| write(bytes))?;
            bytes = bytes.get(written..).unwrap_or_default();
        }
        Ok(())
    }

    /// Interrupted calls are made again; a non-blocking pipe (some clients hand one out) is waited for.
    fn retry(mut call: impl FnMut() -> nix::Result<usize>) -> io::Result<usize> {
        loop {
            match call() {
                Ok(count) => return Ok(count),
                Err(nix::errno::Errno::EINTR) => {}
                Err(nix::errno::Errno::EAGAIN) => std::thread::yield_now(),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Closes this process's end of the stdout pipe.
    pub(crate) fn close_stdout() -> io::Result<()> {
        let null = std::fs::OpenOptions::new().write(true).open("/dev/null")?;
        unistd::dup2_stdout(null)?;
        Ok(())
    }

    pub(crate) fn parent() -> u32 {
        u32::try_from(unistd::getppid().as_raw()).unwrap_or_default()
    }

    pub(crate) fn process_group() -> i32 {
        unistd::getpgrp().as_raw()
    }

    pub(crate) fn session() -> i32 {
        unistd::getsid(None).map_or(-1, Pid::as_raw)
    }

    /// Open descriptors besides 0, 1 and 2.
    pub(crate) fn descriptors() -> Vec<i32> {
        let directory = if cfg!(target_os = "linux") { "/proc/self/fd" } else { "/dev/fd" };
        let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
        let listed: Vec<i32> = entries
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .filter(|fd| *fd > 2)
            .collect();
        // The listing itself had a descriptor, which is closed by now.
        let open = |fd: &i32| std::fs::symlink_metadata(format!("{directory}/{fd}")).is_ok();
        let mut descriptors: Vec<i32> = listed.into_iter().filter(open).collect();
        descriptors.sort_unstable();
        descriptors
    }

    /// Keeps SIGTERM, SIGINT and SIGHUP from this thread and those it starts, and hands them to a thread that waits
    /// for them. Has to be called while the process has one thread.
    pub(crate) struct Signals(SigSet);

    impl Signals {
        pub(crate) fn block() -> io::Result<Self> {
            let mut set = SigSet::empty();
            for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
                set.add(signal);
            }
            set.thread_block()?;
            Ok(Self(set))
        }

        /// Waits for the next one and returns its name.
        pub(crate) fn wait(&self) -> io::Result<&'static str> {
            loop {
                match self.0.wait() {
                    Ok(signal) => return Ok(signal.as_str()),
                    Err(nix::errno::Errno::EINTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
    }

    /// Ends this process by a signal, without a core file.
    pub(crate) fn die(name: &str) -> ! {
        let _ = setrlimit(Resource::RLIMIT_CORE, 0, 0);
        let signal = Signal::from_str(name).unwrap_or(Signal::SIGKILL);
        let mut set = SigSet::empty();
        set.add(signal);
        let _ = set.thread_unblock();
        // The runtime's handler for SIGSEGV steps aside on the first one.
        let _ = signal::raise(signal);
        let _ = signal::raise(signal);
        end_at_once()
    }

    /// Ends this process in a way that nothing can hold up.
    pub(crate) fn end_at_once() -> ! {
        let _ = signal::kill(Pid::this(), Signal::SIGKILL);
        std::process::abort()
    }

    /// Ends another process by SIGKILL; whether it was there.
    pub(crate) fn kill(pid: u32) -> bool {
        i32::try_from(pid)
            .is_ok_and(|pid| pid > 1 && signal::kill(Pid::from_raw(pid), Signal::SIGKILL).is_ok())
    }
}

#[cfg(not(unix))]
mod imp {
    use std::io::{self, Read, Write};
    use std::sync::OnceLock;
    use std::time::Instant;

    pub(crate) fn monotonic_us() -> u64 {
        static START: OnceLock<Instant> = OnceLock::new();
        u64::try_from(START.get_or_init(Instant::now).elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    pub(crate) fn read_stdin(buffer: &mut [u8]) -> io::Result<usize> {
        io::stdin().read(buffer)
    }

    pub(crate) fn wait_until_stdout_is_read(_: std::time::Duration) {}

    pub(crate) fn write_stdout(bytes: &[u8]) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(bytes)?;
        stdout.flush()
    }

    pub(crate) fn write_stderr(bytes: &[u8]) -> io::Result<()> {
        io::stderr().write_all(bytes)
    }

    pub(crate) fn close_stdout() -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn parent() -> u32 {
        0
    }

    pub(crate) fn process_group() -> i32 {
        0
    }

    pub(crate) fn session() -> i32 {
        0
    }

    pub(crate) fn descriptors() -> Vec<i32> {
        Vec::new()
    }

    pub(crate) struct Signals;

    impl Signals {
        pub(crate) fn block() -> io::Result<Self> {
            Ok(Self)
        }

        pub(crate) fn wait(&self) -> io::Result<&'static str> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    pub(crate) fn die(_name: &str) -> ! {
        std::process::abort()
    }

    pub(crate) fn end_at_once() -> ! {
        std::process::abort()
    }

    pub(crate) fn kill(_pid: u32) -> bool {
        false
    }
}
