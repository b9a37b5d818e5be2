//! `tcp_info` and the constants that assertions compare it with.

use incast_packets::conversation::{Congestion, State, Status};

use crate::flight::{Counts, Flight};
use crate::python::{Names, Value};

/// What assertions may ask for.
const FIELDS: [&str; 29] = [
    "tcpi_snd_cwnd",
    "tcpi_snd_ssthresh",
    "tcpi_unacked",
    "tcpi_sacked",
    "tcpi_lost",
    "tcpi_retrans",
    "tcpi_retransmits",
    "tcpi_backoff",
    "tcpi_total_retrans",
    "tcpi_ca_state",
    "tcpi_state",
    "tcpi_rto",
    "tcpi_rtt",
    "tcpi_rttvar",
    "tcpi_snd_mss",
    "tcpi_advmss",
    "tcpi_pmtu",
    "tcpi_fackets",
    "tcpi_options",
    "tcpi_snd_wscale",
    "tcpi_rcv_wscale",
    "tcpi_segs_in",
    "tcpi_segs_out",
    "tcpi_data_segs_in",
    "tcpi_data_segs_out",
    "tcpi_bytes_sent",
    "tcpi_bytes_retrans",
    "tcpi_bytes_received",
    "dctcp_alpha",
];

/// Constants of the kernel's headers.
const CONSTANTS: [(&str, u32); 23] = [
    ("TCP_CA_Open", 0),
    ("TCP_CA_Disorder", 1),
    ("TCP_CA_CWR", 2),
    ("TCP_CA_Recovery", 3),
    ("TCP_CA_Loss", 4),
    ("TCP_ESTABLISHED", 1),
    ("TCP_SYN_SENT", 2),
    ("TCP_SYN_RECV", 3),
    ("TCP_FIN_WAIT1", 4),
    ("TCP_FIN_WAIT2", 5),
    ("TCP_TIME_WAIT", 6),
    ("TCP_CLOSE", 7),
    ("TCP_CLOSE_WAIT", 8),
    ("TCP_LAST_ACK", 9),
    ("TCP_LISTEN", 10),
    ("TCP_CLOSING", 11),
    ("TCPI_OPT_TIMESTAMPS", 1),
    ("TCPI_OPT_SACK", 2),
    ("TCPI_OPT_WSCALE", 4),
    ("TCPI_OPT_ECN", 8),
    ("TCPI_OPT_ECN_SEEN", 16),
    ("TCP_INFINITE_SSTHRESH", 0x7fff_ffff),
    ("TCPI_OPT_SYN_DATA", 32),
];

/// Whether a name can be answered.
pub(crate) fn is_known(name: &str) -> bool {
    FIELDS.contains(&name) || CONSTANTS.iter().any(|(known, _)| *known == name)
}

/// One moment of a connection.
#[derive(Debug)]
pub(crate) struct Info<'a> {
    pub(crate) status: &'a Status,
    pub(crate) flight: &'a Flight,
    pub(crate) counts: &'a Counts,
    pub(crate) mss: u64,
    pub(crate) mtu: u32,
    pub(crate) bare_header: u32,
    pub(crate) options: u32,
    pub(crate) peer_shift: u8,
    pub(crate) own_shift: u8,
    pub(crate) closed: bool,
}

impl Info<'_> {
    fn state(&self) -> u32 {
        let sending = &self.status.sending;
        let fin_acknowledged = self.closed && sending.una == sending.highest && !sending.unsent;
        match (self.status.state, self.closed, self.status.closed_by_peer) {
            (State::Closed, ..) => 10,
            (State::SynSent, ..) => 2,
            (State::SynReceived, ..) => 3,
            (State::Established, false, false) => 1,
            (State::Established, false, true) => 8,
            (State::Established, true, false) => 4 + u32::from(fin_acknowledged),
            (State::Established, true, true) => 9,
            (State::Done, ..) => 6,
        }
    }

    fn field(&self, name: &str) -> Option<f64> {
        let sending = &self.status.sending;
        let us = |ps: u64| (ps / 1_000_000) as f64;
        let handshake = u32::from(matches!(self.status.state, State::SynSent));
        Some(match name {
            "tcpi_snd_cwnd" => (sending.cwnd.0 / self.mss) as f64,
            "tcpi_snd_ssthresh" => {
                sending.ssthresh.map_or(f64::from(0x7fff_ffff), |ssthresh| (ssthresh.0 / self.mss) as f64)
            }
            "tcpi_unacked" => f64::from(handshake + self.flight.segments()),
            "tcpi_sacked" => f64::from(self.flight.within(&sending.sacked) + sending.duplicates),
            "tcpi_lost" => f64::from(self.flight.beginning_in(&sending.lost)),
            "tcpi_retrans" => f64::from(self.flight.beginning_in(&sending.sent_again)),
            "tcpi_retransmits" | "tcpi_backoff" => f64::from(self.status.timeouts_in_a_row),
            "tcpi_total_retrans" => self.status.retransmissions as f64,
            "tcpi_ca_state" => match sending.congestion {
                Congestion::Open => 0.0,
                Congestion::Disorder => 1.0,
                Congestion::Reduced => 2.0,
                Congestion::Recovery => 3.0,
                Congestion::Loss => 4.0,
            },
            "tcpi_state" => f64::from(self.state()),
            "tcpi_rto" => us(sending.rto.0),
            "tcpi_rtt" => us(sending.round_trip.map_or(0, |trip| trip.0.0)),
            "tcpi_rttvar" => us(sending.round_trip.map_or(0, |trip| trip.1.0)),
            "tcpi_snd_mss" => self.mss as f64,
            "tcpi_advmss" => f64::from(self.mtu - self.bare_header - if self.options & 1 == 1 { 12 } else { 0 }),
            "tcpi_pmtu" => f64::from(self.mtu),
            "tcpi_fackets" => 0.0,
            "tcpi_options" => f64::from(self.options),
            "tcpi_snd_wscale" => f64::from(self.peer_shift),
            "tcpi_rcv_wscale" => f64::from(self.own_shift),
            "tcpi_segs_in" => self.counts.segments_in as f64,
            "tcpi_segs_out" => self.counts.segments_out as f64,
            "tcpi_data_segs_in" => self.counts.data_segments_in as f64,
            "tcpi_data_segs_out" => self.counts.data_segments_out as f64,
            "tcpi_bytes_sent" => self.counts.bytes_sent as f64,
            "tcpi_bytes_retrans" => self.counts.bytes_sent_again as f64,
            "tcpi_bytes_received" => self.status.received.0 as f64,
            "dctcp_alpha" => f64::from(sending.alpha?),
            _ => return None,
        })
    }
}

impl Names for Info<'_> {
    fn value(&self, name: &str) -> Option<Value> {
        let constant = CONSTANTS.iter().find(|(known, _)| *known == name);
        constant.map(|(_, value)| f64::from(*value)).or_else(|| self.field(name)).map(Value::Number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field that is said to be known has a value.
    #[test]
    fn every_field_has_a_value() {
        use incast_packets::conversation::Conversation;
        use incast_protocols::echo::EchoChoice;
        use incast_protocols::sender::SenderChoice;
        let dctcp = SenderChoice::defaults().into_iter().find(|choice| choice.info().name == "dctcp").unwrap();
        let end = Conversation::new(incast_plan::Tcp::default(), &dctcp, &EchoChoice::defaults()[0]);
        let info = Info {
            status: &end.status(),
            flight: &Flight::default(),
            counts: &Counts::default(),
            mss: 1460,
            mtu: 1500,
            bare_header: 40,
            options: 0,
            peer_shift: 0,
            own_shift: 0,
            closed: false,
        };
        for field in FIELDS {
            assert!(is_known(field) && info.value(field).is_some(), "{field}");
        }
        assert_eq!(info.value("tcpi_snd_cwnd"), Some(Value::Number(10.0)));
        assert_eq!(info.value("TCP_CA_Loss"), Some(Value::Number(4.0)));
        assert!(!is_known("tcpi_rcv_space") && info.value("tcpi_rcv_space").is_none());
    }
}
