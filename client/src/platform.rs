//! What differs between operating systems: process groups and signals.

use crate::stdio::Signal;
use std::io;

#[cfg(unix)]
mod imp {
    use super::{Signal, io};
    use nix::sys::signal::{Signal as Posix, killpg};
    use nix::unistd::Pid;

    pub(crate) fn own_group(command: &mut tokio::process::Command) {
        command.process_group(0);
    }

    fn group(pid: u32) -> io::Result<Pid> {
        i32::try_from(pid).map(Pid::from_raw).map_err(io::Error::other)
    }

    pub(crate) fn signal_group(pid: u32, signal: Signal) -> io::Result<()> {
        let signal = match signal {
            Signal::Terminate => Posix::SIGTERM,
            Signal::Kill => Posix::SIGKILL,
        };
        killpg(group(pid)?, signal).map_err(io::Error::from)
    }

    pub(crate) fn group_alive(pid: u32) -> bool {
        group(pid).is_ok_and(|group| killpg(group, None) != Err(nix::errno::Errno::ESRCH))
    }

    /// Lets a pipe that has carried a large message hold more, so that reader and writer take turns less often. Not done
    /// before it is of use: there is a limit to what all pipes of a user may hold.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(crate) fn widen(pipe: &impl std::os::fd::AsFd) {
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

    pub(crate) fn signal_group(_: u32, _: Signal) -> io::Result<()> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }

    pub(crate) fn group_alive(_: u32) -> bool {
        false
    }

    pub(crate) fn widen<T>(_: &T) {}

    pub(crate) fn exit_of(status: std::process::ExitStatus) -> crate::stdio::Exit {
        crate::stdio::Exit { code: status.code(), signal: None }
    }
}

pub(crate) use imp::{exit_of, group_alive, own_group, signal_group, widen};
