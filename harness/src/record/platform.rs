//! What differs between operating systems for the recorder of stdio: descriptors, signals, process groups. Elsewhere
//! than on POSIX systems there are no signals to hand on, and pipes are watched by reading them alone.

pub(super) use imp::*;

#[cfg(unix)]
mod imp {
    use nix::errno::Errno;
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use nix::sys::resource::{Resource, setrlimit};
    use nix::sys::signal::{self, SigSet, Signal};
    use nix::unistd::{self, Pid};
    use std::fs::File;
    use std::io;
    use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
    use std::os::unix::process::CommandExt as _;
    use std::process::{Child, Command, ExitStatus};
    use std::str::FromStr as _;

    /// An end of the pipe that wakes.
    pub(in crate::record) type Waker = OwnedFd;

    /// The end of a child's stdin to write to.
    pub(in crate::record) fn stdin_of(child: &mut Child) -> Option<File> {
        child.stdin.take().map(|pipe| OwnedFd::from(pipe).into())
    }

    /// The end of a child's stdout to read from.
    pub(in crate::record) fn stdout_of(child: &mut Child) -> Option<File> {
        child.stdout.take().map(|pipe| OwnedFd::from(pipe).into())
    }

    /// What can be read or written without a buffer of our own in between.
    pub(in crate::record) trait Pipe: AsFd {}
    impl<T: AsFd> Pipe for T {}

    /// What is to be done about a pair of pipes.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(in crate::record) enum Ready {
        /// There is something to read, or the end of it.
        Read,
        /// Nobody reads any more what would be written.
        Deaf,
        /// The third descriptor is readable, and nothing else is.
        Woken,
    }

    /// Waits until `from` can be read, `to` has lost its reader, or `wake` is closed.
    pub(in crate::record) fn wait(
        from: &impl Pipe,
        to: &impl Pipe,
        wake: Option<&Waker>,
    ) -> io::Result<Ready> {
        loop {
            let mut fds = vec![PollFd::new(from.as_fd(), PollFlags::POLLIN)];
            fds.push(PollFd::new(to.as_fd(), PollFlags::empty()));
            fds.extend(wake.map(|wake| PollFd::new(wake.as_fd(), PollFlags::POLLIN)));
            match poll(&mut fds, PollTimeout::NONE) {
                Ok(_) => {}
                Err(Errno::EINTR) => continue,
                Err(error) => return Err(error.into()),
            }
            let seen =
                |at: usize| fds.get(at).and_then(PollFd::revents).is_some_and(|events| !events.is_empty());
            // What was said before the end is handed on first.
            return Ok(match (seen(0), seen(1)) {
                (_, true) => Ready::Deaf,
                (true, _) => Ready::Read,
                _ => Ready::Woken,
            });
        }
    }

    /// Reads once; 0 at the end.
    pub(in crate::record) fn read(from: &impl Pipe, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match unistd::read(from, buffer) {
                Ok(count) => return Ok(count),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => until(from.as_fd(), PollFlags::POLLIN)?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Writes all of it.
    pub(in crate::record) fn write(to: &impl Pipe, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match unistd::write(to, bytes) {
                Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => until(to.as_fd(), PollFlags::POLLOUT)?,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Some clients hand out pipes that don't block.
    fn until(fd: BorrowedFd<'_>, flags: PollFlags) -> io::Result<()> {
        match poll(&mut [PollFd::new(fd, flags)], PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Two ends of a pipe, read end first. Whoever holds the second and drops it wakes the first.
    pub(in crate::record) fn waker() -> io::Result<(OwnedFd, OwnedFd)> {
        let (read, write) = io::pipe()?;
        Ok((read.into(), write.into()))
    }

    /// Lets go of this process's stdin, so that whoever writes to it sees that nobody reads.
    pub(in crate::record) fn close_stdin() {
        if let Ok(null) = File::open("/dev/null") {
            let _ = unistd::dup2_stdin(&null);
        }
    }

    /// Lets go of this process's stdout, so that whoever reads it sees its end.
    pub(in crate::record) fn close_stdout() {
        if let Ok(null) = std::fs::OpenOptions::new().write(true).open("/dev/null") {
            let _ = unistd::dup2_stdout(&null);
        }
    }

    /// What this process was started with, which a server in its place would have been as well.
    pub(in crate::record) fn own_place() -> (u32, i32, i32, Vec<i32>) {
        let parent = u32::try_from(unistd::getppid().as_raw()).unwrap_or_default();
        let session = unistd::getsid(None).map_or(-1, Pid::as_raw);
        (parent, unistd::getpgrp().as_raw(), session, descriptors())
    }

    fn descriptors() -> Vec<i32> {
        let folder = if cfg!(target_os = "linux") { "/proc/self/fd" } else { "/dev/fd" };
        let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
        let listed: Vec<i32> =
            entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
        // The listing itself had a descriptor, which is closed by now.
        let open = |fd: &i32| *fd > 2 && std::fs::symlink_metadata(format!("{folder}/{fd}")).is_ok();
        let mut open: Vec<i32> = listed.into_iter().filter(open).collect();
        open.sort_unstable();
        open
    }

    /// Whether the client gave this process a group of its own, which it will send signals to.
    pub(in crate::record) fn leads_its_group() -> bool {
        unistd::getpgrp() == unistd::getpid()
    }

    /// The signals that are handed on.
    const HANDED_ON: [Signal; 6] =
        [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGUSR1, Signal::SIGUSR2];

    /// Keeps the signals that are handed on from this thread and those that it starts from now on, so that one can wait
    /// for them.
    pub(in crate::record) struct Signals(SigSet);

    impl Signals {
        pub(in crate::record) fn block() -> io::Result<Self> {
            let set: SigSet = HANDED_ON.into_iter().collect();
            set.thread_block()?;
            Ok(Self(set))
        }

        /// Waits for one, and returns its name.
        pub(in crate::record) fn wait(&self) -> io::Result<&'static str> {
            loop {
                match self.0.wait() {
                    Ok(signal) => return Ok(signal.as_str()),
                    Err(Errno::EINTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
    }

    /// Sends a signal to the server, which leads a group. One from a terminal goes to all of a group anyway.
    pub(in crate::record) fn hand_on(name: &str, server: u32, to_group: bool) {
        let Some(pid) = i32::try_from(server).ok().filter(|pid| *pid > 1) else { return };
        let Ok(signal) = Signal::from_str(name) else { return };
        let from_terminal = matches!(signal, Signal::SIGINT | Signal::SIGQUIT | Signal::SIGHUP);
        let _ = if to_group || from_terminal {
            signal::killpg(Pid::from_raw(pid), signal)
        } else {
            signal::kill(Pid::from_raw(pid), signal)
        };
    }

    /// How a process ended: its exit code, or the number of a signal.
    pub(in crate::record) fn ending(status: ExitStatus) -> (Option<i32>, Option<i32>) {
        (status.code(), std::os::unix::process::ExitStatusExt::signal(&status))
    }

    /// The name of a signal, such as `SIGTERM`.
    pub(in crate::record) fn signal_name(number: i32) -> String {
        Signal::try_from(number).map_or_else(|_| format!("signal {number}"), |s| s.as_str().to_owned())
    }

    /// Ends this process by a signal, as the server was; without a core, which the server may have left already.
    /// Returns the exit code by which shells tell of it, should that not work.
    pub(in crate::record) fn die(number: i32) -> i32 {
        let _ = setrlimit(Resource::RLIMIT_CORE, 0, 0);
        if let Ok(signal) = Signal::try_from(number) {
            if signal == Signal::SIGPIPE {
                // This program ignores it; a program that takes its place does not.
                let _ = Command::new("/bin/sh").args(["-c", "kill -PIPE $$"]).exec();
            }
            let _ = SigSet::from(signal).thread_unblock();
            // The first SIGSEGV or SIGBUS is caught, to tell of stack overflows, and makes way for the next.
            let _ = signal::raise(signal);
            let _ = signal::raise(signal);
        }
        128 + number
    }
}

#[cfg(windows)]
mod imp {
    use std::fs::File;
    use std::io::{self, Read, Write};
    use std::os::windows::io::OwnedHandle;
    use std::process::{Child, ExitStatus};

    pub(in crate::record) fn stdin_of(child: &mut Child) -> Option<File> {
        child.stdin.take().map(|pipe| OwnedHandle::from(pipe).into())
    }

    pub(in crate::record) fn stdout_of(child: &mut Child) -> Option<File> {
        child.stdout.take().map(|pipe| OwnedHandle::from(pipe).into())
    }

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(in crate::record) enum Ready {
        Read,
        #[expect(dead_code, reason = "nothing tells here")]
        Deaf,
        #[expect(dead_code, reason = "nothing tells here")]
        Woken,
    }

    pub(in crate::record) struct Waker;

    pub(in crate::record) trait Pipe {
        fn take(&self, buffer: &mut [u8]) -> io::Result<usize>;
        fn give(&self, bytes: &[u8]) -> io::Result<()>;
    }

    impl Pipe for io::Stdin {
        fn take(&self, buffer: &mut [u8]) -> io::Result<usize> {
            self.lock().read(buffer)
        }
        fn give(&self, _: &[u8]) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    impl Pipe for io::Stdout {
        fn take(&self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::ErrorKind::Unsupported.into())
        }
        fn give(&self, bytes: &[u8]) -> io::Result<()> {
            let mut out = self.lock();
            out.write_all(bytes)?;
            out.flush()
        }
    }

    impl Pipe for File {
        fn take(&self, buffer: &mut [u8]) -> io::Result<usize> {
            (&*self).read(buffer)
        }
        fn give(&self, bytes: &[u8]) -> io::Result<()> {
            (&*self).write_all(bytes)
        }
    }

    pub(in crate::record) fn wait(_: &impl Pipe, _: &impl Pipe, _: Option<&OwnedFd>) -> io::Result<Ready> {
        Ok(Ready::Read)
    }

    pub(in crate::record) fn read(from: &impl Pipe, buffer: &mut [u8]) -> io::Result<usize> {
        from.take(buffer)
    }

    pub(in crate::record) fn write(to: &impl Pipe, bytes: &[u8]) -> io::Result<()> {
        to.give(bytes)
    }

    pub(in crate::record) fn waker() -> io::Result<(Waker, Waker)> {
        Ok((Waker, Waker))
    }

    pub(in crate::record) fn close_stdin() {}

    pub(in crate::record) fn close_stdout() {}

    pub(in crate::record) fn own_place() -> (u32, i32, i32, Vec<i32>) {
        (0, 0, 0, Vec::new())
    }

    pub(in crate::record) fn leads_its_group() -> bool {
        false
    }

    pub(in crate::record) struct Signals;

    impl Signals {
        pub(in crate::record) fn block() -> io::Result<Self> {
            Ok(Self)
        }

        pub(in crate::record) fn wait(&self) -> io::Result<&'static str> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    pub(in crate::record) fn hand_on(_: &str, _: u32, _: bool) {}

    pub(in crate::record) fn ending(status: ExitStatus) -> (Option<i32>, Option<i32>) {
        (status.code(), None)
    }

    pub(in crate::record) fn signal_name(number: i32) -> String {
        format!("signal {number}")
    }

    pub(in crate::record) fn die(number: i32) -> i32 {
        128 + number
    }
}
