// Runs a list of flows over a star or a leaf-spine in ns-3 and prints one JSON object: totals, the queue of
// one port, and a row per flow. validation/ns3/README.md says what is measured and how.

#include "flows.h"
#include "network.h"
#include "port.h"
#include "socket.h"

#include <chrono>
#include <cstdio>
#include <iostream>
#include <map>
#include <memory>
#include <sys/resource.h>

using namespace ns3;

namespace
{

constexpr uint16_t SINK_PORT = 5000;

class Run
{
  public:
    Run(Network& network, std::vector<Flow>& flows, const TcpSettings& tcp, bool connectBefore, bool close)
        : m_network(network),
          m_flows(flows),
          m_tcp(tcp),
          m_connectBefore(connectBefore),
          m_close(close),
          m_sockets(flows.size())
    {
        std::vector<uint16_t> next(network.hosts.size(), 10000);
        std::vector<bool> listens(network.hosts.size(), false);
        for (uint32_t i = 0; i < flows.size(); ++i)
        {
            Flow& flow = flows[i];
            flow.port = next[flow.source]++;
            m_byPeer[{network.addresses[flow.source].Get(), flow.port}] = i;
            if (!listens[flow.destination])
            {
                listens[flow.destination] = true;
                Listen(flow.destination);
            }
            // Connections that exist before are set up one after another, the last long before the start.
            Time connect = connectBefore ? MicroSeconds(1000 + 20 * i) : flow.start;
            Simulator::ScheduleWithContext(network.hosts[flow.source]->GetId(), connect, &Run::Connect, this, i);
            if (connectBefore)
            {
                Simulator::ScheduleWithContext(network.hosts[flow.source]->GetId(),
                                               flow.start,
                                               &Run::Send,
                                               this,
                                               i);
            }
        }
    }

    Run(const Run&) = delete;

    void Trace(uint32_t flow)
    {
        m_traced = flow;
        std::printf("time_us,what,sequence,bytes,cwnd,ssthresh,pipe,state,rto_us\n");
    }

    bool AllComplete() const
    {
        return m_complete == m_flows.size();
    }

  private:
    void Listen(uint32_t host)
    {
        Ptr<Socket> socket = MakeSocket(m_network.hosts[host], m_tcp);
        socket->Bind(InetSocketAddress(Ipv4Address::GetAny(), SINK_PORT));
        socket->Listen();
        socket->SetAcceptCallback(MakeNullCallback<bool, Ptr<Socket>, const Address&>(),
                                  MakeCallback(&Run::OnAccept, this));
    }

    void Connect(uint32_t i)
    {
        Flow& flow = m_flows[i];
        auto socket = MakeSocket(m_network.hosts[flow.source], m_tcp);
        socket->Bind(InetSocketAddress(m_network.addresses[flow.source], flow.port));
        socket->CountIn(&flow);
        m_sockets[i] = socket;
        if (i == m_traced)
        {
            Follow(socket);
        }
        socket->Connect(InetSocketAddress(m_network.addresses[flow.destination], SINK_PORT));
        if (!m_connectBefore)
        {
            Send(i);
        }
    }

    void Send(uint32_t i)
    {
        int taken = m_sockets[i]->Send(Create<Packet>(m_flows[i].bytes), 0);
        NS_ABORT_MSG_IF(taken != static_cast<int>(m_flows[i].bytes), "the send buffer is too small");
        if (m_close)
        {
            m_sockets[i]->Close();
        }
    }

    void OnAccept(Ptr<Socket> socket, const Address& from)
    {
        InetSocketAddress peer = InetSocketAddress::ConvertFrom(from);
        uint32_t i = m_byPeer.at({peer.GetIpv4().Get(), peer.GetPort()});
        socket->SetRecvCallback(MakeCallback(&Run::OnData, this).Bind(i));
    }

    void OnData(uint32_t i, Ptr<Socket> socket)
    {
        Flow& flow = m_flows[i];
        while (Ptr<Packet> packet = socket->Recv())
        {
            if (packet->GetSize() == 0)
            {
                break;
            }
            flow.received += packet->GetSize();
        }
        if (flow.received >= flow.bytes && !flow.complete)
        {
            flow.complete = true;
            flow.end = Simulator::Now();
            ++m_complete;
            if (m_close)
            {
                socket->Close();
            }
        }
    }

    void Follow(Ptr<CountingSocket> socket)
    {
        socket->TraceConnectWithoutContext("Tx", MakeCallback(&Run::OnTx, this));
        socket->TraceConnectWithoutContext("Rx", MakeCallback(&Run::OnRx, this));
        socket->TraceConnectWithoutContext("CongestionWindow", MakeCallback(&Run::OnWindow, this));
    }

    void Row(const char* what, uint32_t sequence, uint32_t bytes)
    {
        auto socket = m_sockets[m_traced];
        std::printf("%.6f,%s,%u,%u,%u,%u,%u,%s,%.3f\n",
                    Simulator::Now().GetPicoSeconds() * 1e-6,
                    what,
                    sequence,
                    bytes,
                    socket->Cwnd(),
                    socket->SlowStartThreshold(),
                    socket->Pipe(),
                    socket->CongestionState(),
                    socket->Rto().GetPicoSeconds() * 1e-6);
    }

    void OnTx(Ptr<const Packet> packet, const TcpHeader& header, Ptr<const TcpSocketBase>)
    {
        Row("sends", header.GetSequenceNumber().GetValue(), packet->GetSize());
    }

    void OnRx(Ptr<const Packet>, const TcpHeader& header, Ptr<const TcpSocketBase>)
    {
        Row(header.GetFlags() & TcpHeader::ECE ? "ack-ece" : "ack", header.GetAckNumber().GetValue(), 0);
    }

    void OnWindow(uint32_t, uint32_t)
    {
        Row("window", 0, 0);
    }

    Network& m_network;
    std::vector<Flow>& m_flows;
    TcpSettings m_tcp;
    bool m_connectBefore;
    bool m_close;
    std::vector<Ptr<CountingSocket>> m_sockets;
    std::map<std::pair<uint32_t, uint16_t>, uint32_t> m_byPeer;
    size_t m_complete{0};
    uint32_t m_traced{UINT32_MAX};
};

double
CpuSeconds()
{
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_utime.tv_sec + usage.ru_utime.tv_usec * 1e-6;
}

void
PrintFlows(const std::vector<Flow>& flows)
{
    const char* separator = "";
    std::printf(",\"flows\":[");
    for (const Flow& flow : flows)
    {
        std::printf("%s\n[", separator);
        if (flow.complete)
        {
            std::printf("%.12f", (flow.end - flow.start).GetPicoSeconds() * 1e-12);
        }
        else
        {
            std::printf("null");
        }
        std::printf(",%lu,%lu,%lu]",
                    (unsigned long)flow.timeouts,
                    (unsigned long)flow.recoveries,
                    (unsigned long)flow.retransmissions);
        separator = ",";
    }
    std::printf("]}\n");
}

} // namespace

int
main(int argc, char* argv[])
{
    std::string file;
    NetworkSettings net;
    TcpSettings tcp;
    bool connectBefore = true;
    bool close = false;
    int32_t watch = -1;
    int32_t trace = -1;
    double stop = 100;
    double from = 0;

    CommandLine cmd(__FILE__);
    cmd.AddValue("flows", "list of flows, HPCC's flow.txt", file);
    cmd.AddValue("leaves", "leaf switches", net.leaves);
    cmd.AddValue("hostsPerLeaf", "hosts of each", net.hostsPerLeaf);
    cmd.AddValue("spines", "spine switches", net.spines);
    cmd.AddValue("rateBps", "of every link", net.rateBps);
    cmd.AddValue("delayUs", "of every link, one way", net.delayUs);
    cmd.AddValue("delayStepPs", "host h's link is longer by h times this", net.delayStepPs);
    cmd.AddValue("buffer", "packets that may wait at a switch port", net.bufferPackets);
    cmd.AddValue("mark", "packets waiting from which on a port marks; 0: drop-tail", net.markPackets);
    cmd.AddValue("from", "drops, marks and queues are counted from here on, s", from);
    cmd.AddValue("sender", "newreno, dctcp or dctcp-mended", tcp.sender);
    cmd.AddValue("recovery", "type of the recovery algorithm", tcp.recovery);
    cmd.AddValue("sack", "", tcp.sack);
    cmd.AddValue("limitedTransmit", "", tcp.limitedTransmit);
    cmd.AddValue("initialWindow", "segments", tcp.initialWindow);
    cmd.AddValue("rtoMinMs", "", tcp.rtoMinMs);
    cmd.AddValue("socketBuffer", "send and receive buffer, bytes", tcp.bufferBytes);
    cmd.AddValue("connectBefore", "connections exist before the start", connectBefore);
    cmd.AddValue("close", "a sender closes after its flow", close);
    cmd.AddValue("watch", "host whose port's queue is followed", watch);
    cmd.AddValue("trace", "flow whose packets and windows are printed", trace);
    cmd.AddValue("stop", "give up after, simulated s", stop);
    cmd.Parse(argc, argv);

    Time::SetResolution(Time::PS);
    net.from = PicoSeconds(std::llround(from * 1e12));
    SetDefaults(tcp);
    std::vector<Flow> flows = ReadFlows(file);
    Network network(net);
    Port port;
    if (watch >= 0)
    {
        network.Watch(watch, port);
    }
    Run run(network, flows, tcp, connectBefore, close);
    if (trace >= 0)
    {
        run.Trace(trace);
    }

    Simulator::Stop(Seconds(stop));
    double cpu = CpuSeconds();
    auto wall = std::chrono::steady_clock::now();
    Simulator::Run();
    double wallSeconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - wall).count();

    std::printf("{\"drops\":%lu,\"marks\":%lu,\"marks_on_acks\":%lu,\"packet_hops\":%lu",
                (unsigned long)network.counters.drops,
                (unsigned long)network.counters.marks,
                (unsigned long)network.counters.marksOnAcks,
                (unsigned long)network.counters.hops);
    std::printf(",\"cpu_s\":%.3f,\"wall_s\":%.3f", CpuSeconds() - cpu, wallSeconds);
    std::fflush(stdout);
    if (watch >= 0)
    {
        std::cout.precision(10);
        port.Print(std::cout);
        std::cout.flush();
    }
    PrintFlows(flows);
    std::fflush(stdout);
    // Tearing ns-3 down takes as long as some runs, and nothing is left to be said.
    std::_Exit(0);
}
