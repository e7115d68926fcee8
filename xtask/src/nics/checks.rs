//! What is done with each NIC: the tools that people have, in both guests.

use serde_json::Value;

use super::lab::{Lab, address, device, host};
use crate::error::{Error, Result};

/// MTU of Ethernet.
pub const ETHERNET: u16 = 1500;

/// What is looked at.
#[derive(Clone, Copy)]
pub struct Check {
    /// What the table calls it.
    pub name: &'static str,
    /// At which of the two MTUs: what has to do with the cable and the slot does not depend on it.
    pub at: At,
    pub run: fn(Nic, &mut Lab) -> Result<()>,
}

/// One MTU, or each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum At {
    Each,
    Ethernet,
    Largest,
}

/// All checks. The last one takes the NIC away.
pub const CHECKS: [Check; 5] = [
    Check { name: "plain", at: At::Each, run: Nic::plain },
    Check { name: "loss", at: At::Each, run: Nic::loss },
    Check { name: "longer refused", at: At::Largest, run: Nic::longer },
    Check { name: "link", at: At::Ethernet, run: Nic::link },
    Check { name: "removed", at: At::Largest, run: Nic::removed },
];

/// A NIC in both guests, as one is opened.
#[derive(Clone, Copy, Debug)]
pub struct Nic {
    /// Its place among the others.
    pub number: usize,
    pub mtu: u16,
    /// What the device string says of memory.
    pub memory: &'static str,
}

/// Options of the measuring tools. An emulated guest on a busy machine may not be heard of for
/// longer than it takes to give up by default.
const WRITES: &str = "-n 64 -s 65536 -u 18 --verify";
const SENDS: &str = "-n 50 -s 1000 -u 18";
/// What is lost of what either end of a pair sends and receives.
const LOSS: &str = "fault:loss=1%,seed=1:";
/// Blocks of 64 KiB of the file that is sent.
const FILE_BLOCKS: u32 = 32;
/// Looks, five a second, at what an answering tool has said.
const LOOKS: u32 = 600;

impl Nic {
    /// The device string of a guest's.
    fn device(self, guest: usize) -> String {
        let Self { number, mtu, memory } = self;
        format!("pci:{},ip={},mtu={mtu},{memory}", address(number), ip(guest))
    }

    /// WRITEs whose bytes are compared, round trips, and a file whose SHA-256 is.
    pub fn plain(self, lab: &mut Lab) -> Result<()> {
        self.measure(lab, "write-bw", WRITES, "")?;
        self.measure(lab, "send-lat", SENDS, "")?;
        self.send_file(lab)
    }

    /// WRITEs over a network that loses packets. Some must have been lost, and sent again.
    pub fn loss(self, lab: &mut Lab) -> Result<()> {
        self.measure(lab, "write-bw", WRITES, LOSS)?;
        lab.guests[1].begin("cat /tmp/result.json")?;
        let text = lab.guests[1].end()?;
        let result: Value = serde_json::from_str(&text).map_err(|e| Error(format!("{text}: {e}")))?;
        for key in ["drops", "retransmits"] {
            let count = result[key].as_u64().unwrap_or_default();
            println!("{key}: {count}");
            if count == 0 {
                return Err(Error(format!("no {key} were counted: nothing was lost")));
            }
        }
        Ok(())
    }

    /// One byte more than the longest packet that the NIC takes is refused, and the error says so.
    pub fn longer(self, lab: &mut Lab) -> Result<()> {
        let longer = Self { mtu: self.mtu + 1, ..self };
        self.refused(lab, &longer.device(0), &self.mtu.to_string())
    }

    /// The cable is pulled at the first guest, which says so, and nothing passes; plugged in again,
    /// it does.
    pub fn link(self, lab: &mut Lab) -> Result<()> {
        self.answer(lab)?;
        self.ping(lab)?;
        lab.monitor.set_link(&device(self.number), false)?;
        self.no_answer(lab)?;
        lab.monitor.set_link(&device(self.number), true)?;
        self.ping(lab)?;
        stop(lab)?;
        // Who opens it while there is no link is told.
        lab.monitor.set_link(&device(self.number), false)?;
        self.answer(lab)?;
        said(lab, "has no link: is its cable plugged in")?;
        lab.monitor.set_link(&device(self.number), true)?;
        self.ping(lab)?;
        stop(lab).map(drop)
    }

    /// The NIC is taken out of the first guest while it is used there: its user says so and ends,
    /// the guest has it no more, and who asks for it is told.
    pub fn removed(self, lab: &mut Lab) -> Result<()> {
        self.answer(lab)?;
        self.ping(lab)?;
        lab.monitor.remove(&device(self.number))?;
        said(lab, "was removed")?;
        let [first, _] = &mut lab.guests;
        // By itself, without a signal, and with an error.
        first.begin("wait $(cat /tmp/answerer.pid)")?;
        let (status, _) = first.outcome()?;
        if status != 2 {
            return Err(Error(format!(
                "the tool whose NIC was removed ended with {status}, not with an error"
            )));
        }
        // With vfio-pci the kernel waits until it is given back.
        first.begin(&until(&format!("[ ! -e /sys/bus/pci/devices/{} ]", address(self.number))))?;
        first.end()?;
        self.no_answer(lab)?;
        self.refused(lab, &self.device(0), "there is none; `lspci -D` lists those that there are")
    }

    /// A measuring tool: its server in the first guest, its client in the other.
    fn measure(self, lab: &mut Lab, tool: &str, options: &str, faults: &str) -> Result<()> {
        let [first, second] = &mut lab.guests;
        first.begin(&format!("srnic {tool} -d {faults}{} {options} --bind 0.0.0.0", self.device(0)))?;
        second.begin(&format!(
            "srnic {tool} -d {faults}{} {options} --json /tmp/result.json {}",
            self.device(1),
            host(0)
        ))?;
        both(lab)
    }

    fn send_file(self, lab: &mut Lab) -> Result<()> {
        const SUM: &str = "sha256sum < /tmp/file";
        let [first, second] = &mut lab.guests;
        first.begin("rm -f /tmp/file; true")?;
        first.end()?;
        second.begin(&format!(
            "dd if=/dev/urandom of=/tmp/file bs=65536 count={FILE_BLOCKS} 2> /dev/null; {SUM}"
        ))?;
        let sent = second.end()?;
        first.begin(&format!("srnic file recv -d {} --bind 0.0.0.0 --out /tmp/file", self.device(0)))?;
        second.begin(&format!("srnic file send -d {} --host {} --in /tmp/file", self.device(1), host(0)))?;
        both(lab)?;
        let [first, _] = &mut lab.guests;
        first.begin(SUM)?;
        let received = first.end()?;
        if sent == received {
            return Ok(());
        }
        Err(Error(format!("the SHA-256 of the file sent is {sent}, that of the one received {received}")))
    }

    /// Has the first guest answer pings; what it says goes to a file.
    fn answer(self, lab: &mut Lab) -> Result<()> {
        let [first, _] = &mut lab.guests;
        first.begin(&format!(
            "srnic ping -d {} > /tmp/answers 2>&1 & echo $! > /tmp/answerer.pid",
            self.device(0)
        ))?;
        first.end()?;
        said(lab, "answering at")
    }

    /// The second guest gets answers.
    fn ping(self, lab: &mut Lab) -> Result<()> {
        let (status, said) = self.ask(lab)?;
        if status == 0 { Ok(()) } else { Err(Error(format!("no ping was answered:\n{said}"))) }
    }

    /// It gets none.
    fn no_answer(self, lab: &mut Lab) -> Result<()> {
        let (status, said) = self.ask(lab)?;
        if status != 0 { Ok(()) } else { Err(Error(format!("nothing was to pass, and it did:\n{said}"))) }
    }

    fn ask(self, lab: &mut Lab) -> Result<(u8, String)> {
        let [_, second] = &mut lab.guests;
        second.begin(&format!("srnic ping -c 5 -i 0.3 -W 5 -q -d {} {}", self.device(1), ip(0)))?;
        second.outcome()
    }

    /// A device that cannot be opened in the first guest, and why.
    fn refused(self, lab: &mut Lab, device: &str, words: &str) -> Result<()> {
        let [first, _] = &mut lab.guests;
        first.begin(&format!("srnic ping -c 1 -d {device} {}", ip(1)))?;
        match first.outcome()? {
            (0, said) => Err(Error(format!("{device} was to be refused, and was not:\n{said}"))),
            (_, said) if said.contains(words) => Ok(()),
            (_, said) => Err(Error(format!("{device} was to be refused with {words:?}:\n{said}"))),
        }
    }
}

/// The address of a guest's engine.
fn ip(guest: usize) -> String {
    format!("10.7.0.{}", guest + 1)
}

/// Waits for both tools, whatever the first says: the other one may know why.
fn both(lab: &mut Lab) -> Result<()> {
    let [first, second] = &mut lab.guests;
    match (first.end(), second.end()) {
        (Ok(_), Ok(said)) => {
            println!("{said}");
            Ok(())
        }
        (Err(first), Err(second)) => Err(Error(format!("{first}\n{second}"))),
        (Err(error), Ok(_)) | (Ok(_), Err(error)) => Err(error),
    }
}

/// Waits until the answering tool has said these words.
fn said(lab: &mut Lab, words: &str) -> Result<()> {
    let [first, _] = &mut lab.guests;
    first.begin(&until(&format!("grep -q '{words}' /tmp/answers")))?;
    if first.outcome()?.0 == 0 {
        return Ok(());
    }
    first.begin("cat /tmp/answers")?;
    let answers = first.end()?;
    Err(Error(format!("the answering tool does not say {words:?} but\n{answers}")))
}

/// Ends the answering tool as Ctrl-C does; it must end well.
fn stop(lab: &mut Lab) -> Result<String> {
    let [first, _] = &mut lab.guests;
    first.begin("kill -INT $(cat /tmp/answerer.pid); wait $(cat /tmp/answerer.pid)")?;
    first.end()
}

/// A line of shell that waits until a condition holds, for a limit.
fn until(condition: &str) -> String {
    format!("for look in $(seq {LOOKS}); do {condition} && break; sleep 0.2; done; {condition}")
}
