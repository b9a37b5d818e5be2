//! Numbers that papers on incast print and that several parts together have to reproduce. Those of one part
//! alone are in its own file.

use crate::model::{Connection, context};
use incast_protocols::sender::dctcp::{Config, Dctcp};
use incast_protocols::sender::{Sender, WindowRules};
use incast_protocols::switch::marker::ecn_threshold::{self, EcnThreshold, MarkPoint};
use incast_protocols::switch::marker::{Marker, MarkerContext};
use incast_protocols::switch::{PacketView, QueueState};
use incast_protocols::{Amount, Bytes, Duration, Rate, Time};

/// ARS paper: 44 responses of 100 KB are 35.2 ms of payload at 1 Gbit/s, about 240 ms with one timeout of
/// 200 ms: 85 % of the throughput gone.
#[test]
fn one_timeout_costs_44_responses_85_percent_of_their_throughput() {
    let payload = Rate(1_000_000_000).time_for(Bytes(44 * 100_000));
    assert_eq!(payload, Duration::from_us(35_200));
    let stalled = payload + Duration::from_ms(200);
    let lost = 1.0 - payload.as_secs_f64() / stalled.as_secs_f64();
    assert!((lost - 0.85).abs() < 0.005, "{lost}");
}

/// RDTCP paper, figure 1a: fifty DCTCP flows send one segment each at the same moment to a port that marks
/// at 40. In round two there are 90 packets, where TCP has 100.
#[test]
fn fifty_flows_of_the_rdtcp_paper_send_90_packets_in_round_two() {
    // If the packet in transmission does not count, one packet less is marked.
    for (count_in_service, expected) in [(true, 90), (false, 91)] {
        let rate = Rate(1_000_000_000);
        let config = ecn_threshold::Config { threshold: Amount::Packets(40), count_in_service, at: MarkPoint::Enqueue };
        let mut marker = EcnThreshold::new(&config, &MarkerContext::alone(rate));
        let context = context(1446, 1, WindowRules { floor_segments: 1, ..WindowRules::default() });
        let mut packets = 0;
        for flow in 0..50_u32 {
            let waiting_packets = flow.saturating_sub(1);
            let queue = QueueState {
                now: Time(0),
                waiting_packets,
                waiting_bytes: Bytes(u64::from(waiting_packets) * 1500),
                in_service: if flow == 0 { Bytes::ZERO } else { Bytes(1500) },
                rate,
            };
            let packet = PacketView { bytes: Bytes(1500), ecn_capable: true, ..PacketView::default() };
            let marked = marker.on_enqueue(&queue, &packet).ce;
            let sender = Dctcp::new(&Config { initial_alpha: 0, ..Config::default() }, &context);
            let mut c = Connection::new(&context, sender);
            c.fill();
            let _ = c.ack(1, marked);
            packets += c.sender.windows().cwnd.0 / 1446;
        }
        assert_eq!(packets, expected);
    }
}
