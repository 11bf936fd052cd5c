//! What differs between operating systems: process groups and signals.

use crate::stdio::Signal;
use std::io;

#[cfg(unix)]
mod imp {
    use super::{Signal, io};
    use crate::stdio::Pipes;
    use nix::sys::signal::{Signal as Posix, kill, killpg};
    use nix::sys::stat::fstat;
    use nix::unistd::Pid;
    use std::os::fd::{AsFd, OwnedFd};
    use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

    pub(crate) fn own_group(command: &mut Command) {
        command.process_group(0);
    }

    fn group(pid: u32) -> io::Result<Pid> {
        i32::try_from(pid).map(Pid::from_raw).map_err(io::Error::other)
    }

    /// Signals a process, or the group that it leads.
    pub(crate) fn signal(pid: u32, whole_group: bool, signal: Signal) -> io::Result<()> {
        let signal = match signal {
            Signal::Terminate => Posix::SIGTERM,
            Signal::Kill => Posix::SIGKILL,
        };
        let send = if whole_group { killpg } else { kill };
        send(group(pid)?, signal).map_err(io::Error::from)
    }

    /// Starts a process with pipes, whose inode numbers are announced before.
    pub(crate) fn spawn(
        mut command: Command,
        announce: &mut dyn FnMut(&[u64]) -> io::Result<()>,
    ) -> io::Result<(Child, Pipes)> {
        let (stdin, to_stdin) = io::pipe()?;
        let (from_stdout, stdout) = io::pipe()?;
        let (from_stderr, stderr) = io::pipe()?;
        let inode = |pipe: &dyn AsFd| fstat(pipe.as_fd()).map(|stat| stat.st_ino);
        announce(&[inode(&stdin)?, inode(&stdout)?, inode(&stderr)?])?;
        let child = command.stdin(stdin).stdout(stdout).stderr(stderr).spawn()?;
        let pipes = Pipes {
            stdin: Some(ChildStdin::from_std(OwnedFd::from(to_stdin).into())?),
            stdout: Some(ChildStdout::from_std(OwnedFd::from(from_stdout).into())?),
            stderr: Some(ChildStderr::from_std(OwnedFd::from(from_stderr).into())?),
        };
        // With the command go this side's copies of the child's ends.
        drop(command);
        Ok((child, pipes))
    }

    pub(crate) fn group_alive(pid: u32) -> bool {
        group(pid).is_ok_and(|group| killpg(group, None) != Err(nix::errno::Errno::ESRCH))
    }

    /// Lets a pipe that has carried a large message hold more, so that reader and writer take turns less often. Not done
    /// before it is of use: there is a limit to what all pipes of a user may hold.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(crate) fn widen(pipe: &impl AsFd) {
        // It works without.
        let _ = nix::fcntl::fcntl(pipe.as_fd(), nix::fcntl::FcntlArg::F_SETPIPE_SZ(1 << 20));
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    pub(crate) fn widen(_: &impl std::os::fd::AsFd) {}

    pub(crate) fn exit_of(status: std::process::ExitStatus) -> crate::stdio::Exit {
        use std::os::unix::process::ExitStatusExt as _;
        crate::stdio::Exit { code: status.code(), signal: status.signal() }
    }
}

#[cfg(not(unix))]
mod imp {
    use super::{Signal, io};

    pub(crate) fn own_group(_: &mut tokio::process::Command) {}

    pub(crate) fn signal(_: u32, _: bool, _: Signal) -> io::Result<()> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }

    pub(crate) fn spawn(
        mut command: tokio::process::Command,
        _: &mut dyn FnMut(&[u64]) -> io::Result<()>,
    ) -> io::Result<(tokio::process::Child, crate::stdio::Pipes)> {
        use std::process::Stdio;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let pipes = crate::stdio::Pipes {
            stdin: child.stdin.take(),
            stdout: child.stdout.take(),
            stderr: child.stderr.take(),
        };
        Ok((child, pipes))
    }

    pub(crate) fn group_alive(_: u32) -> bool {
        false
    }

    pub(crate) fn widen<T>(_: &T) {}

    pub(crate) fn exit_of(status: std::process::ExitStatus) -> crate::stdio::Exit {
        crate::stdio::Exit { code: status.code(), signal: None }
    }
}

pub(crate) use imp::{exit_of, group_alive, own_group, signal, spawn, widen};
