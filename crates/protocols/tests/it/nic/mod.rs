//! A NIC as its controller sees it: connections' receiving ends that ask for ACKs and carry out actions.

use std::fmt::Write;

use incast_protocols::receiver::{AckCause, Action, Arrival, FlowIndex, Gate, Receiver, SentAck};
use incast_protocols::switch::Marks;
use incast_protocols::{Bytes, Offset, Time};

/// The window of a socket that nobody controls.
pub(crate) const SOCKET: Bytes = Bytes(65_535);

/// What a connection's receiving end keeps.
#[derive(Clone, Debug, Default)]
pub(crate) struct End {
    pub(crate) next: u64,
    pub(crate) highest: u64,
    pub(crate) edge: u64,
    pub(crate) beyond_gap: Vec<(u64, u64)>,
    pub(crate) held: Option<AckCause>,
}

impl End {
    pub(crate) fn take_in(&mut self, start: u64, payload: u64, marks: Marks) -> Arrival {
        let (had, before) = (self.held_bytes(), self.next);
        let end = start + payload;
        self.highest = self.highest.max(end);
        if end > self.next {
            self.beyond_gap.push((start.max(self.next), end));
            self.beyond_gap.sort_unstable();
            let mut whole: Vec<(u64, u64)> = Vec::new();
            for &(from, to) in &self.beyond_gap {
                match whole.last_mut() {
                    Some(last) if from <= last.1 => last.1 = last.1.max(to),
                    _ => whole.push((from, to)),
                }
            }
            self.beyond_gap = whole;
            if let Some(&(from, to)) = self.beyond_gap.first()
                && from <= self.next
            {
                self.next = to;
                self.beyond_gap.remove(0);
            }
        }
        Arrival {
            start: Offset(start),
            payload: Bytes(payload),
            new: Bytes(self.held_bytes() + self.next - had - before),
            expected: Offset(self.next),
            delivered: Bytes(self.next - before),
            beyond_gap: Bytes(self.held_bytes()),
            highest: Offset(self.highest),
            marks,
        }
    }

    pub(crate) fn held_bytes(&self) -> u64 {
        self.beyond_gap.iter().map(|(from, to)| to - from).sum()
    }
}

/// A controller and the receiving ends of its NIC.
pub(crate) struct Nic<R> {
    pub(crate) controller: R,
    pub(crate) ends: Vec<End>,
    pub(crate) told: String,
}

impl<R: Receiver> Nic<R> {
    pub(crate) fn end(&mut self, flow: FlowIndex) -> &mut End {
        let index = flow.0 as usize;
        if index >= self.ends.len() {
            self.ends.resize(index + 1, End::default());
        }
        &mut self.ends[index]
    }

    pub(crate) fn tell(&mut self, now: Time, flow: FlowIndex, what: &str) {
        writeln!(self.told, "{:>10.3} {:>4}  {what}", now.0 as f64 / 1e6, flow.0).unwrap();
    }

    pub(crate) fn send_ack(&mut self, now: Time, flow: FlowIndex, cause: AckCause) {
        let window = self.controller.window(now, flow);
        let end = self.end(flow);
        let before = end.edge;
        end.held = None;
        end.edge = before.max(end.next + window.unwrap_or(SOCKET).0);
        let sent = SentAck { ack: Offset(end.next), edge: Offset(end.edge), cause };
        let kept = if before > end.next + window.unwrap_or(SOCKET).0 { ", edge kept" } else { "" };
        let whose = if window.is_none() { " of the socket" } else { "" };
        let what = match cause {
            AckCause::SynAck => "SYN-ACK",
            AckCause::Data => "ACK",
            AckCause::Forced => "ACK that forces a retransmission",
        };
        let line = format!("{what} {} window {}{whose}{kept}", sent.ack.0, window.unwrap_or(SOCKET).0);
        self.tell(now, flow, &line);
        self.controller.on_ack_sent(now, flow, &sent);
    }

    pub(crate) fn request_ack(&mut self, now: Time, flow: FlowIndex, cause: AckCause) {
        match self.controller.gate(now, flow, cause) {
            Gate::Open => self.send_ack(now, flow, cause),
            Gate::Hold => {
                self.end(flow).held = Some(cause);
                self.tell(now, flow, "held");
            }
        }
    }

    pub(crate) fn act(&mut self, now: Time) {
        while let Some(action) = self.controller.poll(now) {
            match action {
                Action::Release(flow) => {
                    if let Some(cause) = self.end(flow).held {
                        self.tell(now, flow, "released");
                        self.send_ack(now, flow, cause);
                    }
                }
                Action::UpdateWindow(flow) => self.send_ack(now, flow, AckCause::Data),
                Action::ForceRetransmission(flow) => self.send_ack(now, flow, AckCause::Forced),
            }
        }
    }

    /// Timers that are due before `until`, or then.
    pub(crate) fn advance(&mut self, until: Time) {
        while let Some(due) = self.controller.next_timer().filter(|due| *due <= until) {
            self.controller.on_timer(due);
            self.act(due);
            assert!(self.controller.next_timer().is_none_or(|next| next > due), "its timer makes time stand still");
        }
    }
}
