//! What differs between operating systems. Elsewhere than on POSIX systems the stdio mock has no signals, process
//! groups or descriptors to report.

pub(crate) use imp::*;

/// Signals that a process was started with as blocked or ignored, by name.
#[derive(Debug, Default)]
pub(crate) struct SignalState {
    pub(crate) blocked: Vec<String>,
    pub(crate) ignored: Vec<String>,
}

/// The harness's end of a side channel, whatever carries it.
pub(crate) trait Channel: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin {}

impl<T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin> Channel for T {}

/// The child's end: to read from and to write to.
pub(crate) type Ends = (Box<dyn std::io::Read + Send>, Box<dyn std::io::Write + Send>);

#[cfg(unix)]
mod imp {
    use super::{Channel, Ends, SignalState};
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use nix::sys::resource::{Resource, setrlimit};
    use nix::sys::signal::{self, SigSet, Signal};
    use nix::sys::stat::{Mode, umask as set_umask};
    use nix::time::{ClockId, clock_gettime};
    use nix::unistd::{self, Pid};
    use std::io::{self, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    use std::path::Path;
    use std::process::{Command, ExitStatus};
    use std::str::FromStr;
    use std::time::{Duration, Instant};

    /// A socket of the file system to which children connect.
    pub(crate) struct Socket(tokio::net::UnixListener);

    impl Socket {
        /// Listens at this path, unless it is too long for a socket. Needs a running tokio runtime.
        pub(crate) fn bind(path: &Path) -> Option<Self> {
            tokio::net::UnixListener::bind(path).ok().map(Self)
        }

        pub(crate) async fn accept(&self) -> io::Result<Box<dyn Channel>> {
            Ok(Box::new(self.0.accept().await?.0))
        }
    }

    pub(crate) fn connect_to_socket(path: &Path) -> io::Result<Ends> {
        let stream = UnixStream::connect(path)?;
        Ok((Box::new(stream.try_clone()?), Box::new(stream)))
    }

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

    /// Closes this process's end of the stderr pipe.
    pub(crate) fn close_stderr() -> io::Result<()> {
        let null = std::fs::OpenOptions::new().write(true).open("/dev/null")?;
        unistd::dup2_stderr(null)?;
        Ok(())
    }

    /// Closes this process's end of the stdin pipe. A thread that is just reading from it keeps it open until it has read
    /// something.
    pub(crate) fn close_stdin() -> io::Result<()> {
        unistd::dup2_stdin(std::fs::File::open("/dev/null")?)?;
        Ok(())
    }

    /// Lets one thread wait for stdin without holding it open, and another one end the wait.
    pub(crate) struct Waker {
        woken: io::PipeReader,
        wake: io::PipeWriter,
    }

    impl Waker {
        pub(crate) fn new() -> io::Result<Self> {
            let (woken, wake) = io::pipe()?;
            Ok(Self { woken, wake })
        }

        /// Ends the wait, for good.
        pub(crate) fn wake(&self) {
            let _ = (&self.wake).write(&[0]);
        }

        /// Waits until stdin has something to read or has ended, or until it is woken.
        pub(crate) fn wait_for_stdin(&self) {
            let stdin = io::stdin();
            let mut ends = [
                PollFd::new(stdin.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.woken.as_fd(), PollFlags::POLLIN),
            ];
            while poll(&mut ends, PollTimeout::NONE) == Err(nix::errno::Errno::EINTR) {}
        }
    }

    /// Makes the process that is to be started the leader of a process group of its own.
    pub(crate) fn lead_a_group(command: &mut Command) {
        command.process_group(0);
    }

    /// Makes this process the leader of a session of its own.
    pub(crate) fn lead_a_session() -> io::Result<()> {
        unistd::setsid()?;
        Ok(())
    }

    /// The number of the signal that ended a process.
    pub(crate) fn signal_of(status: ExitStatus) -> Option<i32> {
        status.signal()
    }

    #[allow(clippy::useless_conversion, reason = "the mask has 16 bits on macOS")]
    pub(crate) fn umask() -> Option<u32> {
        // It can only be read by setting it; no other thread is there yet to notice.
        let mask = set_umask(Mode::from_bits_truncate(0o077));
        set_umask(mask);
        Some(u32::from(mask.bits()))
    }

    /// What the client has left blocked or ignored. SIGPIPE is left out: the runtime ignores it before anything of ours
    /// can look. Has to be called before [`Signals::block`].
    pub(crate) fn inherited_signals() -> SignalState {
        let name = |signal: Signal| signal.as_str().to_owned();
        let blocked = SigSet::thread_get_mask().map(|set| set.iter().map(name).collect()).unwrap_or_default();
        let mask = ignored_mask();
        let ignored = Signal::iterator()
            .filter(|signal| *signal != Signal::SIGPIPE)
            .filter(|signal| mask >> (*signal as i32 - 1) & 1 == 1)
            .map(name)
            .collect();
        SignalState { blocked, ignored }
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

    /// A bit for each ignored signal; only Linux shows them.
    fn ignored_mask() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default()
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
        /// Those that it waits for.
        pub(crate) const NAMES: [&str; 3] = ["SIGTERM", "SIGINT", "SIGHUP"];

        pub(crate) fn block() -> io::Result<Self> {
            let set = Self::set();
            set.thread_block()?;
            Ok(Self(set))
        }

        /// Takes them as they come, although the process that started this one has left them blocked.
        pub(crate) fn unblock() -> io::Result<()> {
            Self::set().thread_unblock()?;
            Ok(())
        }

        fn set() -> SigSet {
            let mut set = SigSet::empty();
            for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
                set.add(signal);
            }
            set
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
        if signal == Signal::SIGPIPE {
            // The runtime ignores it, and resets that only for another program: this process becomes one, which raises
            // it. Comes back only if there is no shell.
            let _ = Command::new("/bin/sh").args(["-c", "kill -PIPE $$"]).exec();
        }
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
        send(pid, Signal::SIGKILL)
    }

    /// Sends another process a signal, if it is there.
    pub(crate) fn send_signal(pid: u32, name: &str) {
        if let Ok(signal) = Signal::from_str(name) {
            send(pid, signal);
        }
    }

    fn send(pid: u32, signal: Signal) -> bool {
        i32::try_from(pid).is_ok_and(|pid| pid > 1 && signal::kill(Pid::from_raw(pid), signal).is_ok())
    }
}

#[cfg(not(unix))]
mod imp {
    use super::{Channel, Ends, SignalState};
    use std::io::{self, Read, Write};
    use std::path::Path;
    use std::process::{Command, ExitStatus};
    use std::sync::OnceLock;
    use std::time::Instant;

    pub(crate) struct Socket;

    impl Socket {
        pub(crate) fn bind(_: &Path) -> Option<Self> {
            None
        }

        pub(crate) async fn accept(&self) -> io::Result<Box<dyn Channel>> {
            std::future::pending().await
        }
    }

    pub(crate) fn connect_to_socket(_: &Path) -> io::Result<Ends> {
        Err(io::ErrorKind::Unsupported.into())
    }

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

    pub(crate) fn close_stderr() -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn close_stdin() -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) struct Waker;

    impl Waker {
        pub(crate) fn new() -> io::Result<Self> {
            Ok(Self)
        }

        pub(crate) fn wake(&self) {}

        pub(crate) fn wait_for_stdin(&self) {}
    }

    pub(crate) fn lead_a_group(_: &mut Command) {}

    pub(crate) fn lead_a_session() -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn signal_of(_: ExitStatus) -> Option<i32> {
        None
    }

    pub(crate) fn umask() -> Option<u32> {
        None
    }

    pub(crate) fn inherited_signals() -> SignalState {
        SignalState::default()
    }

    pub(crate) fn send_signal(_: u32, _: &str) {}

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
        pub(crate) const NAMES: [&str; 0] = [];

        pub(crate) fn block() -> io::Result<Self> {
            Ok(Self)
        }

        pub(crate) fn unblock() -> io::Result<()> {
            Ok(())
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
