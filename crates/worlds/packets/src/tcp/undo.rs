//! Whether what was repaired had been lost: F-RTO (RFC 5682) and the undo of cuts by DSACK (RFC 2883), as Linux has them.

use incast_plan::Tcp;
use incast_protocols::sender::{Sender, Windows};

use super::Outbox;
use super::send::SendHalf;
use crate::packet::Packet;

/// What speaks against the last cut.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Doubt {
    /// The windows before the cut, and what was acknowledged then.
    before: Option<(Windows, u64)>,
    /// Segments sent again since then of which none has been reported as a duplicate.
    repeated: u32,
    /// A timeout asks whether anything was lost.
    frto: Frto,
    /// Data has arrived that was in flight at the timeout and left once.
    original: bool,
}

/// How far F-RTO has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Frto {
    #[default]
    Off,
    /// The first segment has left again.
    Waits,
    /// It was acknowledged: new data leaves now.
    Asks,
    /// New data has left.
    Asked,
}

impl Doubt {
    /// The windows are about to be cut; `una` is acknowledged. A cut that goes `on` with a repair leaves what speaks against
    /// that (`tcp_enter_loss`, `tcp_enter_recovery`).
    pub(super) fn begin(&mut self, before: Windows, una: u64, on: bool) {
        if !on || self.before.is_none() {
            self.before = Some((before, una));
            self.repeated = 0;
        }
        self.frto = Frto::Off;
        self.original = false;
    }

    /// The cut was for a timeout, and F-RTO asks whether it was right.
    pub(super) const fn ask(&mut self) {
        self.frto = Frto::Waits;
    }

    /// A segment has left again.
    pub(super) const fn repeats(&mut self) {
        self.repeated += 1;
    }

    /// A segment that ends at `end` has been reported as a duplicate. Whether none is left of which that is not said.
    const fn reported(&mut self, end: u64) -> bool {
        match self.before {
            Some((_, una)) if end > una && self.repeated > 0 => {
                self.repeated -= 1;
                self.repeated == 0
            }
            _ => false,
        }
    }

    /// An ACK tells of segments that left once, the first of which ends at `original`; `recover` had been sent at the cut.
    pub(super) fn arrived(&mut self, original: Option<u64>, recover: u64) {
        self.original |= self.frto != Frto::Off && original.is_some_and(|end| end <= recover);
    }

    /// An ACK after a timeout, for less than was in flight then; it `told` of data beyond the gap or not.
    fn go_on(&mut self, told: bool) {
        self.frto = if self.frto == Frto::Waits && !told { Frto::Asks } else { Frto::Off };
    }

    /// New data is to leave before anything is sent again.
    pub(super) fn asks(&self) -> bool {
        self.frto == Frto::Asks
    }

    /// What may leave has left, new data among it or not. Whether there was nothing to ask with.
    pub(super) fn has_asked(&mut self, new: bool) -> bool {
        let asks = self.asks();
        if asks {
            self.frto = if new { Frto::Asked } else { Frto::Off };
        }
        asks && !new
    }

    /// All that was in flight at the cut is acknowledged.
    pub(super) const fn end(&mut self) {
        self.before = None;
        self.frto = Frto::Off;
    }
}

impl<S: Sender> SendHalf<S> {
    pub(super) fn has_doubt(&self) -> bool {
        self.timing.as_ref().is_some_and(|timing| timing.doubt.frto != Frto::Off)
    }

    /// The windows are about to be cut for a loss, for the first time or `on` the way of a repair.
    pub(super) fn begin_doubt(&mut self, on: bool) {
        let (windows, una) = (self.sender.windows(), self.una);
        if let Some(timing) = &mut self.timing {
            timing.doubt.begin(windows, una, on);
        }
    }

    /// An ACK after a timeout, with news of `told` bytes beyond the gap (RFC 5682 section 3.1; `tcp_process_loss`).
    #[cold]
    pub(super) fn resolve_doubt(&mut self, tcp: &Tcp, told: u64) {
        let repairs = self.repairs_timeout();
        let Some(timing) = &mut self.timing else { return };
        let doubt = &mut timing.doubt;
        if doubt.original {
            timing.flight.forgive();
            return self.undo(tcp);
        }
        if !repairs {
            return doubt.end();
        }
        if self.highest <= self.recover {
            doubt.go_on(told > 0);
        } else if told > 0 {
            doubt.frto = Frto::Off;
        }
    }

    /// The same where duplicates are counted: after a timeout all leaves again, from the first gap on. An ACK for new data, or a
    /// duplicate, which `told` of data beyond the gap.
    #[cold]
    pub(super) fn resolve_doubt_by_duplicates(&mut self, tcp: &Tcp, told: bool) {
        let repairs = self.repairs_timeout();
        let Some(timing) = &mut self.timing else { return };
        let doubt = &mut timing.doubt;
        if doubt.original {
            self.next = self.highest;
            self.duplicates = 0;
            self.undo(tcp);
        } else if !repairs {
            doubt.end();
        } else {
            let asked = doubt.frto == Frto::Asked;
            if asked || doubt.frto == Frto::Waits {
                doubt.go_on(told);
            }
            if asked {
                self.next = self.una;
            }
        }
    }

    /// Asks with new data, as much of it as the window lets go: all that was in flight at the timeout counts as lost.
    #[cold]
    pub(super) fn ask_by_duplicates(&mut self, now: u64, tcp: &Tcp, template: &Packet, out: &mut Outbox) {
        if !self.timing.as_ref().is_some_and(|timing| timing.doubt.asks()) {
            return;
        }
        let (again, highest) = (self.next, self.highest);
        let mut room = self.sender.send_window(&self.view(now)).0;
        self.next = highest;
        while let Some(payload) = self.new_payload(now, tcp)
            && payload <= room
            && !self.is_paced(now)
        {
            room -= payload;
            self.next = self.emit(now, tcp, template, self.next, payload, out);
        }
        let new = self.next > highest;
        if !new {
            self.next = again;
        }
        if let Some(timing) = &mut self.timing {
            timing.doubt.has_asked(new);
        }
    }

    /// A segment that ends at `end` has arrived twice.
    #[cold]
    pub(super) fn on_duplicate_report(&mut self, tcp: &Tcp, end: u64) {
        let (una, highest) = (self.una, self.highest);
        let Some(timing) = &mut self.timing else { return };
        if !timing.probe.is_needless(end) {
            timing.rack.widen(una, highest);
        }
        if timing.doubt.reported(end) && tcp.undo {
            if !self.in_recovery {
                timing.flight.forgive();
            }
            self.undo(tcp);
        }
    }

    /// What was sent again had not been lost: the windows come back. What else is lost remains so, and is looked for anew
    /// (`tcp_try_undo_dsack`), unless it was [forgiven](super::flight::Flight::forgive) after a timeout.
    fn undo(&mut self, tcp: &Tcp) {
        let Some(timing) = &mut self.timing else { return };
        let before = timing.doubt.before;
        timing.doubt.end();
        timing.rack.doubt();
        if let Some((before, _)) = before {
            self.in_recovery = false;
            self.reduced_until = None;
            self.recover = self.una;
            self.may_recover_from = self.una + u64::from(!tcp.sack);
            self.sender.on_undo(before);
        }
    }
}
