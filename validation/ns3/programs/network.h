// A star or a leaf-spine of hosts, switches and point-to-point links; the star is one leaf without spines.
//
// Switches are IP routers. ns-3's own ECMP sprays packets and its global routing is slow over hundreds of
// routers, so this brings its own routing: by address downwards, by a hash of the connection upwards.

#pragma once

#include "port.h"

#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <string>
#include <vector>

struct NetworkSettings
{
    uint32_t leaves{1};
    uint32_t hostsPerLeaf{2};
    uint32_t spines{0};
    uint64_t rateBps{1000000000};
    double delayUs{40};
    uint64_t delayStepPs{0}; // host h's link is longer by h times this: nothing then happens at the same time
    uint32_t bufferPackets{85};
    uint32_t markPackets{0}; // 0: drop-tail
    ns3::Time from;          // drops, marks and queues before are not counted
};

struct NetworkCounters
{
    uint64_t drops{0};
    uint64_t marks{0};
    uint64_t marksOnAcks{0};
    uint64_t hops{0};
};

// Host h of leaf l has the address 10.l.h.2, its leaf port 10.l.h.1; the link between leaf l and spine s has
// 11.l.s.1 at the leaf and 11.l.s.2 at the spine.
class ClosRouting : public ns3::Ipv4RoutingProtocol
{
  public:
    enum Role
    {
        HOST,
        LEAF,
        SPINE
    };

    ClosRouting(Role role, uint32_t id, uint32_t down, uint32_t up)
        : m_role(role),
          m_id(id),
          m_down(down),
          m_up(up)
    {
    }

    ns3::Ptr<ns3::Ipv4Route> RouteOutput(ns3::Ptr<ns3::Packet>,
                                         const ns3::Ipv4Header& header,
                                         ns3::Ptr<ns3::NetDevice>,
                                         ns3::Socket::SocketErrno& error) override
    {
        error = ns3::Socket::ERROR_NOTERROR;
        return Route(header, 1);
    }

    bool RouteInput(ns3::Ptr<const ns3::Packet> packet,
                    const ns3::Ipv4Header& header,
                    ns3::Ptr<const ns3::NetDevice> in,
                    const UnicastForwardCallback& forward,
                    const MulticastForwardCallback&,
                    const LocalDeliverCallback& deliver,
                    const ErrorCallback&) override
    {
        if (m_role == HOST)
        {
            deliver(packet, header, m_ipv4->GetInterfaceForDevice(in));
            return true;
        }
        // Interface 0 is the loopback; a leaf's next are its hosts, then its spines; a spine's its leaves.
        uint32_t to = header.GetDestination().Get();
        uint32_t leaf = (to >> 16) & 0xff;
        uint32_t interface = 1 + leaf;
        if (m_role == LEAF)
        {
            interface = leaf == m_id ? 1 + ((to >> 8) & 0xff) : 1 + m_down + Hash(packet, header) % m_up;
        }
        forward(Route(header, interface), packet, header);
        return true;
    }

    void NotifyInterfaceUp(uint32_t) override {}
    void NotifyInterfaceDown(uint32_t) override {}
    void NotifyAddAddress(uint32_t, ns3::Ipv4InterfaceAddress) override {}
    void NotifyRemoveAddress(uint32_t, ns3::Ipv4InterfaceAddress) override {}
    void PrintRoutingTable(ns3::Ptr<ns3::OutputStreamWrapper>, ns3::Time::Unit) const override {}

    void SetIpv4(ns3::Ptr<ns3::Ipv4> ipv4) override
    {
        m_ipv4 = ipv4;
    }

  private:
    // Of both addresses and both TCP ports.
    static uint64_t Hash(ns3::Ptr<const ns3::Packet> packet, const ns3::Ipv4Header& header)
    {
        uint8_t ports[4] = {};
        packet->CopyData(ports, 4);
        uint64_t x = (uint64_t(header.GetSource().Get()) << 32) | header.GetDestination().Get();
        x ^= (uint64_t(ports[0]) << 24 | ports[1] << 16 | ports[2] << 8 | ports[3]) * 0x9E3779B97F4A7C15ull;
        x ^= x >> 33;
        x *= 0xff51afd7ed558ccdull;
        x ^= x >> 33;
        x *= 0xc4ceb9fe1a85ec53ull;
        return x ^ (x >> 33);
    }

    ns3::Ptr<ns3::Ipv4Route> Route(const ns3::Ipv4Header& header, uint32_t interface)
    {
        auto route = ns3::Create<ns3::Ipv4Route>();
        route->SetDestination(header.GetDestination());
        route->SetSource(m_ipv4->GetAddress(interface, 0).GetLocal());
        route->SetGateway(ns3::Ipv4Address::GetZero());
        route->SetOutputDevice(m_ipv4->GetNetDevice(interface));
        return route;
    }

    ns3::Ptr<ns3::Ipv4> m_ipv4;
    Role m_role;
    uint32_t m_id;
    uint32_t m_down;
    uint32_t m_up;
};

// Remembers that a packet has been marked.
class MarkedTag : public ns3::Tag
{
  public:
    static ns3::TypeId GetTypeId()
    {
        static ns3::TypeId id = ns3::TypeId("MarkedTag").SetParent<ns3::Tag>().AddConstructor<MarkedTag>();
        return id;
    }

    ns3::TypeId GetInstanceTypeId() const override
    {
        return GetTypeId();
    }

    uint32_t GetSerializedSize() const override
    {
        return 0;
    }

    void Serialize(ns3::TagBuffer) const override {}
    void Deserialize(ns3::TagBuffer) override {}
    void Print(std::ostream&) const override {}
};

class Network
{
  public:
    explicit Network(const NetworkSettings& settings)
        : m_settings(settings)
    {
        using namespace ns3;
        m_stack.SetIpv6StackInstall(false);
        uint32_t perLeaf = settings.hostsPerLeaf;
        std::vector<Ptr<Node>> leaves;
        std::vector<Ptr<Node>> spines;
        for (uint32_t host = 0; host < settings.leaves * perLeaf; ++host)
        {
            hosts.push_back(MakeNode(ClosRouting::HOST, host, 0, 1));
            addresses.emplace_back(10u << 24 | (host / perLeaf) << 16 | (host % perLeaf) << 8 | 2);
        }
        for (uint32_t leaf = 0; leaf < settings.leaves; ++leaf)
        {
            leaves.push_back(MakeNode(ClosRouting::LEAF, leaf, perLeaf, settings.spines));
        }
        for (uint32_t spine = 0; spine < settings.spines; ++spine)
        {
            spines.push_back(MakeNode(ClosRouting::SPINE, spine, settings.leaves, 0));
        }
        m_link.SetDeviceAttribute("DataRate", DataRateValue(DataRate(settings.rateBps)));
        m_link.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", StringValue("1p"));
        ports.resize(hosts.size());
        for (uint32_t host = 0; host < hosts.size(); ++host)
        {
            SetDelay(host * settings.delayStepPs);
            NetDeviceContainer ends = m_link.Install(hosts[host], leaves[host / perLeaf]);
            uint32_t net = 10u << 24 | (host / perLeaf) << 16 | (host % perLeaf) << 8;
            AddHostEnd(ends.Get(0), net | 2);
            ports[host] = AddSwitchPort(ends.Get(1), net | 1);
        }
        SetDelay(0);
        for (uint32_t leaf = 0; leaf < settings.leaves; ++leaf)
        {
            for (uint32_t spine = 0; spine < settings.spines; ++spine)
            {
                NetDeviceContainer ends = m_link.Install(leaves[leaf], spines[spine]);
                uint32_t net = 11u << 24 | leaf << 16 | spine << 8;
                AddSwitchPort(ends.Get(0), net | 1);
                AddSwitchPort(ends.Get(1), net | 2);
            }
        }
    }

    Network(const Network&) = delete;

    // Follows the queue of the port to a host.
    void Watch(uint32_t host, Port& port)
    {
        port.Watch(ports[host].first, ports[host].second, m_settings.from);
    }

    std::vector<ns3::Ptr<ns3::Node>> hosts;
    std::vector<ns3::Ipv4Address> addresses;
    std::vector<std::pair<ns3::Ptr<ns3::NetDevice>, ns3::Ptr<ns3::QueueDisc>>> ports; // to each host
    NetworkCounters counters;

  private:
    ns3::Ptr<ns3::Node> MakeNode(ClosRouting::Role role, uint32_t id, uint32_t down, uint32_t up)
    {
        auto node = ns3::CreateObject<ns3::Node>();
        m_stack.Install(node);
        node->GetObject<ns3::Ipv4>()->SetRoutingProtocol(ns3::CreateObject<ClosRouting>(role, id, down, up));
        return node;
    }

    void SetDelay(uint64_t morePs)
    {
        ns3::Time delay = ns3::PicoSeconds(std::llround(m_settings.delayUs * 1e6) + morePs);
        m_link.SetChannelAttribute("Delay", ns3::TimeValue(delay));
    }

    void AddInterface(ns3::Ptr<ns3::NetDevice> device, uint32_t address)
    {
        auto ipv4 = device->GetNode()->GetObject<ns3::Ipv4>();
        uint32_t interface = ipv4->AddInterface(device);
        ipv4->AddAddress(interface, ns3::Ipv4InterfaceAddress(ns3::Ipv4Address(address), ns3::Ipv4Mask("/24")));
        ipv4->SetUp(interface);
        device->TraceConnectWithoutContext("PhyTxBegin", ns3::MakeCallback(&Network::OnHop, this));
    }

    // A host's own queue takes everything and marks nothing.
    void AddHostEnd(ns3::Ptr<ns3::NetDevice> device, uint32_t address)
    {
        AddInterface(device, address);
        auto queue = ns3::DynamicCast<ns3::PointToPointNetDevice>(device)->GetQueue();
        queue->SetMaxSize(ns3::QueueSize("1000000p"));
    }

    std::pair<ns3::Ptr<ns3::NetDevice>, ns3::Ptr<ns3::QueueDisc>> AddSwitchPort(ns3::Ptr<ns3::NetDevice> device,
                                                                                uint32_t address)
    {
        using namespace ns3;
        AddInterface(device, address);
        // The device queue of one packet is part of the buffer.
        StringValue size(std::to_string(m_settings.bufferPackets - 1) + "p");
        TrafficControlHelper control;
        if (m_settings.markPackets == 0)
        {
            control.SetRootQueueDisc("ns3::FifoQueueDisc", "MaxSize", size);
        }
        else
        {
            double k = m_settings.markPackets;
            control.SetRootQueueDisc("ns3::RedQueueDisc",
                                     "MaxSize", size,
                                     "MinTh", DoubleValue(k - 1.5),
                                     "MaxTh", DoubleValue(k - 1),
                                     "QW", DoubleValue(1.0),
                                     "Gentle", BooleanValue(false),
                                     "UseEcn", BooleanValue(true),
                                     "UseHardDrop", BooleanValue(false),
                                     "MeanPktSize", UintegerValue(1500),
                                     "LinkBandwidth", DataRateValue(DataRate(m_settings.rateBps)),
                                     "LinkDelay", TimeValue(MicroSeconds(1)));
        }
        Ptr<QueueDisc> disc = control.Install(device).Get(0);
        disc->TraceConnectWithoutContext("Drop", MakeCallback(&Network::OnDrop, this));
        disc->TraceConnectWithoutContext("Mark", MakeCallback(&Network::OnMark, this));
        return {device, disc};
    }

    bool Counting() const
    {
        return ns3::Simulator::Now() >= m_settings.from;
    }

    void OnHop(ns3::Ptr<const ns3::Packet>)
    {
        counters.hops += Counting();
    }

    // A RED disc marks a packet before it finds that there is no room for it: such a mark is taken back.
    void OnDrop(ns3::Ptr<const ns3::QueueDiscItem> item)
    {
        counters.drops += Counting();
        if (item == m_markedLast)
        {
            CountMark(item, -1);
        }
    }

    // ns-3 also tells of marks on packets that were marked by a switch before.
    void OnMark(ns3::Ptr<const ns3::QueueDiscItem> item, const char*)
    {
        MarkedTag tag;
        bool first = !item->GetPacket()->PeekPacketTag(tag);
        m_markedLast = first ? item : nullptr;
        if (first)
        {
            item->GetPacket()->AddPacketTag(tag);
            CountMark(item, 1);
        }
    }

    void CountMark(ns3::Ptr<const ns3::QueueDiscItem> item, int by)
    {
        if (Counting())
        {
            counters.marks += by;
            // IP and TCP headers with options: more is data.
            counters.marksOnAcks += item->GetSize() <= 120 ? by : 0;
        }
    }

    NetworkSettings m_settings;
    ns3::Ptr<const ns3::QueueDiscItem> m_markedLast;
    ns3::InternetStackHelper m_stack;
    ns3::PointToPointHelper m_link;
};
