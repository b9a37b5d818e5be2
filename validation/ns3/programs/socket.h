// A TCP socket that counts its timeouts, and how it is made.

#pragma once

#include "flows.h"

#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"

#include <string>

// ns-3's DCTCP with two rules put right, from outside: a mark leaves two segments at least (Linux; ns-3 goes
// below one, from where nothing may be sent until the timer expires), and a loss is answered as by any TCP
// (RFC 8257 section 3.5; ns-3 cuts by alpha, which may be next to nothing).
class MendedDctcp : public ns3::TcpDctcp
{
  public:
    static ns3::TypeId GetTypeId()
    {
        static ns3::TypeId id =
            ns3::TypeId("MendedDctcp").SetParent<ns3::TcpDctcp>().AddConstructor<MendedDctcp>();
        return id;
    }

    MendedDctcp() = default;
    MendedDctcp(const MendedDctcp& other) = default;

    void CongestionStateSet(ns3::Ptr<ns3::TcpSocketState> state, ns3::TcpSocketState::TcpCongState_t to) override
    {
        m_loss = to == ns3::TcpSocketState::CA_RECOVERY;
        ns3::TcpDctcp::CongestionStateSet(state, to);
    }

    // A timer has expired: the socket asks for the threshold before it says so.
    void TimerExpires()
    {
        m_loss = true;
    }

    uint32_t GetSsThresh(ns3::Ptr<const ns3::TcpSocketState> state, uint32_t inFlight) override
    {
        uint32_t cut = m_loss ? inFlight / 2 : ns3::TcpDctcp::GetSsThresh(state, inFlight);
        m_loss = false;
        return std::max(cut, 2 * state->m_segmentSize);
    }

    ns3::Ptr<ns3::TcpCongestionOps> Fork() override
    {
        return ns3::CopyObject<MendedDctcp>(this);
    }

  private:
    bool m_loss{false};
};

// ns-3 has no trace source that fires once per expiry: a state change misses repeated ones, the traced RTO
// changes with every sample. The method itself is virtual.
class CountingSocket : public ns3::TcpSocketBase
{
  public:
    static ns3::TypeId GetTypeId()
    {
        static ns3::TypeId id = ns3::TypeId("CountingSocket")
                                    .SetParent<ns3::TcpSocketBase>()
                                    .SetGroupName("Internet")
                                    .AddConstructor<CountingSocket>();
        return id;
    }

    ns3::TypeId GetInstanceTypeId() const override
    {
        return GetTypeId();
    }

    CountingSocket() = default;
    CountingSocket(const CountingSocket& other) = default;

    // Where events of this end are counted; of a listening socket nothing is.
    void CountIn(Flow* flow)
    {
        m_flow = flow;
        TraceConnectWithoutContext("CongState", ns3::MakeCallback(&CountingSocket::OnState, this));
        TraceConnectWithoutContext("Retransmission", ns3::MakeCallback(&CountingSocket::OnRetransmission, this));
    }

    // What a trace of one flow shows of the sender's state.
    uint32_t Cwnd() const
    {
        return m_tcb->m_cWnd;
    }

    uint32_t SlowStartThreshold() const
    {
        return m_tcb->m_ssThresh;
    }

    const char* CongestionState() const
    {
        return ns3::TcpSocketState::TcpCongStateName[m_tcb->m_congState];
    }

    uint32_t Pipe() const
    {
        return BytesInFlight();
    }

    ns3::Time Rto() const
    {
        return m_rto;
    }

  protected:
    ns3::Ptr<ns3::TcpSocketBase> Fork() override
    {
        return ns3::CopyObject<CountingSocket>(this);
    }

    void ReTxTimeout() override
    {
        if (m_flow != nullptr && m_state != CLOSED && m_state != TIME_WAIT && m_txBuffer->Size() > 0)
        {
            ++m_flow->timeouts;
            if (auto mended = ns3::DynamicCast<MendedDctcp>(m_congestionControl))
            {
                mended->TimerExpires();
            }
        }
        ns3::TcpSocketBase::ReTxTimeout();
    }

  private:
    void OnState(ns3::TcpSocketState::TcpCongState_t, ns3::TcpSocketState::TcpCongState_t to)
    {
        m_flow->recoveries += to == ns3::TcpSocketState::CA_RECOVERY;
    }

    void OnRetransmission(ns3::Ptr<const ns3::Packet>,
                          const ns3::TcpHeader&,
                          const ns3::Address&,
                          const ns3::Address&,
                          ns3::Ptr<const ns3::TcpSocketBase>)
    {
        ++m_flow->retransmissions;
    }

    Flow* m_flow{nullptr};
};

NS_OBJECT_ENSURE_REGISTERED(CountingSocket);

struct TcpSettings
{
    std::string sender{"newreno"};
    std::string recovery{"ns3::TcpClassicRecovery"};
    bool sack{false};
    bool limitedTransmit{false};
    uint32_t initialWindow{2};
    double rtoMinMs{10};
    uint32_t bufferBytes{4 << 20};
};

inline void
SetDefaults(const TcpSettings& tcp)
{
    using namespace ns3;
    Time least = PicoSeconds(std::llround(tcp.rtoMinMs * 1e9));
    // 1500 bytes with headers. Timestamps have to be off: ns-3 does not take options out of the segment size
    // and would send IP fragments.
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1460));
    Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(false));
    Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(tcp.sack));
    Config::SetDefault("ns3::TcpSocketBase::LimitedTransmit", BooleanValue(tcp.limitedTransmit));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(least));
    Config::SetDefault("ns3::TcpSocketBase::ClockGranularity", TimeValue(MicroSeconds(1)));
    Config::SetDefault("ns3::TcpSocketBase::MaxSegLifetime", DoubleValue(0.001));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(tcp.initialWindow));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(1));
    Config::SetDefault("ns3::TcpSocket::ConnTimeout", TimeValue(least));
    Config::SetDefault("ns3::TcpSocket::ConnCount", UintegerValue(30));
    Config::SetDefault("ns3::TcpSocket::DataRetries", UintegerValue(1000));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(tcp.bufferBytes));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(tcp.bufferBytes));
    if (tcp.sender != "newreno")
    {
        Config::SetDefault("ns3::TcpSocketBase::UseEcn", StringValue("On"));
    }
}

inline ns3::Ptr<CountingSocket>
MakeSocket(ns3::Ptr<ns3::Node> node, const TcpSettings& tcp)
{
    using namespace ns3;
    auto layer = node->GetObject<TcpL4Protocol>();
    auto socket = CreateObject<CountingSocket>();
    ObjectFactory recovery(tcp.recovery);
    Ptr<TcpCongestionOps> congestion = CreateObject<TcpNewReno>();
    if (tcp.sender == "dctcp")
    {
        congestion = CreateObject<TcpDctcp>();
    }
    else if (tcp.sender == "dctcp-mended")
    {
        congestion = CreateObject<MendedDctcp>();
    }
    socket->SetNode(node);
    socket->SetTcp(layer);
    socket->SetRtt(CreateObject<RttMeanDeviation>());
    socket->SetCongestionControlAlgorithm(congestion);
    socket->SetRecoveryAlgorithm(recovery.Create<TcpRecoveryOps>());
    layer->AddSocket(socket);
    return socket;
}
