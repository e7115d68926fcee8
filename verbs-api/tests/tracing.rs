//! What a device tells `tracing`: its control path, whole and in order, and nothing of its data
//! path.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tracing_subscriber::fmt::MakeWriter;
use verbs_api::{Connector, Device, Error, Listener, RecvRequest, SendData, SendRequest};

const LIMIT: Duration = Duration::from_secs(60);

/// What was told, as text.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<u8>>>);

impl Write for Told {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Told {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

impl Told {
    /// Lines told since the last call.
    fn lines(&self) -> Vec<String> {
        let bytes = core::mem::take(&mut *self.0.lock().expect("no panic"));
        String::from_utf8(bytes).expect("text").lines().map(|line| line.trim().to_owned()).collect()
    }
}

/// Everything that `body` has told in this thread.
fn listen(body: impl FnOnce(&Told)) {
    let told = Told::default();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(told.clone())
        .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
        .with_ansi(false)
        .without_time()
        .finish();
    tracing::subscriber::with_default(subscriber, || body(&told));
}

/// A line without the number of the connection, which is another each time.
fn without_id(line: &str) -> String {
    let words = line.split(' ').filter(|word| !word.starts_with("id="));
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn the_life_of_a_connection_is_told_and_its_traffic_is_not() {
    listen(|told| {
        // Its own peer, so that all is told in this thread.
        let device = Device::open("sim:told").expect("opened");
        assert_eq!(
            told.lines(),
            ["INFO open{port=\"sim\"}: srnic::device: opened ip=10.77.0.1 driver=Inline"]
        );
        let listener = Listener::bind(&device, 7471).expect("a listener");
        let pair = || {
            let (pd, cq) = (device.alloc_pd(), device.create_cq(16).expect("a queue"));
            (pd.queue_pair(&cq, &cq).build().expect("a queue pair"), cq)
        };
        let ((ours, mut cq), (mut theirs, mut its_cq)) = (pair(), pair());
        let (our_qpn, their_qpn) = (ours.qpn(), theirs.qpn());
        theirs.post_recv(&RecvRequest { wr_id: 1, scatter: &[] }).expect("posted");
        told.lines();
        let mut connecting = Connector::new().connect(ours, listener.local_addr()).expect("begun");
        let request = loop {
            match listener.poll() {
                Some(request) => break request,
                None => assert!(connecting.poll().expect("no error").is_none()),
            }
        };
        let mut accepting = request.accept(theirs).expect("accepted");
        let (mut one, mut two) = (None, None);
        while one.is_none() || two.is_none() {
            if one.is_none() {
                one = connecting.poll().expect("connected");
            }
            if two.is_none() {
                two = accepting.poll().expect("connected");
            }
        }
        let lines = told.lines();
        let lines: Vec<String> = lines.iter().map(|line| without_id(line)).collect();
        let expected = [
            format!("INFO srnic::cm: connecting qpn={our_qpn} to=10.77.0.1:7471"),
            "INFO srnic::cm: requested port=7471".to_owned(),
            format!("DEBUG srnic::qp: modified qpn={their_qpn} state=RTR dest_qpn={our_qpn}"),
            format!("INFO srnic::cm: granted remote_qpn={their_qpn} mode=Srnic"),
            format!("DEBUG srnic::qp: modified qpn={our_qpn} state=RTS"),
            "INFO srnic::cm: established".to_owned(),
        ];
        let mut rest = lines.iter();
        for line in &expected {
            assert!(rest.any(|told| told == line), "no `{line}` behind those before it: {lines:#?}");
        }

        let (mut one, two) = (one.expect("connected"), two.expect("connected"));
        one.post_send(&SendRequest::send(SendData::Inline(&[])).signaled()).expect("posted");
        while its_cq.poll().is_none() {}
        while cq.poll().is_none() {}
        assert_eq!(told.lines(), [""; 0], "traffic is no news");

        drop(two);
        let end = std::time::Instant::now() + LIMIT;
        while !one.is_disconnected() && std::time::Instant::now() < end {
            device.progress();
        }
        let lines: Vec<String> = told.lines().iter().map(|line| without_id(line)).collect();
        for line in [
            format!("DEBUG srnic::qp: destroyed qpn={their_qpn}"),
            "INFO srnic::cm: disconnected".to_owned(),
            format!("DEBUG srnic::qp: modified qpn={our_qpn} state=ERR"),
        ] {
            assert!(lines.contains(&line), "no `{line}` in {lines:#?}");
        }
        drop((listener, one, cq, its_cq, device));
        assert!(told.lines().contains(&"INFO srnic::device: closed ip=10.77.0.1".to_owned()));
    });
}

#[test]
fn what_fails_is_told() {
    listen(|told| {
        let _ours = Device::open("sim:told-fails").expect("opened");
        told.lines();
        assert!(matches!(Device::open("sim:told-fails,mtu=9000"), Err(Error::Incompatible { .. })));
        let lines = told.lines();
        assert!(
            lines.len() == 1
                && lines[0].starts_with("ERROR open{port=\"sim\"}: srnic::device: not opened error="),
            "{lines:?}"
        );
    });
}

#[test]
fn a_capture_whose_end_could_not_be_written_is_told_of() {
    let (reader, writer) = io::pipe().expect("a pipe");
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&writer));
    listen(|told| {
        let device = Device::open(&format!("sim:torn,pcap={path}")).expect("the header is taken");
        told.lines();
        drop(reader);
        // One frame at least: the question for a host that nobody has.
        device.alloc_pd().create_ah_to([10, 77, 9, 9].into()).expect_err("nobody");
        drop(device);
        let lines = told.lines();
        let line = lines.iter().find(|line| line.contains("capture incomplete")).expect("it is told");
        assert!(line.starts_with("ERROR srnic::device: capture incomplete path=/proc/self/fd/"), "{line}");
        assert!(line.contains("roken pipe"), "{line}");
    });
}
