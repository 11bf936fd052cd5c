//! What differs between operating systems: processes and signals.
//!
//! Everything POSIX sits here behind `cfg(unix)`; finding descendants is exact on Linux (a subreaper, `/proc`), good on
//! macOS (process groups and `ps`), and elsewhere only the started process itself is known.

use std::io;
use std::process::Child;

/// A process as a list of processes shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Process id.
    pub pid: u32,
    /// Its command line, arguments separated by spaces.
    pub command: String,
    /// Its second argument, which tells our own helpers apart (see [`crate::run::PRIVATE_PREFIX`]).
    pub first_argument: Option<String>,
}

/// How urgently a process is told to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Force {
    /// It may clean up (SIGTERM).
    Ask,
    /// It ends (SIGKILL).
    Kill,
}

/// A child that ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reaped {
    /// Process id.
    pub pid: u32,
    /// Exit code, if it ended by itself.
    pub code: Option<i32>,
    /// Name of the signal that ended it.
    pub signal: Option<String>,
}

/// Makes this process the parent of all its descendants' orphans, where the system can do that.
pub fn adopt_orphans() {
    #[cfg(target_os = "linux")]
    let _ = nix::sys::prctl::set_child_subreaper(true);
}

/// Binds this process, and with it all threads and processes that it starts from now on, to the last core that it may
/// use. Returns that core; `None` where the system has no such call or refuses it.
pub fn pin_to_one_core() -> Option<usize> {
    #[cfg(target_os = "linux")]
    {
        use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
        let this = nix::unistd::Pid::from_raw(0);
        let allowed = sched_getaffinity(this).ok()?;
        let core = (0..CpuSet::count()).rev().find(|core| allowed.is_set(*core) == Ok(true))?;
        let mut one = CpuSet::new();
        one.set(core).ok()?;
        sched_setaffinity(this, &one).ok()?;
        Some(core)
    }
    #[cfg(not(target_os = "linux"))]
    None
}

/// The numeric id of the user, 0 where there is no such thing.
pub fn user_id() -> u32 {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        // nix's `getuid` hangs on a feature that nothing else needs; a new process's own entry tells as well.
        if let Ok(own) = std::fs::metadata("/proc/self") {
            return own.uid();
        }
        tempfile::tempfile().and_then(|file| file.metadata()).map_or(0, |m| m.uid())
    }
    #[cfg(not(unix))]
    0
}

/// Whether the process lives. A zombie, which only waits for its parent to look, does not; only Linux can tell.
pub fn is_alive(pid: u32) -> bool {
    #[cfg(target_os = "linux")]
    {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
        stat.ok().and_then(|stat| parse_stat(pid, &stat)).is_some_and(|row| !row.zombie)
    }
    #[cfg(all(unix, not(target_os = "linux")))]
    {
        let Ok(pid) = i32::try_from(pid) else { return false };
        !matches!(
            nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), None),
            Err(nix::errno::Errno::ESRCH)
        )
    }
    #[cfg(not(unix))]
    {
        let _ = pid;
        false
    }
}

/// Ends one process. A process that is gone already is none of its concern.
pub fn end(pid: u32, force: Force) {
    // 0 and 1 would mean the own group and init.
    let Some(pid) = i32::try_from(pid).ok().filter(|pid| *pid > 1) else { return };
    #[cfg(unix)]
    {
        let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal(force));
    }
    #[cfg(not(unix))]
    {
        let mut command = std::process::Command::new("taskkill");
        if force == Force::Kill {
            command.arg("/F");
        }
        let _ = command.args(["/T", "/PID", &pid.to_string()]).status();
    }
}

/// Sends a process a signal by its name, such as `SIGTERM`.
///
/// # Errors
/// There is no such signal, or it can't be sent; in words.
pub fn send_signal(pid: u32, name: &str) -> Result<(), String> {
    #[cfg(unix)]
    {
        let signal: nix::sys::signal::Signal =
            name.parse().map_err(|_| format!("there is no signal `{name}`"))?;
        let pid = i32::try_from(pid).ok().filter(|pid| *pid > 1).ok_or("the process has no id")?;
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal)
            .map_err(|error| format!("{name} can't be sent: {error}"))
    }
    #[cfg(not(unix))]
    {
        let _ = pid;
        Err(format!("{name} can't be sent on this system"))
    }
}

/// Ends a process group by its leader's id.
pub fn end_group(leader: u32, force: Force) {
    let Some(leader) = i32::try_from(leader).ok().filter(|pid| *pid > 1) else { return };
    #[cfg(unix)]
    {
        let _ = nix::sys::signal::killpg(nix::unistd::Pid::from_raw(leader), signal(force));
    }
    #[cfg(not(unix))]
    end(leader.unsigned_abs(), force);
}

#[cfg(unix)]
const fn signal(force: Force) -> nix::sys::signal::Signal {
    match force {
        Force::Ask => nix::sys::signal::Signal::SIGTERM,
        Force::Kill => nix::sys::signal::Signal::SIGKILL,
    }
}

/// Makes the command the leader of a process group of its own, so that signals to the terminal's group don't reach it.
pub fn own_group(command: &mut std::process::Command) {
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    #[cfg(not(unix))]
    let _ = command;
}

/// Makes this process the only one of a session of its own, as a daemon does, if it leads no process group.
pub fn leave_session() {
    #[cfg(unix)]
    let _ = nix::unistd::setsid();
}

/// From now on ignores the signals by which a terminal or an init system ends programs: whoever calls this is ended
/// over a channel of its own. Processes started later inherit it, so call it last.
pub fn ignore_polite_signals() {
    #[cfg(unix)]
    {
        use nix::sys::signal::{SigSet, Signal};
        let mut set = SigSet::empty();
        for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT] {
            set.add(signal);
        }
        let _ = set.thread_block();
    }
}

/// Lets go of stdin, stdout and stderr, so that the other ends see them close when a child that inherited them ends.
///
/// # Errors
/// The system's.
pub fn release_stdio() -> io::Result<()> {
    #[cfg(unix)]
    {
        let null = std::fs::File::options().read(true).write(true).open("/dev/null")?;
        nix::unistd::dup2_stdin(&null)?;
        nix::unistd::dup2_stdout(&null)?;
        nix::unistd::dup2_stderr(&null)?;
    }
    Ok(())
}

/// Waits for the child, and for all orphans that were adopted; tells of each that ended. Returns when none is left.
pub fn wait_for_all(mut child: Child, mut on_end: impl FnMut(Reaped)) {
    #[cfg(unix)]
    {
        use nix::errno::Errno;
        use nix::sys::wait::{WaitStatus, waitpid};
        let main = child.id();
        let mut main_ended = false;
        let reaped = |pid: nix::unistd::Pid, code, signal| Reaped {
            pid: u32::try_from(pid.as_raw()).unwrap_or_default(),
            code,
            signal,
        };
        loop {
            let one = match waitpid(None, None) {
                Ok(WaitStatus::Exited(pid, code)) => reaped(pid, Some(code), None),
                Ok(WaitStatus::Signaled(pid, signal, _)) => {
                    reaped(pid, None, Some(signal.as_str().to_owned()))
                }
                Ok(_) | Err(Errno::EINTR) => continue,
                // A signal that nix has no name for (a real-time one). The child is reaped all the same.
                Err(Errno::EINVAL) if !main_ended && !is_alive(main) => {
                    Reaped { pid: main, code: None, signal: Some("a real-time signal".to_owned()) }
                }
                Err(Errno::EINVAL) => continue,
                Err(_) => break,
            };
            main_ended |= one.pid == main;
            on_end(one);
        }
        // It is reaped; std must not wait for a process id that may be another's by now. `Child` does not on drop.
        drop(child.stdin.take());
    }
    #[cfg(not(unix))]
    {
        let pid = child.id();
        let code = child.wait().ok().and_then(|status| status.code());
        on_end(Reaped { pid, code, signal: None });
    }
}

/// All living descendants of this process, and the members of the process group `group`, nearest first. Zombies are
/// left out.
pub fn descendants(group: u32) -> Vec<Process> {
    #[cfg(unix)]
    {
        let own = std::process::id();
        let all = table();
        let mut found: Vec<u32> = Vec::new();
        let mut frontier = vec![own];
        while let Some(parent) = frontier.pop() {
            for row in all.iter().filter(|row| row.parent == parent && row.pid != own) {
                if !found.contains(&row.pid) {
                    found.push(row.pid);
                    frontier.push(row.pid);
                }
            }
        }
        for row in all.iter().filter(|row| row.group == group && row.pid != own) {
            if !found.contains(&row.pid) {
                found.push(row.pid);
            }
        }
        found
            .into_iter()
            .filter_map(|pid| all.iter().find(|row| row.pid == pid && !row.zombie))
            .map(Row::describe)
            .collect()
    }
    #[cfg(not(unix))]
    {
        let _ = group;
        Vec::new()
    }
}

#[cfg(unix)]
struct Row {
    pid: u32,
    parent: u32,
    group: u32,
    zombie: bool,
    /// The arguments, where the table has them at no cost.
    arguments: Option<Vec<String>>,
}

#[cfg(unix)]
impl Row {
    fn describe(&self) -> Process {
        let arguments = self.arguments.clone().unwrap_or_else(|| arguments(self.pid));
        let first_argument = arguments.get(1).cloned();
        let mut command = arguments.join(" ");
        if command.len() > 300 {
            command = command.chars().take(300).chain("…".chars()).collect();
        }
        Process { pid: self.pid, command, first_argument }
    }
}

#[cfg(target_os = "linux")]
fn table() -> Vec<Row> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid: u32| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            parse_stat(pid, &stat)
        })
        .collect()
}

/// The name in parentheses may itself hold parentheses and spaces: the last `)` ends it.
#[cfg(target_os = "linux")]
fn parse_stat(pid: u32, stat: &str) -> Option<Row> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    Some(Row { pid, parent, group, zombie: matches!(state, "Z" | "X"), arguments: None })
}

#[cfg(target_os = "linux")]
fn arguments(pid: u32) -> Vec<String> {
    let raw = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    raw.split(|byte| *byte == 0)
        .filter(|part| !part.is_empty())
        .map(|part| String::from_utf8_lossy(part).into_owned())
        .collect()
}

#[cfg(all(unix, not(target_os = "linux")))]
fn table() -> Vec<Row> {
    let Ok(output) =
        std::process::Command::new("ps").args(["-A", "-o", "pid=,ppid=,pgid=,stat=,args="]).output()
    else {
        return Vec::new();
    };
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| {
            let mut fields = line.split_ascii_whitespace();
            Some(Row {
                pid: fields.next()?.parse().ok()?,
                parent: fields.next()?.parse().ok()?,
                group: fields.next()?.parse().ok()?,
                zombie: fields.next()?.starts_with('Z'),
                arguments: Some(fields.map(str::to_owned).collect()),
            })
        })
        // `ps` itself is our child and gone by now.
        .filter(|row| is_alive(row.pid))
        .collect()
}

#[cfg(all(unix, not(target_os = "linux")))]
fn arguments(_: u32) -> Vec<String> {
    Vec::new()
}

/// Waits for Ctrl-C, SIGTERM or SIGHUP; the latter stays ignored where whoever started this process ignores it, as
/// `nohup` does (only Linux can tell).
///
/// # Errors
/// The handlers can't be installed.
pub async fn asked_to_stop() -> io::Result<()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        // Before the handler is there.
        let mut hang_up = if ignores_hang_up() { None } else { Some(signal(SignalKind::hangup())?) };
        let hung_up = async {
            match &mut hang_up {
                Some(signal) => signal.recv().await,
                None => std::future::pending().await,
            }
        };
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            result = tokio::signal::ctrl_c() => result,
            _ = terminate.recv() => Ok(()),
            _ = hung_up => Ok(()),
        }
    }
    #[cfg(not(unix))]
    tokio::signal::ctrl_c().await
}

#[cfg(unix)]
fn ignores_hang_up() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    // SIGHUP is signal 1, the lowest bit.
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 != 0)
}

/// Makes a file executable for its owner.
///
/// # Errors
/// The system's.
pub fn make_executable(path: &std::path::Path) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700))
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        Ok(())
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_process_name_with_parentheses_and_spaces_does_not_shift_the_fields() {
        let row = parse_stat(7, "7 (a) b (c)) S 3 5 7 0 -1").unwrap();
        assert_eq!((row.pid, row.parent, row.group, row.zombie), (7, 3, 5, false));
        assert!(parse_stat(7, "7 (x) Z 3 5").unwrap().zombie);
        assert!(parse_stat(7, "garbage").is_none());
    }

    #[test]
    fn the_own_user_is_known() {
        use std::os::unix::fs::MetadataExt;
        assert_eq!(user_id(), tempfile::tempfile().unwrap().metadata().unwrap().uid());
    }
}
