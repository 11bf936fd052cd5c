//! Processes of the operating system, told apart even if their ids are used again.

use serde::{Deserialize, Serialize};

/// A process, and no other one that gets its id later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    pub(crate) pid: u32,
    /// When it was started: on Linux in ticks since `boot`, elsewhere in seconds since 1970.
    pub(crate) start: u64,
    /// Which run of the system; empty where `start` suffices.
    pub(crate) boot: String,
}

/// A process of some group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) pid: u32,
    pub(crate) parent: u32,
    pub(crate) group: u32,
    pub(crate) session: u32,
    pub(crate) start: u64,
}

/// Whether that very process is there. One that has ended and was not waited for counts as gone.
pub(crate) fn is_alive(process: &Identity) -> bool {
    let same = |now: Identity| now.boot == process.boot && imp::is_same_start(now.start, process.start);
    identity(process.pid).is_some_and(same)
}

/// The login session of a process.
pub(crate) fn session(pid: u32) -> Option<u32> {
    member(pid).map(|member| member.session)
}

pub(crate) use imp::{identity, member, members, now};

impl Member {
    /// Whether it has one of these pipes open.
    pub(crate) fn holds(&self, pipes: &[u64]) -> bool {
        imp::holds(self.pid, pipes)
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod imp {
    use super::{Identity, Member};
    use std::fs;

    /// Starts are known exactly.
    pub(crate) const fn is_same_start(one: u64, other: u64) -> bool {
        one == other
    }

    /// The fields of `/proc/PID/stat` after the name, which may have any character in it: state first.
    fn stat(pid: u32) -> Option<(char, Vec<u64>)> {
        let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
        let text = String::from_utf8_lossy(&text).into_owned();
        let mut fields = text.get(text.rfind(')')? + 1..)?.split_ascii_whitespace();
        let state = fields.next()?.chars().next()?;
        // What is negative is of no interest.
        Some((state, fields.map(|field| field.parse().unwrap_or_default()).collect()))
    }

    pub(crate) fn member(pid: u32) -> Option<Member> {
        let (state, fields) = stat(pid)?;
        if matches!(state, 'Z' | 'X') {
            return None;
        }
        let id = |at: usize| u32::try_from(*fields.get(at)?).ok();
        Some(Member { pid, parent: id(0)?, group: id(1)?, session: id(2)?, start: *fields.get(18)? })
    }

    fn boot() -> String {
        let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        id.trim().to_owned()
    }

    pub(crate) fn identity(pid: u32) -> Option<Identity> {
        member(pid).map(|member| Identity { pid, start: member.start, boot: boot() })
    }

    pub(crate) fn members() -> Vec<Member> {
        let Ok(all) = fs::read_dir("/proc") else { return Vec::new() };
        let pid = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
        all.filter_map(|entry| member(pid(entry.ok()?)?)).collect()
    }

    pub(crate) fn holds(pid: u32, pipes: &[u64]) -> bool {
        let Ok(all) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
        all.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
            .any(|target| pipes.iter().any(|pipe| target.as_os_str() == format!("pipe:[{pipe}]").as_str()))
    }

    /// The present, on the clock of starts. A process that is started now has this time or a later one.
    pub(crate) fn now() -> Option<u64> {
        // The clock of starts counts from the boot, also while the machine sleeps.
        let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_BOOTTIME).ok()?;
        let ticks = u64::try_from(nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok()??).ok()?;
        let (seconds, nanos) = (u64::try_from(time.tv_sec()).ok()?, u64::try_from(time.tv_nsec()).ok()?);
        Some(seconds.saturating_mul(ticks).saturating_add(nanos.saturating_mul(ticks) / 1_000_000_000))
    }
}

#[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
mod imp {
    use super::{Identity, Member};
    use std::process::Command;

    /// Ages are known by the second only, so two looks may differ.
    pub(crate) const fn is_same_start(one: u64, other: u64) -> bool {
        one.abs_diff(other) <= 2
    }

    /// `ps` is all there is without unsafe code.
    fn ps(choice: &[&str]) -> Vec<Member> {
        let output =
            Command::new("ps").args(["-o", "pid=,ppid=,pgid=,sess=,stat=,etime="]).args(choice).output();
        let Ok(output) = output else { return Vec::new() };
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let now = seconds();
        let one = |line: &str| {
            let mut words = line.split_ascii_whitespace();
            let mut id = || words.next()?.parse::<u32>().ok();
            let (pid, parent, group) = (id()?, id()?, id()?);
            let session = words.next()?.parse().unwrap_or_default();
            if words.next()?.starts_with('Z') {
                return None;
            }
            // [[days-]hours:]minutes:seconds
            let age = words.next()?.split(['-', ':']).rev().zip([1, 60, 3600, 86_400]);
            let age: u64 = age.map(|(part, unit)| part.parse::<u64>().unwrap_or_default() * unit).sum();
            Some(Member { pid, parent, group, session, start: now.saturating_sub(age) })
        };
        text.lines().filter_map(one).collect()
    }

    fn seconds() -> u64 {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.unwrap_or_default().as_secs()
    }

    pub(crate) fn member(pid: u32) -> Option<Member> {
        ps(&["-p", &pid.to_string()]).pop()
    }

    pub(crate) fn identity(pid: u32) -> Option<Identity> {
        Some(Identity { pid, start: member(pid)?.start, boot: String::new() })
    }

    pub(crate) fn members() -> Vec<Member> {
        ps(&["-A"])
    }

    /// Not to be known here: a process whose host was killed before it knew its id is left to the end of its input.
    pub(crate) fn holds(_: u32, _: &[u64]) -> bool {
        false
    }

    pub(crate) fn now() -> Option<u64> {
        Some(seconds())
    }
}

/// The descendants of a process that have left its session.
pub(crate) fn strays(of: u32) -> Vec<Member> {
    let Some(head) = member(of) else { return Vec::new() };
    let all = members();
    let mut family = vec![of];
    let mut at = 0;
    while let Some(parent) = family.get(at).copied() {
        family.extend(all.iter().filter(|one| one.parent == parent && one.pid != parent).map(|one| one.pid));
        at += 1;
    }
    all.into_iter().filter(|one| one.session != head.session && family.contains(&one.pid)).collect()
}

/// Ends a process with all its group, if it leads one; itself alone otherwise.
#[cfg(unix)]
pub(crate) fn end(process: &Member) {
    use nix::sys::signal::{Signal, kill, killpg};
    // 0 and 1 stand for other things than processes of ours.
    if let Ok(pid) = i32::try_from(process.pid)
        && pid > 1
    {
        let send = if process.group == process.pid { killpg } else { kill };
        // Gone already, or not ours to end.
        let _ = send(nix::unistd::Pid::from_raw(pid), Signal::SIGKILL);
    }
}

#[cfg(not(unix))]
pub(crate) fn end(_: &Member) {}

#[cfg(not(unix))]
mod imp {
    use super::{Identity, Member};

    pub(crate) const fn is_same_start(one: u64, other: u64) -> bool {
        one == other
    }

    pub(crate) fn member(_: u32) -> Option<Member> {
        None
    }

    pub(crate) fn identity(_: u32) -> Option<Identity> {
        None
    }

    pub(crate) fn members() -> Vec<Member> {
        Vec::new()
    }

    pub(crate) fn holds(_: u32, _: &[u64]) -> bool {
        false
    }

    pub(crate) fn now() -> Option<u64> {
        None
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_and_another_one_of_its_id_is_not() {
        let own = identity(std::process::id()).unwrap();
        assert!(is_alive(&own));
        assert!(!is_alive(&Identity { start: own.start + 1000, ..own.clone() }));
        assert!(!is_alive(&Identity { boot: "another".into(), ..own }));
        assert!(members().iter().any(|member| member.pid == std::process::id()));
    }

    #[test]
    fn one_that_was_not_waited_for_is_gone() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        while member(pid).is_some() {
            std::thread::yield_now();
        }
        assert_eq!(identity(pid), None);
        child.wait().unwrap();
    }
}
