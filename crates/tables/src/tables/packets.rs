//! Packets at ports, one by one.

use crate::column::{Column, Values, columns};
use incast_record::{PacketSample, Run};

pub(crate) const NAME: &str = "packets";
pub(crate) const MEANING: &str = "The packets at the ports the scenario names, one row per packet and port, by arrival. `flags` is a sum. Its lower \
     eight bits are those of the TCP header: 1 FIN, 2 SYN, 8 PSH (on a pure ACK: retransmit at once), 16 ACK, 64 ECE, \
     128 CWR. Then come 256 ECT, 512 CE, 1024 EIN, 2048 echo of EIN, 4096 trimmed.";

pub(crate) fn rows(run: &Run) -> impl Iterator<Item = PacketSample> {
    run.packets.iter()
}

pub(crate) fn columns() -> Vec<Column<PacketSample>> {
    use Values::{MaybeWhole, Text, Truth, Whole};
    columns! {
        /// When its last bit arrived at the port.
        arrive_ps "ps": Whole(|r| r.arrive.0);
        /// From then until its transmission began; null if it was dropped or still waited when the run ended.
        wait_ps "ps": MaybeWhole(|r| r.wait.map(|wait| wait.0));
        /// Whether it was not admitted, or had to make room for another packet.
        dropped: Truth(|r| r.dropped);
        /// Number of the link behind the port.
        link: Whole(|r| r.link.into());
        /// Number of the connection; see `flows`.
        connection: Whole(|r| r.connection.into());
        /// Whether the side that opened the connection sent it.
        from_client: Truth(|r| r.from_client);
        /// How often this segment had arrived at this port by then, from 1; more than 1 is a retransmission, or its copy
        /// further on the way. 0 without payload.
        number: Whole(|r| r.number.into());
        /// Position of its first byte in its direction of the connection; without payload that of the next byte.
        offset_bytes "bytes": Whole(|r| r.offset);
        /// Position in the other direction up to which everything has arrived.
        ack_bytes "bytes": Whole(|r| r.ack);
        /// Window that it advertises.
        rwnd_bytes "bytes": Whole(|r| r.window.into());
        /// SACK option (RFC 2018): `start-end` of each block in bytes of the other direction, in the order of the option; a
        /// block that has arrived twice comes first. Empty without the option.
        sack: Text(|r| r.sack.as_deref().unwrap_or_default());
        /// Payload.
        payload_bytes "bytes": Whole(|r| r.payload.into());
        /// Bytes on the wire, headers included.
        wire_bytes "bytes": Whole(|r| r.wire.into());
        /// Flags of TCP and IP as it left, marks of this port included; see above.
        flags: Whole(|r| r.flags.0.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{json_row, small_run};
    use serde_json::json;

    #[test]
    fn a_dropped_packet_has_no_wait_and_one_that_left_has() {
        let run = small_run();
        let rows: Vec<_> = rows(&run).map(|row| json_row(&columns(), &row)).collect();
        assert_eq!((&rows[0]["wait_ps"], &rows[0]["dropped"]), (&json!(120), &json!(false)));
        assert_eq!((&rows[1]["wait_ps"], &rows[1]["dropped"]), (&json!(null), &json!(true)));
        assert_eq!((&rows[0]["sack"], &rows[1]["sack"]), (&json!(""), &json!("2920-4380 5840-7300")));
        assert_eq!(rows[0]["flags"], json!(16 + 256 + 512));
    }
}
