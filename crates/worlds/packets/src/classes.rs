//! The queues of a port that has several, one for each class of service.

use incast_protocols::Bytes;
use incast_protocols::switch::scheduler::{AnyScheduler, Heads, Scheduler};

use crate::packet::Packet;
use crate::ring::Ring;

/// Packets of one class that wait.
#[derive(Clone, Debug, Default)]
struct Queue {
    packets: Ring<Packet>,
    bytes: u64,
}

/// Packets that wait, by class.
#[derive(Clone, Debug)]
pub(crate) struct Classes {
    queues: Vec<Queue>,
    scheduler: AnyScheduler,
}

impl Classes {
    /// Empty queues, or nothing where one queue does.
    pub(crate) fn new(scheduler: AnyScheduler) -> Option<Box<Self>> {
        let queues = scheduler.queues();
        (queues > 1).then(|| Box::new(Self { queues: vec![Queue::default(); queues as usize], scheduler }))
    }

    /// Number of the queue of a class.
    fn index(&self, class: u8) -> usize {
        usize::from(class).min(self.queues.len() - 1)
    }

    /// Packets and bytes that wait in the queue of this class.
    pub(crate) fn waiting(&self, class: u8) -> (u32, u64) {
        let queue = &self.queues[self.index(class)];
        (queue.packets.len(), queue.bytes)
    }

    pub(crate) fn push(&mut self, packet: Packet) {
        let index = self.index(packet.flags.class());
        self.queues[index].packets.push(packet);
        self.queues[index].bytes += u64::from(packet.wire);
    }

    /// Takes out the packet that is sent now. Only where one waits.
    pub(crate) fn pop(&mut self) -> Packet {
        let mut heads = Heads::default();
        for (head, queue) in heads.iter_mut().zip(&self.queues) {
            *head = (!queue.packets.is_empty()).then(|| Bytes(u64::from(queue.packets.first().wire)));
        }
        let next = self.scheduler.next(&heads);
        debug_assert!(heads[next].is_some(), "the scheduler names an empty queue");
        let packet = self.queues[next].packets.pop();
        self.queues[next].bytes -= u64::from(packet.wire);
        packet
    }

    /// Takes out the youngest packet of the lowest class. Only where one waits.
    pub(crate) fn pop_last(&mut self) -> Packet {
        let lowest = self.queues.iter().position(|queue| !queue.packets.is_empty()).unwrap_or(0);
        let packet = self.queues[lowest].packets.pop_last();
        self.queues[lowest].bytes -= u64::from(packet.wire);
        packet
    }
}
