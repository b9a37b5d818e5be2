//! Network namespaces without names, and commands inside them.

use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};
use std::thread;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};

/// One line that says what the machine refused.
pub(crate) type Failure = String;

/// A network of its own, as long as this is alive.
#[derive(Debug)]
pub(crate) struct Namespace(File);

impl Namespace {
    pub(crate) fn new() -> Result<Self, Failure> {
        apart(|| {
            unshare(CloneFlags::CLONE_NEWNET)
                .map_err(|errno| format!("network namespaces cannot be made: {} (root is needed)", errno.desc()))?;
            let file = here()?;
            for part in ["all", "default"] {
                // No router solicitations and the like in the experiment.
                let file = format!("/proc/sys/net/ipv6/conf/{part}/disable_ipv6");
                if fs::exists(&file).unwrap_or(false) {
                    write(&file, "1")?;
                }
                write(&format!("/proc/sys/net/ipv4/conf/{part}/rp_filter"), "0")?;
            }
            Ok(Self(file))
        })
    }

    /// Where `ip` finds it while this process lives.
    pub(crate) fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }

    /// Does something inside, in a thread that ends with it: sockets and files of `/proc` that are opened there stay in it.
    pub(crate) fn inside<T: Send>(&self, act: impl FnOnce() -> Result<T, Failure> + Send) -> Result<T, Failure> {
        apart(|| {
            setns(&self.0, CloneFlags::CLONE_NEWNET)
                .map_err(|errno| format!("a network namespace cannot be entered: {}", errno.desc()))?;
            act()
        })
    }

    /// Has `ip` or `tc` carry out commands inside, one per line.
    pub(crate) fn batch(&self, program: &str, commands: &[String]) -> Result<(), Failure> {
        if commands.is_empty() {
            return Ok(());
        }
        self.inside(|| piped(program, commands))
    }

    /// Sets a sysctl inside, and checks that it took.
    pub(crate) fn set(&self, settings: &[(String, String)]) -> Result<(), Failure> {
        self.inside(|| {
            for (name, value) in settings {
                let file = format!("/proc/sys/net/{}", name.replace('.', "/"));
                write(&file, value)?;
                let found = fs::read_to_string(&file).map_err(|error| format!("net.{name}: {error}"))?;
                if found.trim() != value {
                    return Err(format!("net.{name} is {} after it was set to {value}", found.trim()));
                }
            }
            Ok(())
        })
    }

    /// The same where `/sys` is that of the namespace.
    pub(crate) fn inside_with_sys<T: Send>(
        &self,
        act: impl FnOnce() -> Result<T, Failure> + Send,
    ) -> Result<T, Failure> {
        self.inside(|| {
            let refused =
                |errno: nix::Error| format!("/sys of a network namespace cannot be mounted: {}", errno.desc());
            let nothing = None::<&str>;
            unshare(CloneFlags::CLONE_NEWNS).map_err(refused)?;
            // What is mounted here is not mounted for others.
            mount(nothing, "/", nothing, MsFlags::MS_REC | MsFlags::MS_PRIVATE, nothing).map_err(refused)?;
            mount(Some("sysfs"), "/sys", Some("sysfs"), MsFlags::empty(), nothing).map_err(refused)?;
            act()
        })
    }
}

/// The namespace of the calling thread.
fn here() -> Result<File, Failure> {
    File::open("/proc/thread-self/ns/net").map_err(|error| format!("/proc/thread-self/ns/net: {error}"))
}

/// In a thread of its own: its namespace is nobody else's.
fn apart<T: Send>(act: impl FnOnce() -> Result<T, Failure> + Send) -> Result<T, Failure> {
    thread::scope(|scope| {
        let builder = thread::Builder::new().name("incast-netns".into());
        let thread =
            builder.spawn_scoped(scope, act).map_err(|error| format!("a thread cannot be started: {error}"))?;
        thread.join().unwrap_or_else(|_| Err("a thread in a network namespace has ended early".into()))
    })
}

fn write(file: &str, value: &str) -> Result<(), Failure> {
    fs::write(file, format!("{value}\n")).map_err(|error| {
        let name = file.trim_start_matches("/proc/sys/").replace('/', ".");
        format!("{name} = {value} is refused: {error}")
    })
}

fn piped(program: &str, commands: &[String]) -> Result<(), Failure> {
    let text = commands.join("\n") + "\n";
    let child = Command::new(program)
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.map_err(|error| format!("{program}: {error} (Debian, Ubuntu: apt-get install iproute2)"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // If it ended early, what it said is worth more than that the pipe broke.
        let _ = stdin.write_all(text.as_bytes());
    }
    let ended = child.wait_with_output().map_err(|error| format!("{program}: {error}"))?;
    if ended.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ended.stderr);
    let number = said.split("Command failed -:").nth(1).and_then(|rest| rest.trim().parse::<usize>().ok());
    let command = number.and_then(|line| commands.get(line.wrapping_sub(1))).map_or("", String::as_str);
    Err(format!("{program} {command}: {}", said.lines().next().unwrap_or("it failed")))
}
