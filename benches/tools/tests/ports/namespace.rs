//! A network of a test's own: a namespace with a pair of interfaces in it.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A network namespace.
pub struct Namespace(String);

impl Namespace {
    /// `None`, and a line that says why, where there is no `ip` or this user may not make one.
    fn new() -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("srnic-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let made = Command::new("ip").args(["netns", "add", &name]).output();
        if !made.is_ok_and(|made| made.status.success()) {
            println!("skipped: no network namespace can be made (it takes iproute2 and root)");
            return None;
        }
        Some(Self(name))
    }

    /// A command that runs here.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.0, program]);
        command
    }

    /// Runs a command here to its successful end.
    pub fn run(&self, line: &str) -> String {
        let words: Vec<&str> = line.split_whitespace().collect();
        let output = self.command(words[0]).args(&words[1..]).output().expect("ip runs");
        let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        assert!(output.status.success(), "{line}: {said:?}");
        said.concat()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "delete", &self.0]).status();
    }
}

/// Two interfaces, `left` and `right`, each the other's cable end, without addresses of the
/// kernel's.
pub struct Veth {
    left: Namespace,
    /// That of `right`, if it is another.
    right: Option<Namespace>,
}

impl Veth {
    /// Both in one namespace, so that the side channel of the tools is as well. `None` where there
    /// can be none.
    pub fn new(mtu: u16) -> Option<Self> {
        let left = Namespace::new()?;
        // Indices far apart: DPDK's packet sockets collide where the numbers of two processes
        // differ as those of their interfaces do.
        left.run("ip link add left index 1000 type veth peer name right index 20000");
        left.run("ip link set lo up");
        for interface in ["left", "right"] {
            left.run(&format!("ip link set {interface} mtu {mtu} up"));
        }
        Some(Self { left, right: None })
    }

    /// Each in a namespace of its own.
    pub fn apart(mtu: u16) -> Option<Self> {
        let (left, right) = (Namespace::new()?, Namespace::new()?);
        left.run(&format!("ip link add left type veth peer name right netns {}", right.0));
        left.run(&format!("ip link set left mtu {mtu} up"));
        right.run(&format!("ip link set right mtu {mtu} up"));
        Some(Self { left, right: Some(right) })
    }

    /// The namespaces of both ends.
    pub fn ends(&self) -> [&Namespace; 2] {
        [&self.left, self.right.as_ref().unwrap_or(&self.left)]
    }

    /// A command that runs at `left`.
    pub fn command(&self, program: &str) -> Command {
        self.left.command(program)
    }

    /// Runs a command at `left` to its successful end.
    pub fn run(&self, line: &str) -> String {
        self.left.run(line)
    }

    /// Returns `true` if `program` is installed. Prints a line if it is not.
    pub fn has(&self, program: &str) -> bool {
        let found = Command::new("sh").args(["-c", "command -v \"$1\"", "sh", program]).output();
        let found = found.is_ok_and(|found| found.status.success());
        if !found {
            println!("skipped: there is no {program}");
        }
        found
    }

    /// Captures `count` packets that come to `right` for a UDP port.
    pub fn capture(&self, udp_port: u16, count: u32) -> Capture {
        let mut command = self.command("tcpdump");
        command.args(["-l", "-n", "-Q", "in", "-i", "right", "-c", &count.to_string()]);
        command.args(["udp", "dst", "port", &udp_port.to_string()]);
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("tcpdump starts");
        // From this word on it sees every packet.
        let stderr = BufReader::new(child.stderr.take().expect("piped"));
        let mut lines = stderr.lines().map(|line| line.expect("text"));
        assert!(lines.any(|line| line.contains("listening on")), "tcpdump does not listen");
        Capture(child)
    }
}

/// tcpdump at work.
pub struct Capture(Child);

impl Capture {
    /// What it saw, a line for each packet.
    pub fn lines(mut self) -> Vec<String> {
        let stdout = BufReader::new(self.0.stdout.take().expect("piped"));
        stdout.lines().map(|line| line.expect("text")).collect()
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
